# SPDX-License-Identifier: Apache-2.0
"""Bounds of what an edge keeps for its peers, and what happens at them.

Symbols ahead of their placement wait in scratch, repair symbols in memory of their own, transfers
in 64 slots, objects in the pool. What does not fit is dropped, counted and not acknowledged, so
that it comes again (doc/wire.md sections 5, 10 and 11)."""
import random
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Master
from api.test import verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Item,
    Outgoing,
    PeeredEdge,
    Status,
    WirePeer,
    counted,
    frames,
    get_object,
)
from framework.test_suite import TestSuite, func_test

SCRATCH, ROWS, SLOTS = 64, 32, 64
K = 100
SYMBOL = 1432


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestFullMemory(TestSuite):
    """Cases: scratch_is_bounded, open_transfers_come_first, rows_are_bounded,
    sixty_four_transfers, pool_is_full."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test with little memory, and the peer."""
        self._stack = ExitStack()
        master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(PeeredEdge(
            master, session={"scratch_slots": SCRATCH, "row_slots": ROWS}))
        self._peer = self._stack.enter_context(WirePeer(master, self._edge))
        self._names = 0

    def tear_down_suite(self) -> None:
        """End all."""
        self._stack.close()

    def set_up_test_case(self) -> None:
        """Open a session of its own: scratch is the session's."""
        self._session = self._peer.open()

    def _transfer(self, size: int = K * SYMBOL) -> Outgoing:
        self._names += 1
        return self._session.transfer([Item(b"full-%d" % self._names, random.randbytes(size))])

    def _send(self, out: Outgoing, esis: range) -> list[int]:
        """Symbols of block 0 and their packet numbers."""
        first = self._session.next_number
        self._peer.raw(self._session.symbol(out, OBJECTS, 0, e) for e in esis)
        return list(range(first, self._session.next_number))

    def _reported(self, numbers: list[int]) -> int:
        """How many of the numbers the edge says it received."""
        before = self._session.counters["Report"]
        self._session.control(frames.Ping())
        verify(self._peer.until(lambda: self._session.counters["Report"] > before, 2), "no REPORT")
        return len(self._session.acked & set(numbers))

    def _placed(self, out: Outgoing, kept: int) -> None:
        """OPEN the transfer and wait until its object has its memory, and what was kept is in it:
        what comes then needs no scratch."""
        if out.open_status is None:
            self._session.control(out.open_frame())
            verify(self._peer.until(lambda: out.open_status is not None, 3), "no OPEN_ACK")
        self._session.send_symbol(out, MANIFEST, 0, 0)

        def lacks() -> bool:
            self._session.control(frames.Ping())
            self._peer.rest(0.02)
            return out.needs.get((OBJECTS, 0), (K, 0))[0] <= K - kept
        verify(self._peer.until(lacks, 5), f"NEED says {out.needs} of {K}, {kept} were kept")

    def _arrives(self, *outs: Outgoing) -> None:
        for out in outs:
            statuses = self._peer.deliver(self._session, out)
            verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
            verify(get_object(self._edge, out.items[0].key) == out.items[0].data,
                   "the object differs")

    @func_test
    def scratch_is_bounded(self) -> None:
        """Symbols of a transfer that nobody opened.

        Steps:
            Send 100 symbols of a transfer before its OPEN; scratch has room for 64. Then OPEN it
            and send it.
        Verify:
            rx_early counts 64 and rx_scratch_full 36, no other drop counter moves; REPORT names
            those 64 alone; the object arrives.
        """
        out = self._transfer()
        with counted(self._edge, self._peer, "scratch", rx_early=SCRATCH,
                     rx_scratch_full=K - SCRATCH):
            numbers = self._send(out, range(K))
            reported = self._reported(numbers)
        verify(reported == SCRATCH, f"{reported} of {SCRATCH} kept symbols are reported")
        with counted(self._edge, self._peer, "an object"):
            self._placed(out, SCRATCH)
            self._arrives(out)

    @func_test
    def open_transfers_come_first(self) -> None:
        """What nobody opened gives way to what is open.

        Steps:
            Fill scratch with symbols of a transfer that nobody opened; OPEN another one and send
            ten of its symbols before its manifest; send both transfers.
        Verify:
            rx_early counts all, rx_scratch_full the ten that gave way, no other drop counter
            moves. Both objects arrive, though symbols that gave way had been reported: NEED asks
            for them.
        """
        stray, other = self._transfer(), self._transfer()
        with counted(self._edge, self._peer, "gives way", rx_early=SCRATCH + 10,
                     rx_scratch_full=10):
            numbers = self._send(stray, range(SCRATCH))
            reported = self._reported(numbers)
            self._session.control(other.open_frame())
            self._peer.until(lambda: other.open_status is not None, 2)
            self._send(other, range(10))
        verify(reported == SCRATCH, f"{reported} symbols were reported")
        with counted(self._edge, self._peer, "two objects"):
            self._placed(other, 10)
            self._arrives(other)
            self._placed(stray, SCRATCH - 10)
            statuses = self._peer.deliver(
                self._session, stray, lambda stream, block:
                [0] if stream == MANIFEST else range(SCRATCH, stray.cut[OBJECTS].k(block)))
            verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, stray.items[0].key) == stray.items[0].data,
               "the object differs")

    @func_test
    def rows_are_bounded(self) -> None:
        """More repair symbols than there is room for.

        Steps:
            OPEN a transfer, send its manifest and 50 repair symbols; there is room for 32. Send
            the source symbols.
        Verify:
            rx_rows_full counts 18 and no other drop counter moves; REPORT names the 32 alone; the
            object arrives.
        """
        out = self._transfer()
        self._session.control(out.open_frame())
        self._session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None and 0 in out.complete[MANIFEST], 3)
        with counted(self._edge, self._peer, "rows", rx_rows_full=50 - ROWS):
            numbers = self._send(out, range(K, K + 50))
            reported = self._reported(numbers)
        verify(reported == ROWS, f"{reported} of {ROWS} kept rows are reported")
        with counted(self._edge, self._peer, "an object"):
            self._arrives(out)

    @func_test
    def sixty_four_transfers(self) -> None:
        """A 65th transfer waits for a slot.

        Steps:
            OPEN 70 transfers; CLOSE ten of them; OPEN the last six again and send them; CLOSE all.
        Verify:
            64 are answered with PENDING and the others not at all, until there are slots; their
            objects arrive; no drop counter moves.
        """
        with counted(self._edge, self._peer, "slots"):
            outs = [self._transfer(2000) for _ in range(SLOTS + 6)]
            for out in outs:
                self._session.control(out.open_frame())
            self._peer.until(lambda: all(o.open_status is not None for o in outs[:SLOTS]), 3)
            self._peer.rest(0.1)
            got = [out.open_status for out in outs]
            verify(got == [Status.PENDING] * SLOTS + [None] * 6, f"OPEN_ACK {got}")
            for out in outs[:10]:
                verify(self._peer.finish(self._session, out, Status.CANCELED), "no CLOSE_ACK")
            self._arrives(*outs[SLOTS:])
            for out in outs[10:SLOTS]:
                verify(self._peer.finish(self._session, out, Status.CANCELED), "no CLOSE_ACK")

    @func_test
    def pool_is_full(self) -> None:
        """No memory for an object: the others of the transfer pass.

        Steps:
            OPEN a transfer of an object of 40 MB, which has its memory from then on, then one of
            three objects, the middle one of 40 MB; the pool has 64. Send the latter.
        Verify:
            FULL for the middle one, COMMITTED and the same for the others; after CLOSE of the
            first transfer an object of 40 MB gets memory; no drop counter moves.
        """
        huge = Item(b"full-huge", bytes(40000000), known=False)
        first = self._session.transfer([huge])
        small = [Item(b"full-small-%d" % i, random.randbytes(30000)) for i in range(2)]
        middle = Item(b"full-other", bytes(40000000), known=False)
        second = self._session.transfer([small[0], middle, small[1]])
        again = self._session.transfer([Item(b"full-again", middle.data, known=False)])

        def opened(out: Outgoing) -> None:
            self._session.control(out.open_frame())
            self._session.send_symbol(out, MANIFEST, 0, 0)
            for _ in range(20):
                self._session.control(frames.Ping())
                self._peer.rest(0.05)
            verify(0 in out.complete[MANIFEST], "the manifest did not come")
        with counted(self._edge, self._peer, "FULL"):
            opened(first)
            verify(not first.statuses, f"statuses {first.statuses}")
            opened(second)
            verify(second.statuses == {1: Status.FULL}, f"statuses {second.statuses}")
            statuses = self._peer.deliver(
                self._session, second, lambda stream, block:
                range(second.cut[stream].k(block)))
            verify(statuses == {0: 1, 1: Status.FULL, 2: 1}, f"statuses {statuses}")
            verify(self._peer.finish(self._session, first, Status.CANCELED), "no CLOSE_ACK")
            opened(again)
            verify(not again.statuses, f"statuses {again.statuses}")
            verify(self._peer.finish(self._session, again, Status.CANCELED), "no CLOSE_ACK")
        for item in small:
            verify(get_object(self._edge, item.key) == item.data, "an object differs")
