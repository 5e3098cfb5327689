# SPDX-License-Identifier: Apache-2.0
"""Cuts of the wire, with new keys meanwhile.

A generation is entered when a packet of the one before was reported (doc/wire.md section 4). Then
any cut, of either direction or both, and the loss of the TLS connection, must be survived without a
drop; an impatient sender must be refused without harm."""
import random
import time
from typing import Any, ClassVar

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import PeeredAnew
from api.test import verify
from api.wire import (
    OBJECTS,
    Item,
    Outgoing,
    Status,
    counted,
    frames,
    get_object,
    put_object,
)
from framework.test_suite import TestSuite, func_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestRekeyDuringCut(PeeredAnew, TestSuite):
    """Cases: rekey_in_a_blackout, rekey_without_reports, first_packets_of_new_keys_lost,
    impatient_sender, tls_lost_meanwhile, tls_session_not_ours, blackout_of_the_sending_edge."""

    edge_config: ClassVar[dict[str, Any]] = {"cap": "8Mbit"}

    def tear_down_test_case(self) -> None:
        """Mend the wire."""
        self._peer.disturb = None

    def _half(self) -> Outgoing:
        """A transfer of which the first half was sent, in generation 0, and reported."""
        self._names += 1
        item = Item(b"cut-%d" % self._names, random.randbytes(500000))
        out = self._session.transfer([item])
        blocks = out.cut[OBJECTS].blocks
        self._peer.start(self._session, out, lambda stream, block:
                         [] if stream == OBJECTS and block >= blocks // 2
                         else range(out.cut[stream].k(block)))
        self._reported(0)
        return out

    def _reported(self, number: int) -> None:
        def reported() -> bool:
            self._session.control(frames.Ping())
            self._peer.rest(0.01)
            return self._session.reported >= number
        verify(self._peer.until(reported, 2), f"{number} is not reported")

    def _cut(self, there: bool, back: bool) -> None:
        self._session.sending = not there
        self._peer.disturb = (lambda data: []) if back else None

    def _lost(self, out: Outgoing, count: int = 50) -> None:
        """Packets that nobody gets."""
        for esi in range(count):
            self._session.send_symbol(out, OBJECTS, out.cut[OBJECTS].blocks - 1, esi)
        self._session.control(frames.Ping())

    def _end(self, out: Outgoing) -> None:
        statuses = self._peer.deliver(self._session, out)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, out.items[0].key) == out.items[0].data, "the object differs")

    @func_test
    def rekey_in_a_blackout(self) -> None:
        """Nothing passes while keys change.

        Steps:
            Send half an object, cut both directions, send packets of generation 0 and of 1 into
            the cut for a while; mend it, go on in generation 1.
        Verify:
            The object arrives; no drop counter moves.
        """
        out = self._half()
        with counted(self._edge, self._peer, "blackout"):
            self._cut(there=True, back=True)
            self._lost(out)
            self._session.enter_generation(1)
            self._lost(out)
            self._peer.rest(0.5)
            self._cut(there=False, back=False)
            self._end(out)
        verify(self._session.reported >> 23 == 1, "generation 1 is not reported")

    @func_test
    def rekey_without_reports(self) -> None:
        """Only the way back is cut.

        Steps:
            Send half an object; cut what comes from the edge; enter generation 1 and send more;
            mend it.
        Verify:
            The object arrives; no drop counter moves.
        """
        out = self._half()
        with counted(self._edge, self._peer, "no way back"):
            self._cut(there=False, back=True)
            self._session.enter_generation(1)
            self._lost(out)
            self._peer.rest(0.3)
            self._cut(there=False, back=False)
            self._end(out)

    @func_test
    def first_packets_of_new_keys_lost(self) -> None:
        """The first packet of a generation that arrives need not be its first.

        Steps:
            Enter generation 1; lose its first 1000 packets, go on; the same with 2.
        Verify:
            The object arrives; no drop counter moves.
        """
        out = self._half()
        with counted(self._edge, self._peer, "first packets"):
            for gen in (1, 2):
                self._session.enter_generation(gen)
                self._cut(there=True, back=False)
                self._lost(out, 40)
                self._session.next_number += 960
                self._cut(there=False, back=False)
                self._reported(gen << 23)
            self._end(out)

    @func_test
    def impatient_sender(self) -> None:
        """Two generations ahead without a report of the one between.

        Steps:
            Cut the wire, enter generation 1, then 2; mend it and send in 2; return to 1.
        Verify:
            rx_generation counts what was sent in 2 and no other drop counter moves; the object
            arrives in 1.
        """
        out = self._half()
        with counted(self._edge, self._peer, "impatient", rx_generation=51):
            self._cut(there=True, back=True)
            self._session.enter_generation(1)
            self._lost(out)
            back = self._session.next_number
            self._session.enter_generation(2)
            self._lost(out)
            self._cut(there=False, back=False)
            self._session.auto = False
            self._lost(out)
            self._session.next_number = back
            self._session.auto = True
            self._end(out)

    @func_test
    def tls_lost_meanwhile(self) -> None:
        """Losing the TLS connection ends no session.

        Steps:
            Send half an object, close the TLS connection, enter generation 1, send a part; say
            HELLO with resume_session on a new connection; send the rest.
        Verify:
            The answer is `resumed`; the object arrives under the old session's keys; no drop
            counter moves.
        """
        out = self._half()
        with counted(self._edge, self._peer, "TLS lost"):
            self._peer.hang_up()
            self._session.enter_generation(1)
            self._lost(out)
            self._reported(1 << 23)
            verify(self._peer.resume(self._peer.call(), self._session), "not resumed")
            self._end(out)

    @func_test
    def tls_session_not_ours(self) -> None:
        """resume_session of a session that is not there makes a new one.

        Steps:
            Open a session; on a new connection say HELLO with resume_session of an id that was
            never chosen.
        Verify:
            The answer is a session of its own, not `resumed`; no drop counter moves.
        """
        before = self._peer.hellos[-1]
        self._peer.counter += 1
        with counted(self._edge, self._peer, "resume of nothing"):
            answer = self._peer.say_hello(self._peer.call(), session=77,
                                          resume_session=self._session.own_id ^ 1)
            # The edge ended the session of before, whose peer must not go on with it.
            self._session.auto = False
        verify(not answer.resumed, "resumed what never was")
        verify(answer.session not in (0, before.session), "no session of its own")

    @func_test
    def blackout_of_the_sending_edge(self) -> None:
        """The edge sends into a cut.

        Steps:
            Order an object to the peer; when a part came cut both directions for 1 s.
        Verify:
            The order is done, the bytes are the same; no drop counter moves.
        """
        self._names += 1
        key = f"cut-order-{self._names}"
        data = random.randbytes(600000)
        put_object(self._edge, key.encode(), data)
        self._peer.be_known()
        count = 0
        until = 0.0

        def disturb(datagram: bytes) -> list[bytes]:
            nonlocal count, until
            count += 1
            if count == 100:
                until = time.monotonic() + 1.0
            dark = time.monotonic() < until
            for session in self._peer.accepted:
                session.sending = not dark
            return [] if dark else [datagram]
        with counted(self._edge, self._peer, "blackout"):
            self._peer.disturb = disturb
            state = self._peer.wait_order(self._peer.order([key]))
            verify(state == "done", f"the order is {state}")
            self._peer.disturb = None
        verify(until > 0, "the transfer was over before the cut")
        verify(data in self._peer.store.values(), "the object differs")
