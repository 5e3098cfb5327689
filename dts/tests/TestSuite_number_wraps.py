# SPDX-License-Identifier: Apache-2.0
"""Numbers near where they wrap or end: packet numbers, generations, counters, clocks, sizes.

A sender may skip packet numbers, so every edge but the last of 64 bits is near. Transfer ids: suite
transfer_ids."""
import time

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import PeeredAnew
from api.strait import REPORT_INTERVAL
from api.test import fail, verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Session,
    Status,
    counted,
    frames,
    keys,
    packet,
    put_object,
)
from framework.test_suite import TestSuite, func_test

TOP32, TOP64 = 1 << 32, 1 << 64
WINDOW = 131072
CLOCK_END = 1 << 52


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestNumberWraps(PeeredAnew, TestSuite):
    """Cases: a_transfer_across_a_generation, generations_one_by_one, numbers_far_ahead,
    numbers_across_32_bits, numbers_of_one_slot, session_counter_at_its_end,
    last_number_of_a_generation, largest_sizes,
    receive_clock_at_its_end."""

    def _reported(self, number: int) -> None:
        """The edge says that it got a packet with this number or a higher one."""
        session = self._session

        def reported() -> bool:
            session.control(frames.Ping())
            return self._peer.until(lambda: session.reported >= number, 0.02)
        verify(self._peer.until(reported, 2), f"{session.reported} is reported, not {number}")

    @func_test
    def a_transfer_across_a_generation(self) -> None:
        """Keys change in the middle of a transfer.

        Steps:
            Have generation 0 reported, skip to 40 numbers before its end, send an object of more
            packets than that.
        Verify:
            The object arrives, numbers of both generations are reported, no drop counter moves.
        """
        with counted(self._edge, self._peer, "across"):
            self._reported(0)
            self._session.next_number = keys.PER_GENERATION - 40
            self._send_one(200000)
            verify(self._session.reported >= keys.PER_GENERATION, "generation 1 is not reported")
            acked = self._session.acked
            verify({keys.PER_GENERATION - 1, keys.PER_GENERATION} <= acked,
                   "the numbers around the end are not reported")

    @func_test
    def generations_one_by_one(self) -> None:
        """Many generations, each entered when the one before is reported.

        Steps:
            Send an object in each of the generations 0 to 7; in each a packet of the generation
            two before, and of the one two ahead.
        Verify:
            All objects arrive; rx_generation counts the packets of others and no other drop
            counter moves.
        """
        with counted(self._edge, self._peer, "generations", rx_generation=14):
            old: list[bytes] = []
            for gen in range(8):
                self._session.enter_generation(gen)
                self._send_one(20000)
                self._reported(gen << keys.GENERATION_SHIFT)
                if gen >= 2:
                    self._session.send(old[gen - 2])
                old.append(self._session.seal(packet.CONTROL, frames.Ping().encode()))
                self._session.send(self._session.seal(
                    packet.CONTROL, frames.Ping().encode(),
                    (gen + 2 << keys.GENERATION_SHIFT) + gen))

    @func_test
    def numbers_far_ahead(self) -> None:
        """Generations that nobody can have reached.

        Steps:
            Seal packets with numbers of every power of two from generation 2 on, one less, and
            with the last of 64 bits, under the keys of generations 0 and (where near) their own.
        Verify:
            rx_generation counts each, in silence, and no other drop counter moves.
        """
        numbers = [(1 << bit) + less for bit in range(25, 64) for less in (-1, 0)]
        numbers.append((1 << 64) - 1)
        wrong = [self._session.seal(packet.CONTROL, frames.Ping().encode(), n, gen=0)
                 for n in numbers]
        wrong += [self._session.seal(packet.CONTROL, frames.Ping().encode(), n)
                  for n in numbers[:6]]
        before = self._session.counters["Report"]
        with counted(self._edge, self._peer, "far ahead", rx_generation=len(wrong)):
            self._peer.raw(wrong)
        verify(self._session.counters["Report"] == before, "a PING far ahead was answered")

    @func_test
    def last_number_of_a_generation(self) -> None:
        """The last number of a generation is a number like any other.

        Steps:
            Use the last number of generation 0, then of 1, for the packet that completes an
            object; then the first of 2.
        Verify:
            The objects arrive, no drop counter moves.
        """
        with counted(self._edge, self._peer, "last numbers"):
            for gen in range(2):
                self._reported(gen << keys.GENERATION_SHIFT if gen else 0)
                item = self._item(1000)
                out = self._session.transfer([item])
                self._session.control(out.open_frame())
                self._session.send_symbol(out, MANIFEST, 0, 0)
                self._session.next_number = (gen + 1 << keys.GENERATION_SHIFT) - 1
                self._session.send_symbol(out, OBJECTS, 0, 0)
                statuses = self._peer.deliver(self._session, out, lambda stream, block: [])
                verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
            self._send_one(1000)

    @func_test
    def numbers_across_32_bits(self) -> None:
        """Packet numbers have 64 bits.

        Steps:
            Enter 511 generations, one after the other, each when the one before was reported; skip
            to 40 numbers before 2^32 and send an object of more packets than that.
        Verify:
            The object arrives, numbers on both sides of 2^32 are reported; no drop counter moves.
            A packet whose number has the same lower 32 bits as one of them: rx_generation.
        """
        session = self._session
        with counted(self._edge, self._peer, "generations"):
            for gen in range(1, 512):
                session.enter_generation(gen)
                self._reported(gen << keys.GENERATION_SHIFT)
            session.next_number = TOP32 - 40
            self._send_one(200000)
            verify({TOP32 - 1, TOP32} <= session.acked, "numbers around 2^32 are not reported")
        old = session.seal(packet.CONTROL, frames.Ping().encode(), session.next_number - TOP32)
        with counted(self._edge, self._peer, "lower 32 bits", rx_generation=1):
            session.send(old)

    @func_test
    def numbers_of_one_slot(self) -> None:
        """Numbers that a bitmap of 131072 keeps in the same place are different numbers.

        Steps:
            Send control packets with numbers that differ by multiples of 131072, and by 2^23, each
            twice: forwards, and such as still are in the window.
        Verify:
            Each is taken once: rx_control counts it; rx_replay counts the repetition, and those
            that the window has left behind; no other drop counter moves.
        """
        session = self._session

        def ping(number: int) -> bytes:
            return session.seal(packet.CONTROL, frames.Ping().encode(), number)
        top = 5 * WINDOW + 1000
        fresh = [1000, 1000 + WINDOW, 1000 + 2 * WINDOW, top, top - WINDOW + 128, top + 128,
                 keys.PER_GENERATION + 1000, keys.PER_GENERATION + 1000 + WINDOW]
        stale = [top - 2 * WINDOW, top - 3 * WINDOW + 128]
        with counted(self._edge, self._peer, "one slot", rx_replay=len(fresh) + len(stale)):
            before = self._edge.counters()
            for number in fresh[:6]:
                self._peer.raw([ping(number)] * 2)
            self._peer.raw(ping(n) for n in stale)
            verify(self._peer.until(lambda: session.reported >= top + 128, 2), "no REPORT")
            for number in fresh[6:]:
                self._peer.raw([ping(number)] * 2)
            session.next_number = fresh[-1] + 1
            self._peer.rest(3 * REPORT_INTERVAL)
            after = self._edge.counters()
        taken = after["rx_control"] - before["rx_control"]
        # The session may say something by itself.
        verify(len(fresh) <= taken <= len(fresh) + 3, f"{taken} of {len(fresh)} were taken")

    @func_test
    def session_counter_at_its_end(self) -> None:
        """The session counter has 64 bits, too.

        Steps:
            Open sessions with the counters 2^32 - 1, 2^32, 2^63 and 2^64 - 1 on one connection;
            then HELLO with 0, with 1 and with 2^64 - 1 again.
        Verify:
            Each of the former is a session whose keys are right: an object arrives. The latter are
            answered by an Error; no drop counter moves.
        """
        channel = self._peer.channel()
        start = self._peer.counter
        try:
            for counter in (TOP32 - 1, TOP32, 1 << 63, TOP64 - 1):
                self._peer.counter = counter - 1
                with counted(self._edge, self._peer, f"counter {counter}"):
                    self._session = self._peer.initiate(channel)
                    self._send_one(1000)
            for counter in (0, 1, TOP64 - 1):
                with counted(self._edge, self._peer, f"counter {counter} again"):
                    self._refused(counter)
        finally:
            self._peer.counter = start + 1

    def _refused(self, counter: int) -> None:
        """On a connection whose last counter was 2^64 - 1."""
        self._peer.counter = TOP64 - 2
        channel = self._peer.call()
        self._session = self._peer.initiate(channel)
        try:
            self._peer.say_hello(channel, counter=counter)
        except OSError as error:
            verify("session counter" in str(error), f"{counter}: {error}")
            return
        fail(f"counter {counter} was accepted after 2^64 - 1")

    @func_test
    def largest_sizes(self) -> None:
        """OPEN with every field at its end.

        Steps:
            OPEN a transfer of 65536 objects, 2^42 bytes, a manifest of 2^25 bytes and the highest
            order, deadline and report interval.
        Verify:
            OPEN_ACK REFUSED, as it is more than this edge's memory, which rx_open_refused counts;
            no drop counter moves; an object arrives afterwards.
        """
        out = self._session.transfer([self._item(1000)])
        last = frames.Open(out.transfer, (1 << 64) - 1, 1 << 42, 1 << 25, 65536, 1432, 2,
                           (1 << 32) - 1, (1 << 64) - 1)
        with counted(self._edge, self._peer, "largest", rx_open_refused=1):
            self._session.control(last)
            verify(self._peer.until(lambda: out.open_status is not None, 2), "no OPEN_ACK")
            verify(out.open_status == Status.REFUSED, f"OPEN_ACK {out.open_status}")
            self._send_one()

    @func_test
    def receive_clock_at_its_end(self) -> None:
        """The receiver's clock is its own: it may start anywhere below 2^52 us.

        Steps:
            Order an object from the edge to a peer whose receive times come close to 2^52 us; then
            send REPORTs with times of 2^52, 2^63 and 2^64 - 1.
        Verify:
            The order is done, the bytes are the same, no drop counter moves; rx_frame counts the
            REPORTs.
        """
        item = self._item(600000)
        put_object(self._edge, item.key, item.data)

        def prepare(session: Session) -> None:
            session.clock_us = CLOCK_END - round(time.monotonic() * 1e6) - 60000000
        self._peer.prepare = prepare
        self._peer.be_known()
        with counted(self._edge, self._peer, "clock"):
            order = self._peer.order([item.key.decode()])
            state = self._peer.wait_order(order)
            verify(state == "done", f"the order is {state}")
        verify(item.data in self._peer.store.values(), "the object differs")
        session = self._peer.accepted[-1]
        with counted(self._edge, self._peer, "beyond", rx_frame=3):
            for stamp in (CLOCK_END, 1 << 63, (1 << 64) - 1):
                session.control(frames.Report(0, 0, stamp, 0, 0, [(0, 0)]))
