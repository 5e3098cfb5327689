# SPDX-License-Identifier: Apache-2.0
"""Two edges that send to one through one bottleneck.

Either the caps, which are the master's to give, add up to the line: then each sends at its cap. Or
they add up to more: then the senders find their shares by queueing delay. The generator sees what
each sends.

What is promised (doc/design.md, "Rate"): flows of one class and cap share a line evenly. Normal
ones also fill it, as they follow what it delivers. Bulk ones do not: bulk gives a line up to
whoever queues in it, so that it never stands in the way of a request, and cannot tell another bulk
flow's packets from those of a request. So they give way to each other in turn, and use 70 to 85 %
of the line; whoever wants all of it gives them caps that add up to it.

A run that is wrong in which the emulator was late, or the machine took the CPU from an
edge, is void and measured again; so many of them in a row are a failure."""
from contextlib import ExitStack
from typing import Any

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Edge, Master, moved, poll_until
from api.test import fail, log, log_debug, verify
from api.timing import KEEP_BYTES, Starved, line_bytes, sent_by
from api.transfer import move, order_state, put_objects, submit, verify_objects, wait_done
from api.wan import Wan
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test
from framework.testbed_model.traffic_generator.scapy import CapturedPacket

LINE_BPS = 40e6
LINE = ("--rate-gbps", "0.04", "--rtt-ms", "20", "--queue-bdp", "1.0", "--mem", "256")
# A run in which the emulator sent more than this share too late is void, and repeated.
OVERRUNS, ATTEMPTS = 0.001, 3


def rate_between(packets: list[CapturedPacket], start: float, end: float) -> float:
    """Line bits a second."""
    return sum(line_bytes(p) for p in packets if start <= p.time < end) * 8 / (end - start)


@requires_link_topology(LinkTopology.THREE_LINKS)
class TestFairness(TestSuite):
    """Cases: caps_add_up_to_the_line, two_bulk_flows_start_together,
    late_bulk_flow_gets_a_share, two_normal_flows_start_together."""

    is_alone = True

    def set_up_suite(self) -> None:
        """Start the master; edges come with each case, as caps are theirs."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())

    def tear_down_suite(self) -> None:
        """End it."""
        self._stack.close()

    def _run(self, cap: str, priority: str, megabytes: int, head_start: float, jain: float,
             lost: float, used: float = 0.85) -> None:
        for _ in range(ATTEMPTS):
            flows, stats, starved = self._attempt(cap, priority, megabytes, head_start)
            share = stats["ab"]["lost_queue"] / stats["ab"]["offered"]
            wrong = self._judge(flows, jain, used)
            if share > lost:
                wrong = wrong or f"{share:.1%} of the packets were lost to the queue"
            if not wrong:
                return
            late = stats["overruns"] > OVERRUNS * stats["ab"]["offered"]
            verify(late or starved.excuses(), wrong)
            log(f"void: {wrong}, but the emulator was late {stats['overruns']} times, and an edge "
                f"waited for a CPU {starved.share:.0%} of the time")
        fail(f"{wrong}; and the machine was late, {ATTEMPTS} times in a row")

    def _attempt(self, cap: str, priority: str, megabytes: int,
                 head_start: float) -> tuple[list[list[CapturedPacket]], dict[str, Any],
                                                   Starved]:
        """What each sender sent, the emulator's statistics, and whether edges could run."""
        ctx = get_ctx()
        tg = ctx.tg
        with ExitStack() as stack:
            senders = [stack.enter_context(Edge(self._master, name, cap=cap))
                       for name in (ctx.sut.name, ctx.config.test_run.more_nodes[0])]
            peer = stack.enter_context(Edge(self._master, ctx.config.test_run.peer_node))
            edges = [*senders, peer]
            wan = stack.enter_context(Wan(peer.node, *LINE))
            for edge in senders:
                move(self._master, put_objects(edge, 1, 20000), edge, peer)
            batches = [put_objects(edge, 4 * megabytes, 250000) for edge in senders]
            before = [e.settled_counters() for e in edges]
            tg.flush(KEEP_BYTES)
            orders: list[int] = []
            starved = stack.enter_context(Starved(*edges))
            for batch, edge in zip(batches, senders, strict=True):
                if orders and head_start > 0:
                    poll_until(head_start, lambda: False)
                    verify(order_state(self._master, orders[0]) not in ("done", "failed"),
                           "the first was done before the second began")
                orders.append(submit(self._master, batch, edge, peer, priority))
            for order in orders:
                wait_done(self._master, order, 60)
            packets = tg.take()
            for batch in batches:
                verify_objects(batch, peer)
            after = [e.settled_counters() for e in edges]
        for was, now in zip(before, after, strict=True):
            verify(not moved(was, now), f"drops: {moved(was, now)}")
        return [sent_by(edge, packets) for edge in senders], wan.stats, starved

    @staticmethod
    def _judge(flows: list[list[CapturedPacket]], least: float, used: float) -> str:
        """What is wrong, "" for nothing."""
        busy = [[p for p in flow if p.size > 1000] for flow in flows]
        # Both are under way, the first half second of the later one aside.
        start = max(flow[0].time for flow in busy) + 0.5
        end = min(flow[-1].time for flow in busy)
        if end - start <= 0.5:
            return f"they shared the line for {end - start:.2f} s only"
        for i in range(int((end - start) / 0.5)):
            at = start + i / 2
            log_debug(" and ".join(f"{rate_between(f, at, at + 0.5) / 1e6:.1f}" for f in flows))
        rates = [rate_between(flow, start, end) for flow in flows]
        jain = sum(rates) ** 2 / (2 * sum(r * r for r in rates))
        text = (f"{rates[0] / 1e6:.1f} and {rates[1] / 1e6:.1f} Mbit/s of {LINE_BPS / 1e6:.0f}, "
                f"Jain's index {jain:.3f}")
        log(f"{text}, {end - start:.1f} s")
        if jain < least:
            return text
        if not used * LINE_BPS <= sum(rates) <= 1.05 * LINE_BPS:
            return f"{text}: not the line's rate"
        return ""

    @func_test
    def caps_add_up_to_the_line(self) -> None:
        """Caps of half the line each.

        Steps:
            Two edges with a cap of 20 Mbit/s each send 4 MB through a line of 40 Mbit/s, 20 ms.
        Verify:
            Both orders are done and objects the same. While both are under way Jain's index of
            their rates is at least 0.99 and they use 85 % of the line; at most 1 % is lost to the
            queue; no drops at any edge.
        """
        self._run("20Mbit", "normal", 4, 0, 0.99, 0.01)

    @func_test
    def two_bulk_flows_start_together(self) -> None:
        """Caps of the whole line each, both at once.

        Steps:
            As before with bulk orders of 8 MB and caps of 40 Mbit/s.
        Verify:
            As before, but the index is at least 0.9, they use 70 % of the line, since each gives
            way to the other's queue in turn, and 5 % may be lost, while each finds out that it is
            not alone.
        """
        self._run("40Mbit", "bulk", 8, 0, 0.9, 0.05, 0.7)

    @func_test
    def late_bulk_flow_gets_a_share(self) -> None:
        """One comes when the other has the line.

        Steps:
            As before, the second half a second later.
        Verify:
            As before, from half a second after the second one's first packet.
        """
        self._run("40Mbit", "bulk", 8, 0.5, 0.9, 0.05, 0.7)

    @func_test
    def two_normal_flows_start_together(self) -> None:
        """Caps of more than half the line each: what nobody should configure, and somebody will.

        Steps:
            Two edges with a cap of 30 Mbit/s each send 8 MB as normal orders, both at once.
        Verify:
            As before: the index is at least 0.9, they use 85 % of the line, and 5 % may be lost.
        """
        self._run("30Mbit", "normal", 8, 0, 0.9, 0.05)
