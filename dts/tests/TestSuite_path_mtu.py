# SPDX-License-Identifier: Apache-2.0
"""Paths that carry less than was agreed on, and probes that find out.

doc/wire.md section 12.6, RFC 8899. The peer looks at every datagram of the edge before it takes it,
and takes none that is longer than the path it plays; the edge must notice, and must not take loss
for it. What the edge has to make of the peer's own probes is to skip them, and to answer small."""
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Master
from api.test import log, verify
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
    packet,
    put_object,
)
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

OVERHEAD = packet.HEADER_BYTES + 16
IP_UDP = 28
# Of frames in a control packet: otherwise, and for half a second after a PADDING frame.
CONTROL_BYTES, CONTROL_BYTES_PROBED = 1160, 512


@dataclass
class Seen:
    """What came over the path, and what was too long for it."""

    sizes: dict[int, list[int]] = field(default_factory=lambda: {1: [], 2: [], 3: []})
    lost: int = 0


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestPathMtu(TestSuite):
    """Cases: first_probe, path_carries_less, path_shrinks_under_way, path_below_the_base,
    loss_is_no_black_hole, padding_of_the_peer, small_answers_to_probes."""

    def set_up_suite(self) -> None:
        """Start the master."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._mtu = get_ctx().config.test_run.mtu - IP_UDP

    def tear_down_suite(self) -> None:
        """End it."""
        self._stack.close()

    def set_up_test_case(self) -> None:
        """Start an edge that knows no path, and the peer."""
        self._case = ExitStack()
        self._edge = self._case.enter_context(PeeredEdge(self._master))
        self._peer = self._case.enter_context(WirePeer(self._master, self._edge))
        self._peer.be_known()
        self._names = 0

    def tear_down_test_case(self) -> None:
        """End both."""
        self._case.close()

    def _items(self, count: int, size: int) -> list[Item]:
        out = []
        for _ in range(count):
            self._names += 1
            out.append(Item(b"mtu-%d" % self._names, random.randbytes(size)))
            put_object(self._edge, out[-1].key, out[-1].data)
        return out

    def _path(self, carries: Callable[[], int], loss: float = 0.0) -> Seen:
        """From now on datagrams to the peer take a path that carries so many bytes."""
        seen = Seen()

        def note(data: bytes) -> list[bytes]:
            if len(data) > carries():
                seen.lost += 1
                return []
            if random.random() < loss:
                return []
            seen.sizes[packet.decode(data).kind].append(len(data))
            return [data]
        self._peer.disturb = note
        return seen

    def _ship(self, items: list[Item], what: str, **wanted: int) -> None:
        """Order them; they arrive, counters move as wanted and no drop counter does."""
        with counted(self._edge, self._peer, what, **wanted):
            state = self._peer.wait_order(self._peer.order([i.key.decode() for i in items]))
            verify(state == "done", f"{what}: the order is {state}")
        got = {key: data for (_, key), data in self._peer.store.items()}
        verify(all(got.get(i.key) == i.data for i in items), f"{what}: an object differs")

    def _opened(self) -> list[frames.Open]:
        """OPEN of each transfer; it may come again."""
        return list({f.transfer: f for f in self._peer.accepted[-1].frames
                     if isinstance(f, frames.Open)}.values())

    @func_test
    def first_probe(self) -> None:
        """The size agreed on is confirmed as soon as the challenge was answered.

        Steps:
            Order an object to the peer; keep its first datagrams.
        Verify:
            There is a CONTROL packet as long as the MTU, with flag REPORT and one PADDING frame of
            zeros and nothing else, none before the edge's CHALLENGE, which the peer answers;
            tx_mtu_probes counts as many as came; data is of that size from the start; no drop
            counter moves.
        """
        kept: list[bytes] = []

        def note(data: bytes) -> list[bytes]:
            kept.append(data)
            return [data]
        self._peer.disturb = note
        before = self._edge.counters()
        self._ship(self._items(1, 300000), "probe")
        after = self._edge.counters()
        session = self._peer.accepted[-1]
        probes, challenged = 0, False
        for data in kept:
            header = packet.decode(data)
            plain = session.rx.open(data[:packet.HEADER_BYTES], header.number,
                                    data[packet.HEADER_BYTES:])
            verify(plain is not None, "a datagram did not open")
            if header.kind != packet.CONTROL or plain is None:
                continue
            content = list(frames.decode(plain))
            challenged |= any(isinstance(f, frames.Challenge) for f in content)
            if not any(isinstance(f, frames.Padding) for f in content):
                continue
            probes += 1
            verify(challenged, "a probe before CHALLENGE")
            verify(len(content) == 1 and bool(header.flags & packet.REPORT),
                   f"{len(content)} frames in a probe, flags {header.flags}")
            verify(not any(plain[3:]), "the padding is not zeros")
        longest = max(len(d) for d in kept)
        verify(longest == self._mtu, f"the longest datagram has {longest} bytes")
        verify(any(len(d) == self._mtu and packet.decode(d).kind == packet.CONTROL for d in kept),
               "no probe of the size agreed on")
        counter = after["tx_mtu_probes"] - before["tx_mtu_probes"]
        verify(probes == counter, f"{probes} probes came, {counter} were counted")
        verify({f.symbol_bytes for f in self._opened()} == {self._mtu - OVERHEAD},
               f"OPEN {self._opened()}")

    def _falls(self, carries: Callable[[], int], what: str) -> Seen:
        seen = self._path(carries)
        self._ship(self._items(2, 300000), what, tx_mtu_falls=1)
        first, *more = self._opened()
        verify(first.symbol_bytes == self._mtu - OVERHEAD, f"{what}: OPEN {first}")
        verify(len(more) > 0, f"{what}: the order was not opened again")
        sizes = [f.symbol_bytes for f in more]
        verify(max(sizes) + OVERHEAD <= carries(), f"{what}: OPEN with symbols of {sizes}")
        closed = [f for f in self._peer.accepted[-1].frames if isinstance(f, frames.Close)]
        verify((first.transfer, Status.RESET) in [(f.transfer, f.status) for f in closed],
               f"{what}: the first transfer was closed with {closed}")
        log(f"{what}: {seen.lost} datagrams were too long, symbols of {sizes} bytes")
        # The next order knows.
        lost = seen.lost
        self._ship(self._items(1, 300000), f"{what}, again")
        verify(seen.lost - lost <= 20, f"{what}: {seen.lost - lost} too long ones afterwards")
        return seen

    @func_test
    def path_carries_less(self) -> None:
        """The path never carried what was agreed on.

        Steps:
            Let no datagram of more than 1300 bytes through; order two objects, then another.
        Verify:
            The transfer is closed with RESET and opened again with symbols that fit; tx_mtu_falls
            counts one; the orders are done, the bytes are the same; the second order begins with
            what is known. No drop counter moves.
        """
        self._falls(lambda: 1300, "1300 bytes")

    @func_test
    def path_shrinks_under_way(self) -> None:
        """The path changes in the middle of a transfer.

        Steps:
            Order two objects; after 200 DATA packets let no datagram of more than 1250 bytes
            through.
        Verify:
            As before.
        """
        carries = self._mtu
        count = 0

        def now() -> int:
            return carries

        seen = self._path(now)
        inner = self._peer.disturb

        def note(data: bytes) -> list[bytes]:
            nonlocal carries, count
            count += packet.decode(data).kind == packet.DATA
            if count > 200:
                carries = 1250
            return inner(data) if inner is not None else []
        self._peer.disturb = note
        self._ship(self._items(2, 600000), "shrinks", tx_mtu_falls=1)
        sizes = [f.symbol_bytes for f in self._opened()]
        verify(sizes[0] == self._mtu - OVERHEAD and len(sizes) > 1
               and max(sizes[1:]) <= 1250 - OVERHEAD, f"OPEN with symbols of {sizes}")
        log(f"{seen.lost} datagrams were too long, symbols of {sizes} bytes")

    @func_test
    def path_below_the_base(self) -> None:
        """Less than RFC 8899 takes for granted.

        Steps:
            Let no datagram of more than 700 bytes through; order objects.
        Verify:
            As before; control packets fit too, or the order would not be done.
        """
        self._falls(lambda: 700, "700 bytes")

    @func_test
    def loss_is_no_black_hole(self) -> None:
        """Loss alone never lowers the size.

        Steps:
            Lose a fifth of all datagrams to the peer while an order of 1.2 MB is sent.
        Verify:
            The order is done with symbols of the size agreed on; tx_mtu_falls and drop counters
            stay still.
        """
        seen = self._path(lambda: self._mtu, loss=0.2)
        before = self._edge.counters()
        self._ship(self._items(2, 600000), "loss")
        after = self._edge.counters()
        verify(after["tx_mtu_falls"] == before["tx_mtu_falls"], "the size fell")
        verify({f.symbol_bytes for f in self._opened()} == {self._mtu - OVERHEAD},
               f"OPEN {self._opened()}")
        verify(seen.sizes[packet.DATA].count(self._mtu) > 700, "data was smaller")

    @func_test
    def padding_of_the_peer(self) -> None:
        """PADDING is skipped, whatever it holds, and acknowledged by its packet number.

        Steps:
            Send control packets of PADDING alone, of every hundredth size up to the MTU, of zeros
            and of noise; of two PADDING frames; with a PING behind.
        Verify:
            REPORT names each packet; no drop counter moves.
        """
        session = self._peer.open()
        room = self._mtu - OVERHEAD - 3
        with counted(self._edge, self._peer, "PADDING"):
            sent = []
            for size in (0, 1, *range(100, room, 100), room):
                sent.append(session.control(frames.Padding(size), flags=packet.REPORT))
                sent.append(session.control(
                    frames.raw(frames.Padding.kind, random.randbytes(size))))
            sent.append(session.control(frames.Padding(9), frames.Padding(90)))
            sent.append(session.control(frames.Padding(50), frames.Ping()))
            got = self._peer.until(lambda: set(sent) <= session.acked, 3)
        verify(got, f"{len(set(sent) - session.acked)} packets of {len(sent)} are not reported")

    def _ragged(self, session: Session) -> None:
        """Every other symbol of a transfer, so that the one report it gets has much to say."""
        out = session.transfer([Item(b"ragged-%d" % self._names, random.randbytes(4000000))])
        self._names += 1
        session.control(out.open_frame(report_interval_us=1000000))
        session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None, 3)
        cut = out.cut[OBJECTS]
        for block in range(cut.blocks):
            for esi in range(0, cut.k(block), 2):
                session.send_symbol(out, OBJECTS, block, esi)
                session.next_number += 1 + random.randrange(100)
            self._peer.pump(0.002)

    def _longest(self, session: Session, padding: int) -> int:
        """Of the control packets that come for a ragged transfer, bytes of frames."""
        longest = 0

        def note(data: bytes) -> list[bytes]:
            nonlocal longest
            # Probes of the edge's own are as long as the MTU.
            if packet.decode(data).kind == packet.CONTROL and len(data) < self._mtu:
                plain = session.rx.open(data[:packet.HEADER_BYTES], packet.decode(data).number,
                                        data[packet.HEADER_BYTES:]) or b""
                if plain[:1] != bytes((frames.Padding.kind,)):
                    longest = max(longest, len(plain))
            return [data]
        self._ragged(session)
        if padding:
            session.control(frames.Padding(padding))
            # What was on its way is not what counts.
            self._peer.rest(0.05)
        self._peer.disturb = note
        for _ in range(10):
            padded = [frames.Padding(padding)] if padding else []
            session.control(*padded, frames.Ping())
            self._peer.rest(0.02)
        self._peer.disturb = None
        return longest

    @func_test
    def small_answers_to_probes(self) -> None:
        """The way back may be as small as the one that is probed.

        Steps:
            Send half of the symbols of 22 blocks, with gaps between their numbers, so that the
            report is long; PING. The same with PADDING in front of PING. Finish with an object.
        Verify:
            Control packets have at most 1160 bytes of frames, and more than 512; for half a second
            after a PADDING frame at most 512. No drop counter moves.
        """
        session = self._peer.open()
        with counted(self._edge, self._peer, "small answers"):
            plain = self._longest(session, 0)
            probed = self._longest(session, 1000)
            log(f"{plain} bytes of frames at most, {probed} after PADDING")
            verify(CONTROL_BYTES_PROBED < plain <= CONTROL_BYTES, f"{plain} bytes of frames")
            verify(400 < probed <= CONTROL_BYTES_PROBED, f"{probed} bytes of frames after PADDING")
            item = Item(b"mtu-last", random.randbytes(1000))
            statuses = self._peer.send(session, [item])
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")
