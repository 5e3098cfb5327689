# SPDX-License-Identifier: Apache-2.0
"""The packet header: doc/wire.md section 3."""
import struct
from dataclasses import dataclass

VERSION = 1
DATA, MANIFEST, CONTROL = 1, 2, 3
TAIL, END_OF_BLOCK, REPORT = 0x01, 0x02, 0x04
HEADER_BYTES = 24
_HEADER = struct.Struct(">BBBBIQII")


@dataclass(frozen=True)
class Header:
    """What is in clear, and authenticated."""

    kind: int
    session: int
    number: int
    transfer: int = 0
    block: int = 0
    esi: int = 0
    flags: int = 0
    queue: int = 0
    version: int = VERSION

    def encode(self) -> bytes:
        """Its 24 bytes."""
        return _HEADER.pack(self.version << 4 | self.kind, self.queue, self.flags, self.esi,
                            self.session, self.number, self.transfer, self.block)


def decode(data: bytes) -> Header:
    """The header of a packet that is long enough."""
    first, queue, flags, esi, session, number, transfer, block = _HEADER.unpack_from(data)
    return Header(first & 15, session, number, transfer, block, esi, flags, queue, first >> 4)
