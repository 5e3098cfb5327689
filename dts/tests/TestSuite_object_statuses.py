# SPDX-License-Identifier: Apache-2.0
"""Final statuses of objects: doc/wire.md sections 8, 10.1 and 11.

Every object ends with exactly one status, and nothing but COMMITTED makes its bytes visible. The
edge is the receiver in some cases and the sender in others."""
import random

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import verify
from api.wire import (
    MANIFEST,
    Item,
    Session,
    Status,
    counted,
    frames,
    get_object,
    manifest,
    put_object,
)
from framework.test_suite import TestSuite, func_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestObjectStatuses(Peered, TestSuite):
    """Cases: exists, wrong_digest, unknown_digest, too_large, unknown_tenant, withdrawn,
    withdrawn_too_late, skipped, one_key_twice, closed_early,
    peer_has_it, peer_is_full, peer_refuses."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; open a session."""
        super().set_up_suite()
        self._session = self._peer.open()

    def _item(self, size: int = 20000, skip: bool = False, known: bool = True) -> Item:
        self._names += 1
        return Item(b"status-%d" % self._names, random.randbytes(size), skip=skip, known=known)

    def _deliver(self, items: list[Item]) -> dict[int, int]:
        out = self._session.transfer(items)
        statuses = self._peer.deliver(self._session, out, seconds=8)
        verify(out.closed, "no CLOSE_ACK")
        return statuses

    def _same(self, item: Item) -> bool:
        return get_object(self._edge, item.key) == item.data

    @func_test
    def exists(self) -> None:
        """What is there already is not stored again.

        Steps:
            Send an object, then other bytes under the same key together with a new object.
        Verify:
            EXISTS and COMMITTED; the first bytes stay; no drop counter moves.
        """
        first, second = self._item(), self._item()
        with counted(self._edge, self._peer, "EXISTS"):
            self._deliver([first])
            got = self._deliver([Item(first.key, random.randbytes(20000)), second])
        verify(got == {0: Status.EXISTS, 1: Status.COMMITTED}, f"statuses {got}")
        verify(self._same(first) and self._same(second), "a pool's object differs")

    @func_test
    def wrong_digest(self) -> None:
        """Bytes that are not what the manifest promised are never visible.

        Steps:
            Send three objects, the middle one with a digest that has one wrong bit.
        Verify:
            COMMITTED, DIGEST, COMMITTED; the pool has the outer two; rx_digest moves by one and
            no drop counter does.
        """
        items = [self._item(5001) for _ in range(3)]
        right = items[1].record().digest
        items[1].crc = right ^ 1 << random.randrange(64)
        with counted(self._edge, self._peer, "DIGEST", rx_digest=1):
            got = self._deliver(items)
        verify(got == {0: 1, 1: Status.DIGEST, 2: 1}, f"statuses {got}")
        verify(self._same(items[0]) and self._same(items[2]), "a good object differs")
        verify(get_object(self._edge, items[1].key) is None, "a wrong object is visible")

    @func_test
    def unknown_digest(self) -> None:
        """Without flag DIGEST nothing is compared.

        Steps:
            Send an object whose manifest record has no digest.
        Verify:
            COMMITTED and the same; no drop counter moves.
        """
        item = self._item(known=False)
        with counted(self._edge, self._peer, "no digest"):
            verify(self._deliver([item]) == {0: Status.COMMITTED}, "not committed")
        verify(self._same(item), "the object differs")

    @func_test
    def too_large(self) -> None:
        """An object larger than the pool is refused at once.

        Steps:
            OPEN a transfer of one object of 64 MiB and send its manifest only; the pool is
            smaller.
        Verify:
            TOO_LARGE before any data; no drop counter moves.
        """
        out = self._session.transfer([Item(b"huge", bytes(1 << 26), known=False)])
        with counted(self._edge, self._peer, "TOO_LARGE"):
            self._session.control(out.open_frame())
            self._session.send_symbol(out, MANIFEST, 0, 0)
            self._peer.until(out.is_final, 3)
            verify(out.statuses == {0: Status.TOO_LARGE}, f"statuses {out.statuses}")
            verify(self._peer.finish(self._session, out), "no CLOSE_ACK")

    @func_test
    def unknown_tenant(self) -> None:
        """A tenant without a pool is refused; the empty tenant is the default one.

        Steps:
            Send objects of tenant "nobody", of "default" and of the empty tenant.
        Verify:
            REFUSED, COMMITTED, COMMITTED; no drop counter moves.
        """
        items = [self._item() for _ in range(3)]
        items[0].tenant, items[1].tenant = b"nobody", b"default"
        with counted(self._edge, self._peer, "tenant"):
            got = self._deliver(items)
        verify(got == {0: Status.REFUSED, 1: 1, 2: 1}, f"statuses {got}")
        verify(self._same(items[1]) and self._same(items[2]), "an object differs")

    @func_test
    def withdrawn(self) -> None:
        """What the sender withdraws is dropped, with the status it says.

        Steps:
            OPEN a transfer of four objects; WITHDRAW two of them, with different statuses, when
            a part of their bytes is there; send the rest.
        Verify:
            The statuses said for the two, COMMITTED for the others; only these are visible; no
            drop counter moves.
        """
        items = [self._item(30000) for _ in range(4)]
        out = self._session.transfer(items)
        with counted(self._edge, self._peer, "WITHDRAW"):
            self._session.control(out.open_frame())
            self._session.send_symbol(out, MANIFEST, 0, 0)
            for j in (1, 2, 22, 23, 45):
                self._session.send_symbol(out, 0, 0, j)
            self._peer.until(lambda: out.open_status is not None, 2)
            gone = [(1, int(Status.EVICTED)), (2, int(Status.NOT_FOUND))]

            def told() -> bool:
                self._session.control(frames.Withdraw(out.transfer, gone))
                self._peer.rest(0.02)
                return len(out.statuses) == 2
            verify(self._peer.until(told, 3), f"statuses {out.statuses}")
            got = self._peer.deliver(self._session, out)
        verify(got == {0: 1, 1: Status.EVICTED, 2: Status.NOT_FOUND, 3: 1}, f"statuses {got}")
        verify(self._same(items[0]) and self._same(items[3]), "an object differs")
        for item in items[1:3]:
            verify(get_object(self._edge, item.key) is None, "a withdrawn object is visible")

    @func_test
    def withdrawn_too_late(self) -> None:
        """A final status stands.

        Steps:
            Send an object, WITHDRAW it before CLOSE.
        Verify:
            It stays COMMITTED, there is one entry in the log, and it is visible.
        """
        item = self._item()
        out = self._session.transfer([item])
        with counted(self._edge, self._peer, "late WITHDRAW"):
            self._peer.deliver(self._session, out, close=False)
            self._session.control(frames.Withdraw(out.transfer, [(0, Status.CANCELED)]))
            self._peer.rest(0.1)
            verify(out.log == [(0, Status.COMMITTED)], f"log {out.log}")
            verify(self._peer.finish(self._session, out), "no CLOSE_ACK")
        verify(self._same(item), "the object differs")

    @func_test
    def skipped(self) -> None:
        """SKIP objects keep their place, and are neither sent nor stored.

        Steps:
            Send five objects, two of them with SKIP, of lengths that no symbol ends with.
        Verify:
            The log has the three others alone, COMMITTED and the same; no drop counter moves.
        """
        items = [self._item(10001 + 777 * i, skip=i in (1, 3)) for i in range(5)]
        with counted(self._edge, self._peer, "SKIP"):
            got = self._deliver(items)
        verify(got == {0: 1, 2: 1, 4: 1}, f"statuses {got}")
        for i, item in enumerate(items):
            found = get_object(self._edge, item.key)
            verify(found == (None if i in (1, 3) else item.data), f"object {i} is wrong")

    @func_test
    def one_key_twice(self) -> None:
        """Two objects of one transfer under one key.

        Steps:
            Send the same key twice in a transfer.
        Verify:
            One is COMMITTED, the other EXISTS or BUSY; the pool has the committed bytes.
        """
        first = self._item()
        second = Item(first.key, random.randbytes(20000))
        with counted(self._edge, self._peer, "key twice"):
            got = self._deliver([first, second])
        committed = [i for i, s in got.items() if s == Status.COMMITTED]
        verify(len(committed) == 1 and set(got.values()) <= {1, Status.EXISTS, Status.BUSY},
               f"statuses {got}")
        verify(self._same((first, second)[committed[0]]), "the object differs")

    @func_test
    def closed_early(self) -> None:
        """CLOSE ends a transfer whatever is missing.

        Steps:
            Send the first half of an object, CLOSE with CANCELED; send the object again in a new
            transfer.
        Verify:
            It is not visible after CLOSE_ACK, and COMMITTED after the second.
        """
        item = self._item(100000)
        out = self._session.transfer([item])
        with counted(self._edge, self._peer, "early CLOSE"):
            self._peer.start(self._session, out,
                             lambda s, b: range(out.cut[s].k(b) // 2 if s == 0 else 1))
            verify(self._peer.finish(self._session, out, Status.CANCELED), "no CLOSE_ACK")
            verify(get_object(self._edge, item.key) is None, "half an object is visible")
            verify(self._deliver([item]) == {0: Status.COMMITTED}, "not committed")
        verify(self._same(item), "the object differs")

    def _ask_peer(self, *decisions: list[int]) -> tuple[list[Item], dict[str, object]]:
        """An order of objects the peer decides about so, attempt by attempt; how it ended."""
        items = [self._item(30001) for _ in decisions]
        for item in items:
            put_object(self._edge, item.key, item.data)
        answers = {item.key: list(d) for item, d in zip(items, decisions, strict=True)}

        def decide(record: manifest.Record) -> int:
            left = answers[record.key]
            return left.pop(0) if left else Status.PENDING

        def prepare(session: Session) -> None:
            session.decide = decide
        self._peer.prepare = prepare
        self._peer.be_known()
        for session in self._peer.accepted:
            prepare(session)
        with counted(self._edge, self._peer, "the peer decides"):
            order = self._peer.order([item.key.decode() for item in items])
            self._peer.wait_order(order)
        shown: dict[str, object] = self._master.ctl("order", "show", str(order))
        return items, shown

    def _verify_order(self, shown: dict[str, object], **wanted: object) -> None:
        got = {name: shown[name] for name in wanted}
        verify(got == wanted, f"the order is {got}: {shown['text']}")

    @func_test
    def peer_has_it(self) -> None:
        """The edge sends; the peer has one of two objects.

        Steps:
            Order two objects to the peer, which says EXISTS of the first.
        Verify:
            The order is done, one existed, one was committed; the peer got the bytes of the
            second alone.
        """
        items, shown = self._ask_peer([Status.EXISTS], [])
        self._verify_order(shown, state="done", existed=1, committed=1, failed=0)
        store = self._peer.store
        got = {key: data for (_, key), data in store.items()}
        verify(got.get(items[1].key) == items[1].data, "the second object differs")
        verify(items[0].key not in got, "the first was sent")

    @func_test
    def peer_is_full(self) -> None:
        """FULL is tried again.

        Steps:
            Order two objects to the peer, which says FULL of the first at first.
        Verify:
            The order is done with both committed, and the peer has both.
        """
        items, shown = self._ask_peer([Status.FULL], [])
        self._verify_order(shown, state="done", existed=0, committed=2, failed=0)
        got = {key: data for (_, key), data in self._peer.store.items()}
        verify(all(got.get(i.key) == i.data for i in items), "an object differs")

    @func_test
    def peer_refuses(self) -> None:
        """Statuses that are final failures, one of them unknown.

        Steps:
            Order three objects to the peer, which says REFUSED, 99 and nothing.
        Verify:
            The order has failed, one object was committed, two failed.
        """
        _, shown = self._ask_peer([Status.REFUSED], [99], [])
        self._verify_order(shown, state="failed", committed=1, failed=2)
