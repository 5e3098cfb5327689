# SPDX-License-Identifier: Apache-2.0
"""Packets of strangers.

Nothing that did not authenticate may draw an answer or change state (doc/wire.md sections 1 and 5).
An edge without sessions takes every datagram for a stranger's: silence, and one drop counted."""
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from api.packet import (
    HEADER_BYTES,
    IP,
    TAG_BYTES,
    UDP,
    chunks,
    datagram,
    send_packets,
    strait_header,
    stranger,
    verify_dropped,
)
from api.strait import DATA_PORT, Edge, Master, moved
from api.test import log, verify, write_performance_json
from framework.context import get_ctx
from framework.test_suite import BaseConfig, TestSuite, func_test, perf_test


@dataclass
class MalformedHeadersConfig(BaseConfig):
    """Of this suite."""

    random_packets: int = 500
    perf_packets: int = 50000


class TestMalformedHeaders(TestSuite):
    """Cases: frame_truncated, payload_truncated, every_version_and_type, every_queue,
    flags_and_esi, session_ids, random_payloads, wrong_ports_and_protocols, bad_sources,
    stranger_rate."""

    Config: ClassVar[type[BaseConfig]] = MalformedHeadersConfig
    config: MalformedHeadersConfig

    def set_up_suite(self) -> None:
        """Start a master and the edge under test."""
        self._stack = ExitStack()
        master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(master, get_ctx().sut.name))

    def tear_down_suite(self) -> None:
        """End both."""
        self._stack.close()

    def _strangers(self, payloads: list[bytes], what: str) -> None:
        frames = [datagram(self._edge, p) for p in payloads]
        verify_dropped(self._edge, frames, "port_drop_no_session", what)

    @func_test
    def frame_truncated(self) -> None:
        """A frame that was cut off lies about its length.

        Steps:
            Make a valid-shaped packet. Send it cut at every byte behind the Ethernet header,
            with headers left as they are.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        whole = bytes(datagram(self._edge, stranger(32)))
        verify_dropped(self._edge, [whole[:n] for n in range(14, len(whole))],
                       "port_drop_malformed", "truncated frame")

    @func_test
    def payload_truncated(self) -> None:
        """A datagram that is cut off, but honest about its length, is a stranger's.

        Steps:
            Send a valid-shaped packet cut at every byte of header, body and tag, with IP and UDP
            headers that fit; also nothing at all, and the largest of the MTU.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        whole = stranger(32)
        largest = get_ctx().config.test_run.mtu - 28 - HEADER_BYTES - TAG_BYTES
        payloads = [whole[:n] for n in range(len(whole) + 1)] + [stranger(largest)]
        self._strangers(payloads, "truncated payload")

    @func_test
    def every_version_and_type(self) -> None:
        """No version and no type draws an answer.

        Steps:
            Send valid-shaped packets with each of the 256 first bytes.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        self._strangers([stranger(version=b >> 4, kind=b & 15) for b in range(256)],
                        "version and type")

    @func_test
    def every_queue(self) -> None:
        """No queue draws an answer.

        Steps:
            Send valid-shaped packets to each of the 256 queue numbers.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        self._strangers([stranger(queue=q) for q in range(256)], "queue")

    @func_test
    def flags_and_esi(self) -> None:
        """No flag, ESI, packet number, transfer or block draws an answer.

        Steps:
            Send valid-shaped packets of each type with each flag alone, all flags, ESIs and
            numbers at their ends.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        payloads = [stranger(kind=kind, flags=flags) for kind in (1, 2, 3)
                    for flags in (*(1 << bit for bit in range(8)), 255)]
        payloads += [stranger(esi=esi) for esi in (127, 128, 254, 255)]
        payloads += [stranger(number=n) for n in ((1 << 23) - 1, 1 << 23, (1 << 62) - 1,
                                                  1 << 62, (1 << 64) - 1)]
        payloads += [stranger(transfer=t, block=b) for t in (0, (1 << 32) - 1)
                     for b in (0, (1 << 32) - 1)]
        self._strangers(payloads, "header fields")

    @func_test
    def session_ids(self) -> None:
        """No session id draws an answer.

        Steps:
            Send valid-shaped packets to session 0, to ids of one bit, to the highest and to
            random ones.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        ids = [0, (1 << 32) - 1, *(1 << bit for bit in range(32)),
               *(random.randrange(1 << 32) for _ in range(100))]
        self._strangers([stranger(session=i) for i in ids], "session id")

    @func_test
    def random_payloads(self) -> None:
        """Noise draws no answer.

        Steps:
            Send datagrams of random bytes and random lengths.
        Verify:
            No answer; drop_no_session counts each and no other drop counter moves.
        """
        room = get_ctx().config.test_run.mtu - 28
        self._strangers([random.randbytes(random.randint(0, room))
                         for _ in range(self.config.random_packets)], "noise")

    @func_test
    def wrong_ports_and_protocols(self) -> None:
        """Other ports, protocols and Ethernet types are nobody's.

        Steps:
            Send valid-shaped packets to UDP ports beside the data port, with other IP protocols,
            and frames of other Ethernet types.
        Verify:
            No answer, not even ICMP; drop_protocol counts each and no other drop counter moves.
        """
        payload = stranger()
        frames = [datagram(self._edge, payload, udp=UDP(sport=DATA_PORT, dport=port))
                  for port in (0, 1, 9, 53, DATA_PORT - 1, DATA_PORT + 1, 65535)]
        for protocol in (0, 2, 6, 41, 47, 50, 132, 255):
            packet = datagram(self._edge, payload)
            packet[IP].proto = protocol
            frames.append(packet)
        for kind in (0x0000, 0x05dc, 0x86dd, 0x88cc, 0xffff):
            packet = datagram(self._edge, payload)
            packet.type = kind
            frames.append(packet)
        verify_dropped(self._edge, frames, "port_drop_protocol", "port or protocol")

    @func_test
    def bad_sources(self) -> None:
        """A source that can be nobody's makes the packet a lie.

        Steps:
            Send valid-shaped packets from 0/8, 127/8, multicast, reserved, broadcast and the
            edge's own address.
        Verify:
            No answer; drop_malformed counts each and no other drop counter moves.
        """
        sources = ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.255.255.255",
                   "240.0.0.1", "255.255.255.255", self._edge.ip]
        frames = [datagram(self._edge, stranger(), ip=IP(src=source)) for source in sources]
        verify_dropped(self._edge, frames, "port_drop_malformed", "source address")

    @perf_test
    def stranger_rate(self) -> None:
        """How fast strangers are turned away.

        Steps:
            Send packets of a stranger as fast as the generator can.
        Verify:
            Every packet the device did not miss is counted by drop_no_session and by nothing
            else; the rate goes into performance.json.
        """
        before = self._edge.counters()
        frame = bytes(datagram(self._edge, strait_header() + bytes(TAG_BYTES)))
        start = time.monotonic()
        for chunk in chunks([frame] * self.config.perf_packets, 10000):
            send_packets(self._edge, chunk)
        seconds = time.monotonic() - start
        after = self._edge.settled_counters()
        received = after["port_rx_packets"] - before["port_rx_packets"]
        dropped = after["port_drop_no_session"] - before["port_drop_no_session"]
        log(f"{received} of {self.config.perf_packets} packets in {seconds:.2f} s")
        write_performance_json({"packets_sent": self.config.perf_packets,
                                "packets_received": received, "seconds": round(seconds, 3),
                                "packets_per_second": round(received / seconds)})
        verify(0 < dropped == received, f"{dropped} of {received} received were counted as drops")
        others = set(moved(before, after)) - {"port_drop_no_session", "device_rx_missed"}
        verify(not others, f"{others} moved too")
