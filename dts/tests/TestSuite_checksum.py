# SPDX-License-Identifier: Apache-2.0
"""Checksums.

What an IP, UDP or ICMP checksum contradicts is dropped before anything else looks at it; a UDP
checksum of zero means none (RFC 768). A datagram that got past its checksum is a stranger's here,
so drop_no_session tells that it did."""
import random
from contextlib import ExitStack

from api.packet import (
    ICMP,
    IP,
    UDP,
    Ether,
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

IP_AT, L4_AT = 14, 34
UDP_SUM_AT = L4_AT + 6


def flip(frame: bytes, bit: int) -> bytes:
    """One bit of a frame, counted from its first."""
    out = bytearray(frame)
    out[bit // 8] ^= 0x80 >> bit % 8
    return bytes(out)


class TestChecksum(TestSuite):
    """Cases: right_udp_checksum, zero_udp_checksum, all_ones_udp_checksum, wrong_udp_checksum,
    payload_bit_flips, wrong_ip_checksum, wrong_icmp_checksum."""

    def set_up_suite(self) -> None:
        """Start a master and the edge under test."""
        self._stack = ExitStack()
        master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(master, get_ctx().sut.name))

    def tear_down_suite(self) -> None:
        """End both."""
        self._stack.close()

    @func_test
    def right_udp_checksum(self) -> None:
        """A right checksum passes, whatever the length.

        Steps:
            Send datagrams of even and odd lengths with the checksum they should have.
        Verify:
            All get as far as the session; drop_no_session counts each, drop_checksum none.
        """
        frames = [datagram(self._edge, random.randbytes(n)) for n in (*range(70), 1471, 1472)]
        verify_dropped(self._edge, frames, "port_drop_no_session", "right checksum")

    @func_test
    def zero_udp_checksum(self) -> None:
        """A checksum of zero means that there is none.

        Steps:
            Send datagrams of several lengths with checksum 0.
        Verify:
            All get as far as the session; drop_no_session counts each, drop_checksum none.
        """
        frames = [datagram(self._edge, random.randbytes(n), udp=UDP(sport=DATA_PORT, chksum=0))
                  for n in (0, 1, 40, 41, 500, 1472)]
        verify(all(frame[UDP].chksum == 0 for frame in frames), "the generator filled it in")
        verify_dropped(self._edge, frames, "port_drop_no_session", "checksum 0")

    @func_test
    def all_ones_udp_checksum(self) -> None:
        """A sum that comes out as zero travels as 0xffff.

        Steps:
            Choose payloads whose checksum is computed as 0 and send them with 0xffff.
        Verify:
            All get as far as the session; drop_no_session counts each, drop_checksum none.
        """
        frames = []
        for size in (40, 64, 500):
            body = random.randbytes(size)
            first = Ether(bytes(datagram(self._edge, body + bytes(2))))[UDP].chksum
            # The checksum as two more bytes makes the sum all ones, its complement zero.
            packet = datagram(self._edge, body + first.to_bytes(2, "big"),
                              udp=UDP(sport=DATA_PORT))
            verify(Ether(bytes(packet))[UDP].chksum == 0xffff, "the payload does not sum to 0")
            frames.append(packet)
        verify_dropped(self._edge, frames, "port_drop_no_session", "checksum 0xffff")

    @func_test
    def wrong_udp_checksum(self) -> None:
        """A wrong checksum is noticed.

        Steps:
            Send a datagram with each bit of its UDP checksum flipped, and with random wrong ones.
        Verify:
            No answer; drop_checksum counts each and no other drop counter moves.
        """
        frame = bytes(datagram(self._edge, stranger()))
        right = frame[UDP_SUM_AT:UDP_SUM_AT + 2]
        frames = [flip(frame, UDP_SUM_AT * 8 + bit) for bit in range(16)]
        for _ in range(50):
            wrong = random.randrange(1, 1 << 16).to_bytes(2, "big")
            frames.append(frame[:UDP_SUM_AT] + wrong + frame[UDP_SUM_AT + 2:])
        # Zero is no checksum at all.
        frames = [f for f in frames if f[UDP_SUM_AT:UDP_SUM_AT + 2] not in (right, bytes(2))]
        verify_dropped(self._edge, frames, "port_drop_checksum", "wrong UDP checksum")

    @func_test
    def payload_bit_flips(self) -> None:
        """Each single wrong bit of what the UDP checksum covers is noticed.

        Steps:
            Send a datagram with each bit of source port and payload flipped.
        Verify:
            No answer; drop_checksum counts each and no other drop counter moves.
        """
        frame = bytes(datagram(self._edge, stranger(24)))
        bits = [*range(L4_AT * 8, L4_AT * 8 + 16), *range((L4_AT + 8) * 8, len(frame) * 8)]
        verify_dropped(self._edge, [flip(frame, bit) for bit in bits], "port_drop_checksum",
                       "flipped bit")

    @func_test
    def wrong_ip_checksum(self) -> None:
        """A wrong IP header checksum is noticed.

        Steps:
            Send a datagram with each bit of the IP checksum, of TOS, identification, flags, TTL,
            protocol and addresses flipped.
        Verify:
            No answer; drop_checksum counts each and no other drop counter moves.
        """
        frame = bytes(datagram(self._edge, stranger()))
        covered = [1, *range(4, 20)]
        frames = [flip(frame, (IP_AT + byte) * 8 + bit) for byte in covered for bit in range(8)]
        verify_dropped(self._edge, frames, "port_drop_checksum", "wrong IP checksum")

    @func_test
    def wrong_icmp_checksum(self) -> None:
        """A wrong ICMP checksum is noticed, and a right one still answered.

        Steps:
            Send an echo request with each bit of its ICMP checksum flipped, then as it was.
        Verify:
            No answer to the wrong ones, counted by drop_checksum alone; one answer to the right
            one, counted by icmp_echo and no drop counter.
        """
        packet = echo_request(self._edge, random.randbytes(33))
        frame = bytes(packet)
        verify_dropped(self._edge, [flip(frame, (L4_AT + 2) * 8 + bit) for bit in range(16)],
                       "port_drop_checksum", "wrong ICMP checksum")
        before = self._edge.settled_counters()
        answers = send_and_capture(self._edge, [packet], 1)
        verify(len(answers) == 1, "a right echo request was not answered")
        answer = Ether(answers[0].data)
        verify(ICMP in answer and answer[IP].src == self._edge.ip, "the answer is no echo reply")
        after = self._edge.wait_counter("port_icmp_echo", before["port_icmp_echo"] + 1)
        verify(after["port_icmp_echo"] == before["port_icmp_echo"] + 1, "icmp_echo did not move")
        verify(not moved(before, after), f"drops: {moved(before, after)}")
