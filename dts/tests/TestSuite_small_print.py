# SPDX-License-Identifier: Apache-2.0
"""What doc/wire.md says in passing.

Sentences that no other suite depends on, and that a peer written from the text may rely on all the
same: lengths of varints, what is said again or too early, intervals out of range, PING between the
control threads, and how long silence lasts."""
import socket
import time
from functools import partial

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import PeeredAnew
from api.strait import EDGE_PORT
from api.test import log, verify
from api.wire import MANIFEST, OBJECTS, MsgType, Status, counted, frames, get_object
from framework.test_suite import TestSuite, func_test
from wire.frames import encode_varint

# What a busy machine may add to a time.
LATE_SECONDS = 4.0


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestSmallPrint(PeeredAnew, TestSuite):
    """Cases: varints_of_any_length, withdraw_before_the_manifest, open_again_with_other_numbers,
    interval_of_more_than_a_second, pong_brings_the_same_message, times_of_silence."""

    @func_test
    def varints_of_any_length(self) -> None:
        """Section 10: any of its lengths may be used.

        Steps:
            OPEN a transfer of five objects; WITHDRAW the first four in frames whose varints take
            one, two, four and eight bytes each; send the rest.
        Verify:
            The four have the statuses said, the fifth arrives; no drop counter moves.
        """
        items = [self._item(20000) for _ in range(5)]
        out = self._session.transfer(items)
        with counted(self._edge, self._peer, "varints"):
            self._session.control(out.open_frame())
            self._session.send_symbol(out, MANIFEST, 0, 0)
            for number, size in enumerate((1, 2, 4, 8)):
                body = (out.transfer.to_bytes(4, "big") + encode_varint(1, size)
                        + encode_varint(number, size) + bytes((Status.EVICTED,)))

                def told(number: int = number, body: bytes = body) -> bool:
                    self._session.control(frames.raw(frames.Withdraw.kind, body))
                    self._peer.rest(0.02)
                    return number in out.statuses
                verify(self._peer.until(told, 3), f"varints of {size} bytes: {out.statuses}")
            got = self._peer.deliver(self._session, out)
        verify(got == {n: Status.EVICTED for n in range(4)} | {4: Status.COMMITTED},
               f"statuses {got}")
        verify(get_object(self._edge, items[4].key) == items[4].data, "the object differs")

    @func_test
    def withdraw_before_the_manifest(self) -> None:
        """Section 10: it has no effect and comes again.

        Steps:
            OPEN a transfer, WITHDRAW its object, three times; then send manifest and data.
        Verify:
            The object is COMMITTED and the same; no drop counter moves.
        """
        item = self._item()
        out = self._session.transfer([item])
        with counted(self._edge, self._peer, "WITHDRAW"):
            self._session.control(out.open_frame())
            verify(self._peer.until(lambda: out.open_status is not None, 3), "no OPEN_ACK")
            for _ in range(3):
                self._session.control(frames.Withdraw(out.transfer, [(0, Status.EVICTED)]))
            self._peer.rest(0.1)
            verify(not out.statuses, f"statuses {out.statuses} before the manifest")
            got = self._peer.deliver(self._session, out)
        verify(got == {0: Status.COMMITTED}, f"statuses {got}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

    @func_test
    def open_again_with_other_numbers(self) -> None:
        """Section 10: an OPEN of a known transfer is answered again, whatever else it says.

        Steps:
            OPEN a transfer; OPEN it again with other lengths, symbols, class and objects; send
            what the first one said. OPEN it once more when it is closed.
        Verify:
            Each but the last is answered with PENDING, the last not at all; the object arrives; no
            drop counter moves.
        """
        def answers() -> list[int]:
            return [f.status for f in self._session.frames
                    if isinstance(f, frames.OpenAck) and f.transfer == out.transfer]
        item = self._item()
        out = self._session.transfer([item])
        others = [out.open_frame(stream_bytes=5), out.open_frame(symbol_bytes=512),
                  out.open_frame(objects=2, manifest_bytes=60), out.open_frame(priority=2)]
        with counted(self._edge, self._peer, "OPEN again"):
            for count, frame in enumerate([out.open_frame(), *others], 1):
                self._session.control(frame)
                self._peer.until(partial(lambda n: len(answers()) == n, count), 3)
                verify(len(answers()) == count, f"{len(answers())} answers to {count} OPENs")
            got = self._peer.deliver(self._session, out)
            verify(got == {0: Status.COMMITTED}, f"statuses {got}")
            count = len(answers())
            self._session.control(others[0])
            self._peer.rest(0.2)
            verify(len(answers()) == count, "an OPEN of a closed transfer was answered")
        verify(set(answers()) == {Status.PENDING}, f"answers {answers()}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

    @func_test
    def interval_of_more_than_a_second(self) -> None:
        """Section 12.1: it counts as one second.

        Steps:
            OPEN a transfer with the longest interval that can be said; wait for reports to cease;
            send one symbol without a flag.
        Verify:
            It is reported, after 1 s; no drop counter moves.
        """
        out = self._session.transfer([self._item()])
        with counted(self._edge, self._peer, "interval"):
            self._session.control(out.open_frame(report_interval_us=(1 << 32) - 1))
            self._session.send_symbol(out, MANIFEST, 0, 0)
            verify(self._peer.until(lambda: out.open_status is not None, 3), "no OPEN_ACK")
            self._peer.rest(1.2)
            self._session.send_symbol(out, OBJECTS, 0, 0)
            first = self._session.next_number - 1
            self._peer.until(lambda: first in self._session.acked, 1 + LATE_SECONDS)
            self._session.send_symbol(out, OBJECTS, 0, 1)
            number, start = self._session.next_number - 1, time.monotonic()
            told = self._peer.until(lambda: number in self._session.acked, 1 + LATE_SECONDS)
            took = time.monotonic() - start
            log(f"reported after {took:.2f} s")
            verify(told, f"not reported in {took:.1f} s")
            verify(took > 0.5, f"reported after {took:.2f} s")
            self._session.control(frames.Ping(10000))
            got = self._peer.deliver(self._session, out)
        verify(got == {0: Status.COMMITTED}, f"statuses {got}")

    @func_test
    def pong_brings_the_same_message(self) -> None:
        """Section 2: PING on the management connection.

        Steps:
            Send PING with a message on a new connection, twice; then open a session on it.
        Verify:
            PONG with the same message each time; an object arrives; no drop counter moves.
        """
        with counted(self._edge, self._peer, "PONG"):
            channel = self._peer.call()
            # A varint field: what it means is the sender's business.
            for message in (b"\x08\x07", b"\x08\xff\xff\x03"):
                channel.send(MsgType.PING, message)
                got = self._peer.wait_message(channel, MsgType.PONG, 5)
                verify(got == message, f"PONG {got.hex()} for {message.hex()}")
            self._session = self._peer.initiate(channel)
            self._send_one()

    @func_test
    def times_of_silence(self) -> None:
        """Sections 2, 2.1 and 12.1: how long who waits for whom.

        Steps:
            Connect without TLS, and with TLS, and say nothing. On the data path send control
            packets alone, four a second. When the first is reported, say nothing there either.
        Verify:
            The first control packet is reported within 5 s; both connections are closed after 10 s,
            PING or not; on the data path PING comes 15 s after the last report, which was not more
            than 5 s ago. The session lives: an object arrives afterwards, and no drop counter
            moves.
        """
        with counted(self._edge, self._peer, "silence"), self._peer.plain(EDGE_PORT) as plain:
            start = time.monotonic()
            # Nobody reads it, so that nobody answers PING.
            silent = self._peer.call()
            self._peer.channels.remove(silent)
            closed: dict[str, float] = {}

            def look() -> bool:
                if "plain" not in closed and self._is_closed(plain):
                    closed["plain"] = time.monotonic() - start
                if "silent" not in closed and self._is_closed(silent.sock):
                    closed["silent"] = time.monotonic() - start
                return len(closed) == 2

            number, due = self._session.next_number, 0.0

            def reported() -> bool:
                nonlocal due
                look()
                if time.monotonic() > due:
                    due = time.monotonic() + 0.25
                    self._session.control(frames.ObjectAck(1, 0))
                return number in self._session.acked
            verify(self._peer.until(reported, 5 + LATE_SECONDS), "no control packet is reported")
            log(f"reported after {time.monotonic() - start:.1f} s")
            self._session.auto, since = False, len(self._session.frames)
            quiet = time.monotonic()

            def pinged_now() -> bool:
                look()
                return any(isinstance(f, frames.Ping) for f in self._session.frames[since:])
            pinged = self._peer.until(pinged_now, 15 + LATE_SECONDS)
            took = time.monotonic() - quiet
            self._peer.until(look, LATE_SECONDS)
            self._session.auto = True
            log(f"PING after {took:.1f} s, closed after {closed}")
            verify(pinged and took > 9, f"PING {'' if pinged else 'not '}after {took:.1f} s")
            for name in ("plain", "silent"):
                when = closed.get(name, 0.0)
                verify(9 <= when <= 10 + LATE_SECONDS, f"{name} was closed: {closed}")
            self._send_one()

    @staticmethod
    def _is_closed(sock: socket.socket) -> bool:
        sock.setblocking(False)
        try:
            while sock.recv(4096):
                pass
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True
