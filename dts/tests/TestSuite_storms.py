# SPDX-License-Identifier: Apache-2.0
"""Duplicates and reordering between two edges.

A copy of a packet is dropped and counted once as rx_replay (doc/wire.md section 5); a packet that
comes late is as good as any. Neither costs more than its own bytes."""
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Counters, Edge, Master, moved
from api.test import log, verify
from api.transfer import SYMBOL_BYTES, move, put_objects
from api.wan import Rule, Segment, Wan
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

KINDS = ("DATA", "MANIFEST", "CONTROL")


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestStorms(TestSuite):
    """Cases: every_packet_four_times, copies_of_reports, reversed_by_delays,
    late_copies, storm_over_the_emulator."""

    def set_up_suite(self) -> None:
        """Start a master and both edges, with a session between them."""
        ctx = get_ctx()
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(self._master, ctx.sut.name, cap="20Mbit"))
        peer = ctx.config.test_run.peer_node
        self._peer = self._stack.enter_context(Edge(self._master, peer))
        move(self._master, put_objects(self._edge, 1, 20000), self._edge, self._peer)

    def tear_down_suite(self) -> None:
        """End everything."""
        self._stack.close()

    def _move(self, count: int = 6) -> tuple[Counters, Counters, Counters, Counters]:
        """Move 250 kB objects; counters of the edge and its peer, before and after."""
        batch = put_objects(self._edge, count, 250000)
        before = self._edge.settled_counters(), self._peer.settled_counters()
        move(self._master, batch, self._edge, self._peer)
        return (before[0], self._edge.settled_counters(), before[1],
                self._peer.settled_counters())

    @func_test
    def every_packet_four_times(self) -> None:
        """A storm of copies to the receiver.

        Steps:
            Send every packet to the receiver four times while 1.5 MB move.
        Verify:
            The order is done, objects are the same; the receiver counts exactly the copies, as
            rx_replay and nothing else; the sender drops nothing.
        """
        rules = [Rule("duplicate", to=self._peer.node, kind=kind, copies=3) for kind in KINDS]
        with Segment(self._peer.node, rules) as segment:
            edge0, edge1, peer0, peer1 = self._move()
            copies = 3 * sum(segment.hits())
        got = moved(peer0, peer1)
        log(f"{copies} copies, the receiver's drops {got}")
        verify(not moved(edge0, edge1), f"the sender dropped {moved(edge0, edge1)}")
        verify(copies > 3000, f"only {copies} copies were made")
        # Between counters and the end of the rules an idle session may say something.
        verify(set(got) == {"rx_replay"} and abs(got["rx_replay"] - copies) <= 12,
               f"{copies} copies, but the receiver counts {got}")

    @func_test
    def copies_of_reports(self) -> None:
        """A storm of copies to the sender.

        Steps:
            Send every control packet to the sender eight times while 1.5 MB move.
        Verify:
            The order is done, objects are the same; the sender counts exactly the copies, as
            rx_replay and nothing else, and resends nothing; the receiver drops nothing.
        """
        rules = [Rule("duplicate", sent_by=self._peer.node, kind="CONTROL", copies=7)]
        with Segment(self._peer.node, rules) as segment:
            edge0, edge1, peer0, peer1 = self._move()
            copies = 7 * sum(segment.hits())
        got = moved(edge0, edge1)
        verify(not moved(peer0, peer1), f"the receiver dropped {moved(peer0, peer1)}")
        verify(copies > 50, f"only {copies} copies were made")
        verify(set(got) == {"rx_replay"} and abs(got["rx_replay"] - copies) <= 28,
               f"{copies} copies, but the sender counts {got}")
        sent = sum(edge1[n] - edge0[n] for n in ("tx_source", "tx_resend", "tx_repair"))
        again = sent - 6 * 250000 // SYMBOL_BYTES
        verify(again <= 60, f"{again} symbols were sent again because of copies of reports")

    @func_test
    def reversed_by_delays(self) -> None:
        """Packets overtake each other.

        Steps:
            Delay every third data packet by 2 to 8 ms, each by another time, while 3 MB move.
        Verify:
            The order is done, objects are the same; nobody drops anything; at most 5 % of the
            symbols were sent again, and the sender noticed which of them were needless.
        """
        rules = [Rule("delay", to=self._peer.node, kind="DATA", every=3, ms=2, spread_ms=6)]
        with Segment(self._peer.node, rules) as segment:
            edge0, edge1, peer0, peer1 = self._move(12)
            late = segment.hits()[0]
        needed = 12 * 250000 // SYMBOL_BYTES
        sent = sum(edge1[name] - edge0[name] for name in ("tx_source", "tx_resend", "tx_repair"))
        again = sent - needed
        log(f"{late} packets late, {again} of {needed} symbols again")
        verify(late > 500, f"only {late} packets came late")
        drops = {**moved(edge0, edge1), **moved(peer0, peer1)}
        verify(not drops, f"drops: {drops}")
        verify(again <= needed * 0.05, f"{again} symbols for {needed} because some came late")

    @func_test
    def late_copies(self) -> None:
        """A packet that comes twice, half a second apart, when its block is long complete.

        Steps:
            Replace data packets by themselves half a second later, every tenth, while 1.5 MB
            move: the sender has repaired them when they come.
        Verify:
            The order is done, objects are the same; the receiver drops nothing but late ones, as
            rx_transfer when the transfer is closed, or counts them as unneeded.
        """
        rules = [Rule("delay", to=self._peer.node, kind="DATA", every=10, ms=500)]
        with Segment(self._peer.node, rules) as segment:
            edge0, edge1, peer0, peer1 = self._move()
            late = segment.hits()[0]
            peer1 = self._peer.settled_counters()
        got = moved(peer0, peer1)
        verify(not moved(edge0, edge1), f"the sender dropped {moved(edge0, edge1)}")
        verify(set(got) <= {"rx_transfer"}, f"drops: {got}")
        unneeded = sum(peer1[n] - peer0[n] for n in ("rx_unneeded", "rx_duplicate"))
        log(f"{late} late, {unneeded} unneeded, drops {got}")
        verify(got.get("rx_transfer", 0) + unneeded >= late * 0.9,
               f"{late} packets were late, {unneeded} unneeded, drops {got}")

    @func_test
    def storm_over_the_emulator(self) -> None:
        """Copies, reordering and loss at once, over strait-wan.

        Steps:
            Move 3 MB over 20 ms with 5 % copies, 20 % of the packets up to 5 ms late and 1 % lost.
        Verify:
            The order is done, objects are the same; edges drop copies only, as rx_replay, at most
            as many as strait-wan made.
        """
        wan = Wan(self._peer.node, "--rate-gbps", "0.1", "--rtt-ms", "20", "--dup", "0.05",
                  "--reorder", "0.2,5", "--loss", "0.01", "--seed", "7", "--mem", "256")
        with wan:
            edge0, edge1, peer0, peer1 = self._move(12)
        made = sum(wan.stats[side]["duplicated"] for side in ("ab", "ba"))
        got = moved(edge0, edge1), moved(peer0, peer1)
        log(f"{made} copies, drops {got}")
        for drops in got:
            verify(set(drops) <= {"rx_replay"}, f"drops: {drops}")
        total = sum(drops.get("rx_replay", 0) for drops in got)
        verify(0 < total <= made, f"{made} copies were made, {total} dropped")
