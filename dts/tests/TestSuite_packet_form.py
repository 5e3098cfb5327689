# SPDX-License-Identifier: Apache-2.0
"""Every packet of an edge, looked at by the generator: DSCP, DF, TTL, lengths, checksums, MTU.

doc/wire.md section 3: one UDP datagram a packet, never a fragment."""
from contextlib import ExitStack
from typing import Any

from api.capabilities import LinkTopology, requires_link_topology
from api.packet import ICMP, IP, UDP, Ether, echo_request, send_and_capture
from api.strait import DATA_PORT, Edge, Master, moved
from api.test import log, verify
from api.transfer import move, put_objects
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test
from framework.testbed_model.port import set_offloads
from framework.testbed_model.traffic_generator.scapy import CapturedPacket

IP_UDP = 28
OVERHEAD = 40
JUMBO = 9000


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestPacketForm(TestSuite):
    """Cases: dscp_of_the_configuration, form_of_every_packet, smaller_mtu_of_the_sender,
    smaller_mtu_of_the_receiver, jumbo_frames, checksum_offload_of_the_wire."""

    def set_up_suite(self) -> None:
        """Start the master; edges come with each case, as what is looked at is configured."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())

    def tear_down_suite(self) -> None:
        """End it."""
        self._stack.close()

    def _transfer(self, sut: dict[str, Any], peer: dict[str, Any],
                  size: int = 250000) -> list[CapturedPacket]:
        """Move two objects between edges so configured; datagrams that both sent."""
        ctx = get_ctx()
        with ExitStack() as stack:
            edge = stack.enter_context(Edge(self._master, ctx.sut.name, **sut))
            other = stack.enter_context(
                Edge(self._master, ctx.config.test_run.peer_node, **peer))
            move(self._master, put_objects(edge, 1, 20000), edge, other)
            before = edge.settled_counters(), other.settled_counters()
            ctx.tg.flush()
            move(self._master, put_objects(edge, 2, size), edge, other)
            packets = ctx.tg.take()
            after = edge.settled_counters(), other.settled_counters()
            self._edge, self._peer = edge, other
        for was, now in zip(before, after, strict=True):
            verify(not moved(was, now), f"drops: {moved(was, now)}")
        out = [p for p in packets if p.data[12:14] == b"\x08\x00"]
        verify(len(out) > 2 * size // JUMBO, f"only {len(out)} packets seen")
        return out

    def _from(self, edge: Edge, packets: list[CapturedPacket]) -> list[CapturedPacket]:
        return [p for p in packets if p.port == edge.tg_port.name]

    @func_test
    def dscp_of_the_configuration(self) -> None:
        """The code point is on each packet.

        Steps:
            Move objects from an edge with DSCP 10 to one with 46, then 63 to 0.
        Verify:
            Every datagram has its sender's DSCP and no ECN bits.
        """
        for mine, theirs in ((10, 46), (63, 0)):
            packets = self._transfer({"port": {"dscp": mine}}, {"port": {"dscp": theirs}})
            for edge, dscp in ((self._edge, mine), (self._peer, theirs)):
                tos = {p.data[15] for p in self._from(edge, packets)}
                verify(tos == {dscp << 2}, f"DSCP {dscp}: bytes {tos} on the wire")

    @func_test
    def form_of_every_packet(self) -> None:
        """IP and UDP headers of a whole transfer.

        Steps:
            Move 500 kB and look at each datagram of both edges.
        Verify:
            IPv4 without options, DF set and no fragment, TTL 64 at least, lengths that agree with
            the frame, right IP and UDP checksums (never 0), ports of the configuration, never
            longer than the MTU; DATA packets fill it.
        """
        packets = self._transfer({}, {})
        mtu = get_ctx().config.test_run.mtu
        full = 0
        for packet in packets:
            ether = Ether(packet.data)
            ip, udp = ether[IP], ether[UDP]
            verify((ip.version, ip.ihl, int(ip.frag), str(ip.flags)) == (4, 5, 0, "DF"),
                   f"IP header: {ip.summary()} {ip.flags} {ip.frag}")
            verify(ip.ttl >= 64, f"TTL {ip.ttl}")
            verify(ip.len <= mtu and udp.len == ip.len - 20
                   and max(60, ip.len + 14) == packet.size, f"lengths {ip.len}, {udp.len}, "
                   f"{packet.size}")
            verify((udp.sport, udp.dport) == (DATA_PORT, DATA_PORT), f"port {udp.sport}")
            given = ip.chksum, udp.chksum
            del ip.chksum, udp.chksum
            again = Ether(bytes(ether))
            verify(given == (again[IP].chksum, again[UDP].chksum) and given[1] != 0,
                   f"checksums {given}, right are {again[IP].chksum}, {again[UDP].chksum}")
            full += ip.len == mtu
        log(f"{len(packets)} datagrams, {full} of {mtu} bytes")
        verify(full >= 500000 // (mtu - IP_UDP - OVERHEAD) - 4, f"{full} packets fill the MTU")

    def _check_mtu(self, sut: dict[str, Any], peer: dict[str, Any], mtu: int) -> None:
        packets = self._transfer(sut, peer)
        sizes = [int.from_bytes(p.data[16:18], "big") for p in self._from(self._edge, packets)]
        verify(max(sizes) == mtu, f"the longest packet has {max(sizes)} bytes, the MTU is {mtu}")
        full = sizes.count(mtu)
        verify(full >= 500000 // (mtu - IP_UDP - OVERHEAD) - 4, f"{full} packets fill the MTU")

    @func_test
    def smaller_mtu_of_the_sender(self) -> None:
        """The sender's path carries less.

        Steps:
            Move 500 kB from an edge with an MTU of 1000 to one with 1500.
        Verify:
            No packet of the sender is longer than 1000 bytes, symbols fill them; no drops.
        """
        self._check_mtu({"port": {"mtu": 1000}}, {}, 1000)

    @func_test
    def smaller_mtu_of_the_receiver(self) -> None:
        """The receiver's path carries less, which HELLO tells.

        Steps:
            Move 500 kB from an edge with an MTU of 1500 to one with 700.
        Verify:
            No packet of the sender is longer than 700 bytes, symbols fill them; no drops.
        """
        self._check_mtu({}, {"port": {"mtu": 700}}, 700)

    @func_test
    def jumbo_frames(self) -> None:
        """A segment and two edges that carry 9000 bytes.

        Steps:
            With an MTU of 9000 at every interface of the segment and both edges move 500 kB.
        Verify:
            The sender's longest packet has 9000 bytes, symbols fill them; no drops.
        """
        ctx = get_ctx()
        links = [(node.session, port.netdev) for node in ctx.testbed.nodes.values()
                 for port in node.ports.values()]
        try:
            for session, netdev in links:
                session.ip("link", "set", netdev, "mtu", str(JUMBO))
            self._check_mtu({"port": {"mtu": JUMBO}}, {"port": {"mtu": JUMBO}}, JUMBO)
        finally:
            for session, netdev in links:
                session.ip("link", "set", netdev, "mtu", str(ctx.config.test_run.mtu))

    @func_test
    def checksum_offload_of_the_wire(self) -> None:
        """Edges make and check their checksums themselves, whatever the interface says it does.

        Steps:
            With checksum and segmentation offload switched on at every interface of the segment,
            move 500 kB; ask for an echo; switch it off.
        Verify:
            As with offload off: checksums on the wire are right, objects the same, no drops, and
            the echo is answered with right checksums; icmp_echo moved by one.
        """
        ctx = get_ctx()
        links = [(node.session, port.netdev) for node in ctx.testbed.nodes.values()
                 for port in node.ports.values()]
        try:
            for session, netdev in links:
                set_offloads(session, netdev, True)
            self.form_of_every_packet()
            with Edge(self._master, ctx.sut.name) as edge:
                before = edge.settled_counters()
                answers = send_and_capture(edge, [echo_request(edge, b"offload")], 1)
                after = edge.wait_counter("port_icmp_echo", before["port_icmp_echo"] + 1)
            verify(after["port_icmp_echo"] == before["port_icmp_echo"] + 1,
                   "icmp_echo did not move by 1")
            verify(not moved(before, after), f"drops: {moved(before, after)}")
            verify(len(answers) == 1, "no echo reply")
            reply = Ether(answers[0].data)
            given = reply[ICMP].chksum
            del reply[ICMP].chksum
            verify(given == Ether(bytes(reply))[ICMP].chksum, "the ICMP checksum is wrong")
        finally:
            for session, netdev in links:
                set_offloads(session, netdev, False)
