# SPDX-License-Identifier: Apache-2.0
"""IP fragments, and headers that lie about lengths.

Strait never fragments (doc/wire.md section 3), so fragments are dropped, not reassembled. A length
that contradicts another is a lie; only padding behind the IP packet, as Ethernet adds to short
frames, is none."""
import random
from contextlib import ExitStack

from api.packet import (
    IP,
    TG_IP,
    UDP,
    datagram,
    echo_request,
    send_and_capture,
    stranger,
    verify_dropped,
)
from api.strait import DATA_PORT, Edge, Master, moved
from api.test import verify
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test


class TestFragmentsAndLengths(TestSuite):
    """Cases: fragments, fragmented_datagram, reserved_flag, udp_length_lies, ip_length_lies,
    ip_header_length, ip_version, ip_options, ethernet_padding, echo_too_short."""

    def set_up_suite(self) -> None:
        """Start a master and the edge under test."""
        self._stack = ExitStack()
        master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(master, get_ctx().sut.name))

    def tear_down_suite(self) -> None:
        """End both."""
        self._stack.close()

    @func_test
    def fragments(self) -> None:
        """Whatever is marked a fragment is dropped.

        Steps:
            Send datagrams and echo requests as first, middle and last fragment, with offsets of
            one bit each, with and without DF.
        Verify:
            No answer; drop_fragment counts each and no other drop counter moves.
        """
        marks = [("MF", 0), ("MF+DF", 0), *(("", 1 << bit) for bit in range(13)),
                 *(("MF", 1 << bit) for bit in range(13)), ("DF", 185), ("", 8191), ("MF", 8191)]
        frames = []
        for flags, offset in marks:
            for packet in (datagram(self._edge, stranger()), echo_request(self._edge, b"part")):
                packet[IP].flags, packet[IP].frag = flags, offset
                frames.append(packet)
        verify_dropped(self._edge, frames, "port_drop_fragment", "fragment")

    @func_test
    def fragmented_datagram(self) -> None:
        """A whole datagram in fragments is not put together.

        Steps:
            Send all fragments of a valid-shaped datagram and of an echo request, in order and in
            reverse.
        Verify:
            No answer, so nothing was reassembled; drop_fragment counts each and no other drop
            counter moves.
        """
        frames = []
        for packet in (datagram(self._edge, stranger(1000)),
                       echo_request(self._edge, random.randbytes(1000))):
            parts = packet.fragment(256)
            verify(len(parts) > 3, "the generator did not fragment")
            frames += [*parts, *reversed(parts)]
        verify_dropped(self._edge, frames, "port_drop_fragment", "part of a datagram")

    @func_test
    def reserved_flag(self) -> None:
        """The reserved flag of IP must be zero; DF may be set.

        Steps:
            Send datagrams with the reserved flag, alone and with DF, then with DF alone.
        Verify:
            No answer; drop_malformed counts those with the reserved flag, drop_no_session the
            one without, and no other drop counter moves.
        """
        frames = [datagram(self._edge, stranger(), ip=IP(flags=f)) for f in ("evil", "evil+DF")]
        verify_dropped(self._edge, frames, "port_drop_malformed", "reserved flag")
        frames = [datagram(self._edge, stranger(), ip=IP(flags="DF"))]
        verify_dropped(self._edge, frames, "port_drop_no_session", "DF")

    @func_test
    def udp_length_lies(self) -> None:
        """A UDP length other than the IP payload's is a lie.

        Steps:
            Send datagrams with every UDP length from 0 to beyond the right one, and the ends of
            its range; with checksum 0 too, so that no checksum helps.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        payload = stranger(16)
        right = len(payload) + 8
        wrong = [n for n in (*range(right + 20), 1480, 32768, 65535) if n != right]
        frames = [datagram(self._edge, payload, udp=UDP(sport=DATA_PORT, len=n)) for n in wrong]
        frames += [datagram(self._edge, payload, udp=UDP(sport=DATA_PORT, len=n, chksum=0))
                   for n in wrong]
        verify_dropped(self._edge, frames, "port_drop_malformed", "UDP length")

    @func_test
    def ip_length_lies(self) -> None:
        """An IP length that is too short for its header or longer than the frame is a lie.

        Steps:
            Send datagrams with every IP length that leaves no room for both headers, that cuts
            the datagram short, and that exceeds the frame.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        payload = stranger(16)
        right = len(payload) + 28
        wrong = [n for n in (*range(right + 20), 1500, 32768, 65535) if n != right]
        frames = [datagram(self._edge, payload, ip=IP(len=n)) for n in wrong]
        verify_dropped(self._edge, frames, "port_drop_malformed", "IP length")

    @func_test
    def ip_header_length(self) -> None:
        """An IP header shorter than 20 bytes does not exist.

        Steps:
            Send datagrams with header lengths from 0 to 4 words.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        frames = [datagram(self._edge, stranger(), ip=IP(ihl=n)) for n in range(5)]
        verify_dropped(self._edge, frames, "port_drop_malformed", "IP header length")

    @func_test
    def ip_version(self) -> None:
        """An IP version that contradicts the Ethernet type is a lie.

        Steps:
            Send datagrams of Ethernet type IPv4 with each version but 4.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        frames = []
        for version in (v for v in range(16) if v != 4):
            frame = bytearray(bytes(datagram(self._edge, stranger())))
            frame[14] = version << 4 | 5
            frames.append(bytes(frame))
        verify_dropped(self._edge, frames, "port_drop_malformed", "IP version")

    @func_test
    def ip_options(self) -> None:
        """Packets with IP options are refused.

        Steps:
            Send datagrams with no-operation options of one to ten words.
        Verify:
            No answer; drop_protocol counts each and no other drop counter moves.
        """
        frames = []
        for words in range(1, 11):
            packet = datagram(self._edge, stranger(), ip=IP(options=b"\x01" * 4 * words))
            verify(bytes(packet)[14] == 0x45 + words, "the generator left options out")
            frames.append(packet)
        verify_dropped(self._edge, frames, "port_drop_protocol", "IP options")

    @func_test
    def ethernet_padding(self) -> None:
        """Bytes behind the IP packet are padding: neither a lie nor payload.

        Steps:
            Send short datagrams padded to 60 bytes and beyond, then a padded echo request.
        Verify:
            drop_no_session counts each datagram and no other drop counter moves. The echo reply
            is as long as the request without its padding: never more bytes out than in.
        """
        frames = [bytes(datagram(self._edge, random.randbytes(n))).ljust(size, b"\xee")
                  for n in range(18) for size in (60, 64, 200)]
        verify_dropped(self._edge, frames, "port_drop_no_session", "padding")
        request = bytes(echo_request(self._edge, b"four"))
        before = self._edge.settled_counters()
        answers = send_and_capture(self._edge, [request + b"\xee" * 200], 1)
        verify(len(answers) == 1, "a padded echo request was not answered")
        size = len(answers[0].data)
        verify(size <= max(60, len(request)), f"{size} bytes came back for {len(request)}")
        verify(b"\xee" not in answers[0].data[len(request):], "padding came back")
        after = self._edge.wait_counter("port_icmp_echo", before["port_icmp_echo"] + 1)
        verify(after["port_icmp_echo"] == before["port_icmp_echo"] + 1, "icmp_echo did not move")
        verify(not moved(before, after), f"drops: {moved(before, after)}")

    @func_test
    def echo_too_short(self) -> None:
        """An ICMP message shorter than its header is a lie.

        Steps:
            Send echo requests whose IP length leaves 0 to 7 bytes for ICMP.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        frames = []
        for n in range(8):
            packet = echo_request(self._edge, b"")
            packet[IP].len = 20 + n
            verify(packet[IP].src == TG_IP, "wrong source")
            frames.append(packet)
        verify_dropped(self._edge, frames, "port_drop_malformed", "short ICMP")
