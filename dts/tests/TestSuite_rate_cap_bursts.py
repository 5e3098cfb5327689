# SPDX-License-Identifier: Apache-2.0
"""The cap on the wire.

Whatever an edge sends to a peer, repairs and control packets included, passes one token bucket of
16 packets (doc/wire.md section 12.5). The generator's kernel stamps every packet; a bucket that
leaks at the cap is filled by them here once more, which looks at every window of any length.

A machine that takes the CPU from an edge between its clock and the wire makes two bursts look like
one. That happens now and then, a wrong pacer is wrong always: so a run may be measured again."""
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Edge, Master, moved
from api.test import log, log_debug, verify
from api.timing import KEEP_BYTES, bucket_levels, most_in_window, rate_bps, sent_by
from api.transfer import SYMBOL_BYTES, Batch, move, parse_rate, put_objects
from api.wan import Rule, Segment
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

BURST_PACKETS = 16
FRAME_BYTES = 1514 + 24
WINDOW = 0.01
ATTEMPTS = 3


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestRateCapBursts(TestSuite):
    """Cases: cap_of_20_mbit, cap_of_100_mbit, cap_holds_while_repairing,
    cap_holds_for_urgent_rows."""

    def set_up_suite(self) -> None:
        """Start the master; edges come with each case, as the cap is theirs."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())

    def tear_down_suite(self) -> None:
        """End it."""
        self._stack.close()

    def _run(self, cap: str, count: int, rules: list[Rule], priority: str = "normal") -> None:
        ctx = get_ctx()
        bps = parse_rate(cap)
        with ExitStack() as stack:
            edge = stack.enter_context(Edge(self._master, ctx.sut.name, cap=cap))
            peer = stack.enter_context(Edge(self._master, ctx.config.test_run.peer_node))
            if rules:
                stack.enter_context(Segment(peer.node, rules))
            # The session, ARP and the first estimate of everything.
            move(self._master, put_objects(edge, 1, 20000), edge, peer)
            for attempt in range(ATTEMPTS):
                wrong = self._measure(edge, peer, put_objects(edge, count, 250000), bps, priority)
                if not wrong:
                    break
                log_debug(f"attempt {attempt + 1}: {wrong}")
            verify(not wrong, f"{wrong}, {ATTEMPTS} times in a row")
            if rules:
                verify(edge.counters()["tx_lost"] > 0, "nothing was lost")

    def _measure(self, edge: Edge, peer: Edge, batch: Batch, bps: float, priority: str) -> str:
        """What was wrong with the timing, "" for nothing."""
        tg = get_ctx().tg
        before = edge.settled_counters(), peer.settled_counters()
        missed = tg.missed()
        tg.flush(KEEP_BYTES)
        move(self._master, batch, edge, peer, priority)
        packets = sent_by(edge, tg.take())
        verify(tg.missed() == missed, "the generator did not see every packet")
        after = edge.settled_counters(), peer.settled_counters()
        verify(len(packets) >= batch.total // SYMBOL_BYTES, f"only {len(packets)} packets seen")
        sent = after[0]["tx_packets"] - before[0]["tx_packets"]
        verify(abs(sent - len(packets)) <= 4, f"{sent} counted as sent, {len(packets)} seen")
        for was, now in zip(before, after, strict=True):
            verify(not moved(was, now), f"drops: {moved(was, now)}")
        level = max(bucket_levels(packets, bps)) / FRAME_BYTES
        window = most_in_window(packets, WINDOW)
        limit = bps * WINDOW / 8 + BURST_PACKETS * FRAME_BYTES
        log(f"{len(packets)} packets, {rate_bps(packets) / 1e6:.1f} of {bps / 1e6:.0f} Mbit/s, "
            f"bucket {level:.1f} packets, fullest 10 ms {window / limit:.0%}")
        verify(rate_bps(packets) <= bps * 1.005, "the cap was exceeded on the whole")
        if window > limit:
            return f"{window} line bytes in 10 ms, {limit:.0f} are allowed, burst included"
        # One more: the sender reads its clock once a turn, so stamps are off by part of a burst.
        if level > BURST_PACKETS + 1:
            return f"a burst of {level:.1f} packets above the cap"
        return ""

    @func_test
    def cap_of_20_mbit(self) -> None:
        """A low cap.

        Steps:
            Move 2.5 MB between two edges with a cap of 20 Mbit/s.
        Verify:
            In no window of any length, 10 ms among them, more line bytes than the cap and a burst
            of 16 packets; every packet counted is seen; no drops.
        """
        self._run("20Mbit", 10, [])

    @func_test
    def cap_of_100_mbit(self) -> None:
        """A cap at which packets are 123 us apart.

        Steps:
            Move 10 MB between two edges with a cap of 100 Mbit/s.
        Verify:
            As before.
        """
        self._run("100Mbit", 40, [])

    @func_test
    def cap_holds_while_repairing(self) -> None:
        """Resends and repair symbols are inside the cap.

        Steps:
            Lose every eighth data packet on the way while 2.5 MB move at 20 Mbit/s.
        Verify:
            As before, and packets were lost.
        """
        self._run("20Mbit", 10, [Rule("drop", to="peer", kind="DATA", every=8)])

    @func_test
    def cap_holds_for_urgent_rows(self) -> None:
        """Rows sent in advance are inside the cap too.

        Steps:
            Move 2 MB as an urgent order at 50 Mbit/s while every tenth data packet is lost.
        Verify:
            As before.
        """
        self._run("50Mbit", 8, [Rule("drop", to="peer", kind="DATA", every=10)], "urgent")
