# SPDX-License-Identifier: Apache-2.0
"""straitctl capture: an edge writes its packets to a file.

What is in the file is what was on the wire, which the generator saw too."""
import os
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path

from scapy.utils import PcapNgReader

from api.capabilities import Capability, LinkTopology, requires, requires_link_topology
from api.capture import capture_ctl, capture_start, capture_status, capture_stop, debug_config
from api.packet import Ether, datagram, echo_request, send_and_capture, send_packets, stranger
from api.strait import DATA_PORT, Counters, Edge, Master, moved, poll_until, without_drops
from api.test import log, verify
from api.transfer import move, put_objects
from api.tshark import dissect
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test, no_packets

INBOUND, OUTBOUND = 1, 2


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestCapture(TestSuite):
    """Cases: file_is_what_was_on_the_wire, both_directions_and_times, limits_end_it,
    snaplen_cuts_frames, file_is_private_and_never_replaced, refusals,
    transfers_do_not_notice, disk_gets_full, directory_takes_no_file, edge_is_killed,
    capture_survives_nothing."""

    def set_up_suite(self) -> None:
        """Start a master, and both edges with sockets and directories for captures."""
        ctx = get_ctx()
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(
            Edge(self._master, ctx.sut.name, debug=debug_config(ctx.sut.name)))
        self._peer = self._stack.enter_context(Edge(self._master, ctx.config.test_run.peer_node))
        # The peer's first CHALLENGE may come before the edge knows of the session.
        move(self._master, put_objects(self._edge, 1, 20000), self._edge, self._peer)

    def tear_down_suite(self) -> None:
        """End everything."""
        self._stack.close()

    def tear_down_test_case(self) -> None:
        """No capture is left running."""
        capture_ctl(self._edge, "stop")

    @staticmethod
    def _read(path: Path) -> list[tuple[bytes, float]]:
        with PcapNgReader(str(path)) as reader:
            return [(bytes(p), float(p.time)) for p in reader]

    def _missed(self, before: Counters) -> int:
        return self._edge.counters()["port_capture_missed"] - before["port_capture_missed"]

    @func_test
    def file_is_what_was_on_the_wire(self) -> None:
        """Every frame of a transfer, byte by byte.

        Steps:
            Capture while 500 kB move to the peer.
        Verify:
            The datagrams in the file are those the generator saw, both ways, none more, none
            less; port_capture_missed stays still and the status counts the packets of the file;
            no drops at either edge.
        """
        tg = get_ctx().tg
        batch = put_objects(self._edge, 2, 250000)
        before = self._edge.settled_counters()
        with without_drops(self._edge, self._peer):
            path = capture_start(self._edge, "transfer.pcapng")
            tg.flush()
            move(self._master, batch, self._edge, self._peer)
            # Before the stop, so that the file has all the generator saw.
            seen = [p.data for p in tg.take()]
            status = capture_stop(self._edge)
        frames = [data for data, _ in self._read(path)]
        datagrams = [f for f in seen if f[12:14] == b"\x08\x00" and f[23] == 17]
        log(f"{len(frames)} frames in the file, {len(datagrams)} datagrams on the wire")
        verify(len(datagrams) > 350, f"only {len(datagrams)} datagrams on the wire")
        lacking = set(datagrams) - set(frames)
        verify(not lacking, f"{len(lacking)} datagrams of the wire are not in the file")
        more = [f for f in frames if f not in set(seen) and f[12:14] == b"\x08\x00"]
        verify(len(more) <= 4, f"{len(more)} datagrams of the file were not on the wire")
        verify(len(set(frames)) >= len(frames) - 2, "frames are in the file twice")
        verify(status["packets"] == len(frames), f"the status says {status['packets']}")
        verify(status["missed"] == 0 and self._missed(before) == 0, "frames were missed")

    @func_test
    def both_directions_and_times(self) -> None:
        """Direction and time of each frame.

        Steps:
            Capture while the generator sends one echo request.
        Verify:
            The file has request and reply in this order, marked in and out, within a second of
            the generator's times. icmp_echo moved by one, no drop counter did.
        """
        with without_drops(self._edge, port_icmp_echo=1):
            path = capture_start(self._edge, "echo.pcapng")
            request = echo_request(self._edge, b"direction")
            answers = send_and_capture(self._edge, [request], 1)
            verify(len(answers) == 1, "no echo reply")
            capture_stop(self._edge)
        frames = self._read(path)
        sent = [i for i, (data, _) in enumerate(frames) if data == bytes(request)]
        replied = [i for i, (data, _) in enumerate(frames) if data == answers[0].data]
        verify(len(sent) == 1 and len(replied) == 1 and sent[0] < replied[0],
               f"request at {sent}, reply at {replied}")
        offset = abs(frames[replied[0]][1] - answers[0].time)
        verify(offset < 1, f"times are {offset:.3f} s apart")
        raw = path.read_bytes()
        for data, way in ((bytes(request), INBOUND), (answers[0].data, OUTBOUND)):
            at = raw.index(data) + len(data) + -len(data) % 4
            option = raw[at:at + 8]
            verify(option == b"\x02\0\x04\0" + way.to_bytes(4, "little"),
                   f"direction option {option.hex()}")

    @func_test
    def limits_end_it(self) -> None:
        """Size and time.

        Steps:
            Capture with a limit of 50 kB while 250 kB move; capture for a second.
        Verify:
            Each ends by itself and says why; the first file is at most one frame above its limit;
            no drops at either edge.
        """
        batch = put_objects(self._edge, 1, 250000)
        with without_drops(self._edge, self._peer):
            path = capture_start(self._edge, "small.pcapng", "--limit", "50000")
            move(self._master, batch, self._edge, self._peer)
        verify(poll_until(3, lambda: not capture_status(self._edge)["running"]), "it still runs")
        status = capture_status(self._edge)
        verify("size" in status["ended"], f"it ended because {status['ended']}")
        size = path.stat().st_size
        verify(50000 <= size < 52000, f"{size} bytes")
        self._read(path)
        capture_start(self._edge, "short.pcapng", "--duration", "1s")
        verify(capture_status(self._edge)["running"], "it does not run")
        verify(poll_until(4, lambda: not capture_status(self._edge)["running"]), "it still runs")
        status = capture_status(self._edge)
        verify("time" in status["ended"], f"it ended because {status['ended']}")

    @func_test
    def snaplen_cuts_frames(self) -> None:
        """The beginning of each frame, when that is enough.

        Steps:
            Capture 66 bytes of each frame while 100 datagrams come.
        Verify:
            Each has 66 bytes in the file and its real length beside it. drop_no_session counts
            each and no other drop counter moves.
        """
        with without_drops(self._edge, port_drop_no_session=100):
            path = capture_start(self._edge, "cut.pcapng", "--snaplen", "66")
            frames = send_packets(self._edge, [datagram(self._edge, stranger(1000))
                                               for _ in range(100)])
            verify(poll_until(3, lambda: capture_status(self._edge)["packets"] >= 100),
                   "100 packets do not get captured")
            capture_stop(self._edge)
        cut = [f[:66] for f in frames]
        found = 0
        with PcapNgReader(str(path)) as reader:
            for packet in reader:
                data = bytes(packet)
                if data in cut:
                    found += 1
                    verify(packet.wirelen == len(frames[0]), f"wire length {packet.wirelen}")
                verify(len(data) <= 66, f"{len(data)} bytes were kept")
        verify(found == 100, f"{found} of 100 in the file")

    @no_packets
    @func_test
    def file_is_private_and_never_replaced(self) -> None:
        """Who may read it.

        Steps:
            Capture into a new file, then into the same name again.
        Verify:
            Mode 0600; the second one is refused and the file stays as it was. The socket is 0600.
        """
        path = capture_start(self._edge, "once.pcapng")
        capture_stop(self._edge)
        mode = stat.S_IMODE(path.stat().st_mode)
        verify(mode == 0o600, f"mode {mode:o}")
        before = path.read_bytes()
        again = capture_ctl(self._edge, "start", "--file", "once.pcapng")
        verify(again.returncode == 4 and "exists" in again.stderr.lower(),
               f"status {again.returncode}: {again.stderr}")
        verify(path.read_bytes() == before, "the file was touched")
        mode = stat.S_IMODE(os.stat(self._edge.socket).st_mode)
        verify(mode == 0o600, f"the socket has mode {mode:o}")

    @no_packets
    @func_test
    def refusals(self) -> None:
        """What cannot be is refused with a reason.

        Steps:
            Names with a directory, hidden, empty; a second capture; stop without one; numbers out
            of range; lines that are no request, on the socket itself.
        Verify:
            Each is refused; the edge goes on.
        """
        for name in ("../x", "/tmp/x", ".x", "", "a b"):
            done = capture_ctl(self._edge, "start", "--file", name)
            verify(done.returncode == 4, f"'{name}': status {done.returncode}: {done.stderr}")
        verify(capture_ctl(self._edge, "stop").returncode == 4, "stopped what did not run")
        verify(capture_ctl(self._edge, "start", "--snaplen", "10").returncode == 4, "snaplen 10")
        verify(capture_ctl(self._edge, "start", "--limit", "100T").returncode == 4, "100 TiB")
        capture_start(self._edge, "first.pcapng")
        second = capture_ctl(self._edge, "start", "--file", "second.pcapng")
        verify(second.returncode == 4 and "runs already" in second.stderr, second.stderr)
        capture_stop(self._edge)
        probe = ("import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(10);"
                 "s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode('latin-1'));"
                 "s.shutdown(1) if sys.argv[2][-1:] != '\\n' else None; print(s.recv(4096))")
        for line in ("\n", "[]\n", "{}\n", '{"op": 1}\n', '{"op": "x"}\n', "{" * 3000 + "\n",
                     '{"op": "capture-start", "bytes": -1}\n', "x" * 10000, "half"):
            done = subprocess.run(
                ("python3", "-c", probe, str(self._edge.socket), line), check=False,
                capture_output=True, text=True, timeout=20)
            good = "error" in done.stdout or done.stdout.strip() == "b''" or done.returncode != 0
            verify(good, f"{line[:40]!r}: {done.stdout}")
        verify(not capture_status(self._edge)["running"], "something runs")

    @func_test
    def transfers_do_not_notice(self) -> None:
        """A capture holds nothing up, and what it misses is counted.

        Steps:
            Move 8 MB at 200 Mbit/s without and with a capture.
        Verify:
            Both are done, objects the same; missed in the status is what port_capture_missed moved
            by; packets and missed add up to what the port received and sent; no drops at either
            edge.
        """
        plain = move(self._master, put_objects(self._edge, 8, 1000000), self._edge, self._peer)
        there = self._peer.settled_counters()
        before = self._edge.settled_counters()
        capture_start(self._edge, "busy.pcapng")
        result = move(self._master, put_objects(self._edge, 8, 1000000), self._edge, self._peer)
        status = capture_stop(self._edge)
        after = self._edge.settled_counters()
        for was, now in ((before, after), (there, self._peer.settled_counters())):
            verify(not moved(was, now), f"drops: {moved(was, now)}")
        log(f"{plain.goodput_bps / 1e6:.0f} Mbit/s without, {result.goodput_bps / 1e6:.0f} with, "
            f"{status['packets']} packets, {status['missed']} missed")
        missed = after["port_capture_missed"] - before["port_capture_missed"]
        verify(missed == status["missed"], f"{missed} counted, {status['missed']} in the status")
        passed = sum(after[n] - before[n] for n in ("port_rx_packets", "port_tx_packets"))
        got = status["packets"] + status["missed"]
        verify(abs(passed - got) <= 20, f"{passed} frames passed, {got} captured or missed")

    @requires(Capability.TSHARK)
    @func_test
    def disk_gets_full(self) -> None:
        """A file system of 256 KiB.

        Steps:
            Capture while 500 kB move to the peer; try to begin another capture.
        Verify:
            The first ends by itself and says why; its file is as long as the status says, ends
            with a whole frame and tshark reads it; the second is refused for the same reason
            and leaves no file. The transfer does not notice; no drops at either edge.
        """
        batch = put_objects(self._edge, 2, 250000)
        place = self._edge.capture_dir
        self._edge.mount(place, "size=256k")
        try:
            with without_drops(self._edge, self._peer):
                path = self._edge.seen(capture_start(self._edge, "full.pcapng"))
                move(self._master, batch, self._edge, self._peer)
                verify(poll_until(3, lambda: not capture_status(self._edge)["running"]),
                       "it still runs")
            status = capture_status(self._edge)
            verify("No space left" in status["ended"], f"it ended because {status['ended']}")
            size = path.stat().st_size
            verify(size == status["bytes"], f"{size} bytes, {status['bytes']} told")
            count = len(dissect(path, ["frame.number"], "frame"))
            log(f"{size} bytes, {count} frames")
            # All but a buffer of 64 KiB and a page.
            verify(size > 180000 and count > 100, f"{size} bytes, {count} frames")
            self._edge.seen(place / "rest").write_bytes(b"")
            try:
                self._edge.seen(place / "rest").write_bytes(bytes(1 << 20))
            except OSError:
                pass
            again = capture_ctl(self._edge, "start", "--file", "none.pcapng")
            verify(again.returncode == 4 and "No space left" in again.stderr,
                   f"status {again.returncode}: {again.stderr}")
            verify(not self._edge.seen(place / "none.pcapng").exists(), "a file was left")
        finally:
            self._edge.unmount(place)

    @no_packets
    @func_test
    def directory_takes_no_file(self) -> None:
        """A directory that cannot be written into, and one that went away.

        Steps:
            Begin a capture while the directory is read-only, and while it has another name.
        Verify:
            Both are refused with the reason; then one can be begun.
        """
        place = self._edge.capture_dir
        self._edge.mount(place, "ro")
        done = capture_ctl(self._edge, "start", "--file", "ro.pcapng")
        self._edge.unmount(place)
        verify(done.returncode == 4 and "Read-only" in done.stderr,
               f"read-only: status {done.returncode}: {done.stderr}")
        away = place.with_name("away")
        place.rename(away)
        done = capture_ctl(self._edge, "start", "--file", "gone.pcapng")
        away.rename(place)
        verify(done.returncode == 4 and "No such file" in done.stderr,
               f"gone: status {done.returncode}: {done.stderr}")
        capture_start(self._edge, "after.pcapng")
        capture_stop(self._edge)

    @requires(Capability.TSHARK)
    @func_test
    def edge_is_killed(self) -> None:
        """A crash is what captures are made for.

        Steps:
            Start a capture, send 10 datagrams, kill the edge with SIGKILL when they are counted
            and a tick went by; start it again.
        Verify:
            tshark reads the file, and the datagrams are in it. drop_no_session counted them and
            no other drop counter moved; no capture runs afterwards.
        """
        with without_drops(self._edge, port_drop_no_session=10):
            path = capture_start(self._edge, "killed.pcapng")
            frames = send_packets(self._edge, [datagram(self._edge, stranger())
                                               for _ in range(10)])
            verify(poll_until(3, lambda: capture_status(self._edge)["packets"] >= 10),
                   "no packets")
        self._edge.kill()
        count = len(dissect(path, ["frame.number"], "frame"))
        in_file = {data for data, _ in self._read(path)}
        self._edge.start_again()
        verify(count >= 10 and {bytes(f) for f in frames} <= in_file,
               f"datagrams are missing among {count} frames of the file")
        verify(not capture_status(self._edge)["running"], "a capture runs")

    @func_test
    def capture_survives_nothing(self) -> None:
        """An edge that ends, ends its capture, with a file that can be read.

        Steps:
            Start a capture, send it datagrams, end the edge with SIGTERM; start it again.
        Verify:
            Status 0; the file has the datagrams, which drop_no_session counted and no other drop
            counter; no capture runs and the socket works again.
        """
        with without_drops(self._edge, port_drop_no_session=10):
            path = capture_start(self._edge, "end.pcapng")
            frames = send_packets(self._edge, [datagram(self._edge, stranger())
                                               for _ in range(10)])
            verify(poll_until(3, lambda: capture_status(self._edge)["packets"] >= 10),
                   "no packets")
        verify(self._edge.stop() == 0, "the edge did not end with status 0")
        in_file = {data for data, _ in self._read(path)}
        verify({bytes(f) for f in frames} <= in_file, "datagrams are missing in the file")
        verify(not self._edge.socket.exists(), "the socket is still there")
        self._edge.start_again()
        verify(not capture_status(self._edge)["running"], "a capture runs")
        verify(Ether(frames[0])["UDP"].dport == DATA_PORT, "wrong port")
