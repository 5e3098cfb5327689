# SPDX-License-Identifier: Apache-2.0
"""REPORT on the wire: how often, how far back, and what RECALL brings back.

doc/wire.md sections 12.1 and 12.2. The peer sends data whose arrival it never asks for twice, so
what the edge says unasked must be enough; and it plays a receiver whose reports get lost, so that
the edge must ask."""
import time

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import PeeredAnew
from api.test import log, verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Outgoing,
    Session,
    Status,
    counted,
    frames,
    get_object,
    put_object,
)
from framework.test_suite import TestSuite, func_test

INTERVAL_US = 20000
TOP64 = (1 << 64) - 1


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestReports(PeeredAnew, TestSuite):
    """Cases: each_number_is_in_four_reports, report_interval_is_kept, recall_brings_all,
    recall_of_what_never_was, edge_recalls_what_lost_reports_said."""

    def _begin(self, blocks: int) -> Outgoing:
        out = self._session.transfer([self._item(blocks * 128 * 1432)])
        self._session.control(out.open_frame(report_interval_us=INTERVAL_US))
        self._session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None, 3)
        return out

    def _drip(self, out: Outgoing, block: int, step: int = 1) -> list[int]:
        """The symbols of a block, one a millisecond; their packet numbers, of which `step` - 1 of
        `step` are never used."""
        numbers = []
        for esi in range(out.cut[OBJECTS].k(block)):
            numbers.append(self._session.next_number)
            self._session.send_symbol(out, OBJECTS, block, esi)
            self._session.next_number += step - 1
            self._peer.rest(0.001)
        return numbers

    def _reports(self, since: int) -> list[frames.Report]:
        return [f for f in self._session.frames[since:] if isinstance(f, frames.Report)]

    @staticmethod
    def _names_it(report: frames.Report, number: int) -> bool:
        return any(first <= number <= last for first, last in report.ranges)

    def _end(self, out: Outgoing) -> None:
        statuses = self._peer.deliver(self._session, out)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, out.items[0].key) == out.items[0].data, "the object differs")

    @func_test
    def each_number_is_in_four_reports(self) -> None:
        """Any three reports may be lost.

        Steps:
            Send four blocks, a packet a millisecond, every other packet number unused, with a
            report interval of 20 ms; wait for some more reports.
        Verify:
            Each number that was sent is in four reports at least, none that was not is in any; the
            object arrives, no drop counter moves.
        """
        with counted(self._edge, self._peer, "reports"):
            out = self._begin(4)
            since = len(self._session.frames)
            numbers = [n for block in range(3) for n in self._drip(out, block, 2)]
            # Some more reports behind them.
            self._drip(out, 3, 2)
            reports = self._reports(since)
            few = [n for n in numbers if sum(self._names_it(r, n) for r in reports) < 4]
            log(f"{len(reports)} reports of {len(numbers)} numbers")
            verify(not few, f"{len(few)} of {len(numbers)} numbers are in fewer than 4 reports")
            wrong = [n for n in numbers if any(self._names_it(r, n + 1) for r in reports)]
            verify(not wrong, f"{len(wrong)} numbers that were never sent are reported")
            self._end(out)

    @func_test
    def report_interval_is_kept(self) -> None:
        """The sender says how often.

        Steps:
            Send a block, a packet a millisecond, with an interval of 20 ms; then with 200 ms.
        Verify:
            There are no more reports than intervals, two more aside, and with 20 ms more than with
            200; no drop counter moves.
        """
        counts = []
        with counted(self._edge, self._peer, "interval"):
            out = self._begin(3)
            for block, interval in ((0, INTERVAL_US), (1, 10 * INTERVAL_US)):
                self._session.control(frames.Ping(interval))
                self._peer.rest(0.05)
                since, start = len(self._session.frames), time.monotonic()
                self._drip(out, block)
                took = time.monotonic() - start
                # A report may take several packets and so several frames.
                got = len({r.newest for r in self._reports(since)})
                counts.append(got)
                verify(got <= took * 1e6 / interval + 2,
                       f"{got} reports in {took:.2f} s at {interval} us")
            verify(counts[0] > counts[1], f"{counts} reports")
            self._end(out)

    @func_test
    def recall_brings_all(self) -> None:
        """Reports of long ago, told again.

        Steps:
            Send three blocks as above; then RECALL the first packet number.
        Verify:
            The reports before it no longer name that number; those after it name each number that
            was sent, from the first on. The object arrives, no drop counter moves.
        """
        with counted(self._edge, self._peer, "RECALL"):
            out = self._begin(3)
            numbers = [n for block in range(2) for n in self._drip(out, block, 2)]
            last = self._reports(0)[-1]
            verify(not self._names_it(last, numbers[0]), "reports reach back to the beginning")
            since = len(self._session.frames)
            self._session.control(frames.Recall(numbers[0]))
            self._peer.until(lambda: self._reports(since), 2)
            self._peer.rest(0.05)
            told = self._reports(since)
            lacking = [n for n in numbers if not any(self._names_it(r, n) for r in told)]
            verify(not lacking, f"{len(lacking)} of {len(numbers)} numbers are not told again")
            wrong = [n for n in numbers if any(self._names_it(r, n + 1) for r in told)]
            verify(not wrong, f"{len(wrong)} numbers that were never sent are reported")
            self._end(out)

    @func_test
    def recall_of_what_never_was(self) -> None:
        """RECALL of numbers that were never sent, or cannot be.

        Steps:
            RECALL 0, the next number, numbers of other generations and 2^64 - 1.
        Verify:
            Each is answered by a REPORT, which names nothing that was not sent; no drop counter
            moves.
        """
        session = self._session
        with counted(self._edge, self._peer, "strange RECALL"):
            for number in (0, session.next_number, 1 << 23, 1 << 40, 1 << 62, TOP64):
                since = len(session.frames)
                session.control(frames.Recall(number))
                came = self._peer.until(lambda since=since: self._reports(since),  # type: ignore
                                        2)
                verify(came, f"no REPORT after RECALL {number}")
                told = self._reports(since)
                high = max(last for r in told for _, last in r.ranges)
                verify(high < session.next_number, f"{high} is reported")
        verify(session.next_number < 1 << 23, "generation 0 is over")

    @func_test
    def edge_recalls_what_lost_reports_said(self) -> None:
        """The edge sends, and the reports of a while are lost.

        Steps:
            Order an object of 1.2 MB. The peer's reports speak of the last 20 numbers only; after
            100 data packets ten reports in a row are lost.
        Verify:
            The edge sends RECALL; the peer tells all; the order is done, the bytes are the same,
            and no more symbols were sent again than came while reports were lost. No drop counter
            moves.
        """
        self._peer.be_known()
        item = self._item(1200000)
        put_object(self._edge, item.key, item.data)
        lost = 0
        meanwhile: list[int] = []

        def prepare(session: Session) -> None:
            tell = session.report

            def lose(now: float) -> list[frames.Any]:
                nonlocal lost
                told = tell(now)
                if session.counters["symbols"] > 100 and lost < 10:
                    lost += 1
                    meanwhile.append(session.counters["symbols"])
                    return [f for f in told if not isinstance(f, frames.Report)]
                return told

            def short(now: float) -> frames.Report:
                whole, recalled = session.counters["Recall"] > 0, honest(now)
                if not whole:
                    least = recalled.newest - 20
                    recalled.ranges = [(max(first, least), last) for first, last in
                                       recalled.ranges if last >= least]
                return recalled
            honest = session.report_frame
            session.report = lose  # type: ignore[method-assign]
            session.report_frame = short  # type: ignore[method-assign]
        self._peer.prepare = prepare
        self._peer.forget_callers()
        before = self._edge.counters()
        with counted(self._edge, self._peer, "lost reports"):
            state = self._peer.wait_order(self._peer.order([item.key.decode()]))
            verify(state == "done", f"the order is {state}")
        verify(item.data in self._peer.store.values(), "the object differs")
        after = self._edge.counters()
        asked = self._peer.accepted[-1].counters["Recall"]
        sent = sum(after[n] - before[n] for n in ("tx_source", "tx_resend", "tx_repair"))
        needed = -(-len(item.data) // 1432)
        log(f"{lost} reports lost, {asked} RECALLs, {sent} symbols for {needed}")
        verify(lost == 10, f"only {lost} reports were lost")
        verify(asked > 0, "the edge did not ask")
        unheard = meanwhile[-1] - meanwhile[0] + 20
        verify(sent <= needed + unheard, f"{sent} symbols for {needed}, {unheard} were unheard of")
