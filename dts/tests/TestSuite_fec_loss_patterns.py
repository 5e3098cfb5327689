# SPDX-License-Identifier: Apache-2.0
"""Recovery over every loss pattern of a small block, and random ones of large blocks.

The peer sends exactly the symbols of a pattern and nothing else: an object must be there as soon
as k symbols of its block are, whichever they are, and not one symbol earlier. Bytes are compared
by the digest in the manifest, and some of them in the pool."""
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Item,
    Outgoing,
    Status,
    counted,
    frames,
    get_object,
)
from framework.test_suite import BaseConfig, TestSuite, func_test

SMALL = 512


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestFecLossPatterns(Peered, TestSuite):
    """Cases: every_pattern_of_a_small_block, short_last_symbol, random_patterns_of_large_blocks,
    repair_symbols_alone, manifest_from_repair_symbols, loss_in_every_block."""

    @dataclass
    class Config(BaseConfig):
        """How many random patterns."""

        large_blocks: int = 24

    config: Config

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; open a session."""
        super().set_up_suite()
        self._session = self._peer.open()

    def _begin(self, size: int, symbol_bytes: int) -> Outgoing:
        self._names += 1
        item = Item(b"fec-%d" % self._names, random.randbytes(size))
        out = self._session.transfer([item], symbol_bytes=symbol_bytes)
        self._session.control(out.open_frame())
        self._session.send_symbol(out, MANIFEST, 0, 0)
        opened = self._ask(lambda: out.open_status is not None and 0 in out.complete[MANIFEST])
        verify(opened, f"the transfer is not open: {out.open_status}")
        return out

    def _ask(self, condition: Callable[[], object]) -> bool:
        """PING until the condition holds: what changed after a report is in the next one."""
        for _ in range(60):
            if self._peer.until(condition, 0.05):
                return True
            self._session.control(frames.Ping())
        return False

    def _lacks(self, out: Outgoing) -> int:
        """How many symbols the edge says that block 0 lacks, after a PING."""
        out.needs.clear()
        self._session.control(frames.Ping())
        verify(self._ask(lambda: (OBJECTS, 0) in out.needs or out.is_final()),
               "no NEED and no OBJECT after PING")
        return 0 if out.is_final() else out.needs[OBJECTS, 0][0]

    def _pattern(self, out: Outgoing, esis: Sequence[int]) -> None:
        """Send the symbols: k - 1 of them do not make the object, one more does."""
        k = out.cut[OBJECTS].k(0)
        for esi in esis[:k - 1]:
            self._session.send_symbol(out, OBJECTS, 0, esi)
        lacks = self._lacks(out)
        verify(lacks == k - len(esis[:k - 1]), f"{esis[:k - 1]} of k = {k}: {lacks} lacking")
        if len(esis) < k:
            verify(self._peer.finish(self._session, out, Status.CANCELED), "no CLOSE_ACK")
            return
        self._session.send_symbol(out, OBJECTS, 0, esis[k - 1])
        verify(self._peer.until(out.is_final, 3), f"{esis[:k]} did not make the object")
        verify(out.statuses == {0: Status.COMMITTED}, f"{esis}: statuses {out.statuses}")
        for esi in esis[k:]:
            self._session.send_symbol(out, OBJECTS, 0, esi)
        verify(self._peer.finish(self._session, out), "no CLOSE_ACK")

    def _same(self, out: Outgoing) -> None:
        verify(get_object(self._edge, out.items[0].key) == out.items[0].data,
               "the object differs from what was sent")

    def _every(self, size: int) -> None:
        """All subsets of k = 4 source symbols and 3 rows, each in a random order."""
        patterns = [list(p) for n in range(8) for p in itertools.combinations(range(7), n)]
        enough = [p for p in patterns if len(p) >= 4]
        surplus = sum(len(p) - 4 for p in enough)
        with counted(self._edge, self._peer, "every pattern", rx_unneeded=surplus):
            for pattern in patterns:
                random.shuffle(pattern)
                out = self._begin(size, SMALL)
                verify(out.cut[OBJECTS].k(0) == 4, "k is not 4")
                self._pattern(out, pattern)
                if len(pattern) == 4:
                    self._same(out)

    @func_test
    def every_pattern_of_a_small_block(self) -> None:
        """All 128 subsets of 4 source symbols and 3 repair symbols.

        Steps:
            For each subset, in a random order: send its symbols in a transfer of their own.
        Verify:
            With fewer than 4 the edge says how many it lacks and has no object; with the fourth
            it is COMMITTED, and the same in the pool. Surplus symbols count as rx_unneeded, no
            drop counter moves.
        """
        self._every(4 * SMALL)

    @func_test
    def short_last_symbol(self) -> None:
        """The same when the last source symbol is one byte.

        Steps:
            As before, with an object of 3 symbols and one byte.
        Verify:
            As before.
        """
        self._every(3 * SMALL + 1)

    @func_test
    def random_patterns_of_large_blocks(self) -> None:
        """Random subsets of all 255 symbols.

        Steps:
            For random k up to 128 and symbol sizes: send k of the 255 symbols in a random order,
            the first k - 1 and the last one apart.
        Verify:
            The object is COMMITTED with the k-th symbol, not before, and the same in the pool; no
            drop counter moves.
        """
        with counted(self._edge, self._peer, "random patterns"):
            for i in range(self.config.large_blocks):
                k = 128 if i % 4 == 0 else random.randrange(1, 129)
                symbol = random.choice((512, 1000, 1432))
                out = self._begin(k * symbol - random.randrange(symbol), symbol)
                verify(out.cut[OBJECTS].k(0) == k, f"k is not {k}")
                esis = random.sample(range(255), k)
                self._pattern(out, esis)
                self._same(out)

    @func_test
    def repair_symbols_alone(self) -> None:
        """No source symbol arrives at all.

        Steps:
            Send a block of 127 symbols as its last 127 repair symbols.
        Verify:
            The object is COMMITTED and the same; no drop counter moves.
        """
        with counted(self._edge, self._peer, "rows alone"):
            out = self._begin(127 * SMALL, SMALL)
            self._pattern(out, list(range(128, 255)))
        self._same(out)

    @func_test
    def manifest_from_repair_symbols(self) -> None:
        """The manifest is protected in the same way.

        Steps:
            Send the manifest of 60 objects as repair symbols alone, then the objects.
        Verify:
            All are COMMITTED; no drop counter moves.
        """
        self._names += 1
        items = [Item(b"fec-%d-%s" % (self._names, b"m" * 60 + b"%d" % i), random.randbytes(700))
                 for i in range(60)]
        out = self._session.transfer(items, symbol_bytes=SMALL)
        k = out.cut[MANIFEST].k(0)
        verify(k > 8, f"the manifest has {k} symbols")
        with counted(self._edge, self._peer, "manifest"):
            got = self._peer.deliver(
                self._session, out, lambda stream, block: range(k, 2 * k) if stream == MANIFEST
                else range(out.cut[stream].k(block)))
        verify(set(got.values()) == {Status.COMMITTED} and len(got) == 60, f"statuses {got}")

    @func_test
    def loss_in_every_block(self) -> None:
        """Several blocks, each with losses of its own, repaired in advance.

        Steps:
            Send a transfer of eight blocks; of each a random k of its k + 40 symbols.
        Verify:
            All objects are COMMITTED without any further symbol; bytes are the same; no drop
            counter moves.
        """
        self._names += 1
        items = [Item(b"fec-many-%d-%d" % (self._names, i), random.randbytes(150000))
                 for i in range(3)]
        out = self._session.transfer(items, symbol_bytes=SMALL)
        verify(out.cut[OBJECTS].blocks >= 6, "too few blocks")

        def choose(stream: int, block: int) -> list[int]:
            k = out.cut[stream].k(block)
            return random.sample(range(k + 40), k) if stream == OBJECTS else [0]
        with counted(self._edge, self._peer, "loss in every block"):
            self._peer.start(self._session, out, choose)
            verify(self._peer.until(out.is_final, 5), f"statuses {out.statuses}, {out.needs}")
            verify(self._peer.finish(self._session, out), "no CLOSE_ACK")
        verify(set(out.statuses.values()) == {Status.COMMITTED}, f"statuses {out.statuses}")
        for item in items:
            verify(get_object(self._edge, item.key) == item.data, "an object differs")
