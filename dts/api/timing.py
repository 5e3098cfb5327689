# SPDX-License-Identifier: Apache-2.0
"""What a sender did on the line, from the generator's timestamps.

Bytes are line bytes: a frame and the 24 bytes that Ethernet adds (preamble, checksum, gap), which
is how caps are counted (doc/wire.md section 12.5)."""
import time
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType

from api.strait import DATA_PORT, Edge
from framework.testbed_model.traffic_generator.scapy import CapturedPacket

ETHERNET_EXTRA = 24
# Enough of a frame for everything in clear.
KEEP_BYTES = 66


def sent_by(edge: Edge, packets: Sequence[CapturedPacket]) -> list[CapturedPacket]:
    """Datagrams of the data path that the edge sent, in order of time."""
    return sorted((p for p in packets if p.port == edge.tg_port.name and is_data_path(p.data)),
                  key=lambda p: p.time)


def is_data_path(frame: bytes) -> bool:
    """IPv4, UDP, from the port of Strait."""
    return (len(frame) >= KEEP_BYTES and frame[12:14] == b"\x08\x00" and frame[23] == 17
            and int.from_bytes(frame[34:36], "big") == DATA_PORT)


def number_of(packet: CapturedPacket) -> bytes:
    """What no two packets share: session id and packet number, as they are in the header."""
    return packet.data[46:58]


def line_bytes(packet: CapturedPacket) -> int:
    """What it took of the line."""
    return max(packet.size, 60) + ETHERNET_EXTRA


def most_in_window(packets: Sequence[CapturedPacket], seconds: float) -> int:
    """The most line bytes in any window of this length, wherever it starts."""
    window: deque[CapturedPacket] = deque()
    total = most = 0
    for packet in packets:
        window.append(packet)
        total += line_bytes(packet)
        while packet.time - window[0].time > seconds:
            total -= line_bytes(window.popleft())
        most = max(most, total)
    return most


def bucket_levels(packets: Sequence[CapturedPacket], bps: float) -> list[float]:
    """How full, in bytes, a bucket that leaks at this rate is after each packet: a sender that
    keeps to rate and burst keeps it below the burst, over every window of any length."""
    levels = []
    level, last = 0.0, packets[0].time if packets else 0.0
    for packet in packets:
        level = max(0.0, level - (packet.time - last) * bps / 8) + line_bytes(packet)
        last = packet.time
        levels.append(level)
    return levels


def rate_bps(packets: Sequence[CapturedPacket]) -> float:
    """Line bits a second from the first packet to the last."""
    span = packets[-1].time - packets[0].time
    return sum(line_bytes(p) for p in packets[1:]) * 8 / span if span > 0 else 0.0


def longest_gap(packets: Sequence[CapturedPacket]) -> float:
    """Seconds of the longest silence between two packets."""
    return max((b.time - a.time for a, b in pairwise(packets)), default=0.0)


class Starved:
    """Whether the machine took the CPU from edges: inside the with block, the share of the time in
    which one of their threads was ready to run and none of the CPUs was free for it."""

    def __init__(self, *edges: Edge) -> None:
        """Of these edges, the worst of them counts."""
        self._edges = edges
        self.share = 0.0

    def __enter__(self) -> "Starved":
        """From here on."""
        self._begin = time.monotonic()
        self._before = [edge.waited_for_cpu() for edge in self._edges]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Up to here."""
        span = time.monotonic() - self._begin
        waited = [edge.waited_for_cpu() - was
                  for edge, was in zip(self._edges, self._before, strict=True)]
        self.share = max(waited) / span

    def excuses(self) -> bool:
        """Too much for times to mean anything: a twentieth."""
        return self.share > 0.05
