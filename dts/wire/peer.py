# SPDX-License-Identifier: Apache-2.0
"""An edge that is not Strait's: TLS management connections, sessions, transfers, one thread.

Everything happens inside pump() and until(), which the caller calls; between two calls the peer is
as good as hung, which is a test of its own kind."""
import os
import random
import select
import socket
import time
from collections.abc import Callable, Iterable

from . import control, frames, packet
from .control import Hello, MsgType
from .frames import Status
from .incoming import Store
from .outgoing import MANIFEST, OBJECTS, Outgoing
from .session import Session
from .sockets import SocketSource
from .tls import Channel, Identity

DATA_PORT = 4790
BURST = 16
GRANT = (1 << 28, 16384)
Choice = Callable[[int, int], Iterable[int]]


class Peer:
    """An edge. close() must be called."""

    def __init__(self, source: SocketSource, identity: Identity, site: str, edge: str,
                 address: str, symbol_bytes: int = 1432, queues: int = 1) -> None:
        """Its data sockets are open afterwards, a port a queue; nothing is sent."""
        self._source = source
        self._identity = identity
        self.site, self.edge, self.address = site, edge, address
        self.symbol_bytes = symbol_bytes
        self.grant = [GRANT] * 3
        self.boot_id = os.urandom(16)
        self.counter = 0
        self.ports = list(range(DATA_PORT, DATA_PORT + queues))
        self.sockets = [source.udp(address, port) for port in self.ports]
        for sock in self.sockets:
            sock.setblocking(False)
        self.udp = self.sockets[0]
        self.sessions: dict[int, Session] = {}
        self.channels: list[Channel] = []
        self.inbox: list[tuple[Channel, int, bytes]] = []
        self.hellos: list[Hello] = []
        self.accepted: list[Session] = []
        self.resumed = 0
        self.strays = 0
        self.store: Store = {}
        self._listener: socket.socket | None = None
        self.prepare: Callable[[Session], None] = lambda session: None
        # What becomes of a datagram on its way to us: itself, nothing, others.
        self.disturb: Callable[[bytes], list[bytes]] | None = None

    def close(self) -> None:
        """Close every socket."""
        for channel in self.channels:
            channel.close()
        if self._listener is not None:
            self._listener.close()
        for sock in self.sockets:
            sock.close()

    # ---- the loop ----

    def pump(self, seconds: float = 0.0) -> None:
        """What can be done now; waits up to `seconds` for something to do."""
        self.channels = [c for c in self.channels if not c.closed]
        waiting: list[socket.socket] = [*self.sockets, *(c.sock for c in self.channels)]
        if self._listener is not None:
            waiting.append(self._listener)
        ready, _, _ = select.select(waiting, [], [], seconds)
        if self._listener in ready and self._listener is not None:
            sock, _ = self._listener.accept()
            self.channels.append(Channel(sock, self._identity, server=True))
        for channel in self.channels:
            for kind, message in channel.pump():
                self._message(channel, kind, message)
        for sock in self.sockets:
            self._datagrams(sock)
        now = time.monotonic()
        for session in list(self.sessions.values()):
            for queue in session.queues:
                queue.tick(now)

    def until(self, condition: Callable[[], object], seconds: float = 10.0) -> bool:
        """Pump until the condition holds; whether it came to that."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self.pump(0.002)
        return True

    def rest(self, seconds: float) -> None:
        """Pump for a while."""
        self.until(lambda: False, seconds)

    def _datagrams(self, sock: socket.socket) -> None:
        for _ in range(256):
            try:
                data = sock.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error for what was sent before
            for datagram in [data] if self.disturb is None else self.disturb(data):
                self._datagram(datagram)

    def _datagram(self, data: bytes) -> None:
        session = None
        if len(data) >= packet.HEADER_BYTES:
            header = packet.decode(data)
            session = self.sessions.get(header.session)
        if session is None:
            self.strays += 1
        else:
            queue = header.queue if header.queue < len(session.queues) else 0
            session.queues[queue].receive(data)

    # ---- management ----

    def dial(self, address: str, port: int, identity: Identity | None = None) -> Channel:
        """A TLS connection to somebody; up."""
        channel = Channel(self._source.connect(address, port), identity or self._identity,
                          server=False)
        self.channels.append(channel)
        if not self.until(lambda: channel.up or channel.closed) or channel.closed:
            raise OSError(f"no TLS with {address}:{port}: {channel.why}")
        return channel

    def serve(self, address: str, port: int) -> None:
        """Take sessions of others from now on."""
        self._listener = self._source.listen(address, port)

    def drop_callers(self) -> None:
        """Close the connections that others opened to us."""
        for channel in self.channels:
            if channel.server:
                channel.close("on purpose")

    def forget_callers(self) -> None:
        """Know nothing any more of the sessions that others opened."""
        self.sessions = {i: s for i, s in self.sessions.items() if s.initiator}
        self.accepted.clear()
        self.drop_callers()

    def wait_message(self, channel: Channel, kind: int, seconds: float = 10.0) -> bytes:
        """The next message of a kind on a connection."""
        def mine() -> list[tuple[Channel, int, bytes]]:
            return [m for m in self.inbox if m[0] is channel and m[1] in (kind, MsgType.ERROR)]
        if not self.until(lambda: mine() or channel.closed, seconds) or not mine():
            raise OSError(f"no message {kind}: {channel.why or 'time is up'}")
        first = mine()[0]
        self.inbox.remove(first)
        if first[1] != kind:
            fields = control.decode(first[2])
            raise OSError(f"Error {control.number(fields, 1)}: {control.octets(fields, 2)!r}")
        return first[2]

    def _message(self, channel: Channel, kind: int, message: bytes) -> None:
        if kind == MsgType.PING:
            channel.send(MsgType.PONG, message)
        elif kind == MsgType.SESSION_HELLO:
            self._hello(channel, Hello.decode(message))
        elif kind == MsgType.SESSION_RESET:
            session = self.sessions.get(control.number(control.decode(message), 1))
            for queue in session.queues if session is not None else ():
                queue.is_reset = True
        else:
            self.inbox.append((channel, kind, message))

    def register(self, address: str, port: int, mgmt: str) -> Channel:
        """Make oneself known to the master."""
        channel = self.dial(address, port)
        channel.send(MsgType.EDGE_REGISTER, control.encode([
            (1, 1), (2, self.site), (3, self.edge), (4, self.boot_id), (5, mgmt), (6, 0),
            (7, "wire peer")]))
        self.wait_message(channel, MsgType.EDGE_ACCEPT)
        return channel

    # ---- sessions ----

    def hello(self, counter: int, session: int, credit: list[tuple[int, int]]) -> Hello:
        """What we say about ourselves."""
        return Hello(self.site, self.edge, self.boot_id, counter, session, self.address,
                     self.ports, self.symbol_bytes, credit)

    def _sender(self, hello: Hello, queue: int) -> Callable[[bytes], None]:
        where = hello.address, hello.ports[queue]
        sock = self.sockets[queue]

        def send(data: bytes) -> None:
            try:
                sock.sendto(data, where)
            except BlockingIOError:
                select.select([], [sock], [], 1)
                sock.sendto(data, where)
        return send

    def _session(self, secret: bytes, initiator: bool, own_id: int, hello: Hello) -> Session:
        count = min(len(self.ports), len(hello.ports))
        queues = [Session(secret, initiator, own_id, hello.session,
                          min(self.symbol_bytes, hello.symbol_bytes), self._sender(hello, n), n)
                  for n in range(count)]
        for session in queues:
            session.limits = {c: (size // count, objects // count)
                              for c, (size, objects) in enumerate(hello.credit)}
            session.granted = [[n // count for n in g] for g in self.grant]
            session.store = self.store
            session.peer_boot = hello.boot_id
        queues[0].queues = queues
        self.sessions[own_id] = queues[0]
        return queues[0]

    def say_hello(self, channel: Channel, **changes: object) -> Hello:
        """SESSION_HELLO, with fields changed at will; the answer."""
        own_id = random.SystemRandom().randrange(1, 1 << 32)
        hello = self.hello(self.counter, own_id, [(0, 0)] * 3)
        for name, value in changes.items():
            setattr(hello, name, value)
        channel.send(MsgType.SESSION_HELLO, hello.encode())
        return Hello.decode(self.wait_message(channel, MsgType.SESSION_ACCEPT))

    def initiate(self, channel: Channel, seconds: float = 10.0, prove: bool = True) -> Session:
        """A session to the edge at the other end, both addresses proved unless told not to."""
        self.counter += 1
        own_id = random.SystemRandom().randrange(1, 1 << 32)
        answer = self.say_hello(channel, session=own_id)
        if answer.counter != self.counter:
            raise OSError(f"the session counter came back as {answer.counter}")
        secret = channel.export(control.exporter_context(self.boot_id, answer.boot_id,
                                                         self.counter))
        self.hellos.append(answer)
        # The edge has closed what we had with it before.
        self.sessions = {i: s for i, s in self.sessions.items() if not s.initiator}
        session = self._session(secret, True, own_id, answer)
        for queue in session.queues:
            queue.auto = prove
        if prove and not self.until(lambda: all(q.validated for q in session.queues), seconds):
            raise OSError("no RESPONSE to CHALLENGE")
        return session

    def _hello(self, channel: Channel, hello: Hello) -> None:
        for old in self.accepted:
            if hello.resume_session and old.peer_id == hello.resume_session \
                    and old.peer_boot == hello.boot_id and old.own_id in self.sessions:
                answer = self.hello(hello.counter, old.own_id, self.grant)
                answer.resumed = True
                self.resumed += 1
                channel.send(MsgType.SESSION_ACCEPT, answer.encode())
                return
        # Another session of this initiator ends those before.
        self.sessions = {i: s for i, s in self.sessions.items() if s.initiator}
        own_id = random.SystemRandom().randrange(1, 1 << 32)
        secret = channel.export(control.exporter_context(hello.boot_id, self.boot_id,
                                                         hello.counter))
        self.hellos.append(hello)
        session = self._session(secret, False, own_id, hello)
        for queue in session.queues:
            self.prepare(queue)
        self.accepted.append(session)
        channel.send(MsgType.SESSION_ACCEPT,
                     self.hello(hello.counter, own_id, self.grant).encode())

    def resume(self, channel: Channel, session: Session) -> bool:
        """Keep a session on a new connection; whether the edge does, too."""
        return self.say_hello(channel, session=session.own_id,
                              resume_session=session.own_id).resumed

    # ---- sending a transfer ----

    def _burst(self, session: Session, symbols: list[tuple[Outgoing, int, int, int, int]]) -> None:
        for i, (out, stream, block, esi, flags) in enumerate(symbols):
            session.send_symbol(out, stream, block, esi, flags=flags)
            if i % BURST == BURST - 1:
                self.pump(0.001)

    def deliver(self, session: Session, out: Outgoing, choose: Choice | None = None,
                seconds: float = 20.0, close: bool = True) -> dict[int, int]:
        """Send a transfer until it is final; the statuses of its objects.

        `choose` says which symbols of a (stream, block) go out at first; all source symbols
        unless told. What the receiver then says it needs is sent as repair symbols."""
        self.start(session, out, choose)
        end = time.monotonic() + seconds
        ping = time.monotonic()
        while not out.is_final() and time.monotonic() < end and not session.is_reset:
            now = time.monotonic()
            if now >= ping:
                ping = now + 0.05
                opening = [] if out.open_status is not None else [out.open_frame()]
                session.control(*opening, frames.Ping(10000))
            self.pump(0.002)
            self.repair(session, out)
        if close:
            self.finish(session, out)
        return dict(out.statuses)

    def start(self, session: Session, out: Outgoing, choose: Choice | None = None) -> None:
        """OPEN, manifest and data, without waiting for anything."""
        session.control(out.open_frame())
        symbols = []
        for stream in (MANIFEST, OBJECTS):
            cut = out.cut[stream]
            for block in range(cut.blocks):
                wanted = list(choose(stream, block) if choose else range(cut.k(block)))
                if stream == OBJECTS:
                    wanted = [e for e in wanted if e >= cut.k(block) or not out.unneeded(block, e)]
                flags = [0] * max(0, len(wanted) - 1) + [packet.TAIL | packet.END_OF_BLOCK]
                symbols += [(out, stream, block, e, f) for e, f in zip(wanted, flags)]  # noqa: B905
        self._burst(session, symbols)

    def repair(self, session: Session, out: Outgoing) -> None:
        """What NEED asked for."""
        symbols: list[tuple[Outgoing, int, int, int, int]] = []
        for (stream, block), (missing, newest) in sorted(out.needs.items()):
            if out.last_number.get((stream, block), -1) > newest:
                continue
            cut = out.cut[stream]
            if stream == OBJECTS and out.is_undecodable(block):
                wanted = [j for j in range(cut.k(block)) if not out.unneeded(block, j)]
            else:
                rows = [out.next_row(stream, block) for _ in range(missing)]
                wanted = [e for e in rows if e is not None]
                if len(wanted) < missing:
                    wanted = list(range(cut.k(block)))
            symbols += [(out, stream, block, e, 0) for e in wanted]
        out.needs.clear()
        self._burst(session, symbols)

    def finish(self, session: Session, out: Outgoing, status: int = Status.COMMITTED,
               seconds: float = 5.0) -> bool:
        """CLOSE until CLOSE_ACK."""
        end = time.monotonic() + seconds
        while not out.closed and time.monotonic() < end and not session.is_reset:
            session.control(frames.Close(out.transfer, status))
            self.until(lambda: out.closed, 0.05)
        return out.closed
