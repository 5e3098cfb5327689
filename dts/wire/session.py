# SPDX-License-Identifier: Apache-2.0
"""A session on the data path: sealing, opening, reports, and the frames of both sides.

With several ports on both sides it is several queues, each of which is a Session: they share ids
and secret and nothing else (section 2.2). That of queue 0 knows the others.

Nothing here waits or reads a clock behind the caller's back: receive() takes a datagram, tick()
what became due. `auto` answers what must be answered; without it a test says everything itself."""
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import frames, keys, manifest, packet
from .frames import Status
from .incoming import Incoming, Store
from .outgoing import MANIFEST, OBJECTS, Item, Outgoing
from .replay import ReplayWindow

REPORT_SECONDS = 0.01
IDLE_REPORT_SECONDS = 5.0
RTO_SECONDS = 0.05
# Before the first sample: of a path configured for 300 ms.
FIRST_RTO_SECONDS = 0.45
LIVE_TRANSFERS = 64


class Session:
    """Keys, packet numbers, transfers of one session."""

    def __init__(self, secret: bytes, initiator: bool, own_id: int, peer_id: int,
                 symbol_bytes: int, send: Callable[[bytes], None], queue: int = 0) -> None:
        """own_id is in packets that come, peer_id in those that go."""
        self.own_id, self.peer_id = own_id, peer_id
        self.queue = queue
        self.queues: list[Session] = [self]
        self.initiator = initiator
        self.peer_boot = b""
        self.symbol_bytes = symbol_bytes
        self.tx = keys.KeyChain(secret, 0 if initiator else 1, queue)
        self.rx = keys.KeyChain(secret, 1 if initiator else 0, queue)
        self._send = send
        self.auto = True
        self.sending = True
        self.clock_us = 0
        self.next_number = 0
        self.sent_packets = 0
        self.acked: set[int] = set()
        self.reported = -1
        self.counters: Counter[str] = Counter()
        self.frames: list[frames.Any] = []
        self.is_reset = False
        # Challenge.
        self.token = os.urandom(8)
        self.validated = False
        # A responder's first packet would overtake its ACCEPT: it waits for the initiator's.
        self._challenge_due = 0.0 if initiator else time.monotonic() + FIRST_RTO_SECONDS
        # What came.
        self.rx_generation = 0
        self._windows: dict[int, ReplayWindow] = {}
        self._recorded: list[int] = []
        self._newest = -1
        self._newest_at = 0.0
        self._report_due = False
        self._report_now = False
        self._idle_due = False
        self._last_report = 0.0
        self._ping = False
        self._recall: int | None = None
        # Transfers.
        self.outgoing: dict[int, Outgoing] = {}
        self.incoming: dict[int, Incoming] = {}
        self.gone: set[int] = set()
        self._early: dict[int, list[tuple[packet.Header, bytes]]] = {}
        self.limits: dict[int, tuple[int, int]] = {}
        self.charged: Counter[int] = Counter()
        self.granted: list[list[int]] = [[0, 0], [0, 0], [0, 0]]
        self._credit_left = [0, 0, 0]
        self._raised: dict[int, list[int]] = {}
        self.store: Store = {}
        self.decide: Callable[[manifest.Record], int] = lambda record: Status.PENDING
        self.next_transfer = 1

    # ---- out ----

    def seal(self, kind: int, payload: bytes, number: int | None = None, **header: Any) -> bytes:
        """A packet; with the next number unless one is given. `gen` chooses other keys."""
        if number is None:
            number = self.next_number
            self.next_number += 1
        gen = header.pop("gen", None)
        header.setdefault("session", self.peer_id)
        header.setdefault("queue", self.queue)
        clear = packet.Header(kind, number=number, **header).encode()
        return self.tx.seal(clear, number, payload, gen)

    def send(self, data: bytes) -> None:
        """A datagram, as it is; lost when the wire is cut."""
        self.sent_packets += 1
        if self.sending:
            self._send(data)

    def control(self, *content: frames.Frame | bytes, **header: Any) -> int:
        """A control packet of frames or raw bytes; its number."""
        payload = b"".join(c if isinstance(c, bytes) else c.encode() for c in content)
        self.send(self.seal(packet.CONTROL, payload, **header))
        return self.next_number - 1

    def symbol(self, out: Outgoing, stream: int, block: int, esi: int, **header: Any) -> bytes:
        """A sealed symbol."""
        kind = packet.DATA if stream == OBJECTS else packet.MANIFEST
        out.last_number[stream, block] = self.next_number
        return self.seal(kind, out.symbol(stream, block, esi), transfer=out.transfer, block=block,
                         esi=esi, **header)

    def send_symbol(self, out: Outgoing, stream: int, block: int, esi: int, **header: Any) -> None:
        """Seal and send it."""
        self.send(self.symbol(out, stream, block, esi, **header))

    def transfer(self, items: list[Item], **options: Any) -> Outgoing:
        """A new transfer; nothing is sent yet."""
        number = options.pop("transfer", self.next_transfer)
        self.next_transfer = max(self.next_transfer, number + 1)
        out = Outgoing(number, items, options.pop("symbol_bytes", self.symbol_bytes), **options)
        self.outgoing[out.transfer] = out
        return out

    def enter_generation(self, gen: int) -> None:
        """Skip the packet numbers up to a generation."""
        self.next_number = max(self.next_number, gen << keys.GENERATION_SHIFT)

    # ---- in ----

    def receive(self, data: bytes) -> None:
        """A datagram for this session."""
        if len(data) < packet.HEADER_BYTES + keys.TAG_BYTES:
            self.counters["rx_short"] += 1
            return
        header = packet.decode(data)
        if header.version != packet.VERSION or header.kind not in (1, 2, 3):
            self.counters["rx_version"] += 1
        elif header.queue != self.queue:
            self.counters["rx_queue"] += 1
        elif abs((gen := keys.generation(header.number)) - self.rx_generation) > 1:
            self.counters["rx_generation"] += 1
        else:
            payload = self.rx.open(data[:packet.HEADER_BYTES], header.number,
                                   data[packet.HEADER_BYTES:])
            if payload is None:
                self.counters["rx_auth"] += 1
                return
            self.rx_generation = max(self.rx_generation, gen)
            self._authentic(header, payload)

    def _window(self, number: int) -> ReplayWindow:
        return self._windows.setdefault(keys.generation(number), ReplayWindow())

    def _authentic(self, header: packet.Header, payload: bytes) -> None:
        if header.kind == packet.CONTROL:
            if not self._window(header.number).add(header.number):
                self.counters["rx_replay"] += 1
                return
            self._record(header, control=True)
            try:
                for frame in frames.decode(payload):
                    self.frames.append(frame)
                    self.counters[type(frame).__name__] += 1
                    self._frame(frame)
            except frames.Malformed:
                self.counters["rx_frame"] += 1
        else:
            self._symbol(header, payload)
        if header.flags & packet.REPORT:
            self._report_now = True

    def _symbol(self, header: packet.Header, payload: bytes) -> None:
        self.counters["symbols"] += 1
        transfer = self.incoming.get(header.transfer)
        if transfer is None:
            if header.transfer in self.gone:
                self.counters["rx_transfer"] += 1
                return
            early = self._early.setdefault(header.transfer, [])
            if len(early) < 4096 and self._window(header.number).add(header.number):
                early.append((header, payload))
                self._record(header)
            return
        self._window(header.number).add(header.number)
        if self._place(transfer, header, payload):
            self._record(header)

    def _place(self, transfer: Incoming, header: packet.Header, payload: bytes) -> bool:
        stream = OBJECTS if header.kind == packet.DATA else MANIFEST
        problem = transfer.place(stream, header.block, header.esi, payload)
        if problem:
            self.counters[problem] += 1
        at = transfer.streams[stream]
        if header.flags & packet.TAIL and header.flags & packet.END_OF_BLOCK:
            at.waited.update(b for b in range(header.block + 1) if b not in at.done)
            if at.waited - at.done:
                self._report_now = True
        if transfer.status == Status.MALFORMED:
            self.control(frames.OpenAck(transfer.transfer, Status.MALFORMED))
            self._forget(transfer)
        return problem not in ("rx_block", "rx_length")

    def _record(self, header: packet.Header, control: bool = False) -> None:
        self._recorded.append(header.number)
        if header.number > self._newest:
            self._newest, self._newest_at = header.number, time.monotonic()
        if control:
            self._idle_due = True
        else:
            self._report_due = True

    def _frame(self, frame: frames.Any) -> None:
        match frame:
            case frames.Challenge():
                self._challenge_due = min(self._challenge_due, time.monotonic())
                if self.auto:
                    self.control(frames.Response(frame.token))
            case frames.Response():
                self.validated |= frame.token == self.token
            case frames.Ping():
                self._ping = self._report_now = True
            case frames.Recall():
                self._recall = frame.number
                self._report_now = True
            case frames.Report():
                self.reported = max(self.reported, frame.newest)
                for first, last in frame.ranges:
                    self.acked.update(range(first, last + 1))
            case frames.Credit():
                old = self.limits.get(frame.priority, (0, 0))
                self.limits[frame.priority] = (max(old[0], frame.bytes_limit),
                                               max(old[1], frame.objects_limit))
            case frames.OpenAck() | frames.Have() | frames.Need() | frames.Object() \
                    | frames.CloseAck():
                out = self.outgoing.get(frame.transfer)
                answer = out.take(frame) if out else None
                if answer is not None and self.auto:
                    self.control(answer)
            case _:
                self._frame_of_sender(frame)

    def _frame_of_sender(self, frame: frames.Any) -> None:
        if isinstance(frame, frames.Open):
            if frame.transfer not in self.gone and frame.transfer not in self.incoming:
                if len(self.incoming) >= LIVE_TRANSFERS:
                    return
                self._open(frame)
            if self.auto:
                known = self.incoming.get(frame.transfer)
                self.control(frames.OpenAck(
                    frame.transfer, known.status if known else Status.PENDING))
            return
        transfer = self.incoming.get(getattr(frame, "transfer", 0))
        match frame:
            case frames.ObjectAck() if transfer:
                transfer.acked = max(transfer.acked, min(frame.next, len(transfer.log)))
            case frames.Withdraw() if transfer:
                transfer.withdraw(frame.entries)
                self._raise_credit(transfer)
            case frames.Close():
                if transfer:
                    self._forget(transfer)
                if frame.transfer in self.gone and self.auto:
                    self.control(frames.CloseAck(frame.transfer))

    def _open(self, frame: frames.Open) -> None:
        transfer = Incoming(frame, self.store, self.decide)
        self.incoming[frame.transfer] = transfer
        for header, payload in self._early.pop(frame.transfer, []):
            self._place(transfer, header, payload)

    def _raise_credit(self, transfer: Incoming) -> None:
        """What finished objects give back."""
        now = [transfer.raised[0], transfer.raised[1]]
        before = self._raised.get(transfer.transfer, [0, 0])
        if now != before:
            priority = transfer.opened.priority
            self.granted[priority][0] += now[0] - before[0]
            self.granted[priority][1] += now[1] - before[1]
            self._raised[transfer.transfer] = now
            self._credit_left[priority] = 3

    def _forget(self, transfer: Incoming) -> None:
        priority = transfer.opened.priority
        before = self._raised.pop(transfer.transfer, [0, 0])
        self.granted[priority][0] += transfer.opened.stream_bytes - before[0]
        self.granted[priority][1] += transfer.opened.objects - before[1]
        self._credit_left[priority] = 3
        self.incoming.pop(transfer.transfer, None)
        self.gone.add(transfer.transfer)

    # ---- what becomes due ----

    def tick(self, now: float) -> None:
        """Reports, challenges and repetitions."""
        if not self.auto or self.is_reset:
            return
        if not self.validated and now >= self._challenge_due:
            self._challenge_due = now + RTO_SECONDS
            self.control(frames.Challenge(self.token))
        for transfer in self.incoming.values():
            self._raise_credit(transfer)
        wait = now - self._last_report
        if self._report_now or (self._report_due and wait >= REPORT_SECONDS) \
                or (self._idle_due and wait >= IDLE_REPORT_SECONDS):
            self._last_report = now
            self.control(*self.report(now))
        elif wait >= RTO_SECONDS and any(t.news() for t in self.incoming.values()):
            self._last_report = now
            self.control(*(f for t in self.incoming.values() if (f := t.news())))

    def report(self, now: float) -> list[frames.Any]:
        """REPORT and what goes with it."""
        everything, self._ping = self._ping, False
        self._report_now = self._report_due = self._idle_due = False
        out: list[frames.Any] = []
        if self._newest >= 0:
            out.append(self.report_frame(now))
        for transfer in self.incoming.values():
            if news := transfer.news():
                out.append(news)
            if transfer.have_left or everything:
                transfer.have_left = max(0, transfer.have_left - 1)
                out += [s.have(transfer.transfer, n) for n, s in enumerate(transfer.streams)]
            out += transfer.needs(self._newest, everything)
        for priority, left in enumerate(self._credit_left):
            if left or everything:
                self._credit_left[priority] = max(0, left - 1)
                out.append(frames.Credit(priority, *self.granted[priority]))
        return out

    def report_frame(self, now: float) -> frames.Report:
        """What came among the last packets."""
        told = self._recorded[-512:]
        if self._recall is not None:
            told += [n for n in self._recorded if n >= self._recall]
            self._recall = None
        numbers = sorted(set(told), reverse=True)
        ranges: list[tuple[int, int]] = []
        for number in numbers:
            if ranges and ranges[-1][0] == number + 1:
                ranges[-1] = number, ranges[-1][1]
            elif len(ranges) < 100:
                ranges.append((number, number))
            else:
                break
        stamp = round(self._newest_at * 1e6) + self.clock_us & (1 << 64) - 1
        return frames.Report(self.queue, self._newest, stamp,
                             min(round((now - self._newest_at) * 1e6), (1 << 32) - 1),
                             ranges[0][1], ranges)
