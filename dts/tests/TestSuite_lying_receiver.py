# SPDX-License-Identifier: Apache-2.0
"""A receiver that has the keys and does not tell the truth.

The edge ships objects to a peer that acknowledges what it never got, says that it has what it has
not, asks for what there is not, and grants no credit or all there is. What cannot be is ignored or
counted (doc/wire.md sections 10 and 14), what can be is believed until NEED says otherwise, and the
order is done in the end."""
import random
import time
from collections.abc import Callable
from typing import Any, ClassVar

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import log_debug, verify
from api.transfer import parse_rate
from api.wire import (
    OBJECTS,
    Item,
    Session,
    Status,
    counted,
    frames,
    packet,
    put_object,
)
from framework.test_suite import TestSuite, func_test

TOP32, TOP64 = (1 << 32) - 1, (1 << 64) - 1
CAP = "8Mbit"
SIZE = 400000  # three blocks, half a second at the edge's cap


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestLyingReceiver(Peered, TestSuite):
    """Cases: acks_of_what_was_lost, acks_of_the_unsent, blocks_that_do_not_exist,
    have_of_what_was_lost, log_with_holes, committed_without_a_byte, no_credit, credit_without_end,
    needs_of_everything."""

    edge_config: ClassVar[dict[str, Any]] = {"cap": CAP}

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; have the edge open a session."""
        super().set_up_suite()
        self._peer.be_known()
        items = self._items(1, 1000)
        self._peer.wait_order(self._peer.order([item.key.decode() for item in items]))

    def set_up_test_case(self) -> None:
        """Every case has a session of its own: what was said of credit is said for ever."""
        self._grant = list(self._peer.grant)
        self._peer.be_known()
        self._peer.forget_callers()

    def tear_down_test_case(self) -> None:
        """Tell the truth again."""
        self._peer.disturb = None
        self._peer.prepare = lambda session: None
        self._peer.grant = self._grant

    def _items(self, count: int = 1, size: int = SIZE) -> list[Item]:
        out = []
        for _ in range(count):
            self._names += 1
            out.append(Item(b"lie-%d" % self._names, random.randbytes(size)))
            put_object(self._edge, out[-1].key, out[-1].data)
        return out

    def _once_data_comes(self, say: Callable[[Session], None], after: int = 1,
                         loss: float = 0.0) -> None:
        """Say something when so many DATA packets came; lose a share of them."""
        count = 0

        def note(data: bytes) -> list[bytes]:
            nonlocal count
            if packet.decode(data).kind != packet.DATA:
                return [data]
            count += 1
            if count == after:
                say(self._peer.accepted[-1])
            return [] if random.random() < loss else [data]
        self._peer.disturb = note

    def _come_back(self) -> None:
        """The edge asks for its session, gets a new one, and proves where it is."""
        up = self._peer.until(lambda: self._peer.accepted and self._peer.accepted[-1].validated, 8)
        verify(up, "the edge does not come back")

    def _ship(self, items: list[Item], what: str, **wanted: int) -> None:
        """Order them; they arrive, and counters move as wanted."""
        self._come_back()
        with counted(self._edge, self._peer, what, **wanted):
            order = self._peer.order([item.key.decode() for item in items])
            state = self._peer.wait_order(order)
            verify(state == "done", f"{what}: the order is {state}")
            self._peer.disturb = None
        got = {key: data for (_, key), data in self._peer.store.items()}
        verify(all(got.get(item.key) == item.data for item in items), f"{what}: an object differs")

    @func_test
    def acks_of_what_was_lost(self) -> None:
        """REPORT says that everything came, though a fifth of it did not.

        Steps:
            Order an object; lose a fifth of its data packets; report every number up to the newest
            as received.
        Verify:
            NEED is believed against REPORT: the order is done and the bytes are the same; no drop
            counter moves.
        """
        def prepare(session: Session) -> None:
            honest = session.report_frame

            def lie(now: float) -> frames.Report:
                frame = honest(now)
                least = max(frame.newest - 2000, frame.newest >> 23 << 23, 0)
                frame.base, frame.ranges = frame.newest, [(least, frame.newest)]
                return frame
            session.report_frame = lie  # type: ignore[method-assign]
        self._peer.prepare = prepare
        self._once_data_comes(lambda session: None, loss=0.2)
        self._ship(self._items(), "acks of what was lost")

    @func_test
    def acks_of_the_unsent(self) -> None:
        """REPORT of packets that are still to be sent, in the middle of a transfer.

        Steps:
            Order an object; when data comes, REPORT numbers 1000 and more above it, with one range
            and with many.
        Verify:
            rx_frame counts each and no other drop counter moves; the order is done and the bytes
            are the same.
        """
        def say(session: Session) -> None:
            high = session.report_frame(0.0).newest
            for ahead in (1000, 1 << 20, 1 << 40):
                top = high + ahead
                session.control(frames.Report(0, top, 1, 0, top, [(0, top)]))
                session.control(frames.Report(0, top, 1, 0, top, [(top - n, top - n)
                                                                  for n in range(0, 200, 2)]))
        self._once_data_comes(say)
        self._ship(self._items(), "acks of the unsent", rx_frame=6)

    @func_test
    def blocks_that_do_not_exist(self) -> None:
        """HAVE, NEED and OBJECT of what the transfer has not.

        Steps:
            Order an object; when data comes, say HAVE with floors and runs beyond the last block,
            NEED of blocks beyond it and of more symbols than a block has, WITHDRAW, OPEN and
            CLOSE, which are the sender's; have a log that begins with objects beyond the last one.
        Verify:
            No drop counter moves; the order is done, the bytes are the same, and no more than a
            tenth of the symbols was sent twice.
        """
        def say(session: Session) -> None:
            transfer = max(session.incoming)
            cut = session.incoming[transfer].streams[OBJECTS].cut
            newest = session.report_frame(0.0).newest
            for stream in (0, 1):
                for floor in (cut.blocks + 1, 1000, TOP32):
                    session.control(frames.Have(transfer, stream, floor))
                session.control(frames.Have(transfer, stream, 0, [(cut.blocks, 5)]))
                session.control(frames.Have(transfer, stream, 0, [(TOP32 - 5, 5)]))
                session.control(frames.Need(transfer, stream, newest,
                                            [(cut.blocks, 1), (TOP32, 128)]))
            session.control(frames.Need(transfer, 1, newest, [(0, 128)]))
            session.incoming[transfer].log += [(1, Status.COMMITTED), (65535, Status.FULL)]
            session.control(frames.Withdraw(transfer, [(0, Status.CANCELED)]))
            session.control(frames.Close(transfer, Status.CANCELED))
            session.control(frames.Open(transfer, 0, 1000, 30, 1, 1432))
            session.control(frames.Close(transfer, Status.CANCELED))
        before = self._edge.settled_counters()
        self._once_data_comes(say)
        self._ship(self._items(), "what does not exist")
        after = self._edge.settled_counters()
        sent = sum(after[n] - before[n] for n in ("tx_source", "tx_resend", "tx_repair"))
        needed = -(-SIZE // 1432)
        verify(sent <= needed * 1.1 + 10, f"{sent} symbols were sent for {needed}")

    @func_test
    def have_of_what_was_lost(self) -> None:
        """HAVE says that all blocks are complete; then NEED tells the truth.

        Steps:
            Order an object and lose a fifth of its data; after 20 packets say HAVE of all blocks.
        Verify:
            NEED is believed against HAVE: the order is done and the bytes are the same; no drop
            counter moves.
        """
        def say(session: Session) -> None:
            transfer = max(session.incoming)
            blocks = session.incoming[transfer].streams[OBJECTS].cut.blocks
            session.control(frames.Have(transfer, 0, blocks), frames.Have(transfer, 1, 1))
        self._once_data_comes(say, 20, 0.2)
        self._ship(self._items(), "HAVE of what was lost")

    @func_test
    def log_with_holes(self) -> None:
        """OBJECT whose stretch of the log does not follow what is known.

        Steps:
            Order three objects; when data comes, say OBJECT with REFUSED at positions 1, 2 and
            2^32 - 2 of a log that is empty.
        Verify:
            Entries above a hole are ignored: the order is done with all objects; no drop counter
            moves.
        """
        def say(session: Session) -> None:
            transfer = max(session.incoming)
            for first in (1, 2, TOP32 - 1):
                session.control(frames.Object(transfer, first, [(0, Status.REFUSED)]))
        self._once_data_comes(say)
        self._ship(self._items(3, 100000), "holes")

    @func_test
    def committed_without_a_byte(self) -> None:
        """The receiver's word about its own pool counts.

        Steps:
            Order an object of 2 MB; when data comes, say that it is COMMITTED.
        Verify:
            The order is done, and less than half of the symbols was sent; no drop counter moves.
        """
        def say(session: Session) -> None:
            transfer = session.incoming[max(session.incoming)]
            transfer.log.append((0, Status.COMMITTED))
            transfer.statuses[0] = Status.COMMITTED
        items = self._items(1, 2000000)
        before = self._edge.settled_counters()
        self._once_data_comes(say, 10)
        self._come_back()
        with counted(self._edge, self._peer, "COMMITTED"):
            state = self._peer.wait_order(self._peer.order([items[0].key.decode()]))
            verify(state == "done", f"the order is {state}")
        after = self._edge.settled_counters()
        sent = after["tx_source"] - before["tx_source"]
        verify(sent < 700, f"{sent} of {2000000 // 1432} symbols were sent")

    @func_test
    def no_credit(self) -> None:
        """Limits of 0: one object at a time.

        Steps:
            Grant nothing; order three objects of several blocks.
        Verify:
            No block comes that holds nothing of the first object without a final status, or of
            those before it; credit stopped the sender; the order is done, as what became final is
            granted; no drop counter moves.
        """
        self._peer.grant = [(0, 0)] * 3
        wrong: list[int] = []

        def note(data: bytes) -> list[bytes]:
            header = packet.decode(data)
            session = self._peer.accepted[-1]
            transfer = session.incoming.get(header.transfer)
            if header.kind == packet.DATA and transfer is not None and transfer.records:
                final = next((n for n in range(3) if n not in transfer.statuses), 2)
                start, _ = transfer.streams[OBJECTS].cut.block_span(header.block)
                raised, _ = session.granted[transfer.opened.priority]
                if start >= max(transfer.spans[final][1], raised):
                    wrong.append(header.block)
            return [data]
        before = self._edge.settled_counters()
        stopped = 0
        for turn in range(6):  # a status may come just before it is waited for
            self._peer.disturb = note
            self._ship(self._items(3, 250000 + turn), "no credit")
            verify(not wrong, f"blocks {sorted(set(wrong))} came too early")
            after = self._edge.settled_counters()
            stopped = after["tx_blocked_credit"] - before["tx_blocked_credit"]
            if stopped > 0:
                break
        log_debug(f"credit stopped the sender {stopped} times")
        verify(stopped > 0, "credit never stopped the sender")

    @func_test
    def credit_without_end(self) -> None:
        """Limits of 2^64 - 1, and lower ones behind them.

        Steps:
            Grant 2^64 - 1 bytes and objects in every class; when data comes, say CREDIT of 0, of 1
            and of 2^64 - 1; order objects in two orders, one after the other.
        Verify:
            A limit never shrinks nor wraps: both are done, the bytes are the same; no drop counter
            moves.
        """
        self._peer.grant = [(TOP64, TOP64)] * 3

        def say(session: Session) -> None:
            # What the honest side would add to it does not fit either.
            session.granted = [[TOP64 - (1 << 40), TOP64 - (1 << 40)] for _ in range(3)]
            for priority in range(3):
                for limit in (0, 1, TOP64):
                    session.control(frames.Credit(priority, limit, limit))
        self._once_data_comes(say)
        self._ship(self._items(2, 200000), "credit")
        self._ship(self._items(2, 200000), "credit again")

    @func_test
    def needs_of_everything(self) -> None:
        """NEED of whole blocks, again and again, though nothing was lost.

        Steps:
            Order an object; with every 20th data packet say that all blocks lack all their symbols.
        Verify:
            No drop counter moves, the order is done and the bytes are the same: it costs its own
            link, inside the cap.
        """
        count = 0

        def note(data: bytes) -> list[bytes]:
            nonlocal count
            count += packet.decode(data).kind == packet.DATA
            session = self._peer.accepted[-1]
            if count % 20 == 1 and session.incoming:
                transfer = session.incoming[max(session.incoming)]
                cut = transfer.streams[OBJECTS].cut
                session.control(frames.Need(
                    transfer.transfer, OBJECTS, session.report_frame(0.0).newest,
                    [(b, cut.k(b)) for b in range(cut.blocks)]))
            return [data]
        self._peer.disturb = note
        items = self._items()
        before, start = self._edge.settled_counters(), time.monotonic()
        self._ship(items, "NEED of everything")
        took, after = time.monotonic() - start, self._edge.settled_counters()
        sent = sum(after[n] - before[n] for n in ("tx_source", "tx_resend", "tx_repair"))
        bps = sent * (1432 + 40 + 66) * 8 / took
        log_debug(f"{sent} symbols for {-(-SIZE // 1432)}, {bps / 1e6:.1f} Mbit/s")
        verify(sent > SIZE // 1432, "NEED was not believed")
        verify(bps <= parse_rate(CAP), f"{bps / 1e6:.1f} Mbit/s")
