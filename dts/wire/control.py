# SPDX-License-Identifier: Apache-2.0
"""Messages of the management connection: doc/wire.md section 2 and control/rpc/strait.proto.

The protobuf encoding is written out here: four messages need forty lines, and nothing generated
from the same file as the C side's code stands between a test and the bytes. Fields nobody asks for
are kept, so an unknown field is no error."""
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

Value = int | bytes


class MsgType(IntEnum):
    """Of strait.proto."""

    ERROR = 1
    PING = 2
    PONG = 3
    EDGE_REGISTER = 16
    EDGE_ACCEPT = 17
    ORDER_START = 18
    ORDER_ACCEPT = 19
    EDGE_REPORT = 23
    SESSION_HELLO = 32
    SESSION_ACCEPT = 33
    SESSION_RESET = 34


@dataclass(frozen=True)
class Fixed32:
    """A value of wire type 5."""

    value: int


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(fields: Iterable[tuple[int, int | bytes | str | Fixed32]]) -> bytes:
    """A message from (number, value); repeated fields come again."""
    out = b""
    for number, value in fields:
        if isinstance(value, Fixed32):
            out += _varint(number << 3 | 5) + struct.pack("<I", value.value)
        elif isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def decode(data: bytes) -> dict[int, list[Value]]:
    """Values by field number, in order."""
    out: dict[int, list[Value]] = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value: Value
        match tag & 7:
            case 0:
                value, at = _read_varint(data, at)
            case 2:
                size, at = _read_varint(data, at)
                value, at = data[at:at + size], at + size
            case 5:
                value, at = int.from_bytes(data[at:at + 4], "little"), at + 4
            case 1:
                value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
            case other:
                raise ValueError(f"wire type {other}")
        out.setdefault(tag >> 3, []).append(value)
    return out


def number(fields: dict[int, list[Value]], field: int, default: int = 0) -> int:
    """The last value of a field of numbers."""
    value = fields.get(field, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def octets(fields: dict[int, list[Value]], field: int) -> bytes:
    """The last value of a field of bytes or text."""
    value = fields.get(field, [b""])[-1]
    if isinstance(value, int):
        raise ValueError(f"field {field} is a number")
    return value


@dataclass
class Hello:
    """SessionHello."""

    site: str
    edge: str
    boot_id: bytes
    counter: int
    session: int
    address: str
    ports: list[int]
    symbol_bytes: int
    credit: list[tuple[int, int]]
    version: int = 1
    resume_session: int = 0
    resumed: bool = False

    def encode(self) -> bytes:
        """The message."""
        a, b, c, d = (int(part) for part in self.address.split("."))
        fields: list[tuple[int, int | bytes | str | Fixed32]] = [
            (1, self.version), (2, self.site), (3, self.edge), (4, self.boot_id),
            (5, self.counter), (6, self.session),
            (7, Fixed32(a << 24 | b << 16 | c << 8 | d))]
        fields += [(8, port) for port in self.ports]
        fields.append((9, self.symbol_bytes))
        fields += [(10, encode([(1, size), (2, objects)])) for size, objects in self.credit]
        if self.resume_session:
            fields.append((11, self.resume_session))
        if self.resumed:
            fields.append((12, 1))
        return encode(fields)

    @classmethod
    def decode(cls, data: bytes) -> "Hello":
        """From the message."""
        f = decode(data)
        grants = [decode(g) for g in f.get(10, []) if isinstance(g, bytes)]
        ports: list[int] = []
        for port in f.get(8, []):
            if isinstance(port, int):
                ports.append(port)
            else:  # packed
                at = 0
                while at < len(port):
                    value, at = _read_varint(port, at)
                    ports.append(value)
        return cls(octets(f, 2).decode(), octets(f, 3).decode(), octets(f, 4), number(f, 5),
                   number(f, 6), ".".join(str(number(f, 7) >> s & 255) for s in (24, 16, 8, 0)),
                   ports, number(f, 9), [(number(g, 1), number(g, 2)) for g in grants],
                   number(f, 1), number(f, 11), bool(number(f, 12)))


def exporter_context(initiator: bytes, responder: bytes, counter: int) -> bytes:
    """Of the session's secret."""
    return initiator + responder + counter.to_bytes(8, "big")


EXPORTER_LABEL = b"EXPORTER-strait-data-1"
SECRET_BYTES = 48
