# SPDX-License-Identifier: Apache-2.0
"""Transfer ids, from 1 to 2^32 - 1.

A sender may skip up to 2048 of them (doc/wire.md section 10, OPEN), so two million transfers lead
from the first to the last. What lies 2048 and more below the highest counts as closed."""
import time
from functools import partial

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import PeeredAnew
from api.test import verify, write_performance_json
from api.wire import (
    OBJECTS,
    Status,
    counted,
    frames,
    packet,
)
from framework.test_suite import TestSuite, func_test

STEP = 2048
LAST_TRANSFER = (1 << 32) - 1
CLIMB_SECONDS = 600.0


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestTransferIds(PeeredAnew, TestSuite):
    """Cases: transfer_ids_by_steps, transfer_ids_far_below, transfer_ids_to_the_last."""

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
                self._send_one(2000, transfer=number)

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
            self._send_one(1000, transfer=i * STEP)
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
            self._send_one(1000, transfer=high - STEP + 1)

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

    @func_test
    def transfer_ids_to_the_last(self) -> None:
        """Ids in steps of 2048 up to 2^32 - 1; half a minute.

        Steps:
            OPEN and CLOSE a transfer for each step; send objects with the last ids and the last
            one; then a symbol of transfer 1 again.
        Verify:
            The objects arrive, no drop counter moves; after the last id 1 counts as closed:
            rx_transfer counts its symbol, and no other drop counter moves. The rate is written
            as performance JSON.
        """
        with counted(self._edge, self._peer, "climb"):
            started = time.monotonic()
            at, count = self._climb(CLIMB_SECONDS)
            seconds = time.monotonic() - started
            verify(at + 48 * STEP >= LAST_TRANSFER, f"only up to {at} in time")
            write_performance_json({"transfers": count, "seconds": round(seconds, 3),
                                    "transfers_per_second": round(count / seconds)})
            while self._session.next_transfer + STEP < LAST_TRANSFER:
                self._send_one(100, transfer=self._session.next_transfer + STEP - 1)
            self._send_one(transfer=LAST_TRANSFER)
        with counted(self._edge, self._peer, "after the last id", rx_transfer=1):
            out = self._session.transfer([self._item(1000)], transfer=1)
            self._session.send_symbol(out, OBJECTS, 0, 0)
