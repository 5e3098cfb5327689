# SPDX-License-Identifier: Apache-2.0
"""tools/wireshark/strait.lua, on captures of real edges and on the test vectors.

tshark dissects what an edge captured; what it shows must be what the edge was told to send."""
import hashlib
import json
import random
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scapy.utils import PcapNgReader, RawPcapWriter, wrpcap

from api.capabilities import Capability, LinkTopology, requires, requires_link_topology
from api.capture import capture_start, capture_stop, debug_config
from api.packet import IP, UDP, Ether, Raw
from api.strait import DATA_PORT, Edge, Master
from api.test import log, verify
from api.transfer import SYMBOL_BYTES, Batch, move, put_objects
from api.tshark import Packet, dissect
from framework.context import get_ctx
from framework.settings import ROOT_DIR
from framework.test_suite import TestSuite, func_test, no_packets
from wire import frames, keys
from wire.packet import Header

HEADER = ["strait.version", "strait.type", "strait.queue", "strait.flags", "strait.esi",
          "strait.session", "strait.number", "strait.generation", "strait.transfer",
          "strait.block"]
DATA, MANIFEST, CONTROL = "1", "2", "3"
OBJECT_BYTES, OBJECTS = 20000, 3
# Blocks of their own, which at this cap come 70 ms after each other.
LARGE_OBJECTS, LARGE_BYTES = 4, 200000
CAP = "20Mbit"


def write_capture(path: Path, payloads: Iterable[bytes]) -> None:
    """Datagrams with these payloads."""
    wrpcap(str(path), [Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
                       / IP(src="192.0.2.1", dst="192.0.2.2")
                       / UDP(sport=DATA_PORT, dport=DATA_PORT) / Raw(p) for p in payloads])


class Sealer:
    """A session of nobody's, whose keys the dissector gets."""

    def __init__(self, name: str) -> None:
        """Write its key log."""
        secret = random.randbytes(48)
        self.session = random.getrandbits(32) | 2
        self.base = get_ctx().suite_dir / name
        self.keys = self.base.with_suffix(".keys")
        self.keys.write_text(
            f"STRAIT_SESSION_SECRET 00000001{self.session:08x} {secret.hex()}\n", "utf-8")
        self._chain = keys.KeyChain(secret, 0, 0)
        self._next = 0

    def control(self, payload: bytes) -> bytes:
        """An authentic packet."""
        header = Header(int(CONTROL), self.session, self._next).encode()
        self._next += 1
        return self._chain.seal(header, self._next - 1, payload)

    def forged(self, number: int, queue: int = 0) -> bytes:
        """One that only looks like it."""
        header = Header(int(CONTROL), self.session, number, queue=queue)
        return header.encode() + random.randbytes(40)

    def dissect(self, payloads: list[bytes], *fields: str) -> list[Packet]:
        """What the dissector makes of them."""
        path = self.base.with_suffix(".pcap")
        write_capture(path, payloads)
        got = dissect(path, ["_ws.lua.error", *fields], "udp", self.keys)
        verify(len(got) == len(payloads), f"{len(got)} packets of {len(payloads)}")
        for i, one in enumerate(got):
            verify(not one["_ws.lua.error"], f"the dissector failed on packet {i + 1}: {one}")
        return got


def header_of(payload: bytes) -> list[str]:
    """The header as tshark prints it, from the bytes."""
    number = int.from_bytes(payload[8:16], "big")
    return [str(payload[0] >> 4), str(payload[0] & 15), str(payload[1]), f"0x{payload[2]:02x}",
            str(payload[3]), f"0x{payload[4:8].hex()}", str(number), str(number >> 23),
            str(int.from_bytes(payload[16:20], "big")), str(int.from_bytes(payload[20:24], "big"))]


@requires(Capability.TSHARK)
@requires_link_topology(LinkTopology.TWO_LINKS)
class TestDissector(TestSuite):
    """Cases: clear_header, without_keys_nothing_opens, packets_open_with_the_key_log,
    frames_of_a_transfer, object_acks, symbols_are_the_object, wrong_keys_are_told, vectors_open,
    short_and_unknown_packets, malformed_insides, forged_generations_and_queues,
    packets_cut_by_the_capture, key_log_is_private_and_announced."""

    def set_up_suite(self) -> None:
        """Capture a transfer of small objects at an edge that logs its keys, then one of large."""
        ctx = get_ctx()
        self._stack = ExitStack()
        master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(
            Edge(master, ctx.sut.name, cap=CAP, debug=debug_config(ctx.sut.name, key_log=True)))
        peer = self._stack.enter_context(Edge(master, ctx.config.test_run.peer_node))
        self._capture = capture_start(self._edge, "transfer.pcapng")
        self._batch: Batch = put_objects(self._edge, OBJECTS, OBJECT_BYTES)
        move(master, self._batch, self._edge, peer)
        capture_stop(self._edge)
        self._large = capture_start(self._edge, "large.pcapng")
        move(master, put_objects(self._edge, LARGE_OBJECTS, LARGE_BYTES), self._edge, peer)
        capture_stop(self._edge)
        self._keys = self._edge.key_log

    def tear_down_suite(self) -> None:
        """End everything."""
        self._stack.close()

    def _payloads(self) -> list[bytes]:
        out = []
        with PcapNgReader(str(self._capture)) as reader:
            for packet in reader:
                ether = Ether(bytes(packet))
                if UDP in ether:
                    out.append(bytes(ether[UDP].payload)[:ether[UDP].len - 8])
        return out

    def _opened(self, *fields: str, where: str = "strait") -> list[Packet]:
        return dissect(self._capture, ["strait.type", "strait.opened", *fields], where, self._keys)

    @no_packets
    @func_test
    def clear_header(self) -> None:
        """Header fields without keys.

        Steps:
            Dissect the capture without a key log.
        Verify:
            Every datagram of the capture is Strait's, with each field of the header as in its
            bytes, and the derived generation.
        """
        packets = dissect(self._capture, HEADER)
        payloads = self._payloads()
        verify(len(payloads) > 40, f"only {len(payloads)} datagrams in the capture")
        verify(len(packets) == len(payloads), f"{len(packets)} of {len(payloads)} dissected")
        for packet, payload in zip(packets, payloads, strict=True):
            got = [(packet[name] or [""])[0] for name in HEADER]
            verify(got == header_of(payload), f"{got}, but the packet has {header_of(payload)}")

    @no_packets
    @func_test
    def without_keys_nothing_opens(self) -> None:
        """No keys, no inside.

        Steps:
            Dissect the capture without a key log.
        Verify:
            No packet has frames or symbols, none is called forged.
        """
        packets = dissect(self._capture, ["strait.frame", "strait.symbol", "strait.opened",
                                          "strait.auth"])
        verify(not any(any(p.values()) for p in packets), "something was opened without keys")

    @no_packets
    @func_test
    def packets_open_with_the_key_log(self) -> None:
        """All packets of the session open, both directions.

        Steps:
            Dissect the capture with the edge's key log.
        Verify:
            Every packet is opened, DATA, MANIFEST and CONTROL among them, from both edges.
        """
        packets = self._opened("ip.src")
        bad = [p for p in packets if p["strait.opened"] not in (["1"], ["True"])]
        verify(not bad, f"{len(bad)} of {len(packets)} packets did not open")
        verify({p["strait.type"][0] for p in packets} == {DATA, MANIFEST, CONTROL},
               "a type is missing")
        verify(len({p["ip.src"][0] for p in packets}) == 2, "only one direction was seen")

    @no_packets
    @func_test
    def frames_of_a_transfer(self) -> None:
        """Control frames say what the transfer was.

        Steps:
            Dissect the capture with the key log; look at OPEN, REPORT, OBJECT, CLOSE.
        Verify:
            OPEN has the objects' number, stream bytes and symbol size; OBJECT says COMMITTED for
            each; reports speak of packets that were sent; OPEN_ACK, CLOSE, CLOSE_ACK, CHALLENGE
            and RESPONSE are there; no frame is malformed.
        """
        opens = self._opened("strait.open.objects", "strait.open.stream_bytes",
                             "strait.open.symbol_bytes", where="strait.frame == 1")
        verify(len(opens) > 0, "no OPEN")
        for p in opens:
            got = [p[f"strait.open.{n}"][0] for n in ("objects", "stream_bytes", "symbol_bytes")]
            verify(got == [str(OBJECTS), str(OBJECTS * OBJECT_BYTES), str(SYMBOL_BYTES)],
                   f"OPEN has {got}")
        objects = self._opened("strait.object", "strait.status", where="strait.frame == 7")
        done = {(o, s) for p in objects for o, s in zip(p["strait.object"], p["strait.status"],
                                                        strict=False)}
        verify({(str(i), "1") for i in range(OBJECTS)} <= done, f"OBJECT frames say {done}")
        numbers = {int(p["strait.number"][0]) for p in self._opened(
            "strait.number", where=f"ip.src == {self._edge.ip}")}
        reports = self._opened("strait.report.base",
                               where=f"strait.frame == 3 && ip.dst == {self._edge.ip}")
        verify(len(reports) > 0, "no REPORT")
        for p in reports:
            verify(int(p["strait.report.base"][0]) in numbers, "a report of unsent packets")
        kinds = {k for p in self._opened("strait.frame") for k in p["strait.frame"]}
        verify({"1", "2", "3", "7", "10", "11", "12", "13"} <= kinds, f"frames seen: {kinds}")
        verify(not self._opened(where="strait.malformed"), "malformed frames")

    @no_packets
    @func_test
    def object_acks(self) -> None:
        """OBJECT in the middle of a transfer is answered by OBJECT_ACK. (CLOSE answers the last.)

        Steps:
            Dissect a capture of a transfer whose objects end 70 ms after each other.
        Verify:
            There are OBJECT_ACK frames, only from the sender, whose positions never fall, at
            least one before the last object and none beyond it.
        """
        acks = dissect(self._large, ["ip.src", "strait.object.next"],
                       "strait.object.next", self._keys)
        verify({p["ip.src"][0] for p in acks} == {self._edge.ip}, f"{len(acks)} OBJECT_ACK")
        positions = [int(n) for p in acks for n in p["strait.object.next"]]
        verify(positions == sorted(positions), f"positions {positions}")
        verify(0 < positions[0] < LARGE_OBJECTS and positions[-1] <= LARGE_OBJECTS,
               f"positions {positions} of {LARGE_OBJECTS} objects")

    @no_packets
    @func_test
    def symbols_are_the_object(self) -> None:
        """What opens is the bytes that were sent.

        Steps:
            Dissect the capture with the key log and put the source symbols of block 0 together.
        Verify:
            They are the three objects as they are in the pool's manifest, end to end: length and
            the digest of each match.
        """
        packets = self._opened("strait.symbol", "strait.esi", "strait.block",
                               where="strait.type == 1")
        source = -(-OBJECTS * OBJECT_BYTES // SYMBOL_BYTES)
        symbols = {int(p["strait.esi"][0]): bytes.fromhex(p["strait.symbol"][0])
                   for p in packets if int(p["strait.esi"][0]) < source}
        stream = b"".join(symbols[i] for i in range(source) if i in symbols)
        verify(len(stream) == OBJECTS * OBJECT_BYTES, f"{len(stream)} bytes of the stream opened")
        wanted = [line.split(" ", 2)[0]
                  for line in self._batch.manifest.read_text("utf-8").splitlines()]
        got = [hashlib.sha256(stream[i * OBJECT_BYTES:(i + 1) * OBJECT_BYTES]).hexdigest()
               for i in range(OBJECTS)]
        verify(got == wanted, "the opened bytes are not the objects")

    @no_packets
    @func_test
    def wrong_keys_are_told(self) -> None:
        """Other keys open nothing and are told.

        Steps:
            Dissect the capture with a key log whose secrets have one bit flipped, with one that
            has the two ids exchanged, and with one that is rubbish.
        Verify:
            Nothing opens: with the first two every packet is marked strait.auth, with the third
            none has keys.
        """
        ctx = get_ctx()
        lines = [line.split() for line in self._keys.read_text("utf-8").splitlines()]
        flipped = [[a, ids, f"{int(secret[0], 16) ^ 1:x}" + secret[1:]]
                   for a, ids, secret in lines]
        swapped = [[a, ids[8:] + ids[:8], secret] for a, ids, secret in lines]
        for name, content in (("flipped", flipped), ("swapped", swapped)):
            path = ctx.suite_dir / f"keys-{name}"
            path.write_text("".join(" ".join(line) + "\n" for line in content), "utf-8")
            packets = dissect(self._capture, ["strait.symbol", "strait.frame", "strait.auth",
                                              "strait.number"], "strait", path)
            inside = [p for p in packets if p["strait.symbol"] or p["strait.frame"]]
            verify(not inside, f"{name} keys opened {len(inside)} packets")
            silent = [p for p in packets if not p["strait.auth"]]
            verify(not silent, f"{len(silent)} of {len(packets)} are not marked with {name} keys")
        path = ctx.suite_dir / "keys-rubbish"
        path.write_bytes(b"STRAIT_SESSION_SECRET 12 34\n\xff\xfe\0\nCLIENT_RANDOM 00 00\n" * 10)
        packets = dissect(self._capture, ["strait.opened", "strait.auth"], "strait", path)
        verify(len(packets) > 0 and not any(any(p.values()) for p in packets), "rubbish opened")

    @no_packets
    @func_test
    def vectors_open(self) -> None:
        """The dissector's ciphers against the test vectors, generations above 0 among them.

        Steps:
            Make datagrams and a key log of the packets in tests/vectors/wire.json, dissect them.
        Verify:
            Each opens to the plaintext of its vector.
        """
        vectors = json.loads((ROOT_DIR / "tests/vectors/wire.json").read_text("utf-8"))["packet"]
        for i, vector in enumerate(vectors):
            self._check_vector(get_ctx().suite_dir / f"vector-{i}", vector)
        log(f"{len(vectors)} vectors")

    @staticmethod
    def _check_vector(base: Path, vector: dict[str, Any]) -> None:
        payload = bytes.fromhex(vector["packet"])
        ids = f"{vector['session']:08x}"
        other = "00000001" if ids != "00000001" else "00000002"
        ids = other + ids if vector["direction"] == 0 else ids + other
        keys, capture = base.with_suffix(".keys"), base.with_suffix(".pcap")
        keys.write_text(f"STRAIT_SESSION_SECRET {ids} {vector['secret']}\n", "utf-8")
        write_capture(capture, [payload])
        got = dissect(capture, ["strait.opened", "strait.symbol", "strait.auth", "data.data"],
                      "strait", keys)[0]
        verify(got["strait.opened"] in (["1"], ["True"]), f"{vector['what']} does not open")
        if vector["type"] != int(CONTROL) and vector["plaintext"]:
            verify(got["strait.symbol"] == [vector["plaintext"]],
                   f"{vector['what']}: opened to other bytes")

    @no_packets
    @func_test
    def short_and_unknown_packets(self) -> None:
        """What is no packet of this version is said to be none.

        Steps:
            Dissect datagrams of every length below 40, and of every version and type.
        Verify:
            Short ones are marked strait.short, unknown versions and types strait.unknown, and
            the dissector fails on none.
        """
        real = self._payloads()[0]
        payloads = [real[:n] for n in range(1, 40)]
        payloads += [bytes((first,)) + real[1:] for first in range(256)]
        capture = get_ctx().suite_dir / "odd.pcap"
        write_capture(capture, payloads)
        got = dissect(capture, ["strait.short", "strait.unknown", "_ws.lua.error"], "udp")
        verify(len(got) == len(payloads), f"{len(got)} packets of {len(payloads)}")
        known = [0x11, 0x12, 0x13]
        for payload, packet in zip(payloads, got, strict=True):
            verify(bool(packet["strait.short"]) == (len(payload) < 40),
                   f"{len(payload)} bytes: {packet}")
            unknown = len(payload) >= 40 and payload[0] not in known
            verify(bool(packet["strait.unknown"]) == unknown, f"byte {payload[0]:#x}: {packet}")
            verify(not packet["_ws.lua.error"], f"the dissector failed: {packet}")

    @no_packets
    @func_test
    def malformed_insides(self) -> None:
        """Authentic packets whose frames cannot be.

        Steps:
            Seal each frame of the vectors whole, with its body cut at every byte, one byte too
            long, and in packets that end at every byte of it; the frames that an edge must refuse;
            and random ones. Dissect them with their key.
        Verify:
            Whole frames are not marked, all others but the random ones are marked
            strait.malformed, and the dissector fails on none.
        """
        vectors = json.loads((ROOT_DIR / "tests/vectors/wire.json").read_text("utf-8"))
        good, bad = [], [bytes.fromhex(v["bytes"]) for v in vectors["refused_frame"]]
        for vector in vectors["frame"]:
            whole = bytes.fromhex(vector["bytes"])
            kind, body = whole[0], whole[3:]
            good.append(whole)
            bad += [whole[:n] for n in range(1, len(whole))]
            # Padding may have any length.
            sized = [] if vector["frame"] == "PADDING" else [*range(len(body)), len(body) + 1]
            bad += [frames.raw(kind, (body + b"\0")[:n]) for n in sized]
        noise = [frames.raw(random.randrange(20), random.randbytes(random.randrange(80)))
                 for _ in range(100)]
        sealer = Sealer("malformed")
        got = sealer.dissect([sealer.control(p) for p in good + bad + noise],
                             "strait.malformed", "strait.opened")
        for payload, one in zip(good + bad, got, strict=False):
            verify(bool(one["strait.opened"]), f"{payload.hex()} does not open")
            verify(bool(one["strait.malformed"]) == (payload not in good),
                   f"{payload.hex()}: {one}")
        log(f"{len(good)} good, {len(bad)} malformed, {len(noise)} random")

    @no_packets
    @func_test
    def forged_generations_and_queues(self) -> None:
        """A header costs an attacker nothing, and must not cost the reader minutes.

        Steps:
            Dissect forged packets of every queue byte, and of generations near and far, up to the
            last of 64 bits, between authentic ones.
        Verify:
            Forged ones are marked strait.auth, authentic ones open, within half a minute.
        """
        sealer = Sealer("far")
        forged = [sealer.forged(5, queue) for queue in range(256)]
        forged += [sealer.forged((gen << keys.GENERATION_SHIFT) + 7)
                   for gen in (1, 2, 3, 5000, 99999, 1 << 20, (1 << 41) - 1)]
        payloads = []
        for one in forged:
            payloads += [one, sealer.control(b"")]
        start = time.monotonic()
        got = sealer.dissect(payloads, "strait.auth", "strait.opened")
        took = time.monotonic() - start
        log(f"{len(payloads)} packets in {took:.1f} s")
        for i, seen in enumerate(got):
            verify(bool(seen["strait.auth"]) == (i % 2 == 0), f"packet {i}: {seen}")
        verify(took < 30, f"it took {took:.0f} s")

    @no_packets
    @func_test
    def packets_cut_by_the_capture(self) -> None:
        """What capture start --snaplen leaves of a packet.

        Steps:
            Dissect the capture, its frames cut to 60, 66 and 100 bytes, with the key log.
        Verify:
            Cut packets are marked strait.cut, not strait.short, strait.auth or as malformed; from
            24 bytes of payload on the header is there.
        """
        ctx = get_ctx()
        marks = ["strait.cut", "strait.short", "strait.auth", "_ws.malformed", "strait.number"]
        payloads = self._payloads()
        for kept in (60, 66, 100):
            path = ctx.suite_dir / f"cut-{kept}.pcap"
            with PcapNgReader(str(self._capture)) as reader, RawPcapWriter(
                    str(path), linktype=1, snaplen=kept) as writer:
                writer.write_header(None)
                for data in map(bytes, reader):
                    if UDP in Ether(data):
                        writer.write_packet(data[:kept], caplen=len(data[:kept]),
                                            wirelen=len(data))
            got = dissect(path, marks, "udp", self._keys)
            verify(len(got) == len(payloads), f"{len(got)} packets of {len(payloads)}")
            for payload, seen in zip(payloads, got, strict=True):
                cut = 42 + len(payload) > kept
                verify(bool(seen["strait.cut"]) == cut, f"{len(payload)} bytes: {seen}")
                wrong = [m for m in marks[1:4] if seen[m]]
                verify(not wrong, f"{len(payload)} bytes, {kept} kept: {wrong}")
                verify(bool(seen["strait.number"]) == (kept >= 66), f"{kept} kept: {seen}")

    @no_packets
    @func_test
    def key_log_is_private_and_announced(self) -> None:
        """The key log is not written in silence, nor for others.

        Steps:
            Look at the file, and at the log of the edge that writes it and of the one that does
            not.
        Verify:
            Mode 0600; a warning in the one log; nothing of keys in the other and no file.
        """
        mode = self._keys.stat().st_mode & 0o7777
        verify(mode == 0o600, f"mode {mode:o}")
        directory = get_ctx().suite_dir
        peer = get_ctx().config.test_run.peer_node
        loud = (directory / f"edge-{self._edge.node}/err").read_text("utf-8")
        verify("KEYS OF ALL SESSIONS ARE WRITTEN" in loud, "no warning in the log")
        quiet = (directory / f"edge-{peer}/err").read_text("utf-8")
        verify("KEYS" not in quiet, "a warning for nothing")
        verify(not (directory / f"edge-{peer}/keys").exists(), "keys were written unasked")
