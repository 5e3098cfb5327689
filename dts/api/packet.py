# SPDX-License-Identifier: Apache-2.0
"""Packets: making, sending, capturing, and what must have become of them.

Addresses, ports, lengths and checksums are filled in only where a test left them unset."""
import random
from collections.abc import Iterable, Sequence

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from api.strait import DATA_PORT, Counters, Edge, moved, poll_until
from api.test import log_debug, verify
from framework.context import get_ctx
from framework.testbed_model.traffic_generator.scapy import CapturedPacket

# On the edges' prefix and nobody's.
TG_IP = "10.66.0.100"
HEADER_BYTES = 24
# Counters of what an edge sends unasked, and bytes of each frame.
ANNOUNCEMENTS = {"port_arp_requests": 60, "port_nd_requests": 86}
TAG_BYTES = 16

__all__ = ["ARP", "HEADER_BYTES", "ICMP", "IP", "TAG_BYTES", "TG_IP", "UDP", "CapturedPacket",
           "Ether", "Packet", "Raw", "arp_request", "capture", "chunks", "datagram", "echo_request",
           "frame_bytes", "send_and_capture", "send_packets", "strait_header", "stranger",
           "verify_dropped"]


def strait_header(version: int = 1, kind: int = 1, queue: int = 0, flags: int = 0, esi: int = 0,
                  session: int = 0, number: int = 0, transfer: int = 1, block: int = 0) -> bytes:
    """The clear header of doc/wire.md section 3."""
    return (bytes((version << 4 | kind, queue, flags, esi)) + session.to_bytes(4, "big")
            + number.to_bytes(8, "big") + transfer.to_bytes(4, "big") + block.to_bytes(4, "big"))


def stranger(body: int = 64, **header: int) -> bytes:
    """A packet that looks right from outside: header, `body` bytes that nobody sealed, a tag."""
    header.setdefault("session", random.randrange(1, 1 << 32))
    return strait_header(**header) + random.randbytes(body + TAG_BYTES)


def datagram(edge: Edge, payload: bytes, ip: Packet | None = None,
             udp: Packet | None = None) -> Packet:
    """A UDP datagram from the generator to the edge's data port."""
    ip = IP() if ip is None else ip
    udp = UDP(sport=DATA_PORT) if udp is None else udp
    for field, value in (("src", TG_IP), ("dst", edge.ip)):
        if field not in ip.fields:
            setattr(ip, field, value)
    if "dport" not in udp.fields:
        udp.dport = DATA_PORT
    return Ether(src=edge.tg_port.mac, dst=edge.mac) / ip / udp / Raw(payload)


def echo_request(edge: Edge, payload: bytes, sequence: int = 1) -> Packet:
    """An ICMP echo request to the edge."""
    return (Ether(src=edge.tg_port.mac, dst=edge.mac) / IP(src=TG_IP, dst=edge.ip)
            / ICMP(type=8, id=0x5354, seq=sequence) / Raw(payload))


def arp_request(edge: Edge, target: str = "") -> Packet:
    """Who has the edge's address?"""
    mac = edge.tg_port.mac
    return (Ether(src=mac, dst="ff:ff:ff:ff:ff:ff")
            / ARP(op=1, hwsrc=mac, psrc=TG_IP, pdst=target or edge.ip))


def frame_bytes(packet: Packet | bytes) -> bytes:
    """What goes on the wire."""
    return packet if isinstance(packet, bytes) else bytes(packet)


def send_packets(edge: Edge, packets: Iterable[Packet | bytes], gap_us: int = 0) -> list[bytes]:
    """Out of the generator's port that is wired to the edge."""
    frames = [frame_bytes(p) for p in packets]
    get_ctx().tg.send(edge.tg_port.name, frames, gap_us)
    return frames


def capture(edge: Edge) -> list[CapturedPacket]:
    """What the edge sent since the last flush, without its announcements and ARP requests:
    those are no answers."""
    out = []
    for packet in get_ctx().tg.take():
        if packet.port != edge.tg_port.name:
            continue
        ether = Ether(packet.data)
        if ether.src == edge.mac and not is_announcement(ether):
            out.append(packet)
    return out


def is_announcement(ether: Packet) -> bool:
    """What an edge says unasked: ARP requests, neighbor solicitations, its own address to all."""
    if ARP in ether:
        return bool(ether[ARP].op == 1)
    return ICMPv6ND_NS in ether or (ICMPv6ND_NA in ether and ether[IPv6].dst == "ff02::1")


def send_and_capture(edge: Edge, packets: Iterable[Packet | bytes], expected: int,
                     seconds: float = 2) -> list[CapturedPacket]:
    """Send, and collect until `expected` answers came or time is up."""
    get_ctx().tg.flush()
    send_packets(edge, packets)
    got: list[CapturedPacket] = []

    def complete() -> bool:
        got.extend(capture(edge))
        return len(got) >= expected
    poll_until(seconds, complete)
    return got


def verify_dropped(edge: Edge, packets: Iterable[Packet | bytes], counter: str,
                   what: str) -> Counters:
    """Each packet is dropped in silence, and counted once, by `counter` and no other.

    For an edge nobody else talks to: what it received is exactly what was sent here."""
    tg = get_ctx().tg
    # What was sent before may not be in the last report yet.
    before = edge.settled_counters(silent=True)
    tg.flush()
    frames = [frame_bytes(p) for p in packets]
    # Small enough for the rings of af_packet, which drop what does not fit.
    for chunk in chunks(frames, 64):
        send_packets(edge, chunk)
    after = edge.wait_counter("port_rx_packets", before["port_rx_packets"] + len(frames))
    if unasked_left(before, after) != 0:
        # An announcement, counted here and not yet there.
        after = edge.settled_counters(silent=True)
    received = after["port_rx_packets"] - before["port_rx_packets"]
    got = moved(before, after)
    log_debug(f"{what}: {len(frames)} sent, {received} received, moved {got}")
    verify(received == len(frames), f"{what}: {received} of {len(frames)} packets were received")
    verify(got == {counter: len(frames)},
           f"{what}: {counter} should have moved by {len(frames)} and no other, but {got}")
    answers = capture(edge)
    verify(not answers, f"{what}: {len(answers)} packets came back, "
           f"the first {answers[0].data.hex() if answers else ''}")
    sent = unasked_left(before, after)
    given = after["port_rx_bytes"] - before["port_rx_bytes"]
    verify(sent == 0, f"{what}: {sent} bytes went out for {given} that came in")
    return after


def unasked_left(before: Counters, after: Counters) -> int:
    """Bytes sent that were no announcements."""
    return after["port_tx_bytes"] - before["port_tx_bytes"] - sum(
        size * (after[name] - before[name]) for name, size in ANNOUNCEMENTS.items())


def chunks(frames: Sequence[bytes], size: int) -> Iterable[Sequence[bytes]]:
    """In pieces of at most `size`."""
    return (frames[i:i + size] for i in range(0, len(frames), size))
