# SPDX-License-Identifier: Apache-2.0
"""Unfinished objects go on: after a crash of the edge, after the end of a session.

doc/wire.md section 11: blocks that lie wholly inside an object count as present in a later transfer
if the object is the same; HAVE says so before any data is sent. What is not the same must not
count."""
import random

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import log_debug, verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Item,
    Outgoing,
    Session,
    Status,
    counted,
    frames,
    get_object,
)
from framework.test_suite import TestSuite, func_test

SIZE = 1000000


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestResumeAfterRestart(Peered, TestSuite):
    """Cases: after_a_crash, after_a_new_session, other_digest, other_length, other_symbol_size,
    complete_objects_stay."""

    def _item(self, size: int = SIZE) -> Item:
        self._names += 1
        return Item(b"resume-%d" % self._names, random.randbytes(size))

    def _half(self, session: Session, item: Item, symbol_bytes: int = 1432) -> set[int]:
        """Send every other block; the blocks that the edge says it has."""
        out = session.transfer([item], symbol_bytes=symbol_bytes)
        blocks = set(range(0, out.cut[OBJECTS].blocks, 2))
        self._peer.start(session, out, lambda stream, block:
                         range(out.cut[stream].k(block)) if stream == MANIFEST or block in blocks
                         else [])
        self._ask(session, lambda: blocks <= out.complete[OBJECTS])
        verify(out.complete[OBJECTS] == blocks, f"the edge has {out.complete[OBJECTS]}")
        return blocks

    def _ask(self, session: Session, condition: object) -> None:
        """PING until the condition holds, for at most 2 s."""
        assert callable(condition)

        def holds() -> bool:
            session.control(frames.Ping())
            self._peer.rest(0.02)
            return bool(condition())
        self._peer.until(holds, 2)

    def _again(self, session: Session, item: Item, symbol_bytes: int = 1432) -> Outgoing:
        """OPEN and manifest alone; what the edge has is in out.complete."""
        out = session.transfer([item], symbol_bytes=symbol_bytes)
        session.control(out.open_frame())
        session.send_symbol(out, MANIFEST, 0, 0)
        self._ask(session, lambda: out.open_status is not None and 0 in out.complete[MANIFEST])
        # Placement may come after the manifest.
        for _ in range(3):
            session.control(frames.Ping())
            self._peer.rest(0.05)
        log_debug(f"complete: {sorted(out.complete[OBJECTS])}")
        return out

    def _rest(self, session: Session, out: Outgoing) -> None:
        """Send what the edge does not have, and no more."""
        done = set(out.complete[OBJECTS])
        before = session.sent_packets
        statuses = self._peer.deliver(session, out, lambda stream, block:
                                      [] if stream == MANIFEST or block in done
                                      else range(out.cut[stream].k(block)))
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        log_debug(f"{session.sent_packets - before} packets")
        item = out.items[0]
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

    @func_test
    def after_a_crash(self) -> None:
        """The edge is killed with half an object.

        Steps:
            Send every other block of an object; kill the edge with SIGKILL, start it again; in a
            new session OPEN the object again and send its manifest.
        Verify:
            HAVE names the blocks that were there before any data was sent; with the others alone
            the object is COMMITTED and the same; no drop counter moves.
        """
        item = self._item()
        had = self._half(self._peer.open(), item)
        self._edge.kill()
        self._edge.start_again()
        verify(get_object(self._edge, item.key) is None, "half an object is visible")
        session = self._peer.open()
        with counted(self._edge, self._peer, "after a crash"):
            out = self._again(session, item)
            verify(out.complete[OBJECTS] == had,
                   f"the edge has {out.complete[OBJECTS]}, not {had}")
            self._rest(session, out)

    @func_test
    def after_a_new_session(self) -> None:
        """The peer was restarted, not the edge.

        Steps:
            Send every other block; change the boot id, open a new session, OPEN the object again.
        Verify:
            As before.
        """
        item = self._item()
        had = self._half(self._peer.open(), item)
        self._peer.boot_id = random.randbytes(16)
        session = self._peer.open()
        with counted(self._edge, self._peer, "new session"):
            out = self._again(session, item)
            verify(out.complete[OBJECTS] == had,
                   f"the edge has {out.complete[OBJECTS]}, not {had}")
            self._rest(session, out)

    @func_test
    def other_digest(self) -> None:
        """Other bytes under the same key.

        Steps:
            Send every other block; in a new session OPEN an object of the same key and length and
            another digest.
        Verify:
            HAVE names no block; the new bytes are COMMITTED; no drop counter moves.
        """
        item = self._item()
        self._half(self._peer.open(), item)
        session = self._peer.open()
        other = Item(item.key, random.randbytes(SIZE))
        with counted(self._edge, self._peer, "other digest"):
            out = self._again(session, other)
            verify(not out.complete[OBJECTS], f"the edge has {out.complete[OBJECTS]}")
            self._rest(session, out)

    @func_test
    def other_length(self) -> None:
        """A longer object under the same key, with the same beginning.

        Steps:
            Send every other block; in a new session OPEN an object of one block more.
        Verify:
            HAVE names no block; the new bytes are COMMITTED; no drop counter moves.
        """
        item = self._item()
        self._half(self._peer.open(), item)
        session = self._peer.open()
        longer = Item(item.key, item.data + random.randbytes(128 * 1432))
        with counted(self._edge, self._peer, "other length"):
            out = self._again(session, longer)
            verify(not out.complete[OBJECTS], f"the edge has {out.complete[OBJECTS]}")
            self._rest(session, out)

    @func_test
    def other_symbol_size(self) -> None:
        """Another partition of the same object.

        Steps:
            Send every other block with symbols of 1432 bytes; in a new session OPEN the object
            with symbols of 1000 bytes.
        Verify:
            HAVE names only blocks each byte of which was there; with the others the object is
            COMMITTED and the same; no drop counter moves.
        """
        item = self._item()
        had = self._half(self._peer.open(), item)
        session = self._peer.open()
        with counted(self._edge, self._peer, "other symbols"):
            out = self._again(session, item, 1000)
            before = Outgoing(1, [item], 1432).cut[OBJECTS]
            there: set[int] = set()
            for block in had:
                there.update(range(*before.block_span(block)))
            for block in out.complete[OBJECTS]:
                start, end = out.cut[OBJECTS].block_span(block)
                verify(set(range(start, end)) <= there, f"block {block} was never there")
            self._rest(session, out)

    @func_test
    def complete_objects_stay(self) -> None:
        """What was COMMITTED is there after a crash.

        Steps:
            Send two objects, one whole and the other by half; kill the edge, start it again; send
            both again.
        Verify:
            The first is EXISTS and the same, the second goes on and is COMMITTED.
        """
        whole, half = self._item(100000), self._item()
        session = self._peer.open()
        statuses = self._peer.send(session, [whole])
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        self._half(session, half)
        self._edge.kill()
        self._edge.start_again()
        session = self._peer.open()
        with counted(self._edge, self._peer, "crash"):
            statuses = self._peer.send(session, [whole])
            verify(statuses == {0: Status.EXISTS}, f"statuses {statuses}")
            self._rest(session, self._again(session, half))
        verify(get_object(self._edge, whole.key) == whole.data, "the whole object differs")
