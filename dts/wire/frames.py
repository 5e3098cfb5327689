# SPDX-License-Identifier: Apache-2.0
"""Control frames: doc/wire.md section 10.

encode() looks at no limits, so that a test can say what must not be said; decode() looks at all of
them and raises Malformed."""
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Protocol

MAX_VARINT = (1 << 62) - 1
MAX_BLOCK = (1 << 32) - 1
MAX_OBJECTS = 65536
CLOCK_END = 1 << 52
MAX_MANIFEST = 1 << 25


class Status(IntEnum):
    """Section 10.1."""

    PENDING = 0
    COMMITTED = 1
    EXISTS = 2
    FULL = 3
    EVICTED = 4
    NOT_FOUND = 5
    DIGEST = 6
    TOO_LARGE = 7
    CANCELED = 8
    DEADLINE = 9
    UNREACHABLE = 10
    REFUSED = 11
    BUSY = 12
    MALFORMED = 13
    INTERNAL = 14
    SKIPPED = 15
    RESET = 16


class Malformed(ValueError):
    """A frame that must not be."""


def encode_varint(value: int, size: int = 0) -> bytes:
    """RFC 9000 section 16; in `size` bytes instead of the fewest."""
    for log in range(4):
        if value < 1 << (8 << log) - 2 and (not size or size == 1 << log):
            return (value | log << (8 << log) - 2).to_bytes(1 << log, "big")
    raise ValueError(f"{value} is no varint")


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Value, and where it ends."""
    if at >= len(data):
        raise Malformed("the body ends in a varint")
    size = 1 << (data[at] >> 6)
    if at + size > len(data):
        raise Malformed("the body ends in a varint")
    return int.from_bytes(data[at:at + size], "big") & (1 << 8 * size - 2) - 1, at + size


def raw(kind: int, body: bytes, length: int | None = None) -> bytes:
    """Any frame at all."""
    return struct.pack(">BH", kind, len(body) if length is None else length) + body


def _count(count: int) -> bytes:
    return encode_varint(count, 2)


def _pairs(body: bytes, at: int) -> list[tuple[int, int]]:
    """count, then that many pairs of varints, then nothing."""
    count, at = decode_varint(body, at)
    if count * 2 > len(body) - at:
        raise Malformed("more entries than the body holds")
    out = []
    for _ in range(count):
        one, at = decode_varint(body, at)
        two, at = decode_varint(body, at)
        out.append((one, two))
    if at != len(body):
        raise Malformed("bytes behind the last entry")
    return out


def _statuses(body: bytes, at: int) -> list[tuple[int, int]]:
    """count, then that many { object varint, status 8 }, then nothing."""
    count, at = decode_varint(body, at)
    out = []
    for _ in range(count):
        number, at = decode_varint(body, at)
        if number >= MAX_OBJECTS:
            raise Malformed(f"object {number}")
        if at >= len(body):
            raise Malformed("more entries than the body holds")
        if body[at] == Status.PENDING:
            raise Malformed("PENDING is no final status")
        out.append((number, body[at]))
        at += 1
    if at != len(body):
        raise Malformed("bytes behind the last entry")
    return out


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise Malformed(what)


class Frame(Protocol):
    """What all frames have."""

    kind: ClassVar[int]

    def encode(self) -> bytes:
        """Type, length and body."""


@dataclass
class Open:
    """The sender opens a transfer."""

    kind: ClassVar[int] = 1
    layout: ClassVar[struct.Struct] = struct.Struct(">IQQIIHBBIQ")
    transfer: int
    order: int
    stream_bytes: int
    manifest_bytes: int
    objects: int
    symbol_bytes: int
    priority: int = 1
    report_interval_us: int = 0
    deadline_ms: int = 0
    reserved: int = 0

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, self.layout.pack(
            self.transfer, self.order, self.stream_bytes, self.manifest_bytes, self.objects,
            self.symbol_bytes, self.priority, self.reserved, self.report_interval_us,
            self.deadline_ms))

    @classmethod
    def decode(cls, body: bytes) -> "Open":
        """From the body."""
        _need(len(body) == cls.layout.size, "length of OPEN")
        (transfer, order, stream, manifest, objects, symbol, priority, reserved, interval,
         deadline) = cls.layout.unpack(body)
        _need(transfer >= 1, "transfer 0")
        _need(1 <= objects <= MAX_OBJECTS, "objects")
        _need(objects <= stream <= objects << 26, "stream bytes")
        _need(objects * 21 <= manifest <= min(objects * 1108, MAX_MANIFEST), "manifest bytes")
        _need(512 <= symbol <= 8932, "symbol bytes")
        _need(priority <= 2, "class")
        return cls(transfer, order, stream, manifest, objects, symbol, priority, interval,
                   deadline, reserved)


@dataclass
class OpenAck:
    """The receiver accepts (PENDING) or refuses."""

    kind: ClassVar[int] = 2
    transfer: int
    status: int = Status.PENDING

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">IB", self.transfer, self.status))

    @classmethod
    def decode(cls, body: bytes) -> "OpenAck":
        """From the body."""
        _need(len(body) == 5, "length of OPEN_ACK")
        return cls(*struct.unpack(">IB", body))


@dataclass
class Report:
    """What came: ranges are (first, last), from the newest down."""

    kind: ClassVar[int] = 3
    queue: int
    newest: int
    newest_us: int
    delay_us: int
    base: int
    ranges: list[tuple[int, int]] = field(default_factory=list)
    missing_at_end: int = 0

    def encode(self) -> bytes:
        """Type, length and body."""
        body = struct.pack(">BBQQIQ", self.queue, 0, self.newest, self.newest_us, self.delay_us,
                           self.base) + _count(len(self.ranges))
        for i, (first, last) in enumerate(self.ranges):
            if i + 1 < len(self.ranges):
                missing = first - self.ranges[i + 1][1] - 1
            else:
                missing = self.missing_at_end
            body += encode_varint(last - first) + encode_varint(missing)
        return raw(self.kind, body)

    @classmethod
    def decode(cls, body: bytes) -> "Report":
        """From the body."""
        _need(len(body) > 30, "length of REPORT")
        queue, _, newest, newest_us, delay, base = struct.unpack_from(">BBQQIQ", body)
        _need(newest <= MAX_VARINT, "newest")
        _need(newest_us < CLOCK_END, "receive time")
        _need(base <= newest, "base above newest")
        ranges = []
        missing, at = 0, base
        for received, missing in _pairs(body, 30):
            first = at - received
            _need(first - missing >= 0, "ranges below packet number 0")
            ranges.append((first, at))
            at = first - missing - 1
        return cls(queue, newest, newest_us, delay, base, ranges, missing)


@dataclass
class Have:
    """Complete blocks: all below the floor, and runs (first, length) above."""

    kind: ClassVar[int] = 4
    transfer: int
    stream: int
    floor: int
    runs: list[tuple[int, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Type, length and body."""
        body = struct.pack(">IBI", self.transfer, self.stream, self.floor) + _count(len(self.runs))
        at = self.floor
        for first, length in self.runs:
            body += encode_varint(first - at) + encode_varint(length)
            at = first + length
        return raw(self.kind, body)

    @classmethod
    def decode(cls, body: bytes) -> "Have":
        """From the body."""
        _need(len(body) > 9, "length of HAVE")
        transfer, stream, floor = struct.unpack_from(">IBI", body)
        _need(stream <= 1, "stream")
        runs = []
        at = floor
        for gap, run in _pairs(body, 9):
            _need(gap >= 1 and run >= 1, "empty gap or run")
            _need(at + gap + run - 1 <= MAX_BLOCK, "block above 2^32 - 1")
            runs.append((at + gap, run))
            at += gap + run
        return cls(transfer, stream, floor, runs)

    def has(self, block: int) -> bool:
        """Does it say that the block is complete?"""
        return block < self.floor or any(f <= block < f + n for f, n in self.runs)


@dataclass
class Need:
    """Blocks (number, missing symbols) that somebody waits for."""

    kind: ClassVar[int] = 5
    transfer: int
    stream: int
    newest: int
    blocks: list[tuple[int, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Type, length and body."""
        body = struct.pack(">IBQ", self.transfer, self.stream, self.newest)
        body += _count(len(self.blocks))
        at = 0
        for block, missing in self.blocks:
            body += encode_varint(block - at) + encode_varint(missing)
            at = block
        return raw(self.kind, body)

    @classmethod
    def decode(cls, body: bytes) -> "Need":
        """From the body."""
        _need(len(body) > 13, "length of NEED")
        transfer, stream, newest = struct.unpack_from(">IBQ", body)
        _need(stream <= 1, "stream")
        _need(newest <= MAX_VARINT, "newest")
        blocks: list[tuple[int, int]] = []
        for step, missing in _pairs(body, 13):
            _need(not blocks or step >= 1, "a block twice")
            block = step + (blocks[-1][0] if blocks else 0)
            _need(block <= MAX_BLOCK, "block above 2^32 - 1")
            _need(1 <= missing <= 128, "missing symbols")
            blocks.append((block, missing))
        return cls(transfer, stream, newest, blocks)


@dataclass
class Credit:
    """How far the sender may go, since the session began."""

    kind: ClassVar[int] = 6
    priority: int
    bytes_limit: int
    objects_limit: int

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">BQQ", self.priority, self.bytes_limit,
                                          self.objects_limit))

    @classmethod
    def decode(cls, body: bytes) -> "Credit":
        """From the body."""
        _need(len(body) == 17, "length of CREDIT")
        out = cls(*struct.unpack(">BQQ", body))
        _need(out.priority <= 2, "class")
        return out


@dataclass
class Object:
    """A stretch of the log of final statuses, (object, status), from position first."""

    kind: ClassVar[int] = 7
    transfer: int
    first: int
    entries: list[tuple[int, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Type, length and body."""
        body = struct.pack(">II", self.transfer, self.first) + _count(len(self.entries))
        return raw(self.kind, body + b"".join(encode_varint(n) + bytes((s,))
                                              for n, s in self.entries))

    @classmethod
    def decode(cls, body: bytes) -> "Object":
        """From the body."""
        _need(len(body) > 8, "length of OBJECT")
        transfer, first = struct.unpack_from(">II", body)
        entries = _statuses(body, 8)
        _need(first + len(entries) <= MAX_BLOCK, "position above 32 bits")
        return cls(transfer, first, entries)


@dataclass
class ObjectAck:
    """All positions of the log below next are known."""

    kind: ClassVar[int] = 8
    transfer: int
    next: int

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">II", self.transfer, self.next))

    @classmethod
    def decode(cls, body: bytes) -> "ObjectAck":
        """From the body."""
        _need(len(body) == 8, "length of OBJECT_ACK")
        return cls(*struct.unpack(">II", body))


@dataclass
class Withdraw:
    """The sender cannot ship these, (object, status)."""

    kind: ClassVar[int] = 9
    transfer: int
    entries: list[tuple[int, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Type, length and body."""
        body = struct.pack(">I", self.transfer) + _count(len(self.entries))
        return raw(self.kind, body + b"".join(encode_varint(n) + bytes((s,))
                                              for n, s in self.entries))

    @classmethod
    def decode(cls, body: bytes) -> "Withdraw":
        """From the body."""
        _need(len(body) > 4, "length of WITHDRAW")
        entries = _statuses(body, 4)
        _need(all(s not in (Status.COMMITTED, Status.EXISTS) for _, s in entries),
              "nobody withdraws what was committed")
        return cls(int.from_bytes(body[:4], "big"), entries)


@dataclass
class Close:
    """The sender is done with the transfer."""

    kind: ClassVar[int] = 10
    transfer: int
    status: int = Status.COMMITTED

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">IB", self.transfer, self.status))

    @classmethod
    def decode(cls, body: bytes) -> "Close":
        """From the body."""
        _need(len(body) == 5, "length of CLOSE")
        return cls(*struct.unpack(">IB", body))


@dataclass
class CloseAck:
    """The receiver, too."""

    kind: ClassVar[int] = 11
    transfer: int

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">I", self.transfer))

    @classmethod
    def decode(cls, body: bytes) -> "CloseAck":
        """From the body."""
        _need(len(body) == 4, "length of CLOSE_ACK")
        return cls(int.from_bytes(body, "big"))


@dataclass
class Challenge:
    """Is the peer where it says it is?"""

    kind: ClassVar[int] = 12
    token: bytes

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, self.token)

    @classmethod
    def decode(cls, body: bytes) -> "Challenge":
        """From the body."""
        _need(len(body) == 8, "length of CHALLENGE")
        return cls(body)


@dataclass
class Response:
    """The same token."""

    kind: ClassVar[int] = 13
    token: bytes

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, self.token)

    @classmethod
    def decode(cls, body: bytes) -> "Response":
        """From the body."""
        _need(len(body) == 8, "length of RESPONSE")
        return cls(body)


@dataclass
class Ping:
    """Report at once."""

    kind: ClassVar[int] = 14
    report_interval_us: int = 0

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">I", self.report_interval_us))

    @classmethod
    def decode(cls, body: bytes) -> "Ping":
        """From the body."""
        _need(len(body) == 4, "length of PING")
        return cls(int.from_bytes(body, "big"))


@dataclass
class Recall:
    """Tell of all packet numbers from this one on."""

    kind: ClassVar[int] = 16
    number: int

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, struct.pack(">Q", self.number))

    @classmethod
    def decode(cls, body: bytes) -> "Recall":
        """From the body."""
        _need(len(body) == 8, "length of RECALL")
        return cls(int.from_bytes(body, "big"))


@dataclass
class Padding:
    """Brings a packet to a size."""

    kind: ClassVar[int] = 15
    size: int

    def encode(self) -> bytes:
        """Type, length and body."""
        return raw(self.kind, bytes(self.size))

    @classmethod
    def decode(cls, body: bytes) -> "Padding":
        """From the body, whatever it holds."""
        return cls(len(body))


Any = (Open | OpenAck | Report | Have | Need | Credit | Object | ObjectAck | Withdraw | Close
       | CloseAck | Challenge | Response | Ping | Padding | Recall)
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    cls.kind: cls.decode for cls in (
        Open, OpenAck, Report, Have, Need, Credit, Object, ObjectAck, Withdraw, Close, CloseAck,
        Challenge, Response, Ping, Padding, Recall)}


def decode(payload: bytes) -> Iterator[Any]:
    """The frames of a control packet that are known; Malformed ends them."""
    at = 0
    while at < len(payload):
        if at + 3 > len(payload):
            raise Malformed("the packet ends in a frame's head")
        kind, size = struct.unpack_from(">BH", payload, at)
        at += 3
        if at + size > len(payload):
            raise Malformed("the packet ends in a frame's body")
        if kind in _DECODERS:
            yield _DECODERS[kind](payload[at:at + size])
        at += size
