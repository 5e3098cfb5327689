# SPDX-License-Identifier: Apache-2.0
"""An edge changes its keys by itself: every minute, and in the middle of what it does.

doc/wire.md section 4: it enters the next generation after 60 s, by skipping packet numbers, and
only when a packet of the one before was reported. A suite of its own, since it waits for most of
its time."""
import time

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import verify
from api.wire import Status, counted, frames, get_object, put_object
from framework.test_suite import TestSuite, func_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestEdgeRekeys(Peered, TestSuite):
    """Cases: edge_changes_keys_by_itself."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer, known to the master."""
        super().set_up_suite()
        self._peer.be_known()

    @func_test
    def edge_changes_keys_by_itself(self) -> None:
        """A minute in two sessions: in both directions, with and without transfers.

        Steps:
            Let a session of the peer live for 65 s with a PING every second, which makes the edge
            send; order an object from the edge every ten seconds in a session of its own. Then
            send an object.
        Verify:
            The edge's packets come in generation 0 until 55 s have passed and in 1 at the end,
            in both sessions, under its keys, numbers starting at 2^23; all objects arrive; no drop
            counter moves; tx_generations counts both.
        """
        session = self._peer.open()
        before = self._edge.counters()
        with counted(self._edge, self._peer, "rekey"):
            start = time.monotonic()
            early = [0, 0]
            orders = 0
            while time.monotonic() < start + 65:
                session.control(frames.Ping())
                self._peer.rest(1)
                if time.monotonic() > start + 10 * orders:
                    self._receive(orders)
                    orders += 1
                if time.monotonic() < start + 55:
                    early = [session.rx_generation, self._peer.accepted[-1].rx_generation]
            # The edge's own session began with its first order; it enters when it has to send.
            self._receive(orders)
            end = self._peer.until(lambda: self._peer.accepted[-1].rx_generation > 0, 5)
            verify(early == [0, 0], f"generations {early} before their time")
            verify(session.rx_generation == 1, f"generation {session.rx_generation} after 65 s")
            verify(end, "generation 0 in the edge's own session after 65 s")
            item = self._item()
            statuses = self._peer.send(session, [item])
            verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")
        entered = self._edge.counters()["tx_generations"] - before["tx_generations"]
        verify(entered == 2, f"{entered} generations were counted")

    def _receive(self, number: int) -> None:
        item = self._item()
        put_object(self._edge, item.key, item.data)
        state = self._peer.wait_order(self._peer.order([item.key.decode()]))
        verify(state == "done", f"order {number} is {state}")
        verify(item.data in self._peer.store.values(), f"object {number} differs")
