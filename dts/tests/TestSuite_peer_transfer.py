# SPDX-License-Identifier: Apache-2.0
"""Transfers between the edge and the independent implementation of doc/wire.md.

Both directions, and both roles of the management connection: whoever initiates is the source. What
arrives is compared byte by byte, what was counted as dropped must be nothing."""
import random
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Master, moved
from api.test import verify
from api.wire import Item, PeeredEdge, Status, WirePeer, get_object, put_object
from framework.test_suite import TestSuite, func_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestPeerTransfer(TestSuite):
    """Cases: peer_sends_an_object, peer_sends_many_objects, peer_receives_an_object."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(PeeredEdge(self._master))
        self._peer = self._stack.enter_context(WirePeer(self._master, self._edge))

    def tear_down_suite(self) -> None:
        """End all."""
        self._stack.close()

    @func_test
    def peer_sends_an_object(self) -> None:
        """An object of the peer lands in the edge's pool.

        Steps:
            Open a session, send one object.
        Verify:
            It is COMMITTED and the same in the pool; no drop counter moved.
        """
        before = self._edge.settled_counters()
        session = self._peer.open()
        item = Item(b"one", random.randbytes(300000))
        statuses = self._peer.send(session, [item])
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")
        after = self._edge.settled_counters()
        verify(not moved(before, after), f"drops: {moved(before, after)}")

    @func_test
    def peer_receives_an_object(self) -> None:
        """An order ships an object to the peer.

        Steps:
            Put an object into the edge's pool and order it to the peer's site.
        Verify:
            The order is done, the peer has the same bytes; no drop counter moved.
        """
        self._peer.be_known()
        data = random.randbytes(300000)
        put_object(self._edge, b"there", data)
        before = self._edge.settled_counters()
        order = self._peer.order(["there"])
        state = self._peer.wait_order(order)
        verify(state == "done", f"the order is {state}")
        got = self._peer.accepted[-1].store
        verify(list(got.values()) == [data], f"got {len(got)} objects {list(got)}")
        after = self._edge.settled_counters()
        verify(not moved(before, after), f"drops: {moved(before, after)}")
