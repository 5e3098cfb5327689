# SPDX-License-Identifier: Apache-2.0
"""The data path over IPv6: neighbor discovery, ICMPv6 echo, what is refused, and a transfer.

The rules are those of IPv4 where there is no reason for others: no fragments, no extension headers,
and the UDP checksum is not optional (RFC 8200 section 8.1). Neighbor discovery counts only from
this link (RFC 4861 section 7.1: hop limit 255)."""
import random
from contextlib import ExitStack

from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6Unknown,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)

from api.capabilities import LinkTopology, requires_link_topology
from api.packet import UDP, Ether, Packet, Raw, send_and_capture, stranger, verify_dropped
from api.strait import DATA_PORT, Edge, Master, moved
from api.test import log, verify
from api.transfer import move, put_objects
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

SUT_IP, PEER_IP, TG_IP = "fd00:66::1", "fd00:66::2", "fd00:66::100"
GROUP, GROUP_MAC = "ff02::1:ff00:1", "33:33:ff:00:00:01"
IPV6_UDP = 48
OVERHEAD = 40


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestIpv6(TestSuite):
    """Cases: solicitation_is_answered, other_targets_stay_silent, solicitations_from_afar,
    malformed_solicitations, echo_is_answered, wrong_checksums, extension_headers, lengths_that_lie,
    strangers_stay_unanswered, objects_arrive."""

    def set_up_suite(self) -> None:
        """Start a master, and both edges with an address of IPv6."""
        ctx = get_ctx()
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(
            Edge(self._master, ctx.sut.name, port={"address": f"{SUT_IP}/64", "dscp": 10}))

    def tear_down_suite(self) -> None:
        """End everything."""
        self._stack.close()

    def _ether(self, group: bool = False) -> Packet:
        return Ether(src=self._edge.tg_port.mac, dst=GROUP_MAC if group else self._edge.mac)

    def _solicit(self, target: str = SUT_IP, hlim: int = 255, group: bool = True) -> Packet:
        return (self._ether(group) / IPv6(src=TG_IP, dst=GROUP if group else SUT_IP, hlim=hlim)
                / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=self._edge.tg_port.mac))

    def _datagram(self, payload: bytes, **udp: int) -> Packet:
        return (self._ether() / IPv6(src=TG_IP, dst=SUT_IP)
                / UDP(sport=DATA_PORT, dport=DATA_PORT, **udp) / Raw(payload))

    @func_test
    def solicitation_is_answered(self) -> None:
        """Who has this address?

        Steps:
            Solicit the edge's address, to the solicited-node group and to the edge alone.
        Verify:
            Each is answered to who asked, solicited and overriding, with the edge's MAC, hop limit
            255 and a right checksum; nd_replies moved by as much, no drop counter did.
        """
        before = self._edge.settled_counters()
        asked = [self._solicit(), self._solicit(group=False)]
        answers = send_and_capture(self._edge, asked, 2)
        verify(len(answers) == 2, f"{len(answers)} answers to 2 solicitations")
        for answer in answers:
            ether = Ether(answer.data)
            verify(ICMPv6ND_NA in ether, f"no advertisement: {ether.summary()}")
            ip, advert = ether[IPv6], ether[ICMPv6ND_NA]
            verify((ether.dst, ip.src, ip.dst, ip.hlim) == (
                self._edge.tg_port.mac, SUT_IP, TG_IP, 255), f"wrong addresses: {ip.summary()}")
            verify((advert.tgt, advert.S, advert.O, advert.R) == (SUT_IP, 1, 1, 0),
                   f"{advert.tgt}, flags {advert.S}{advert.O}{advert.R}")
            verify(advert.payload.lladdr == self._edge.mac, f"names {advert.payload.lladdr}")
            given = advert.cksum
            del advert.cksum
            verify(given == Ether(bytes(ether))[ICMPv6ND_NA].cksum, "a checksum is wrong")
        after = self._edge.wait_counter("port_nd_replies", before["port_nd_replies"] + 2)
        verify(after["port_nd_replies"] - before["port_nd_replies"] == 2, "nd_replies is wrong")
        verify(not moved(before, after), f"drops: {moved(before, after)}")

    @func_test
    def other_targets_stay_silent(self) -> None:
        """Nobody else's address is answered for.

        Steps:
            Solicit addresses beside the edge's, in its solicited-node group too.
        Verify:
            No answer; drop_not_for_us counts each and no other drop counter moves.
        """
        asked = [self._solicit(target) for target in ("fd00:66::2", "fd00:77::1", "fe80::1")]
        verify_dropped(self._edge, asked, "port_drop_not_for_us", "address of another")

    @func_test
    def solicitations_from_afar(self) -> None:
        """What a router could have forwarded does not count.

        Steps:
            Solicit the edge's address with hop limits 0, 1, 64 and 254.
        Verify:
            No answer; drop_nd counts each and no other drop counter moves.
        """
        verify_dropped(self._edge, [self._solicit(hlim=n) for n in (0, 1, 64, 254)],
                       "port_drop_nd", "hop limit")

    @func_test
    def malformed_solicitations(self) -> None:
        """What breaks a rule of RFC 4861 section 7.1.1 does not count.

        Steps:
            Solicit a group, with an option of length 0, with one that is longer than the packet,
            with a group's MAC as one's own, and cut short.
        Verify:
            No answer; drop_nd counts each and no other drop counter moves.
        """
        mac = bytes.fromhex(self._edge.tg_port.mac.replace(":", ""))
        head = self._ether(True) / IPv6(src=TG_IP, dst=GROUP, hlim=255)
        frames = [self._solicit("ff02::1"),
                  head / ICMPv6ND_NS(tgt=SUT_IP) / Raw(b"\x01\x00" + mac),
                  head / ICMPv6ND_NS(tgt=SUT_IP) / Raw(b"\x01\x02" + mac),
                  head / ICMPv6ND_NS(tgt=SUT_IP) / Raw(b"\x01"),
                  head / ICMPv6ND_NS(tgt=SUT_IP) / ICMPv6NDOptSrcLLAddr(lladdr=GROUP_MAC),
                  head / ICMPv6Unknown(type=135, code=0, msgbody=bytes(8))]
        verify_dropped(self._edge, frames, "port_drop_nd", "malformed solicitation")

    @func_test
    def echo_is_answered(self) -> None:
        """ICMPv6 echo is answered with the same bytes.

        Steps:
            Send echo requests with no data, odd and even lengths, and one that fills the MTU.
        Verify:
            Each comes back unchanged, with a right checksum; icmp_echo moved by as much, no drop
            counter did.
        """
        before = self._edge.settled_counters()
        sizes = [0, 1, 2, 17, 56, 512, get_ctx().config.test_run.mtu - IPV6_UDP]
        bodies = {i: random.randbytes(size) for i, size in enumerate(sizes, 1)}
        asked = [self._ether() / IPv6(src=TG_IP, dst=SUT_IP)
                 / ICMPv6EchoRequest(id=7, seq=i, data=body) for i, body in bodies.items()]
        answers = send_and_capture(self._edge, asked, len(asked))
        verify(len(answers) == len(asked), f"{len(answers)} answers to {len(asked)} requests")
        for answer in answers:
            ether = Ether(answer.data)
            verify(ICMPv6EchoReply in ether, f"no reply: {ether.summary()}")
            reply = ether[ICMPv6EchoReply]
            verify((ether[IPv6].src, ether[IPv6].dst, reply.id) == (SUT_IP, TG_IP, 7),
                   f"wrong: {ether.summary()}")
            verify(bytes(reply.data) == bodies.pop(reply.seq, None), "came back different")
            given = reply.cksum
            del reply.cksum
            verify(given == Ether(bytes(ether))[ICMPv6EchoReply].cksum, "the checksum is wrong")
        after = self._edge.wait_counter("port_icmp_echo", before["port_icmp_echo"] + len(asked))
        verify(after["port_icmp_echo"] - before["port_icmp_echo"] == len(asked),
               "icmp_echo is wrong")
        verify(not moved(before, after), f"drops: {moved(before, after)}")

    @func_test
    def wrong_checksums(self) -> None:
        """Over IPv6 a datagram without a checksum is refused like one with a wrong one.

        Steps:
            Send datagrams with checksum 0, and with each bit of the right one flipped; echo
            requests and solicitations with a wrong one.
        Verify:
            No answer; drop_checksum counts each and no other drop counter moves.
        """
        payload = stranger()
        right = Ether(bytes(self._datagram(payload)))[UDP].chksum
        wrong = [0, *(right ^ 1 << bit for bit in range(16))]
        frames = [self._datagram(payload, chksum=n) for n in wrong]
        frames += [self._ether() / IPv6(src=TG_IP, dst=SUT_IP)
                   / ICMPv6EchoRequest(data=b"wrong", cksum=0x1234)]
        solicit = self._solicit()
        solicit[ICMPv6ND_NS].cksum = 0x1234
        verify_dropped(self._edge, [*frames, solicit], "port_drop_checksum", "wrong checksum")

    @func_test
    def extension_headers(self) -> None:
        """Fragments and other extension headers are refused.

        Steps:
            Send datagrams behind a fragment header (first, middle, last, and atomic), behind
            hop-by-hop and destination options.
        Verify:
            No answer; drop_fragment counts the first, drop_protocol the others, and no other drop
            counter moves.
        """
        head = self._ether() / IPv6(src=TG_IP, dst=SUT_IP)
        udp = UDP(sport=DATA_PORT, dport=DATA_PORT) / Raw(stranger())
        frames = [head / IPv6ExtHdrFragment(offset=at, m=more, id=9) / udp
                  for at, more in ((0, 1), (100, 1), (100, 0), (0, 0))]
        verify_dropped(self._edge, frames, "port_drop_fragment", "fragment")
        frames = [head / IPv6ExtHdrHopByHop() / udp, head / IPv6ExtHdrDestOpt() / udp]
        verify_dropped(self._edge, frames, "port_drop_protocol", "extension header")

    @func_test
    def lengths_that_lie(self) -> None:
        """Lengths that contradict the frame or each other.

        Steps:
            Send datagrams whose payload length is 0 or longer than the frame, and whose UDP length
            is not the payload's.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        payload = stranger(16)
        right = len(payload) + 8
        frames = []
        for n in (0, right + 1, right + 100, 65535):
            packet = self._datagram(payload)
            packet[IPv6].plen = n
            frames.append(packet)
        frames += [self._datagram(payload, len=n) for n in (0, 7, right - 1, right + 1, 65535)]
        verify_dropped(self._edge, frames, "port_drop_malformed", "length")

    @func_test
    def strangers_stay_unanswered(self) -> None:
        """Datagrams of no session.

        Steps:
            Send datagrams of random bytes of several lengths with right checksums.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        frames = [self._datagram(random.randbytes(n)) for n in (0, 1, 39, 40, 41, 500, 1452)]
        frames += [self._datagram(stranger()) for _ in range(50)]
        verify_dropped(self._edge, frames, "port_drop_no_session", "stranger")

    @func_test
    def objects_arrive(self) -> None:
        """A transfer between two edges.

        Steps:
            Start the peer with an address of IPv6 and move 500 kB to it.
        Verify:
            The order is done, objects are the same, no drops at either edge; every datagram on the
            wire is UDP over IPv6 without extension headers, with a right checksum, the DSCP of the
            configuration, not longer than the MTU, and DATA packets fill it; all of one sender
            have one flow label, which is not 0.
        """
        ctx = get_ctx()
        mtu = ctx.config.test_run.mtu
        with Edge(self._master, ctx.config.test_run.peer_node,
                  port={"address": f"{PEER_IP}/64"}) as peer:
            move(self._master, put_objects(self._edge, 1, 20000), self._edge, peer)
            before = self._edge.settled_counters(), peer.settled_counters()
            ctx.tg.flush()
            move(self._master, put_objects(self._edge, 2, 250000), self._edge, peer)
            packets = [p for p in ctx.tg.take() if p.data[12:14] in (b"\x86\xdd", b"\x08\x00")]
            after = self._edge.settled_counters(), peer.settled_counters()
        for was, now in zip(before, after, strict=True):
            verify(not moved(was, now), f"drops: {moved(was, now)}")
        full, labels = 0, set()
        for packet in packets:
            ether = Ether(packet.data)
            verify(IPv6 in ether, f"not IPv6: {ether.summary()}")
            if ICMPv6ND_NS in ether or ICMPv6ND_NA in ether:
                continue
            verify(ether[IPv6].nh == 17, f"next header {ether[IPv6].nh}")
            verify(packet.size <= mtu + 14, f"{packet.size} bytes")
            mine = packet.port == self._edge.tg_port.name
            labels.add((packet.port, ether[IPv6].fl))
            verify(ether[IPv6].tc == (10 << 2 if mine else 0), f"traffic class {ether[IPv6].tc}")
            given = ether[UDP].chksum
            del ether[UDP].chksum
            verify(given == Ether(bytes(ether))[UDP].chksum and given != 0, "checksum wrong")
            full += packet.size == mtu + 14
        log(f"{len(packets)} packets, {full} of {mtu} bytes")
        verify(len(labels) == 2 and all(fl for _, fl in labels), f"flow labels {labels}")
        verify(full >= 500000 // (mtu - IPV6_UDP - OVERHEAD) - 4, f"{full} packets fill the MTU")
