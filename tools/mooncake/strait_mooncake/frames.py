# SPDX-License-Identifier: Apache-2.0
"""Frames between edge and gateway: dataplane/pool/gateway_wire.h in Python."""

import enum
import struct
from dataclasses import dataclass

VERSION = 1
HEADER = struct.Struct("<BBHIQQ")
KEY_MAX = 1024
FRAME_MAX = HEADER.size + KEY_MAX


class Type(enum.IntEnum):
    """What a frame says."""

    HELLO = 1
    STAGE = 2
    STAGED = 3
    ARRIVED = 4
    TAKEN = 5
    CHECK = 6
    CHECKED = 7
    STATUS = 127  # of an operator: answered with counters as JSON


class Status(enum.IntEnum):
    """How it went."""

    OK = 0
    NOT_FOUND = 1
    GONE = 2
    NO_ROOM = 3
    TOO_LARGE = 4
    EXISTS = 5
    CORRUPT = 6


class FrameError(Exception):
    """Bytes that are no frame."""


@dataclass(frozen=True)
class Frame:
    """One packet of the socket."""

    type: int
    id: int
    key: bytes = b""
    status: int = 0
    length: int = 0
    digest: int = 0

    def encode(self) -> bytes:
        """As it is sent."""
        return HEADER.pack(self.type, self.status, len(self.key), self.id, self.length,
                           self.digest) + self.key

    @classmethod
    def decode(cls, data: bytes) -> "Frame":
        """Of a received packet."""
        if len(data) < HEADER.size:
            raise FrameError(f"{len(data)} bytes are no frame")
        kind, status, key_len, number, length, digest = HEADER.unpack_from(data)
        if len(data) != HEADER.size + key_len:
            raise FrameError(f"a key of {key_len} bytes in a frame of {len(data)}")
        return cls(kind, number, data[HEADER.size:], status, length, digest)
