# SPDX-License-Identifier: Apache-2.0
"""A transfer from the sender's side: doc/wire.md sections 6, 8, 10 and 11."""
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from . import digest, frames, gf256, manifest
from .frames import Status
from .partition import Partition

OBJECTS, MANIFEST = 0, 1
_digest = lru_cache(64)(digest.digest)


@dataclass
class Item:
    """An object to send. `crc` is a wrong digest for the manifest, `known` False: none at all."""

    key: bytes
    data: bytes
    tenant: bytes = b""
    skip: bool = False
    known: bool = True
    crc: int | None = None

    def record(self) -> manifest.Record:
        """What the manifest says of it."""
        flags = manifest.DIGEST * self.known | manifest.SKIP * self.skip
        crc = self.crc if self.crc is not None else _digest(self.data) if self.known else 0
        return manifest.Record(self.key, len(self.data), self.tenant, flags, crc)


class Outgoing:
    """What is sent, and what the receiver said of it."""

    def __init__(self, transfer: int, items: list[Item], symbol_bytes: int, priority: int = 1,
                 order: int = 0, records: bytes | None = None) -> None:
        """`records` is a manifest other than that of the items."""
        self.transfer = transfer
        self.items = items
        self.priority = priority
        self.order = order
        self.symbol_bytes = symbol_bytes
        self.bytes = (b"".join(i.data for i in items),
                      manifest.encode(i.record() for i in items) if records is None else records)
        self.cut = tuple(Partition(len(b), symbol_bytes) for b in self.bytes)
        self.open_status: int | None = None
        self.statuses: dict[int, int] = {}
        self.log: list[tuple[int, int]] = []
        self.closed = False
        self.complete: tuple[set[int], set[int]] = (set(), set())
        self.needs: dict[tuple[int, int], tuple[int, int]] = {}
        self.last_number: dict[tuple[int, int], int] = {}
        self._next_row: dict[tuple[int, int], int] = {}

    def open_frame(self, **changes: Any) -> frames.Open:
        """OPEN, with fields changed at will."""
        frame = frames.Open(self.transfer, self.order, len(self.bytes[OBJECTS]),
                            len(self.bytes[MANIFEST]), len(self.items), self.symbol_bytes,
                            self.priority, 10000)
        return replace(frame, **changes)

    def source(self, stream: int, block: int) -> list[bytes]:
        """The block's source symbols as they are sent."""
        cut = self.cut[stream]
        return [self.bytes[stream][slice(*cut.span(block, j))] for j in range(cut.k(block))]

    def symbol(self, stream: int, block: int, esi: int) -> bytes:
        """The payload of any symbol."""
        cut = self.cut[stream]
        if esi < cut.k(block):
            return self.bytes[stream][slice(*cut.span(block, esi))]
        return gf256.encode(self.source(stream, block), esi, self.symbol_bytes)

    def next_row(self, stream: int, block: int) -> int | None:
        """The ESI of a repair symbol not asked for before."""
        esi = self._next_row.get((stream, block), self.cut[stream].k(block))
        self._next_row[stream, block] = esi + 1
        return esi if esi <= gf256.MAX_ESI else None

    def spans(self) -> list[tuple[int, int]]:
        """First byte of each object in the stream, and the one behind its last."""
        out, at = [], 0
        for item in self.items:
            out.append((at, at + len(item.data)))
            at += len(item.data)
        return out

    def is_unstored(self, number: int) -> bool:
        """Is it known that the receiver does not keep this object's bytes?"""
        status = self.statuses.get(number, Status.PENDING)
        return self.items[number].skip or status not in (Status.PENDING, Status.COMMITTED)

    def unneeded(self, block: int, esi: int) -> bool:
        """A source symbol wholly inside objects that are not stored."""
        start, end = self.cut[OBJECTS].span(block, esi)
        return all(self.is_unstored(n) for n, (first, last) in enumerate(self.spans())
                   if first < end and start < last)

    def is_undecodable(self, block: int) -> bool:
        """The block overlaps an object that is not stored: repair symbols help nobody."""
        start, end = self.cut[OBJECTS].block_span(block)
        return any(self.is_unstored(n) for n, (first, last) in enumerate(self.spans())
                   if first < end and start < last)

    def is_final(self) -> bool:
        """Refused, or every object has a status or was skipped."""
        refused = self.open_status not in (None, Status.PENDING)
        return refused or all(n in self.statuses or item.skip
                              for n, item in enumerate(self.items))

    def take(self, frame: frames.Any) -> frames.Any | None:
        """A frame about this transfer; what it must be answered with."""
        match frame:
            case frames.OpenAck():
                self.open_status = frame.status
            case frames.Have():
                blocks = self.cut[frame.stream].blocks
                self.complete[frame.stream].update(
                    b for b in range(blocks) if frame.has(b))
            case frames.Need():
                for block, missing in frame.blocks:
                    self.needs[frame.stream, block] = missing, frame.newest
            case frames.Object():
                for position, entry in enumerate(frame.entries, frame.first):
                    if position == len(self.log):
                        self.log.append(entry)
                        self.statuses[entry[0]] = entry[1]
                return frames.ObjectAck(self.transfer, len(self.log))
            case frames.CloseAck():
                self.closed = True
        return None
