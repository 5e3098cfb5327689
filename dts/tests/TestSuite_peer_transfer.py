# SPDX-License-Identifier: Apache-2.0
"""Transfers between the edge and the independent implementation of doc/wire.md.

Both directions, and both roles of the management connection: whoever initiates is the source. What
arrives is compared byte by byte, what was counted as dropped must be nothing."""
import random

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import verify
from api.wire import (
    OBJECTS,
    Item,
    Status,
    counted,
    get_object,
    keys,
    put_object,
)
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestPeerTransfer(Peered, TestSuite):
    """Cases: session_comes_up, peer_sends_an_object, sizes_around_symbols_and_blocks,
    many_objects_in_one_transfer, every_class_and_symbol_size, peer_sends_through_loss,
    credit_is_given_back,
    peer_receives_an_object, peer_receives_sizes_and_classes, peer_receives_through_loss,
    peer_resumes_for_the_edge, both_directions_at_once, reset_by_the_peer."""

    def set_up_test_case(self) -> None:
        """One session for all cases but the first."""
        if get_ctx().case != "session_comes_up" and not self._peer.counter:
            self._session = self._peer.open()

    def tear_down_test_case(self) -> None:
        """Lose nothing any more."""
        self._peer.disturb = None

    def _send(self, items: list[Item], **options: int) -> None:
        statuses = self._peer.send(self._session, items, **options)
        verify(statuses == dict.fromkeys(range(len(items)), Status.COMMITTED),
               f"statuses {statuses}")
        for item in items if len(items) < 10 else random.sample(items, 10):
            verify(get_object(self._edge, item.key) == item.data, "an object differs")

    @func_test
    def session_comes_up(self) -> None:
        """Both sides derive the same keys from the TLS connection, and seal in the same way.

        Steps:
            Say HELLO as initiator, send CHALLENGE, answer the edge's.
        Verify:
            RESPONSE brings the token back; all of the edge's packets open here, none of the
            peer's is dropped there.
        """
        with counted(self._edge, self._peer, "session"):
            try:
                self._session = self._peer.open()
            except OSError as error:
                verify(False, str(error))
            self._peer.until(lambda: self._session.counters["Challenge"], 2)
        wrong = self._session.counters["rx_auth"]
        verify(self._session.counters["Challenge"] > 0, "no CHALLENGE of the edge opened")
        verify(wrong == 0, f"{wrong} packets of the edge do not open")

    @func_test
    def peer_sends_an_object(self) -> None:
        """An object of the peer lands in the edge's pool.

        Steps:
            Send one object of three blocks.
        Verify:
            It is COMMITTED and the same in the pool; no drop counter moves.
        """
        with counted(self._edge, self._peer, "an object"):
            self._send([self._item(400000)])

    @func_test
    def sizes_around_symbols_and_blocks(self) -> None:
        """Where symbols and blocks end.

        Steps:
            Send objects of 1 byte, around 1 and 2 symbols, around 128 and 256 of them, each in a
            transfer of its own.
        Verify:
            All arrive; no drop counter moves.
        """
        size = self._session.symbol_bytes
        with counted(self._edge, self._peer, "sizes"):
            for n in (1, size - 1, size, size + 1, 2 * size, 128 * size - 1, 128 * size,
                      128 * size + 1, 256 * size, 256 * size + 1):
                self._send([self._item(n)])

    @func_test
    def many_objects_in_one_transfer(self) -> None:
        """Objects that share symbols, and a manifest of several symbols.

        Steps:
            Send 300 objects of 1 to 900 bytes in one transfer.
        Verify:
            All arrive; no drop counter moves.
        """
        with counted(self._edge, self._peer, "many objects"):
            self._send([self._item(random.randrange(1, 900)) for _ in range(300)])

    @func_test
    def every_class_and_symbol_size(self) -> None:
        """Classes, and symbols smaller than HELLO allows.

        Steps:
            Send an object in each class with symbols of 512, 777 and 1432 bytes.
        Verify:
            All arrive; no drop counter moves.
        """
        with counted(self._edge, self._peer, "classes"):
            for priority in range(3):
                for symbol_bytes in (512, 777, 1432):
                    self._send([self._item(100000)], priority=priority, symbol_bytes=symbol_bytes)

    @func_test
    def peer_sends_through_loss(self) -> None:
        """What NEED asks for is enough.

        Steps:
            Send an object of ten blocks, of which a fifth of all symbols is left out; answer each
            NEED with repair symbols.
        Verify:
            It arrives, with no more symbols sent than k a block; no drop counter moves.
        """
        item = self._item(1800000)
        out = self._session.transfer([item])
        with counted(self._edge, self._peer, "loss"):
            statuses = self._peer.deliver(
                self._session, out, lambda stream, block:
                [e for e in range(out.cut[stream].k(block))
                 if stream != OBJECTS or random.random() > 0.2])
            verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

    @func_test
    def credit_is_given_back(self) -> None:
        """The limits rise by what became final.

        Steps:
            Note the limits of a class; send transfers of 3 objects with 40000 bytes in all, one of
            them closed before it was finished.
        Verify:
            The limits rose by exactly all of their bytes and objects; no drop counter moves.
        """
        with counted(self._edge, self._peer, "credit"):
            self._send([self._item(1000)])
            self._peer.rest(0.1)
            before = self._session.limits[1]
            self._send([self._item(10000), self._item(20000), self._item(9999)])
            out = self._session.transfer([self._item(40001) for _ in range(3)])
            self._peer.start(self._session, out, lambda stream, block: [0])
            verify(self._peer.finish(self._session, out, Status.CANCELED), "no CLOSE_ACK")
            wanted = before[0] + 39999 + 120003, before[1] + 6
            self._peer.until(lambda: self._session.limits[1] == wanted, 1)
            self._send([self._item(1)])
            self._peer.until(lambda: self._session.limits[1][0] > wanted[0], 1)
        got = self._session.limits[1]
        verify(got == (wanted[0] + 1, wanted[1] + 1), f"limits {got} after {before}")

    def _receive(self, sizes: list[int], priority: str = "normal") -> None:
        """Order objects to the peer and compare them."""
        items = [self._item(n) for n in sizes]
        for item in items:
            put_object(self._edge, item.key, item.data)
        self._peer.be_known()
        order = self._peer.order([item.key.decode() for item in items], priority)
        state = self._peer.wait_order(order)
        verify(state == "done", f"the order is {state}")
        store = {key: data for (_, key), data in self._peer.store.items()}
        for item in items:
            verify(store.get(item.key) == item.data, "an object differs")
        counters = self._peer.accepted[-1].counters
        wrong = {n: counters[n] for n in (
            "rx_short", "rx_version", "rx_queue", "rx_generation", "rx_auth", "rx_block",
            "rx_length", "rx_frame", "rx_transfer") if counters[n]}
        verify(not wrong, f"the edge sent what must not be: {wrong}")

    @func_test
    def peer_receives_an_object(self) -> None:
        """An order ships an object to the peer.

        Steps:
            Put an object into the edge's pool and order it to the peer's site.
        Verify:
            The order is done, the peer has the same bytes and had nothing to refuse; no drop
            counter moves.
        """
        with counted(self._edge, self._peer, "an object"):
            self._receive([300000])

    @func_test
    def peer_receives_sizes_and_classes(self) -> None:
        """Objects of many sizes in each class.

        Steps:
            Order ten objects of 1 byte to 200000 bytes in each of the three classes.
        Verify:
            As before.
        """
        with counted(self._edge, self._peer, "classes"):
            for priority in ("urgent", "normal", "bulk"):
                self._receive([1, 1431, 1432, 1433, *(random.randrange(1, 200000)
                                                      for _ in range(6))], priority)

    @func_test
    def peer_receives_through_loss(self) -> None:
        """The edge repairs what the peer lacks.

        Steps:
            Order objects to a peer that loses a tenth of all datagrams, CONTROL among them.
        Verify:
            As before.
        """
        self._peer.disturb = lambda data: [] if random.random() < 0.1 else [data]
        with counted(self._edge, self._peer, "loss"):
            self._receive([700000, 3000, 90000])

    @func_test
    def peer_resumes_for_the_edge(self) -> None:
        """The edge keeps a session when its TLS connection is lost.

        Steps:
            Receive an object; close the TLS connection from the peer's side; receive another.
        Verify:
            The edge says HELLO with resume_session; both objects arrive in one session, whose
            packet numbers go on; no drop counter moves.
        """
        self._receive([20000])
        session = self._peer.accepted[-1]
        hellos = len(self._peer.hellos)
        with counted(self._edge, self._peer, "TLS lost"):
            self._peer.drop_callers()
            came = self._peer.until(lambda: len(self._peer.hellos) > hellos
                                    or self._peer.resumed, 8)
            verify(came, "the edge does not come back")
            verify(self._peer.resumed == 1, "the edge did not ask for its session")
            self._receive([20000])
        verify(self._peer.accepted[-1] is session, "the second object came in another session")

    @func_test
    def both_directions_at_once(self) -> None:
        """Two sessions, one each way.

        Steps:
            Order an object to the peer; while it is under way send one to the edge.
        Verify:
            Both arrive; no drop counter moves.
        """
        there, back = self._item(500000), self._item(500000)
        put_object(self._edge, there.key, there.data)
        self._peer.be_known()
        with counted(self._edge, self._peer, "both ways"):
            order = self._peer.order([there.key.decode()])
            self._send([back])
            state = self._peer.wait_order(order)
            verify(state == "done", f"the order is {state}")
        verify(there.data in self._peer.store.values(), "the object differs at the peer")

    @func_test
    def reset_by_the_peer(self) -> None:
        """SESSION_RESET ends a session at once; the next one has keys of its own.

        Steps:
            Send SESSION_RESET of the peer's session, then a packet of it; open a new one and send
            an object.
        Verify:
            drop_no_session counts the packet and no other drop counter moves; the object arrives,
            and the secret is another one.
        """
        old = self._session
        old.auto = False
        with counted(self._edge, self._peer, "reset", port_drop_no_session=1):
            log = get_ctx().suite_dir / self._edge.name / "err"
            resets = log.read_text("utf-8").count("reset by the peer")
            self._peer.reset(old)
            ended = self._peer.until(
                lambda: log.read_text("utf-8").count("reset by the peer") > resets, 5)
            verify(ended, "the edge did not end the session")
            # Its worker hears of it a moment later.
            self._peer.rest(0.1)
            old.control()
        self._session = self._peer.open()
        verify(self._session.tx.key(0) != old.tx.key(0), "the keys are the same")
        verify(keys.generation(self._session.next_number) == 0, "numbers do not start at 0")
        with counted(self._edge, self._peer, "new session"):
            self._send([self._item(20000)])
