# SPDX-License-Identifier: Apache-2.0
"""Smoke tests.

An edge starts on a port, is known to the master, answers ARP and ICMP echo, and counts what it
does. Everything else makes no sense before this works, so the suite blocks."""
import random
from contextlib import ExitStack
from typing import ClassVar

from api.packet import (
    ARP,
    ICMP,
    IP,
    TG_IP,
    Ether,
    Raw,
    arp_request,
    echo_request,
    send_and_capture,
    verify_dropped,
)
from api.strait import Edge, Master, moved
from api.test import verify
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test


class TestSmokeTests(TestSuite):
    """Cases: edge_is_known, arp_is_answered, other_addresses_stay_silent, echo_is_answered,
    largest_echo_is_answered, edge_leaves_with_status_0."""

    is_blocking: ClassVar[bool] = True

    def set_up_suite(self) -> None:
        """Start a master and the edge under test."""
        self._stack = ExitStack()
        master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(master, get_ctx().sut.name))

    def tear_down_suite(self) -> None:
        """End both."""
        self._stack.close()

    @func_test
    def edge_is_known(self) -> None:
        """An edge that was started is known to its master, with nothing dropped.

        Steps:
            Start a master and an edge.
        Verify:
            The edge reports counters, and none of its drop counters moved.
        """
        counters = self._edge.settled_counters()
        got = moved(dict.fromkeys(counters, 0), counters)
        verify(not got, f"drops on a wire where nobody spoke: {got}")

    @func_test
    def arp_is_answered(self) -> None:
        """A request for the edge's address is answered.

        Steps:
            Broadcast ARP requests for the edge's address.
        Verify:
            Each is answered with the edge's MAC to who asked; arp_replies moved by as much, no
            drop counter did.
        """
        before = self._edge.settled_counters()
        answers = send_and_capture(self._edge, [arp_request(self._edge)] * 3, 3)
        verify(len(answers) == 3, f"{len(answers)} answers to 3 ARP requests")
        for answer in answers:
            ether = Ether(answer.data)
            verify(ARP in ether and ether[ARP].op == 2, f"no ARP reply: {ether.summary()}")
            verify(ether.dst == self._edge.tg_port.mac, f"the reply went to {ether.dst}")
            verify(ether[ARP].hwsrc == self._edge.mac, f"the reply names {ether[ARP].hwsrc}")
            verify(ether[ARP].psrc == self._edge.ip, f"the reply is for {ether[ARP].psrc}")
            verify(ether[ARP].pdst == TG_IP, f"the reply is to {ether[ARP].pdst}")
        after = self._edge.wait_counter("port_arp_replies", before["port_arp_replies"] + 3)
        verify(after["port_arp_replies"] - before["port_arp_replies"] == 3,
               "arp_replies did not move by 3")
        verify(not moved(before, after), f"drops: {moved(before, after)}")

    @func_test
    def other_addresses_stay_silent(self) -> None:
        """Nobody else's address is answered for.

        Steps:
            Ask by ARP for addresses beside the edge's. Send an echo request to another address
            at the edge's MAC.
        Verify:
            No ARP reply and no drop. The echo request is counted by drop_not_for_us and no other.
        """
        before = self._edge.settled_counters()
        asked = [arp_request(self._edge, f"10.66.0.{n}") for n in (0, 3, 77, 255)]
        answers = send_and_capture(self._edge, asked, 1, 0.3)
        verify(not answers, f"{len(answers)} answers for addresses of others")
        after = self._edge.wait_counter("port_rx_packets", before["port_rx_packets"] + 4)
        verify(after["port_rx_packets"] - before["port_rx_packets"] == 4, "requests got lost")
        verify(not moved(before, after), f"drops: {moved(before, after)}")
        stray = echo_request(self._edge, b"stray")
        stray[IP].dst = "10.66.0.77"
        verify_dropped(self._edge, [stray], "port_drop_not_for_us", "echo request to another")

    def _echo(self, sizes: list[int]) -> None:
        before = self._edge.settled_counters()
        bodies = {i: random.randbytes(size) for i, size in enumerate(sizes, 1)}
        asked = [echo_request(self._edge, body, i) for i, body in bodies.items()]
        answers = send_and_capture(self._edge, asked, len(asked))
        verify(len(answers) == len(asked), f"{len(answers)} answers to {len(asked)} requests")
        for answer in answers:
            ether = Ether(answer.data)
            verify(ICMP in ether and ether[ICMP].type == 0, f"no reply: {ether.summary()}")
            ip, icmp = ether[IP], ether[ICMP]
            verify((ether.src, ether.dst, ip.src, ip.dst) == (
                self._edge.mac, self._edge.tg_port.mac, self._edge.ip, TG_IP),
                f"wrong addresses: {ether.summary()}")
            body = bytes(icmp[Raw]) if Raw in icmp else b""
            body = body[:ip.len - 28]
            verify(body == bodies.pop(icmp.seq, None), f"echo {icmp.seq} came back different")
            verify(icmp.id == 0x5354, f"identifier {icmp.id:#x} came back")
            given = ip.chksum, icmp.chksum
            del ip.chksum, icmp.chksum
            again = Ether(bytes(ether))
            verify(given == (again[IP].chksum, again[ICMP].chksum), "a checksum is wrong")
        wanted = before["port_icmp_echo"] + len(asked)
        after = self._edge.wait_counter("port_icmp_echo", wanted)
        verify(after["port_icmp_echo"] == wanted, f"icmp_echo did not move by {len(asked)}")
        verify(not moved(before, after), f"drops: {moved(before, after)}")

    @func_test
    def echo_is_answered(self) -> None:
        """ICMP echo is answered with the same bytes.

        Steps:
            Send echo requests with no data, with odd and with even lengths.
        Verify:
            Each comes back unchanged, with right checksums and addresses; icmp_echo moved by as
            much, no drop counter did.
        """
        self._echo([0, 1, 2, 17, 56, 63, 512])

    @func_test
    def largest_echo_is_answered(self) -> None:
        """An echo request that fills the MTU is answered.

        Steps:
            Send one echo request of exactly the MTU.
        Verify:
            It comes back unchanged; icmp_echo moved by one, no drop counter did.
        """
        self._echo([get_ctx().config.test_run.mtu - 28])

    @func_test
    def edge_leaves_with_status_0(self) -> None:
        """SIGTERM ends an idle edge.

        Steps:
            End the edge with SIGTERM. Start it again.
        Verify:
            Its status is 0, and the second one answers ARP; arp_replies moved by one, no drop
            counter did.
        """
        status = self._edge.stop()
        verify(status == 0, f"status {status}")
        self._edge.__enter__()
        before = self._edge.settled_counters()
        answers = send_and_capture(self._edge, [arp_request(self._edge)], 1)
        verify(len(answers) == 1, "no ARP reply after a restart")
        after = self._edge.wait_counter("port_arp_replies", before["port_arp_replies"] + 1)
        verify(after["port_arp_replies"] == before["port_arp_replies"] + 1,
               "arp_replies did not move by 1")
        verify(not moved(before, after), f"drops: {moved(before, after)}")
