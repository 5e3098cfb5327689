# SPDX-License-Identifier: Apache-2.0
"""How a stream is cut into symbols and blocks: doc/wire.md section 6, RFC 5052 section 9.1."""
from dataclasses import dataclass

MAX_K = 128


@dataclass(frozen=True)
class Partition:
    """A stream of `size` bytes in symbols of `symbol` bytes."""

    size: int
    symbol: int

    @property
    def symbols(self) -> int:
        """N: source symbols of the stream."""
        return -(-self.size // self.symbol)

    @property
    def blocks(self) -> int:
        """Z: blocks of the stream."""
        return -(-self.symbols // MAX_K)

    @property
    def large(self) -> int:
        """A_large: source symbols of the first n_large blocks."""
        return -(-self.symbols // self.blocks)

    @property
    def small(self) -> int:
        """A_small: source symbols of the others."""
        return self.symbols // self.blocks

    @property
    def n_large(self) -> int:
        """I: how many blocks are large."""
        return self.symbols - self.small * self.blocks

    def k(self, block: int) -> int:
        """Source symbols of a block."""
        return self.large if block < self.n_large else self.small

    def first(self, block: int) -> int:
        """The stream-wide number of a block's first symbol."""
        return min(block, self.n_large) * self.large + max(0, block - self.n_large) * self.small

    def span(self, block: int, j: int) -> tuple[int, int]:
        """First byte of source symbol j of a block, and the one behind its last."""
        start = (self.first(block) + j) * self.symbol
        return start, min(start + self.symbol, self.size)

    def block_span(self, block: int) -> tuple[int, int]:
        """The same of the whole block."""
        return self.span(block, 0)[0], self.span(block, self.k(block) - 1)[1]

    def payload(self, block: int, esi: int) -> int:
        """How long the payload of a symbol is; repair symbols are whole."""
        if esi >= self.k(block):
            return self.symbol
        start, end = self.span(block, esi)
        return end - start

    def blocks_of(self, start: int, end: int) -> range:
        """Blocks that hold any of the bytes from start up to end."""
        return range(self._block_at(start), self._block_at(end - 1) + 1)

    def _block_at(self, offset: int) -> int:
        number = offset // self.symbol
        head = self.n_large * self.large
        if number < head:
            return number // self.large
        return self.n_large + (number - head) // self.small
