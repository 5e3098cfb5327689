# SPDX-License-Identifier: Apache-2.0
"""Strangers get silence, and never more bytes than they gave.

On the data path nothing that is not authentic is answered. On the management path nobody without an
edge's certificate opens a session, and whoever does open one gets a few small packets and no more
until it proved that it is where it says it is (doc/wire.md section 2.1)."""
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from api.capabilities import LinkTopology, requires_link_topology
from api.packet import (
    ARP,
    IP,
    TG_IP,
    UDP,
    Ether,
    datagram,
    send_packets,
    stranger,
    verify_dropped,
)
from api.peered import Peered
from api.strait import DATA_PORT, EDGE_PORT
from api.test import fail, verify
from api.timing import sent_by
from api.wire import (
    Channel,
    Item,
    Session,
    Status,
    counted,
    frames,
    get_object,
    keys,
    packet,
    put_object,
)
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test
from wire.control import MsgType

SMALL = 64


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestStrangers(Peered, TestSuite):
    """Cases: random_bytes, headers_of_no_session, packets_sealed_by_a_stranger,
    right_packets_from_elsewhere, silent_initiator, silent_responder, other_roles,
    hello_that_cannot_be, addresses_no_edge_can_have, session_counter_again,
    noise_on_the_management_port."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; no session yet."""
        super().set_up_suite()
        self._known: list[Session] = []

    def tear_down_test_case(self) -> None:
        """Hear everything again."""
        self._peer.disturb = None

    def _arrives(self, session: Session) -> None:
        self._names += 1
        item = Item(b"stranger-%d" % self._names, random.randbytes(20000))
        with counted(self._edge, self._peer, "an object after all"):
            statuses = self._peer.send(session, [item])
            verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

    @func_test
    def random_bytes(self) -> None:
        """Noise of every length.

        Steps:
            Send datagrams of random bytes with 0 to 1472 bytes from an unknown address and from
            the peer's.
        Verify:
            Not one byte goes out for all that came in; drop_no_session counts each and no other
            drop counter moves.
        """
        sizes = [*range(48), *random.sample(range(48, 1472), 60), 1472]
        packets = [datagram(self._edge, random.randbytes(n), ip=IP(src=source))
                   for n in sizes for source in (TG_IP, self._peer.address)]
        verify_dropped(self._edge, packets, "port_drop_no_session", "noise")

    @func_test
    def headers_of_no_session(self) -> None:
        """What looks right from outside.

        Steps:
            Send packets of each type with right headers, of sessions that do not exist, of each
            queue, with every flag.
        Verify:
            Not one byte goes out; drop_no_session counts each and no other drop counter moves.
        """
        packets = [datagram(self._edge, stranger(random.randrange(1400), kind=kind, queue=queue,
                                                 flags=flags, number=random.randrange(1 << 24)),
                            ip=IP(src=self._peer.address))
                   for kind in (1, 2, 3) for queue in (0, 1, 63, 255) for flags in (0, 4, 7, 255)]
        verify_dropped(self._edge, packets, "port_drop_no_session", "header")

    @func_test
    def packets_sealed_by_a_stranger(self) -> None:
        """Sealed as it should be, under keys of nobody, for a session that is there.

        Steps:
            Open a session; seal PING, CHALLENGE, OPEN, DATA under keys of another secret, with its
            id and next packet numbers, and send them from the peer's address.
        Verify:
            rx_auth counts each and no other drop counter moves; no more than three packets come
            back, which the session sends by itself, and an object still arrives.
        """
        session = self._peer.open()
        self._peer.rest(0.3)
        forger = Session(random.randbytes(keys.TAG_BYTES * 3), True, session.own_id,
                         session.peer_id, session.symbol_bytes, session.send)
        opening = frames.Open(1, 0, 1000, 30, 1, 1432)
        wrong = [forger.seal(packet.CONTROL, f.encode(), n)
                 for n in range(session.next_number, session.next_number + 50)
                 for f in (frames.Ping(), frames.Challenge(bytes(8)), opening)]
        wrong += [forger.seal(packet.DATA, bytes(1432), n, transfer=1, flags=packet.REPORT)
                  for n in range(20)]
        heard: list[bytes] = []
        with counted(self._edge, self._peer, "forged", rx_auth=len(wrong)):
            self._peer.disturb = self._hear(heard, keep=True)
            self._peer.raw(wrong)
        verify(len(heard) <= 3, f"{len(heard)} packets came for {len(wrong)} forged ones")
        verify(session.counters["OpenAck"] == 0, "a forged OPEN was answered")
        self._arrives(session)

    @func_test
    def right_packets_from_elsewhere(self) -> None:
        """Authentic packets from another address are a stranger's.

        Steps:
            Seal control packets of a session; send them from another address; then from the
            peer's own.
        Verify:
            drop_no_session counts the former, and they are taken afterwards: nothing of them was
            remembered. No other drop counter moves.
        """
        session = self._peer.open()
        sealed = [session.seal(packet.CONTROL, frames.Ping().encode()) for _ in range(20)]
        with counted(self._edge, self._peer, "elsewhere", port_drop_no_session=20):
            send_packets(self._edge, [
                datagram(self._edge, p, ip=IP(src=TG_IP), udp=UDP(sport=DATA_PORT))
                for p in sealed])
        with counted(self._edge, self._peer, "from the peer"):
            self._peer.raw(sealed)
        self._arrives(session)

    @staticmethod
    def _hear(heard: list[bytes], keep: bool) -> Callable[[bytes], list[bytes]]:
        """Note each datagram, and pass it on or not."""
        def note(data: bytes) -> list[bytes]:
            heard.append(data)
            return [data] if keep else []
        return note

    def _listen(self, seconds: float) -> list[bytes]:
        """What comes while the peer says nothing."""
        heard: list[bytes] = []
        self._peer.disturb = self._hear(heard, keep=False)
        self._peer.rest(seconds)
        self._peer.disturb = None
        return heard

    def _verify_little(self, heard: list[bytes], who: str) -> None:
        verify(len(heard) > 0, f"{who}: no CHALLENGE came")
        verify(len(heard) <= 40, f"{who}: {len(heard)} packets to who may not be there")
        for data in heard:
            verify(packet.decode(data).kind == packet.CONTROL and len(data) <= SMALL,
                   f"{who}: a packet of {len(data)} bytes, type {packet.decode(data).kind}")

    @func_test
    def silent_initiator(self) -> None:
        """A session with somebody who does not answer the CHALLENGE.

        Steps:
            Open a session and say nothing on the data path for 2 s; then ask (PING) without
            having answered.
        Verify:
            Nothing comes for 100 ms: the edge waits for the initiator's CHALLENGE, or an RTO,
            150 ms here. Then a few control packets come, none longer than 64 bytes and no more
            than 40. No drop counter moves.
        """
        with counted(self._edge, self._peer, "silent initiator"):
            session = self._peer.open(prove=False)
            early: list[bytes] = []
            self._peer.disturb = self._hear(early, keep=False)
            end = time.monotonic() + 0.1
            while time.monotonic() < end and not early:
                self._peer.rest(0.01)
            soon = time.monotonic() < end
            verify(not (early and soon), "a CHALLENGE before the initiator's")
            heard = early + self._listen(2)
        self._verify_little(heard, "silent initiator")
        session.auto = True
        verify(self._peer.until(lambda: session.validated, 2), "no RESPONSE afterwards")
        self._arrives(session)

    @func_test
    def silent_responder(self) -> None:
        """The edge has an order for somebody who does not answer the CHALLENGE.

        Steps:
            Order an object to the peer, which accepts the session and says nothing on the data
            path for 2 s; then it does.
        Verify:
            A few control packets come at first, none with OPEN, data or longer than 64 bytes, no
            more than 40; then the order is done. No drop counter moves.
        """
        self._names += 1
        key = f"stranger-order-{self._names}"
        data = random.randbytes(30000)
        put_object(self._edge, key.encode(), data)
        sessions = len(self._peer.accepted)

        def prepare(session: Session) -> None:
            session.auto = False
        self._peer.prepare = prepare
        self._peer.reset(self._peer.open())
        # What a run before left is forgotten.
        self._peer.sessions.clear()
        self._peer.drop_callers()
        self._peer.be_known()
        with counted(self._edge, self._peer, "silent responder"):
            order = self._peer.order([key])
            came = self._peer.until(lambda: len(self._peer.accepted) > sessions, 5)
            verify(came, "no session")
            self._verify_little(self._listen(2), "silent responder")
            self._peer.accepted[-1].auto = True
            state = self._peer.wait_order(order)
            verify(state == "done", f"the order is {state}")
        verify(data in self._peer.store.values(), "the object differs")

    def _refused(self, channel: Channel, what: str, **changes: object) -> str:
        """HELLO with what is changed in it, refused; the Error, if one came before the end."""
        self._peer.counter += 1
        try:
            self._peer.say_hello(channel, **changes)
        except OSError as error:
            verify("Error " in str(error) or channel.closed, f"{what}: {error}")
            return str(error)
        fail(f"{what} was accepted")

    @contextmanager
    def _says_nothing(self, what: str) -> Iterator[None]:
        """No drop counter moves, and no datagram leaves but to sessions that are there already,
        which may have something to say: nothing to addresses or ids of who was refused."""
        known = {s.own_id for s in (*self._peer.sessions.values(), *self._peer.accepted,
                                    *self._known)}
        tg = get_ctx().tg
        with counted(self._edge, self._peer, what):
            tg.flush()
            yield
            # A CHALLENGE comes at once, or an RTO later.
            self._peer.rest(0.3)
            seen = tg.take()
        asked = {e[ARP].pdst for p in seen if p.port == self._edge.tg_port.name
                 and ARP in (e := Ether(p.data)) and e.src == self._edge.mac and e[ARP].op == 1}
        verify(asked <= {self._peer.address, self._edge.ip}, f"{what}: the edge asked for {asked}")
        sent = sent_by(self._edge, seen)
        there = [(Ether(p.data)[IP].dst, int.from_bytes(p.data[46:50], "big")) for p in sent]
        strange = [pair for pair in there
                   if pair[0] != self._peer.address or pair[1] not in known]
        verify(not strange, f"{what}: {len(strange)} datagrams to {set(strange)}")

    @func_test
    def other_roles(self) -> None:
        """Certificates of the same CA, for others.

        Steps:
            Say HELLO with the certificates of an operator, of the master, and of the edge under
            test itself, as the peer.
        Verify:
            Each is answered by an Error or TLS is closed; none gets a session: the edge sends
            them nothing and no drop counter moves.
        """
        with self._says_nothing("other roles"):
            for name in ("operator", "master", f"{self._edge.site}1"):
                try:
                    channel = self._peer.call_as(name)
                except OSError as error:
                    # It may close as soon as it has seen the certificate.
                    verify("closed TLS" in str(error), f"{name}: {error}")
                    continue
                self._refused(channel, name)

    @func_test
    def hello_that_cannot_be(self) -> None:
        """HELLO with fields that are wrong.

        Steps:
            Say HELLO with each field out of its limits, one at a time.
        Verify:
            Each is answered by an Error; none gets a session: the edge sends them
            nothing and no drop counter moves; a right one does.
        """
        wrong: list[dict[str, object]] = [
            {"version": 0}, {"version": 2}, {"site": self._edge.site}, {"edge": "nobody"},
            {"boot_id": b""}, {"boot_id": bytes(15)}, {"boot_id": bytes(17)}, {"session": 0},
            {"symbol_bytes": 0}, {"symbol_bytes": 511}, {"symbol_bytes": 8933},
            {"address": "0.0.0.0"}, {"ports": []}, {"ports": [0]}, {"ports": [65536]},
            {"credit": []}, {"credit": [(1, 1)] * 2}]
        with self._says_nothing("wrong HELLO"):
            for changes in wrong:
                self._refused(self._peer.call(), str(changes), **changes)
        self._arrives(self._peer.open())

    @func_test
    def addresses_no_edge_can_have(self) -> None:
        """A HELLO cannot send CHALLENGEs to whom it likes.

        Steps:
            Say HELLO with a data address that is loopback, multicast, broadcast, unspecified, or
            the edge's own.
        Verify:
            Each is answered by an Error that says which; the edge sends them
            nothing and no drop counter moves; the peer's own address still gets a session.
        """
        wrong = {"0.0.0.0": "no data address", "0.255.255.255": "no data address",
                 "127.0.0.1": "loopback", "127.255.255.254": "loopback",
                 "224.0.0.1": "multicast", "239.255.255.255": "multicast",
                 "255.255.255.255": "broadcast", self._edge.ip: "ours"}
        with self._says_nothing("wrong addresses"):
            for address, why in wrong.items():
                error = self._refused(self._peer.call(), address, address=address)
                verify(why in error, f"{address}: '{error}' does not say {why}")
        self._arrives(self._peer.open())

    @func_test
    def session_counter_again(self) -> None:
        """The same counter on the same connection would bring the same keys again.

        Steps:
            Open a session; on its connection say HELLO with the same session counter, one less,
            and 0, each on a connection of its own; also after one that was resumed.
        Verify:
            Each is answered by an Error and gets no session: the edge sends them
            nothing and no drop counter moves. The next counter is accepted on a connection.
        """
        for less in (0, 1, None):
            session = self._peer.open()
            channel = self._peer.channel()
            counter = self._peer.counter
            again = 0 if less is None else counter - less
            self._peer.sessions.clear()
            self._known = [session]
            with self._says_nothing(f"{counter}, then {again}"):
                error = self._refused(channel, f"counter {again}", counter=again)
                verify("session counter" in error, f"counter {again}: {error}")
            self._peer.sessions[session.own_id] = session
            resumed = self._peer.call()
            verify(self._peer.resume(resumed, session), "the session was not resumed")
            self._refused(resumed, "counter after resume", counter=self._peer.counter,
                          session=session.own_id ^ 1)
        channel = self._peer.call()
        for _ in range(3):
            session = self._peer.initiate(channel)
        self._arrives(session)

    @func_test
    def noise_on_the_management_port(self) -> None:
        """Messages that are none, on a connection that is authenticated.

        Steps:
            Send a length beyond all limits, protobuf that is none, an empty HELLO, a message of an
            unknown type; send bytes that are no TLS.
        Verify:
            No session, no crash: the edge sends nothing and no drop counter moves; a right HELLO
            is accepted afterwards.
        """
        huge = (1 << 31).to_bytes(4, "big") + MsgType.SESSION_HELLO.to_bytes(2, "big") + bytes(2)
        broken = (4).to_bytes(4, "big") + MsgType.SESSION_HELLO.to_bytes(2, "big") + bytes(2)
        with self._says_nothing("noise"):
            for noise in (huge, broken + b"\xff" * 4, bytes(4) + broken[4:],
                          bytes(4) + b"\x03\xe7\0\0", random.randbytes(1000)):
                channel = self._peer.call()
                channel.send_raw(noise)
                self._peer.until(lambda channel=channel: channel.closed,  # type: ignore[misc]
                                 0.2)
            for noise in (b"GET / HTTP/1.1\r\n\r\n", random.randbytes(500),
                          b"\x16\x03\x01\xff\xff"):
                self._peer.send_plain(EDGE_PORT, noise)
        self._arrives(self._peer.open())
