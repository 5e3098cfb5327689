# SPDX-License-Identifier: Apache-2.0
"""Numbers near where they wrap or end: packet numbers, generations, transfer ids, clocks, sizes.

A sender may skip packet numbers and transfer ids, so every edge but the last of 64 bits is near."""
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import REPORT_INTERVAL, Master
from api.test import fail, verify, write_performance_json
from api.wire import (
    MANIFEST,
    OBJECTS,
    Item,
    PeeredEdge,
    Session,
    Status,
    WirePeer,
    counted,
    frames,
    get_object,
    keys,
    packet,
    put_object,
)
from framework.test_suite import BaseConfig, TestSuite, func_test, long_test, perf_test

STEP = 2048
TOP32, TOP64 = 1 << 32, 1 << 64
WINDOW = 131072
LAST_TRANSFER = (1 << 32) - 1
CLOCK_END = 1 << 52


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestNumberWraps(TestSuite):
    """Cases: a_transfer_across_a_generation, generations_one_by_one, numbers_far_ahead,
    numbers_across_32_bits, numbers_of_one_slot, session_counter_at_its_end,
    last_number_of_a_generation, transfer_ids_by_steps, transfer_ids_far_below, largest_sizes,
    receive_clock_at_its_end, transfer_ids_upwards, transfer_ids_to_the_last,
    edge_changes_keys_by_itself."""

    @dataclass
    class Config(BaseConfig):
        """How long transfer_ids_upwards may climb, and transfer_ids_to_the_last."""

        climb_seconds: float = 3.0
        climb_to_the_end_seconds: float = 600.0

    config: Config

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(PeeredEdge(self._master))
        self._peer = self._stack.enter_context(WirePeer(self._master, self._edge))
        self._names = 0

    def tear_down_suite(self) -> None:
        """End all."""
        self._stack.close()

    def set_up_test_case(self) -> None:
        """Open a session of its own."""
        self._session = self._peer.open()

    def _item(self, size: int = 60000) -> Item:
        self._names += 1
        return Item(b"wrap-%d" % self._names, random.randbytes(size))

    def _send(self, size: int = 60000, **options: int) -> None:
        item = self._item(size)
        statuses = self._peer.send(self._session, [item], **options)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

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
            self._send(200000)
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
                self._send(20000)
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
            self._send(1000)

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
            self._send(200000)
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
                    self._send(1000)
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
    def transfer_ids_by_steps(self) -> None:
        """Ids may skip up to 2048.

        Steps:
            Send objects in transfers whose ids are 1, 2047 and 2048 above the one before, twenty
            times.
        Verify:
            All arrive, no drop counter moves.
        """
        with counted(self._edge, self._peer, "steps"):
            number = 1
            for i in range(20):
                number += (1, STEP - 1, STEP)[i % 3]
                self._send(2000, transfer=number)

    @func_test
    def transfer_ids_far_below(self) -> None:
        """Ids far below the highest are closed.

        Steps:
            Go up to id 10 * 2048; then send symbols and OPEN of an id never used, 2048 and more
            below, then of one 2047 below.
        Verify:
            rx_transfer counts the former's symbols, and no other drop counter moves; its OPEN
            opens nothing. The latter's object arrives.
        """
        for i in range(1, 11):
            self._send(1000, transfer=i * STEP)
        high = 10 * STEP
        low = [high - STEP, high - STEP - 1, 3]
        with counted(self._edge, self._peer, "far below", rx_transfer=len(low)):
            for number in low:
                out = self._session.transfer([self._item(1000)], transfer=number)
                self._session.control(out.open_frame())
                self._session.send_symbol(out, OBJECTS, 0, 0)
                self._peer.rest(0.05)
                verify(out.open_status != Status.PENDING, f"transfer {number} was opened")
        with counted(self._edge, self._peer, "just not"):
            self._send(1000, transfer=high - STEP + 1)

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
            self._send()

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

    def _climb(self, seconds: float) -> tuple[int, int]:
        """OPEN and CLOSE transfers in steps of 2048, two packets of 24 at a time, until every step
        is made or time is up: the last id that was answered, and how many were."""
        session = self._session
        whole = frames.Open(1, 0, 1000, 30, 1, 1432).encode()
        close = frames.Close(1, Status.CANCELED).encode()
        acked = 0

        def receive(data: bytes) -> None:
            # Only what counts here, and fast.
            nonlocal acked
            number = packet.decode(data).number
            plain = session.rx.open(data[:packet.HEADER_BYTES], number,
                                    data[packet.HEADER_BYTES:]) or b""
            at = 0
            while at + 3 <= len(plain):
                size = int.from_bytes(plain[at + 1:at + 3], "big")
                if plain[at] == frames.CloseAck.kind:
                    acked = max(acked, int.from_bytes(plain[at + 3:at + 7], "big"))
                at += 3 + size
        session.receive = receive  # type: ignore[method-assign]
        at, count, end = 0, 0, time.monotonic() + seconds
        while time.monotonic() < end and at + 48 * STEP < LAST_TRANSFER:
            for half in range(2):
                content = b""
                for i in range(24):
                    number = (at + (half * 24 + i + 1) * STEP).to_bytes(4, "big")
                    content += whole[:3] + number + whole[7:] + close[:3] + number + close[7:]
                session.send(session.seal(packet.CONTROL, content))
            goal = at + 48 * STEP
            self._peer.until(partial(lambda goal: acked >= goal, goal), 0.05)
            count += max(acked - at, 0) // STEP
            at = max(acked, at)
        del session.receive
        session.next_transfer = at + 1
        return at, count

    @perf_test
    def transfer_ids_upwards(self) -> None:
        """Ids in steps of 2048, as far up as there is time (climb_seconds).

        Steps:
            OPEN and CLOSE a transfer for each step; send an object with the next id.
        Verify:
            They are answered, the object arrives, no drop counter moves. The rate is written as
            performance JSON.
        """
        with counted(self._edge, self._peer, "climb"):
            started = time.monotonic()
            at, count = self._climb(self.config.climb_seconds)
            seconds = time.monotonic() - started
            self._send()
        write_performance_json({"transfers": count, "seconds": round(seconds, 3), "last_id": at,
                                "transfers_per_second": round(count / seconds)})
        verify(count > 1000, f"{count} transfers were answered in {seconds:.1f} s")

    @long_test
    def transfer_ids_to_the_last(self) -> None:
        """Ids in steps of 2048 up to 2^32 - 1; a minute or two.

        Steps:
            OPEN and CLOSE a transfer for each step; send objects with the last ids and the last
            one; then a symbol of transfer 1 again.
        Verify:
            The objects arrive, no drop counter moves; after the last id 1 counts as closed:
            rx_transfer counts its symbol, and no other drop counter moves.
        """
        with counted(self._edge, self._peer, "climb"):
            at, _ = self._climb(self.config.climb_to_the_end_seconds)
            verify(at + 48 * STEP >= LAST_TRANSFER, f"only up to {at} in time")
            while self._session.next_transfer + STEP < LAST_TRANSFER:
                self._send(100, transfer=self._session.next_transfer + STEP - 1)
            self._send(transfer=LAST_TRANSFER)
        with counted(self._edge, self._peer, "after the last id", rx_transfer=1):
            out = self._session.transfer([self._item(1000)], transfer=1)
            self._session.send_symbol(out, OBJECTS, 0, 0)

    @long_test
    def edge_changes_keys_by_itself(self) -> None:
        """A minute in a session: the edge enters the next generation.

        Steps:
            Let a session live for 65 s with a PING every second, which makes the edge send; then
            send an object.
        Verify:
            The edge's packets come in generation 0 until 55 s have passed and in 1 at the end,
            under its keys, numbers starting at 2^23; the object arrives; no drop counter moves.
        """
        session = self._session
        with counted(self._edge, self._peer, "rekey"):
            start = time.monotonic()
            early = 0
            while time.monotonic() < start + 65:
                session.control(frames.Ping())
                self._peer.rest(1)
                if time.monotonic() < start + 55:
                    early = session.rx_generation
            verify(early == 0, f"generation {early} before its time")
            verify(session.rx_generation == 1, f"generation {session.rx_generation} after 65 s")
            self._send()
