# SPDX-License-Identifier: Apache-2.0
"""A transfer from the receiver's side: doc/wire.md sections 5, 6, 8, 10 and 11."""
from collections.abc import Callable

from . import digest, frames, gf256, manifest
from .frames import Status
from .outgoing import MANIFEST, OBJECTS
from .partition import Partition

Store = dict[tuple[bytes, bytes], bytes]
Decide = Callable[[manifest.Record], int]


class _Stream:
    """Symbols of a stream, block by block."""

    def __init__(self, size: int, symbol: int) -> None:
        self.cut = Partition(size, symbol)
        self.symbols: dict[int, dict[int, bytes]] = {}
        self.done: set[int] = set()
        self.data = bytearray(size)
        self.waited: set[int] = set()

    def place(self, block: int, esi: int, payload: bytes) -> str:
        """Store a symbol; the name of a counter when it is not stored."""
        if block >= self.cut.blocks or esi > gf256.MAX_ESI:
            return "rx_block"
        if len(payload) != self.cut.payload(block, esi):
            return "rx_length"
        if block in self.done:
            return "rx_unneeded"
        have = self.symbols.setdefault(block, {})
        if esi in have:
            return "rx_duplicate"
        have[esi] = payload
        return ""

    def finish(self, block: int) -> None:
        """All of the block's bytes are known by now."""
        start, end = self.cut.block_span(block)
        source = gf256.decode(self.cut.k(block), self.symbols.pop(block), self.cut.symbol)
        self.data[start:end] = b"".join(source)[:end - start]
        self.done.add(block)

    def have(self, transfer: int, stream: int) -> frames.Have:
        """What is complete."""
        floor = 0
        while floor in self.done:
            floor += 1
        runs: list[tuple[int, int]] = []
        for block in sorted(b for b in self.done if b > floor):
            if runs and sum(runs[-1]) == block:
                runs[-1] = runs[-1][0], runs[-1][1] + 1
            else:
                runs.append((block, 1))
        return frames.Have(transfer, stream, floor, runs)


class Incoming:
    """What came, and what became of each object."""

    def __init__(self, opened: frames.Open, store: Store, decide: Decide) -> None:
        """Objects that are complete go into the store; decide says what is not taken."""
        self.opened = opened
        self.transfer = opened.transfer
        self._store = store
        self._decide = decide
        self.streams = (_Stream(opened.stream_bytes, opened.symbol_bytes),
                        _Stream(opened.manifest_bytes, opened.symbol_bytes))
        self.records: list[manifest.Record] = []
        self.spans: list[tuple[int, int]] = []
        self.statuses: dict[int, int] = {}
        self.log: list[tuple[int, int]] = []
        self.acked = 0
        self.status = int(Status.PENDING)
        self.raised = [0, 0]
        self.have_left = 0
        # Is there an object that is not stored?
        self._holes = False

    def place(self, stream: int, block: int, esi: int, payload: bytes) -> str:
        """A symbol came; the name of a counter when it is not stored."""
        at = self.streams[stream]
        problem = at.place(block, esi, payload)
        if not problem:
            self._look_at(stream, block)
        return problem

    def _look_at(self, stream: int, block: int) -> None:
        at = self.streams[stream]
        if stream == OBJECTS and not self.records:
            return
        if self.missing(stream, block) > 0:
            return
        have = at.symbols.setdefault(block, {})
        if stream == OBJECTS:
            for j in range(at.cut.k(block)) if self._holes else ():
                if self._unneeded(block, j):
                    have.setdefault(j, b"")
        at.finish(block)
        self.have_left = 4
        if stream == MANIFEST:
            if len(at.done) == at.cut.blocks:
                self._read_manifest()
        else:
            self._finish_objects(block)

    def missing(self, stream: int, block: int) -> int:
        """How many symbols the block lacks."""
        at = self.streams[stream]
        if block in at.done:
            return 0
        have = at.symbols.get(block, {})
        k = at.cut.k(block)
        if stream == MANIFEST or not self._holes:
            return max(0, k - len(have))
        present = sum(j in have or stream == OBJECTS and self._unneeded(block, j)
                      for j in range(k))
        rows = sum(e >= k for e in have)
        if stream == OBJECTS and self._is_undecodable(block):
            rows = 0
        return max(0, k - present - rows)

    def _is_unstored(self, number: int) -> bool:
        skip = self.records[number].flags & manifest.SKIP
        status = self.statuses.get(number, Status.PENDING)
        return bool(skip) or status not in (Status.PENDING, Status.COMMITTED)

    def _unneeded(self, block: int, j: int) -> bool:
        start, end = self.streams[OBJECTS].cut.span(block, j)
        return bool(self.records) and all(
            self._is_unstored(n) for n, (first, last) in enumerate(self.spans)
            if first < end and start < last)

    def _is_undecodable(self, block: int) -> bool:
        start, end = self.streams[OBJECTS].cut.block_span(block)
        return any(self._is_unstored(n) for n, (first, last) in enumerate(self.spans)
                   if first < end and start < last)

    def _read_manifest(self) -> None:
        try:
            self.records = manifest.decode(bytes(self.streams[MANIFEST].data),
                                           self.opened.objects, self.opened.stream_bytes)
        except ValueError:
            self.status = Status.MALFORMED
            return
        at = 0
        for record in self.records:
            self.spans.append((at, at + record.length))
            at += record.length
        for number, record in enumerate(self.records):
            status = self._decide(record)
            self._holes |= bool(record.flags & manifest.SKIP)
            if not record.flags & manifest.SKIP and status != Status.PENDING:
                self.finish(number, status)
        for block in range(self.streams[OBJECTS].cut.blocks):
            self._look_at(OBJECTS, block)

    def _finish_objects(self, block: int) -> None:
        stream = self.streams[OBJECTS]
        start, end = stream.cut.block_span(block)
        for number, (first, last) in enumerate(self.spans):
            if first >= end or start >= last or number in self.statuses \
                    or self._is_unstored(number):
                continue
            if any(b not in stream.done for b in stream.cut.blocks_of(first, last)):
                continue
            record = self.records[number]
            data = bytes(stream.data[first:last])
            if record.flags & manifest.DIGEST and digest.digest(data) != record.digest:
                self.finish(number, Status.DIGEST)
            else:
                self._store[record.tenant, record.key] = data
                self.finish(number, Status.COMMITTED)

    def finish(self, number: int, status: int) -> None:
        """The object's final status."""
        if number not in self.statuses:
            self.statuses[number] = status
            self._holes |= self._is_unstored(number)
            self.log.append((number, status))
            self.raised[0] += self.records[number].length
            self.raised[1] += 1

    def withdraw(self, entries: list[tuple[int, int]]) -> None:
        """The sender cannot ship these."""
        if not self.records:
            return
        for number, status in entries:
            if number < len(self.records) and number not in self.statuses:
                self.finish(number, status)
        for block in range(self.streams[OBJECTS].cut.blocks):
            if block not in self.streams[OBJECTS].done:
                self._look_at(OBJECTS, block)

    def news(self) -> frames.Object | None:
        """Statuses the sender does not know of yet."""
        if self.acked >= len(self.log):
            return None
        return frames.Object(self.transfer, self.acked, self.log[self.acked:self.acked + 100])

    def needs(self, newest: int, everything: bool) -> list[frames.Need]:
        """Incomplete blocks: those the sender waits for, or all."""
        out = []
        for number, stream in enumerate(self.streams):
            blocks = [b for b in range(stream.cut.blocks) if b not in stream.done
                      and (everything or b in stream.waited)]
            entries = [(b, self.missing(number, b)) for b in blocks]
            entries = [(b, n) for b, n in entries if n][:100]
            if entries:
                out.append(frames.Need(self.transfer, number, newest, entries))
        return out
