# SPDX-License-Identifier: Apache-2.0
"""Packets that are authentic and absurd.

A peer with the session's keys says what cannot be: symbols that do not exist, frames out of their
limits, acknowledgments of what was never sent, manifests that lie. Each is dropped under the name
that doc/wire.md section 14 gives it, and the session goes on."""

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
    manifest,
    packet,
)
from framework.test_suite import TestSuite, func_test
from wire import vectors


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestAuthenticatedAbsurd(Peered, TestSuite):
    """Cases: no_such_block, no_such_esi, wrong_lengths, no_such_transfer, malformed_frames,
    truncated_frames, unknown_frames_and_flags, reports_of_the_unsent, frames_of_the_other_role,
    open_far_ahead, lying_manifests, withdraw_of_nothing, close_of_nothing."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; open a session."""
        super().set_up_suite()
        self._session = self._peer.open()

    def _begin(self, sizes: list[int]) -> Outgoing:
        """A transfer that the edge knows, with its manifest, none of its data."""
        out = self._session.transfer([self._item(n) for n in sizes])
        self._session.control(out.open_frame())
        self._session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None, 3)
        verify(out.open_status == Status.PENDING, f"OPEN_ACK {out.open_status}")
        return out

    def _end(self, out: Outgoing) -> None:
        """The transfer is not harmed: it still can be sent, and arrives."""
        statuses = self._peer.deliver(self._session, out)
        verify(set(statuses.values()) == {Status.COMMITTED}, f"statuses {statuses}")
        for item in out.items:
            verify(get_object(self._edge, item.key) == item.data, "an object differs")

    def _data(self, out: Outgoing, payload: bytes, kind: int = packet.DATA, **header: int) -> bytes:
        header.setdefault("transfer", out.transfer)
        return self._session.seal(kind, payload, **header)

    @func_test
    def no_such_block(self) -> None:
        """Source blocks beyond the stream's last.

        Steps:
            Seal symbols of blocks Z, Z + 1, 2^31 and 2^32 - 1, of both streams; then the object.
        Verify:
            rx_block counts each and no other drop counter moves; the object arrives.
        """
        out = self._begin([400000])
        size = out.symbol_bytes
        with counted(self._edge, self._peer, "block", rx_block=8):
            for stream, kind in ((OBJECTS, packet.DATA), (MANIFEST, packet.MANIFEST)):
                blocks = out.cut[stream].blocks
                self._peer.raw(self._data(out, bytes(size), kind, block=b, esi=0)
                               for b in (blocks, blocks + 1, 1 << 31, (1 << 32) - 1))
        self._end(out)

    @func_test
    def no_such_esi(self) -> None:
        """ESI 255 is no symbol.

        Steps:
            Seal symbols with ESI 255 of both streams; then the object.
        Verify:
            rx_block counts each and no other drop counter moves; the object arrives.
        """
        out = self._begin([400000])
        with counted(self._edge, self._peer, "ESI", rx_block=3):
            self._peer.raw(self._data(out, bytes(out.symbol_bytes), block=b, esi=255)
                           for b in range(2))
            self._peer.raw([self._data(out, bytes(out.symbol_bytes), packet.MANIFEST, esi=255)])
        self._end(out)

    @func_test
    def wrong_lengths(self) -> None:
        """Payloads longer or shorter than their symbol.

        Steps:
            Seal source symbols, the stream's last one and repair symbols with no payload, one
            byte, one byte less, one more (unless the MTU forbids) than they have; the last one
            as a whole symbol.
        Verify:
            rx_length counts each and no other drop counter moves; the object arrives.
        """
        out = self._session.transfer([self._item(100000)], symbol_bytes=1000)
        self._session.control(out.open_frame())
        self._session.send_symbol(out, MANIFEST, 0, 0)
        self._peer.until(lambda: out.open_status is not None, 3)
        cut = out.cut[OBJECTS]
        k, last = cut.k(0), cut.k(0) - 1
        right = {0: 1000, last: cut.payload(0, last), k: 1000, 254: 1000}
        wrong = [(e, n) for e, size in right.items()
                 for n in {0, 1, size - 1, size + 1, 1400, 1000} - {size}]
        with counted(self._edge, self._peer, "length", rx_length=len(wrong)):
            self._peer.raw(self._data(out, bytes(n), esi=e) for e, n in wrong)
        self._end(out)

    @func_test
    def no_such_transfer(self) -> None:
        """Symbols of transfers that are closed, or that nobody can have opened.

        Steps:
            Close a transfer and send its symbols again; send symbols of transfers more than 2048
            above the highest one.
        Verify:
            rx_transfer counts each and no other drop counter moves.
        """
        out = self._begin([3000])
        self._end(out)
        high = self._session.next_transfer - 1
        with counted(self._edge, self._peer, "transfer", rx_transfer=7):
            self._peer.raw(self._data(out, out.symbol(OBJECTS, 0, e), esi=e) for e in range(3))
            self._peer.raw(self._data(out, bytes(1432), transfer=high + above)
                           for above in (2049, 4096, 1 << 31, (1 << 32) - 1 - high))

    @func_test
    def malformed_frames(self) -> None:
        """Frames out of their limits.

        Steps:
            Send every frame that tests/vectors/wire.json has to be refused, behind a PING.
        Verify:
            rx_frame counts each and no other drop counter moves; the PING in front of each is
            answered by a REPORT.
        """
        wrong = [bytes.fromhex(v["bytes"]) for v in vectors.load()["refused_frame"]]
        before = self._session.counters["Report"]
        with counted(self._edge, self._peer, "malformed frame", rx_frame=len(wrong)):
            for frame in wrong:
                self._session.control(frames.Ping(), frame)
                self._peer.rest(0.01)
        got = self._session.counters["Report"] - before
        verify(got >= len(wrong) // 2, f"{got} reports for {len(wrong)} pings")

    @func_test
    def truncated_frames(self) -> None:
        """Frames whose body or head is cut off.

        Steps:
            Send each frame of tests/vectors/wire.json with every shorter body, with a length
            that promises more than there is, and cut in its head.
        Verify:
            rx_frame counts each and no other drop counter moves.
        """
        wrong = []
        for vector in vectors.load()["frame"]:
            data = bytes.fromhex(vector["bytes"])
            if vector["frame"] == "PADDING":
                continue
            wrong += [frames.raw(data[0], data[3:3 + n]) for n in range(len(data) - 3)]
            wrong += [data[:1], data[:2], data[:-1], frames.raw(data[0], data[3:] + b"\0")]
        with counted(self._edge, self._peer, "truncated frame", rx_frame=len(wrong)):
            self._peer.raw(self._session.seal(packet.CONTROL, frame) for frame in wrong)

    @func_test
    def unknown_frames_and_flags(self) -> None:
        """What a later version may send is skipped.

        Steps:
            Send frames of each unknown type with and without a body, unknown flags, and symbols
            numbers in the header of control packets; a PING is behind all of them.
        Verify:
            No drop counter moves; the PING is answered.
        """
        unknown = b"".join(frames.raw(kind, bytes(n)) for kind in (0, *range(64, 256, 3))
                           for n in (0, 5))
        before = self._session.counters["Report"]
        with counted(self._edge, self._peer, "unknown things"):
            self._session.control(unknown, frames.Ping())
            for flags in (0x08, 0x10, 0x20, 0x40, 0x80, 0xf8):
                self._session.control(frames.Ping(), flags=flags)
            self._session.control(frames.Ping(), esi=255, transfer=77, block=(1 << 32) - 1)
            self._peer.until(lambda: self._session.counters["Report"] > before, 2)
        verify(self._session.counters["Report"] > before, "no REPORT after PING")

    @func_test
    def reports_of_the_unsent(self) -> None:
        """Acknowledgments of packets that were never sent.

        Steps:
            Send REPORTs whose newest is above everything the edge sent, up to 2^62 - 1, and of a
            queue it does not have.
        Verify:
            rx_frame counts each and no other drop counter moves.
        """
        far = [1 << 20, 1 << 23, 5 << 23, (1 << 62) - 1]
        wrong = [frames.Report(0, n, 1, 0, n, [(n, n)]) for n in far]
        wrong += [frames.Report(0, n, 1, 0, 0, [(0, 0)]) for n in far]
        wrong += [frames.Report(q, 0, 1, 0, 0, [(0, 0)]) for q in (1, 63, 64, 255)]
        wrong.append(frames.Report(0, 1 << 62, 1, 0, 0, [(0, 0)]))
        with counted(self._edge, self._peer, "report", rx_frame=len(wrong)):
            self._peer.raw(self._session.seal(packet.CONTROL, f.encode()) for f in wrong)

    @func_test
    def frames_of_the_other_role(self) -> None:
        """A sender that speaks like a receiver, of transfers that are not.

        Steps:
            Send OPEN_ACK, HAVE, NEED, OBJECT, CREDIT and CLOSE_ACK to an edge that sent no
            OPEN; then an object.
        Verify:
            No drop counter moves, but for rx_frame of an OBJECT whose position is no number of 32
            bits, and of one with PENDING; the object arrives.
        """
        top = (1 << 32) - 1
        strange: list[frames.Frame] = []
        for transfer in (0, 1, self._session.next_transfer - 1, top):
            strange += [
                frames.OpenAck(transfer, s) for s in (0, 1, 11, 200, 255)]
            strange += [
                frames.Have(transfer, 0, top), frames.Have(transfer, 1, 0, [(5, 9)]),
                frames.Need(transfer, 0, 0, [(0, 128), (top, 1)]),
                frames.Object(transfer, 0, [(0, 1), (65535, 255)]),
                frames.Object(transfer, top - 1, [(1, 1)]), frames.CloseAck(transfer)]
        strange += [frames.Credit(c, (1 << 64) - 1, (1 << 64) - 1) for c in range(3)]
        strange += [frames.Credit(c, 0, 0) for c in range(3)]
        strange += [frames.Response(bytes(8)), frames.Response(b"\xff" * 8)]
        with counted(self._edge, self._peer, "other role's frames"):
            self._peer.raw(self._session.seal(packet.CONTROL, f.encode()) for f in strange)
        wrong = [frames.Object(1, top, [(1, 1)]), frames.Object(1, 0, [(0, Status.PENDING)])]
        with counted(self._edge, self._peer, "wrong OBJECT", rx_frame=len(wrong)):
            for frame in wrong:
                self._session.control(frame)
        self._end(self._begin([5000]))

    @func_test
    def open_far_ahead(self) -> None:
        """Transfer ids far above the highest.

        Steps:
            OPEN transfers 2049 and more above the highest one.
        Verify:
            rx_frame counts each and no other drop counter moves; none is answered.
        """
        high = self._session.next_transfer - 1
        out = Outgoing(high, [self._item(1000)], 1432)
        acks = self._session.counters["OpenAck"]
        far = [high + 2049, high + 5000, 1 << 31, (1 << 32) - 1]
        with counted(self._edge, self._peer, "OPEN far ahead", rx_frame=len(far)):
            self._peer.raw(self._session.seal(packet.CONTROL, out.open_frame(transfer=t).encode())
                           for t in far)
        verify(self._session.counters["OpenAck"] == acks, "OPEN_ACK for a transfer far ahead")

    def _refuse(self, what: str, data: bytes, out: Outgoing, **changes: int) -> None:
        out.bytes = out.bytes[OBJECTS], data
        lie = Outgoing(out.transfer, out.items, out.symbol_bytes, records=data)
        self._session.outgoing[out.transfer] = lie
        self._session.control(lie.open_frame(**changes))
        self._session.send_symbol(lie, MANIFEST, 0, 0)
        refused = self._peer.until(lambda: lie.open_status == Status.MALFORMED, 2)
        verify(refused, f"{what}: OPEN_ACK {lie.open_status}")

    @func_test
    def lying_manifests(self) -> None:
        """Manifests that are not what OPEN announced.

        Steps:
            Send manifests with fewer and more records, other lengths, an empty key, a key or a
            tenant that is too long, objects of 0 and of more than 2^26 bytes, bytes behind the
            last record; each in a transfer of its own.
        Verify:
            Each is answered with OPEN_ACK MALFORMED; rx_open_refused counts each, and no drop
            counter moves.
        """
        record = manifest.Record
        good = record(b"k" * 30, 2000)
        lies: list[tuple[str, list[manifest.Record], bytes, dict[str, int]]] = [
            ("one record too few", [good], b"", {"objects": 2, "stream_bytes": 2000}),
            ("one record too many", [good, good], b"", {"objects": 1, "stream_bytes": 2000}),
            ("stream too short", [good], b"", {"objects": 1, "stream_bytes": 1999}),
            ("stream too long", [good, good], b"", {"objects": 2, "stream_bytes": 4001}),
            ("no key", [record(b"", 2000), good], b"", {"objects": 2, "stream_bytes": 4000}),
            ("empty object", [record(b"k", 0), good], b"", {"objects": 2, "stream_bytes": 2000}),
            ("tenant of 65 bytes", [record(b"k", 2000, b"t" * 65)], b"",
             {"objects": 1, "stream_bytes": 2000}),
            ("key of 1025 bytes", [record(b"k" * 1025, 2000)], b"",
             {"objects": 1, "stream_bytes": 2000}),
            ("object above 64 MiB", [record(b"k", (1 << 26) + 1), good], b"",
             {"objects": 2, "stream_bytes": (1 << 26) + 2001}),
            ("a byte behind", [good], b"\0", {"objects": 1, "stream_bytes": 2000}),
        ]
        with counted(self._edge, self._peer, "lying manifest", rx_open_refused=len(lies)):
            for what, records, tail, changes in lies:
                out = self._session.transfer([Item(b"x", b"x")])
                self._refuse(what, manifest.encode(records) + tail, out, **changes)

    @func_test
    def withdraw_of_nothing(self) -> None:
        """WITHDRAW of objects that the transfer does not have.

        Steps:
            WITHDRAW objects beyond the last, of this transfer and of none; WITHDRAW its object
            with PENDING, COMMITTED and EXISTS; then send the object.
        Verify:
            rx_frame counts the latter three, no other drop counter moves; the object arrives.
        """
        out = self._begin([5000])
        with counted(self._edge, self._peer, "WITHDRAW", rx_frame=3):
            for status in (Status.PENDING, Status.COMMITTED, Status.EXISTS):
                self._session.control(frames.Withdraw(out.transfer, [(0, status)]))
            self._session.control(frames.Withdraw(out.transfer, [(1, 8), (65535, 8)]))
            self._session.control(frames.Withdraw(out.transfer + 1, [(0, 8)]))
            self._session.control(frames.Withdraw((1 << 32) - 1, [(0, 8)]))
        self._end(out)

    @func_test
    def close_of_nothing(self) -> None:
        """CLOSE of transfers that are closed or never were.

        Steps:
            CLOSE a closed transfer, one that was never opened, and one far ahead.
        Verify:
            Only the closed one is answered; no drop counter moves.
        """
        out = self._begin([5000])
        self._end(out)
        before = self._session.counters["CloseAck"]
        with counted(self._edge, self._peer, "CLOSE"):
            self._session.control(frames.Close(out.transfer))
            self._session.control(frames.Close(self._session.next_transfer + 100))
        got = self._session.counters["CloseAck"] - before
        verify(got == 1, f"{got} answers")
