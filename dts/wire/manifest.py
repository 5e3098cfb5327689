# SPDX-License-Identifier: Apache-2.0
"""The manifest: doc/wire.md section 8."""
import struct
from collections.abc import Iterable
from dataclasses import dataclass

DIGEST = 0x01
SKIP = 0x02
MAX_OBJECT = 1 << 26
_HEAD = struct.Struct(">BBHQQ")


@dataclass(frozen=True)
class Record:
    """One object."""

    key: bytes
    length: int
    tenant: bytes = b""
    flags: int = 0
    digest: int = 0

    def encode(self) -> bytes:
        """Its bytes; limits are not looked at, so that a test can lie."""
        return _HEAD.pack(self.flags, len(self.tenant), len(self.key), self.length,
                          self.digest) + self.tenant + self.key


def encode(records: Iterable[Record]) -> bytes:
    """The manifest of these objects."""
    return b"".join(record.encode() for record in records)


def decode(data: bytes, objects: int, stream_bytes: int) -> list[Record]:
    """The records; ValueError unless the manifest is what OPEN announced."""
    out: list[Record] = []
    at = 0
    for _ in range(objects):
        if at + _HEAD.size > len(data):
            raise ValueError("the manifest ends too early")
        flags, tenant_size, key_size, length, crc = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if tenant_size > 64 or not 1 <= key_size <= 1024 or not 1 <= length <= MAX_OBJECT:
            raise ValueError(f"record {len(out)} is out of limits")
        if at + tenant_size + key_size > len(data):
            raise ValueError("the manifest ends too early")
        tenant = data[at:at + tenant_size]
        at += tenant_size
        out.append(Record(data[at:at + key_size], length, tenant, flags, crc))
        at += key_size
    if at != len(data):
        raise ValueError("bytes behind the last record")
    if sum(r.length for r in out) != stream_bytes:
        raise ValueError("the objects' lengths do not add up to the stream's")
    return out
