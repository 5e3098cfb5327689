# SPDX-License-Identifier: Apache-2.0
"""Replays: doc/wire.md section 5.

Control packets are filtered by packet number, symbols by their slot. A packet may come late and
out of order, but nothing may count twice: not in a generation of keys, not across generations, not
in the session after a restart."""
import random

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import PeeredAnew
from api.test import verify
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
    packet,
)
from framework.test_suite import TestSuite, func_test
from wire.replay import WINDOW


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestReplay(PeeredAnew, TestSuite):
    """Cases: in_order, reordered, symbols_at_any_age, control_too_old, after_close,
    waiting_in_scratch, across_generations, old_session_after_restart."""

    def _begin(self, size: int = 100000) -> Outgoing:
        """A transfer that the edge knows, with its manifest, none of its data."""
        self._names += 1
        out = self._session.transfer([Item(b"replay-%d" % self._names, random.randbytes(size))])
        self._session.control(out.open_frame())
        self._session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None, 3)
        return out

    def _end(self, out: Outgoing) -> None:
        statuses = self._peer.deliver(self._session, out)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, out.items[0].key) == out.items[0].data, "the object differs")

    def _symbols(self, out: Outgoing, esis: range) -> list[bytes]:
        return [self._session.symbol(out, OBJECTS, 0, e) for e in esis]

    def _pings(self, count: int, session: Session | None = None) -> list[bytes]:
        session = session or self._session
        return [session.seal(packet.CONTROL, frames.Ping().encode()) for _ in range(count)]

    @func_test
    def in_order(self) -> None:
        """A recording is played back as it was.

        Steps:
            Send control packets and source and repair symbols; send all of them again, twice.
        Verify:
            Nothing is dropped at first; rx_replay counts each that came again and no other drop
            counter moves; the object arrives.
        """
        out = self._begin()
        k = out.cut[OBJECTS].k(0)
        packets = self._symbols(out, range(30)) + self._symbols(out, range(k, k + 10))
        packets += self._pings(20)
        with counted(self._edge, self._peer, "first time", rx_replay=0):
            self._peer.raw(packets)
        with counted(self._edge, self._peer, "played back", rx_replay=2 * len(packets)):
            self._peer.raw(packets * 2)
        self._end(out)

    @func_test
    def reordered(self) -> None:
        """A recording is played back in another order, mixed with packets that never came.

        Steps:
            Seal 120 packets, send every other one; then send all in reverse, then shuffled.
        Verify:
            What had not come is taken once; rx_replay counts the rest and no other drop counter
            moves; the object arrives.
        """
        out = self._begin()
        packets = self._symbols(out, range(60)) + self._pings(60)
        with counted(self._edge, self._peer, "half of it", rx_replay=0):
            self._peer.raw(packets[::2])
        with counted(self._edge, self._peer, "in reverse", rx_replay=60):
            self._peer.raw(reversed(packets))
        random.shuffle(packets)
        with counted(self._edge, self._peer, "shuffled", rx_replay=120):
            self._peer.raw(packets)
        self._end(out)

    @func_test
    def symbols_at_any_age(self) -> None:
        """An empty slot is filled however old the packet is.

        Steps:
            Seal two symbols, skip more numbers than the window has, let a later packet arrive,
            then send the symbols, the first one twice; then the first one's slot again under a
            number below the window.
        Verify:
            rx_replay counts the repetition and the full slot, and no other drop counter moves;
            the object arrives.
        """
        out = self._begin()
        old = self._symbols(out, range(2))
        spare = self._session.next_number
        self._session.next_number += WINDOW + 10000
        with counted(self._edge, self._peer, "old symbols", rx_replay=2):
            self._session.control(frames.Ping())
            self._peer.rest(0.05)
            self._peer.raw([*old, old[0]])
            self._peer.raw([self._session.seal(packet.DATA, out.symbol(OBJECTS, 0, 0), spare,
                                               transfer=out.transfer)])
        self._end(out)

    @func_test
    def control_too_old(self) -> None:
        """Control packets below the window are dropped though they never came.

        Steps:
            Seal control packets, skip more numbers than the window has, let a later packet
            arrive, send them. Send others with numbers inside the window.
        Verify:
            rx_replay counts the old ones, and no other drop counter moves.
        """
        old = self._pings(10)
        self._session.next_number += WINDOW + 10000
        with counted(self._edge, self._peer, "old control", rx_replay=len(old)):
            self._session.control(frames.Ping())
            self._peer.rest(0.05)
            self._peer.raw(old)
        inside = [self._session.next_number - n for n in (1000, 50000, WINDOW - 1000)]
        with counted(self._edge, self._peer, "inside the window", rx_replay=0):
            self._peer.raw(self._session.seal(packet.CONTROL, frames.Ping().encode(), n)
                           for n in inside)

    @func_test
    def after_close(self) -> None:
        """Symbols of a closed transfer.

        Steps:
            Keep packets of a transfer, finish and close it; send them again, then the same
            symbols under new numbers.
        Verify:
            rx_replay counts the former, rx_transfer the latter, and no other drop counter moves.
        """
        out = self._begin()
        packets = self._symbols(out, range(20))
        self._peer.raw(packets)
        self._end(out)
        with counted(self._edge, self._peer, "closed", rx_replay=20):
            self._peer.raw(packets)
        with counted(self._edge, self._peer, "closed, new numbers", rx_transfer=20):
            self._peer.raw(self._symbols(out, range(20)))

    @func_test
    def waiting_in_scratch(self) -> None:
        """Symbols ahead of their OPEN wait once.

        Steps:
            Send symbols of a transfer that was not opened, three times; then open and send it.
        Verify:
            rx_early counts each once, rx_replay twice, and no other drop counter moves; the
            object arrives.
        """
        self._names += 1
        item = Item(b"replay-%d" % self._names, random.randbytes(100000))
        out = self._session.transfer([item])
        packets = self._symbols(out, range(20))
        with counted(self._edge, self._peer, "early", rx_early=20, rx_replay=40):
            self._peer.raw(packets * 3)
        self._end(out)

    @func_test
    def across_generations(self) -> None:
        """Keys of the generation before are held, those before it are not.

        Steps:
            Send packets in generation 0, let generation 1 begin; send old and new packets of 0.
            Let generation 2 begin; send packets of 0 and of 1 again.
        Verify:
            In generation 1: rx_replay for what came before, nothing for what had not. In
            generation 2: rx_generation for 0, rx_replay for 1. No other drop counter moves; the
            object arrives.
        """
        out = self._begin()
        first = self._symbols(out, range(10)) + self._pings(10)
        late = self._symbols(out, range(10, 20)) + self._pings(10)
        with counted(self._edge, self._peer, "generation 1", rx_replay=20):
            self._peer.raw(first)
            self._next_generation(1)
            self._peer.raw(first + late)
        second = self._symbols(out, range(20, 30)) + self._pings(10)
        with counted(self._edge, self._peer, "generation 2", rx_replay=20,
                     rx_generation=len(first + late)):
            self._peer.raw(second)
            self._next_generation(2)
            self._peer.raw(first + late)
            self._peer.raw(second)
        self._end(out)

    def _next_generation(self, gen: int) -> None:
        """Enter it after a REPORT named a packet of the one before, and let a packet arrive."""
        session = self._session
        session.control(frames.Ping())
        verify(self._peer.until(lambda: session.reported >= (gen - 1) << 23, 2), "no REPORT")
        session.enter_generation(gen)
        session.control(frames.Ping())
        verify(self._peer.until(lambda: session.reported >= gen << 23, 2),
               f"generation {gen} is not reported")

    @func_test
    def old_session_after_restart(self) -> None:
        """A restarted edge knows nothing of the sessions before.

        Steps:
            Keep packets of a session, some of which came and some did not. Restart the edge, send
            them; open a new session, send them again.
        Verify:
            drop_no_session counts each and no other drop counter moves; an object arrives in the
            new session.
        """
        old = self._session
        out = self._begin()
        came = self._symbols(out, range(20)) + self._pings(10)
        self._peer.raw(came)
        kept = came + self._symbols(out, range(20, 40)) + self._pings(10)
        self._edge.kill()
        self._edge.start_again()
        del self._peer.sessions[old.own_id]
        with counted(self._edge, self._peer, "old session", port_drop_no_session=len(kept)):
            self._peer.raw(kept)
        self._session = self._peer.open()
        with counted(self._edge, self._peer, "old session", port_drop_no_session=len(kept)):
            self._peer.raw(kept)
        self._end(self._begin())
