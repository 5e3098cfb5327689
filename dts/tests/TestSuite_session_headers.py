# SPDX-License-Identifier: Apache-2.0
"""Forged packets of a session that exists.

Two edges move an object; the generator on their wire keeps what the peer sent to the edge under
test, and sends it again, changed: as what an attacker on the path can do. Nothing of it may count
but the one drop that doc/wire.md section 5 names, in the order given there."""
import random
import subprocess
import time
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.packet import (
    HEADER_BYTES,
    IP,
    TAG_BYTES,
    UDP,
    Ether,
    datagram,
    send_packets,
)
from api.strait import DATA_PORT, REPORT_INTERVAL, Edge, Master, moved, poll_until
from api.test import log_debug, verify
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

# Packet numbers of the session stay far below it, so generation 0 is the newest.
GENERATION_SHIFT = 23
CONTROL = 3
# The edges change keys every minute.
FRESH_SECONDS = 30


def flip(payload: bytes, bit: int) -> bytes:
    """One bit of a packet, counted from its first."""
    out = bytearray(payload)
    out[bit // 8] ^= 0x80 >> bit % 8
    return bytes(out)


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestSessionHeaders(TestSuite):
    """Cases: object_arrives, replayed_control, version_and_type, queue_number, session_id,
    packet_number, authenticated_header_bits, ciphertext_and_tag, cut_short, other_address,
    object_arrives_after_all."""

    def set_up_suite(self) -> None:
        """Start a master and both edges; move an object and keep what was on the wire."""
        ctx = get_ctx()
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(self._master, ctx.sut.name))
        peer = ctx.config.test_run.peer_node
        self._peer = self._stack.enter_context(Edge(self._master, peer))
        self._moves = 0
        self._renew()

    def tear_down_suite(self) -> None:
        """End all three."""
        self._stack.close()

    def set_up_test_case(self) -> None:
        """Packets that were kept must be of a generation that is held."""
        if time.monotonic() > self._kept + FRESH_SECONDS:
            self._renew()

    def _renew(self) -> None:
        get_ctx().tg.flush()
        self._control: list[bytes] = []
        self._kept = time.monotonic()
        self._move_object()
        self._keep_control()

    def _move_object(self) -> None:
        ctx = get_ctx()
        self._moves += 1
        manifest = ctx.suite_dir / f"manifest-{self._moves}"
        replay = [str(ctx.settings.build_dir / "bin/strait-replay")]
        subprocess.run([*replay, "put", "--pool", str(self._edge.pool), "--manifest",
                        str(manifest), "--model", f"model-{self._moves}", "--objects", "1",
                        "--bytes-per-block", "200000"], check=True, capture_output=True)
        keys = "".join(line.split(" ", 2)[2] + "\n"
                       for line in manifest.read_text("utf-8").splitlines())
        order = self._master.ctl("order", "submit", "--from", self._edge.site, "--to",
                                 self._peer.site, "--keys-file", "-", stdin=keys)["order"]
        state = ""

        def final() -> bool:
            nonlocal state
            state = self._master.ctl("order", "show", str(order))["state"]
            return state in ("done", "failed", "canceled")
        verify(poll_until(20, final) and state == "done", f"order {order} is {state}")
        check = subprocess.run([*replay, "verify", "--pool", str(self._peer.pool), "--manifest",
                                str(manifest)], check=False, capture_output=True, text=True)
        verify(check.returncode == 0, f"the object differs: {check.stdout}{check.stderr}")

    def _keep_control(self) -> None:
        """UDP payloads of control packets from the peer to the edge under test."""
        for packet in get_ctx().tg.take():
            ether = Ether(packet.data)
            if packet.port != self._peer.tg_port.name or UDP not in ether:
                continue
            payload = bytes(ether[UDP].payload)[:ether[UDP].len - 8]
            if ether[IP].dst == self._edge.ip and payload[0] & 15 == CONTROL:
                self._control.append(payload)
        verify(len(self._control) >= 2, f"{len(self._control)} control packets on the wire")

    def _from_peer(self, payload: bytes, source: str = "") -> bytes:
        packet = datagram(self._edge, payload, ip=IP(src=source or self._peer.ip, flags="DF"),
                          udp=UDP(sport=DATA_PORT))
        packet[Ether].src = self._peer.mac
        return bytes(packet)

    def _verify_refused(self, payloads: list[bytes], counter: str, what: str,
                        source: str = "") -> None:
        """Each payload moves `counter` by one and no other drop counter. The session goes on
        meanwhile, so what comes in and goes out otherwise is not looked at."""
        before = self._edge.counters()
        send_packets(self._edge, [self._from_peer(p, source) for p in payloads])
        self._edge.wait_counter(counter, before[counter] + len(payloads))
        # Whatever else they moved is in the next reports.
        time.sleep(2 * REPORT_INTERVAL)
        after = self._edge.counters()
        got = moved(before, after)
        log_debug(f"{what}: {len(payloads)} sent, moved {got}")
        verify(got == {counter: len(payloads)},
               f"{what}: {counter} should have moved by {len(payloads)} and no other, but {got}")
        accepted = after["rx_control"] - before["rx_control"]
        # Reports of an idle session are seconds apart.
        verify(accepted <= len(self._control), f"{what}: {accepted} control packets accepted")

    @func_test
    def object_arrives(self) -> None:
        """The wire that is attacked works.

        Steps:
            Move another object from the edge under test to its peer.
        Verify:
            The order is done, the object is the same at the peer, and neither edge dropped
            anything.
        """
        self._move_without_drops()

    def _move_without_drops(self) -> None:
        # The peer's first CHALLENGE may have come before the edge knew of the session.
        before = self._edge.settled_counters(), self._peer.settled_counters()
        self._move_object()
        time.sleep(2 * REPORT_INTERVAL)
        for edge, old in zip((self._edge, self._peer), before, strict=True):
            got = moved(old, edge.counters())
            verify(not got, f"{edge.name} dropped {got}")

    @func_test
    def replayed_control(self) -> None:
        """A control packet is accepted once.

        Steps:
            Send control packets of the peer, lest one came before the edge had the session. Send
            them again, in order, in reverse, and one three times.
        Verify:
            rx_replay counts each that was sent again and no other drop counter moves.
        """
        packets = self._control[:20]
        send_packets(self._edge, [self._from_peer(p) for p in packets])
        self._edge.settled_counters()
        again = [*packets, *reversed(packets), *packets[:1] * 3]
        self._verify_refused(again, "rx_replay", "replayed packet")

    @func_test
    def version_and_type(self) -> None:
        """Unknown versions and types are refused before anything is opened.

        Steps:
            Send a packet of the peer with every version but 1 and with every unknown type.
        Verify:
            rx_version counts each and no other drop counter moves.
        """
        real = self._control[0]
        first = [v << 4 | real[0] & 15 for v in range(16) if v != 1]
        first += [0x10 | kind for kind in range(16) if kind not in (1, 2, 3)]
        self._verify_refused([bytes((b,)) + real[1:] for b in first], "rx_version", "first byte")

    @func_test
    def queue_number(self) -> None:
        """Queues that the session does not have are refused.

        Steps:
            Send a packet of the peer with each of the 255 other queue numbers.
        Verify:
            rx_queue counts each and no other drop counter moves.
        """
        real = self._control[0]
        payloads = [real[:1] + bytes((q,)) + real[2:] for q in range(256) if q != real[1]]
        for i in range(0, len(payloads), 64):
            self._verify_refused(payloads[i:i + 64], "rx_queue", "queue")

    @func_test
    def session_id(self) -> None:
        """Every bit of the session id counts.

        Steps:
            Send a packet of the peer with each bit of its session id flipped.
        Verify:
            drop_no_session counts each and no other drop counter moves.
        """
        self._verify_refused([flip(self._control[0], 32 + bit) for bit in range(32)],
                             "port_drop_no_session", "session id")

    @func_test
    def packet_number(self) -> None:
        """The packet number names the key, and is authentic.

        Steps:
            Send a packet of the peer with each bit of its packet number flipped.
        Verify:
            Bits that lead to a generation that is not held: rx_generation. The others, those of
            the next generation among them: rx_auth. No other drop counter moves.
        """
        far: list[bytes] = []
        near: list[bytes] = []
        for bit in range(64):
            payload = flip(self._control[0], 64 + bit)
            generation = int.from_bytes(payload[8:16], "big") >> GENERATION_SHIFT
            (far if generation > 1 else near).append(payload)
        verify(len(far) == 64 - GENERATION_SHIFT - 1, "the packet is not of generation 0")
        self._verify_refused(far, "rx_generation", "far packet number")
        self._verify_refused(near, "rx_auth", "near packet number")

    @func_test
    def authenticated_header_bits(self) -> None:
        """The whole header is authenticated, also what control packets ignore.

        Steps:
            Send a packet of the peer with each bit of flags, ESI, transfer and block flipped, and
            as DATA and MANIFEST.
        Verify:
            rx_auth counts each and no other drop counter moves.
        """
        real = self._control[0]
        bits = [*range(16, 32), *range(128, HEADER_BYTES * 8)]
        payloads = [flip(real, bit) for bit in bits]
        payloads += [bytes((0x10 | kind,)) + real[1:] for kind in (1, 2)]
        self._verify_refused(payloads, "rx_auth", "header bit")

    @func_test
    def ciphertext_and_tag(self) -> None:
        """Each bit of ciphertext and tag is authenticated.

        Steps:
            Send a packet of the peer with each bit behind the header flipped, at most 512 of
            them, and with bytes that nobody sealed.
        Verify:
            rx_auth counts each and no other drop counter moves.
        """
        real = min(self._control, key=len)
        bits = list(range(HEADER_BYTES * 8, len(real) * 8))
        if len(bits) > 512:
            bits = sorted(random.sample(bits[:-TAG_BYTES * 8], 384)) + bits[-TAG_BYTES * 8:]
        payloads = [flip(real, bit) for bit in bits]
        payloads += [real[:HEADER_BYTES] + random.randbytes(n) for n in (16, 17, 64, 500, 1448)]
        for i in range(0, len(payloads), 64):
            self._verify_refused(payloads[i:i + 64], "rx_auth", "flipped bit")

    @func_test
    def cut_short(self) -> None:
        """A packet of the peer that was cut off is not opened.

        Steps:
            Send a packet of the peer cut at every byte, at most 300 of them.
        Verify:
            What has no room for header and tag: drop_no_session. What has: rx_auth. No other
            drop counter moves.
        """
        real = max(self._control, key=len)
        least = HEADER_BYTES + TAG_BYTES
        self._verify_refused([real[:n] for n in range(least)], "port_drop_no_session",
                             "too short for a packet")
        cut = [real[:n] for n in range(least, min(len(real), least + 260))]
        for i in range(0, len(cut), 64):
            self._verify_refused(cut[i:i + 64], "rx_auth", "cut short")

    @func_test
    def other_address(self) -> None:
        """A packet of the session from another address is a stranger's.

        Steps:
            Send packets of the peer, unchanged and changed, from other addresses.
        Verify:
            drop_no_session counts each and no other drop counter moves.
        """
        for source in ("10.66.0.3", "10.66.0.100", "192.0.2.1"):
            self._verify_refused([*self._control[:4], flip(self._control[0], 200)],
                                 "port_drop_no_session", f"from {source}", source)

    @func_test
    def object_arrives_after_all(self) -> None:
        """The session took no harm.

        Steps:
            Send bytes nobody sealed, then move another object.
        Verify:
            rx_auth counts the noise alone. The order is done, the object is the same at the peer,
            and neither edge dropped anything of it.
        """
        real = self._control[0]
        noise = [real[:HEADER_BYTES] + random.randbytes(100) for _ in range(50)]
        self._verify_refused(noise, "rx_auth", "noise")
        self._move_without_drops()
