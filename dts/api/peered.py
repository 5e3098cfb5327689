# SPDX-License-Identifier: Apache-2.0
"""Suites in which the peer written in Python faces the edge under test."""
import random
from contextlib import ExitStack
from typing import Any, ClassVar

from api.strait import Master
from api.test import verify
from api.wire import Item, PeeredEdge, Session, Status, WirePeer, get_object


class Peered:
    """Hooks and helpers of such a suite; stands before TestSuite among its bases."""

    edge_config: ClassVar[dict[str, Any]] = {}  # what the edge's configuration has besides
    _session: Session

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(PeeredEdge(self._master, **self.edge_config))
        self._peer = self._stack.enter_context(WirePeer(self._master, self._edge))
        self._names = 0

    def tear_down_suite(self) -> None:
        """End all."""
        self._stack.close()

    def _item(self, size: int = 60000) -> Item:
        """An object of a key of its own."""
        self._names += 1
        key = f"{type(self).__name__}-{self._names}"
        return Item(key.encode(), random.randbytes(size))

    def _send_one(self, size: int = 60000, **options: int) -> None:
        """An object arrives over the session."""
        item = self._item(size)
        statuses = self._peer.send(self._session, [item], **options)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")


class PeeredAnew(Peered):
    """Each case has a session of its own: its packet numbers start at 0."""

    def set_up_test_case(self) -> None:
        """Open the session."""
        self._session = self._peer.open()
