# SPDX-License-Identifier: Apache-2.0
"""Storms of reordering and duplicates.

Whole transfers, packets in any order and any number of times. Every packet that repeats is counted,
nothing else is dropped, and the objects are those that were sent."""
import random
from dataclasses import dataclass

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Item,
    Outgoing,
    Status,
    counted,
    frames,
    get_object,
    packet,
    put_object,
)
from framework.test_suite import BaseConfig, TestSuite, func_test


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestReorderingDuplicates(Peered, TestSuite):
    """Cases: backwards, shuffled, each_packet_three_times, many_transfers_interleaved,
    other_numbers_for_one_symbol, peer_receives_a_storm."""

    @dataclass
    class Config(BaseConfig):
        """Bytes of a transfer."""

        stream_bytes: int = 600000

    config: Config

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; open a session."""
        super().set_up_suite()
        self._session = self._peer.open()

    def _transfer(self, objects: int, size: int) -> Outgoing:
        self._names += 1
        return self._session.transfer([
            Item(b"storm-%d-%d" % (self._names, i), random.randbytes(size // objects + i))
            for i in range(objects)])

    def _packets(self, out: Outgoing, rows: int = 0) -> list[bytes]:
        """All of a transfer, OPEN first."""
        packets = [self._session.seal(packet.CONTROL, out.open_frame().encode())]
        for stream in (MANIFEST, OBJECTS):
            cut = out.cut[stream]
            packets += [self._session.symbol(out, stream, b, e)
                        for b in range(cut.blocks) for e in range(cut.k(b) + rows)]
        return packets

    def _arrive(self, *outs: Outgoing) -> None:
        for out in outs:
            statuses = self._peer.deliver(self._session, out, lambda stream, block: [])
            verify(len(statuses) == len(out.items)
                   and set(statuses.values()) == {Status.COMMITTED}, f"statuses {statuses}")
            item = random.choice(out.items)
            verify(get_object(self._edge, item.key) == item.data, "an object differs")

    @func_test
    def backwards(self) -> None:
        """The last packet comes first, OPEN last.

        Steps:
            Send all packets of a transfer in reverse.
        Verify:
            No drop counter moves; the objects arrive without one further symbol.
        """
        out = self._transfer(5, self.config.stream_bytes)
        with counted(self._edge, self._peer, "backwards"):
            self._peer.raw(reversed(self._packets(out)))
            verify(self._peer.until(out.is_final, 3), f"statuses {out.statuses}")
            self._arrive(out)

    @func_test
    def shuffled(self) -> None:
        """Any order.

        Steps:
            Send all packets of a transfer, with ten repair symbols a block, shuffled.
        Verify:
            No drop counter moves; the objects arrive without one further symbol.
        """
        out = self._transfer(5, self.config.stream_bytes)
        packets = self._packets(out, rows=10)
        random.shuffle(packets)
        with counted(self._edge, self._peer, "shuffled"):
            self._peer.raw(packets)
            verify(self._peer.until(out.is_final, 3), f"statuses {out.statuses}")
            self._arrive(out)

    @func_test
    def each_packet_three_times(self) -> None:
        """A network that triples, and then shuffles.

        Steps:
            Send every packet of a transfer three times, shuffled; those of OPEN, too.
        Verify:
            rx_replay counts two of three and no other drop counter moves; the objects arrive.
        """
        out = self._transfer(5, self.config.stream_bytes)
        packets = self._packets(out)
        storm = packets * 3
        random.shuffle(storm)
        with counted(self._edge, self._peer, "tripled", rx_replay=2 * len(packets)):
            self._peer.raw(storm)
            verify(self._peer.until(out.is_final, 3), f"statuses {out.statuses}")
            self._arrive(out)

    @func_test
    def many_transfers_interleaved(self) -> None:
        """Twenty transfers at once, in one shuffled stream, a tenth of it doubled.

        Steps:
            Send packets of twenty transfers of three objects shuffled, every tenth one twice.
        Verify:
            rx_replay counts the doubles and no other drop counter moves; all objects arrive.
        """
        outs = [self._transfer(3, 40000) for _ in range(20)]
        packets = [p for out in outs for p in self._packets(out)]
        doubles = random.sample(packets, len(packets) // 10)
        storm = packets + doubles
        random.shuffle(storm)
        with counted(self._edge, self._peer, "interleaved", rx_replay=len(doubles)):
            self._peer.raw(storm)
            done = self._peer.until(lambda: all(o.is_final() for o in outs), 5)
            verify(done, "not all transfers are final")
            self._arrive(*outs)

    @func_test
    def other_numbers_for_one_symbol(self) -> None:
        """A symbol sent again under a new number is no replay.

        Steps:
            Send ten source symbols of an open transfer once, then five times under new numbers.
        Verify:
            rx_duplicate counts the latter, and no drop counter moves; the object arrives.
        """
        out = self._transfer(1, 100000)
        self._session.control(out.open_frame())
        self._session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None, 2)
        with counted(self._edge, self._peer, "duplicates", rx_duplicate=50):
            for _ in range(6):
                self._peer.raw([self._session.symbol(out, OBJECTS, 0, e) for e in range(10)])
                self._peer.rest(0.05)
        statuses = self._peer.deliver(self._session, out)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")

    @func_test
    def peer_receives_a_storm(self) -> None:
        """The edge sends; its peer sees everything late, twice, and in another order.

        Steps:
            Order objects to the peer, which holds back each datagram for a random while and takes
            a tenth of them twice.
        Verify:
            The order is done, the peer has the same bytes, and no drop counter of the edge moves.
        """
        self._peer.be_known()
        self._names += 1
        data = {b"storm-to-%d-%d" % (self._names, i): random.randbytes(150000) for i in range(3)}
        for key, value in data.items():
            put_object(self._edge, key, value)
        held: list[bytes] = []

        def disturb(datagram: bytes) -> list[bytes]:
            held.append(datagram)
            if random.random() < 0.1:
                held.append(datagram)
            random.shuffle(held)
            out = held[16:]
            del held[16:]
            return out
        with counted(self._edge, self._peer, "storm at the peer"):
            self._peer.disturb = disturb
            try:
                order = self._peer.order([k.decode() for k in data])
                state = self._peer.wait_order(order)
            finally:
                self._peer.disturb = None
            verify(state == "done", f"the order is {state}")
        got = {key: value for (_, key), value in self._peer.store.items()}
        verify(all(got.get(key) == value for key, value in data.items()), "an object differs")
        verify(not self._peer.accepted[-1].counters["rx_auth"], "a packet did not open")
        self._session.control(frames.Ping())
