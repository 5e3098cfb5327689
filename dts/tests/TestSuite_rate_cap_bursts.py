# SPDX-License-Identifier: Apache-2.0
"""The cap on the wire.

Whatever an edge sends to a peer, repairs and control packets included, passes one token bucket of
16 packets (doc/wire.md section 12.5). A bucket that leaks at the cap is filled here once more by
every packet, which looks at every window of any length, and must never hold more than a burst. Two
clocks tell when a packet left: the edge's own, in its capture, and that of the generator's kernel.

By the edge's clock the burst is exact, whatever the machine does. Between that clock and the wire
lies the time in which packets are sealed and handed to the kernel. It is not the same for every
packet, and a machine that takes the CPU away there makes two bursts look like one: what it differs
by is measured packet by packet, and is all that the wire may have above a burst. A run in which
more than a tenth of the packets are later than the soonest by more than a packet's time is void and
measured again; three of them are a failure."""
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.capture import capture_start, capture_stop, debug_config, read_sent
from api.strait import Edge, Master, moved, poll_until
from api.test import fail, log, verify
from api.timing import KEEP_BYTES, bucket_levels, most_in_window, number_of, rate_bps, sent_by
from api.transfer import SYMBOL_BYTES, Batch, move, parse_rate, put_objects
from api.wan import Rule, Segment
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test
from framework.testbed_model.traffic_generator.scapy import CapturedPacket

BURST_PACKETS = 16
FRAME_BYTES = 1514 + 24
WINDOW = 0.01
ATTEMPTS = 3
# Rounding of times, in packets.
EPSILON = 0.01


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestRateCapBursts(TestSuite):
    """Cases: cap_of_20_mbit, cap_of_100_mbit, cap_holds_while_repairing,
    cap_holds_for_urgent_rows."""

    is_alone = True

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
            edge = stack.enter_context(Edge(
                self._master, ctx.sut.name, cap=cap, worker={"burst": BURST_PACKETS},
                debug=debug_config(ctx.sut.name)))
            peer = stack.enter_context(Edge(self._master, ctx.config.test_run.peer_node))
            if rules:
                stack.enter_context(Segment(peer.node, rules))
            # The session, ARP and the first estimate of everything.
            move(self._master, put_objects(edge, 1, 20000), edge, peer)
            for attempt in range(ATTEMPTS):
                batch = put_objects(edge, count, 250000)
                if self._measure(edge, peer, batch, bps, priority, f"{attempt}.pcapng"):
                    break
            else:
                fail(f"the machine was late in {ATTEMPTS} runs of {ATTEMPTS}")
            if rules:
                verify(edge.counters()["tx_lost"] > 0, "nothing was lost")

    def _measure(self, edge: Edge, peer: Edge, batch: Batch, bps: float, priority: str,
                 name: str) -> bool:
        """false: the machine was late, and this run says nothing about the wire."""
        tg = get_ctx().tg
        before = edge.settled_counters(), peer.settled_counters()
        missed = tg.missed()
        path = capture_start(edge, name, "--snaplen", str(KEEP_BYTES))
        tg.flush(KEEP_BYTES)
        move(self._master, batch, edge, peer, priority)
        after = edge.settled_counters(), peer.settled_counters()
        verify(capture_stop(edge)["missed"] == 0, "the edge's capture has holes")
        sent = after[0]["tx_packets"] - before[0]["tx_packets"]
        packets: list[CapturedPacket] = []

        def complete() -> bool:
            packets.extend(sent_by(edge, tg.take()))
            return len(packets) >= sent
        poll_until(10, complete)
        verify(tg.missed() == missed, "the generator did not see every packet")
        verify(len(packets) >= batch.total // SYMBOL_BYTES, f"only {len(packets)} packets seen")
        verify(abs(sent - len(packets)) <= 4, f"{sent} counted as sent, {len(packets)} seen")
        for was, now in zip(before, after, strict=True):
            verify(not moved(was, now), f"drops: {moved(was, now)}")
        return self._judge(read_sent(path, edge), packets, bps)

    @staticmethod
    def _judge(own: list[CapturedPacket], packets: list[CapturedPacket], bps: float) -> bool:
        level = max(bucket_levels(own, bps)) / FRAME_BYTES
        on_wire = max(bucket_levels(packets, bps)) / FRAME_BYTES
        left = {number_of(p): p.time for p in own}
        late = sorted(p.time - left[number_of(p)] for p in packets if number_of(p) in left)
        verify(len(late) >= len(packets) - 4, f"{len(late)} of {len(packets)} are in the capture")
        most, spread = (bps / 8 / FRAME_BYTES * (late[i] - late[0])
                        for i in (len(late) * 9 // 10, -1))
        window = most_in_window(packets, WINDOW)
        limit = bps * WINDOW / 8 + BURST_PACKETS * FRAME_BYTES
        log(f"{len(packets)} packets, {rate_bps(packets) / 1e6:.1f} of {bps / 1e6:.0f} Mbit/s, "
            f"bucket {level:.2f} packets by the edge's clock, {on_wire:.2f} on the wire, "
            f"{most:.2f} packets (at most {spread:.2f}) between the two, "
            f"fullest 10 ms {window / limit:.0%}")
        verify(level <= BURST_PACKETS + EPSILON, f"a burst of {level:.2f} packets")
        verify(on_wire <= level + spread + EPSILON,
               f"{on_wire:.2f} packets on the wire, {level:.2f} and {spread:.2f} explained")
        if most > 1:
            log("void: the machine is late by more than a packet")
            return False
        verify(rate_bps(packets) <= bps * 1.005, "the cap was exceeded on the whole")
        verify(window <= limit + spread * FRAME_BYTES,
               f"{window} line bytes in 10 ms, {limit:.0f} are allowed, burst included")
        return True

    @func_test
    def cap_of_20_mbit(self) -> None:
        """A low cap.

        Steps:
            Move 2.5 MB between two edges with a cap of 20 Mbit/s.
        Verify:
            In no window of any length, 10 ms among them, more line bytes than the cap and a burst
            of 16 packets: by the edge's clock exactly, on the wire up to the measured difference of
            the two; every packet counted is seen; no drops.
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
