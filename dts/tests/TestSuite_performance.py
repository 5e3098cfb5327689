# SPDX-License-Identifier: Apache-2.0
"""Figures of two edges on the segment, written to performance.json.

Namespaces, veth and af_packet on whatever machine this is: figures to compare with those of
yesterday on the same machine, no promise. What is verified is far below what any machine does."""
import time
from contextlib import ExitStack
from typing import Any

from api.capabilities import LinkTopology, requires_link_topology
from api.packet import echo_request, send_and_capture
from api.strait import Edge, Master, moved, without_drops
from api.test import log, verify, write_performance_json
from api.transfer import move, put_objects
from api.wan import Wan
from framework.context import get_ctx
from framework.test_suite import TestSuite, perf_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestPerformance(TestSuite):
    """Cases: goodput_of_large_objects, goodput_of_small_objects, efficiency_of_a_lossy_line,
    urgent_object_latency, echo_latency."""

    is_alone = True

    def set_up_suite(self) -> None:
        """Start a master and both edges, capped at 400 Mbit/s; a session between them."""
        ctx = get_ctx()
        self._results: list[dict[str, Any]] = []
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        config = {"cap": "400Mbit", "pools": [{
            "path": "", "size": "96M", "create": True}]}
        self._edge, self._peer = (
            self._stack.enter_context(Edge(self._master, node, **self._pool(config, node)))
            for node in (ctx.sut.name, ctx.config.test_run.peer_node))
        move(self._master, put_objects(self._edge, 1, 20000), self._edge, self._peer)

    @staticmethod
    def _pool(config: dict[str, Any], node: str) -> dict[str, Any]:
        ctx = get_ctx()
        path = str(ctx.shm_dir / f"{ctx.testbed.nodes[node].config.site}.pool")
        return config | {"pools": [config["pools"][0] | {"path": path}]}

    def tear_down_suite(self) -> None:
        """Write what was measured, end everything."""
        write_performance_json({"results": self._results})
        self._stack.close()

    def _record(self, name: str, unit: str, measured: float, expected: float,
                higher_is_better: bool = True) -> None:
        good = measured >= expected if higher_is_better else measured <= expected
        self._results.append({
            "name": name, "unit": unit, "measured": round(measured, 3), "expected": expected,
            "higher_is_better": higher_is_better, "pass": good})
        log(f"{name}: {measured:.2f} {unit}")
        verify(good, f"{name}: {measured:.2f} {unit}, expected {expected}")

    @perf_test
    def goodput_of_large_objects(self) -> None:
        """Bytes a second of objects of 4 MB.

        Steps:
            Move 40 MB with a cap of 400 Mbit/s.
        Verify:
            The order is done, objects are the same, more than 40 Mbit/s; no drops.
        """
        batch = put_objects(self._edge, 10, 4000000)
        with without_drops(self._edge, self._peer):
            result = move(self._master, batch, self._edge, self._peer, seconds=60)
        self._record("goodput, 4 MB objects", "Mbit/s", result.goodput_bps / 1e6, 40)

    @perf_test
    def goodput_of_small_objects(self) -> None:
        """Objects a second of 4 KiB.

        Steps:
            Move 1000 objects of 4096 bytes in one order.
        Verify:
            The order is done, objects are the same, more than 100 a second; no drops.
        """
        batch = put_objects(self._edge, 1000, 4096)
        with without_drops(self._edge, self._peer):
            result = move(self._master, batch, self._edge, self._peer, seconds=60)
        self._record("small objects", "objects/s", result.batch.count / result.seconds, 100)

    @perf_test
    def efficiency_of_a_lossy_line(self) -> None:
        """What of a line with losses becomes goodput.

        Steps:
            Move 10 MB over strait-wan at 50 Mbit/s, 20 ms, 1 % loss.
        Verify:
            The order is done, objects are the same; at least half of the line became goodput; no
            drops at the edges.
        """
        with without_drops(self._edge, self._peer), Wan(
                self._peer.node, "--rate-gbps", "0.05", "--rtt-ms", "20", "--loss", "0.01",
                "--seed", "1", "--mem", "256"):
            result = move(self._master, put_objects(self._edge, 10, 1000000), self._edge,
                          self._peer, seconds=60)
        self._record("goodput of 50 Mbit/s, 1 % loss", "Mbit/s", result.goodput_bps / 1e6, 25)

    @perf_test
    def urgent_object_latency(self) -> None:
        """From order to done, urgent, one object of 64 KiB.

        Steps:
            Move ten objects of 64 KiB, each in an urgent order of its own.
        Verify:
            Each is done and the same; the median takes less than two seconds; no drops.
        """
        with without_drops(self._edge, self._peer):
            took = sorted(move(self._master, put_objects(self._edge, 1, 65536), self._edge,
                               self._peer, "urgent").seconds for _ in range(10))
        self._record("urgent 64 KiB, median", "ms", took[len(took) // 2] * 1e3, 2000, False)

    @perf_test
    def echo_latency(self) -> None:
        """Round trip of an ICMP echo through an idle edge.

        Steps:
            Send 20 echo requests, one after the other.
        Verify:
            Each is answered; icmp_echo moved by 20, no drop counter did; the median takes less
            than 200 ms.
        """
        took = []
        before = self._edge.settled_counters()
        for i in range(20):
            start = time.time()
            answers = send_and_capture(self._edge, [echo_request(self._edge, b"x" * 56, i)], 1)
            verify(len(answers) == 1, "no echo reply")
            took.append(answers[0].time - start)
        after = self._edge.wait_counter("port_icmp_echo", before["port_icmp_echo"] + 20)
        verify(after["port_icmp_echo"] == before["port_icmp_echo"] + 20, "icmp_echo is wrong")
        verify(not moved(before, after), f"drops: {moved(before, after)}")
        self._record("ICMP echo, median", "ms", sorted(took)[10] * 1e3, 200, False)
