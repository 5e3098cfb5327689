# SPDX-License-Identifier: Apache-2.0
"""The independent implementation of the wire as an edge of the testbed.

    with Master() as master, Edge(master, "sut") as edge, WirePeer(master, edge) as peer:
        session = peer.open()
        peer.send(session, [Item(b"key", b"bytes")])

It takes the place of the peer node's edge: that site's certificate, its address on the WAN segment
(given to the namespace's kernel, which answers ARP), its address on the management network. What
it seals is authentic."""
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from api.strait import EDGE_PORT, MASTER_PORT, REPORT_INTERVAL, Counters, Edge, Master, merge, moved
from api.test import log_debug, verify
from framework.context import get_ctx
from framework.exception import ApplianceError
from wire import frames, gf256, keys, manifest, packet
from wire.control import MsgType, encode
from wire.frames import Status
from wire.outgoing import MANIFEST, OBJECTS, Item, Outgoing
from wire.peer import Peer
from wire.session import Session
from wire.sockets import SocketSource
from wire.tls import Channel, Identity

# What the edge may send to a peer written in Python on a busy machine.
PEER_CAP = "40Mbit"
# Longer than two reports of the edge to the master.
SETTLE_SECONDS = 2.2 * REPORT_INTERVAL

__all__ = ["MANIFEST", "OBJECTS", "Channel", "Item", "MsgType", "Outgoing", "PeeredEdge",
           "Session", "Status", "WirePeer", "counted", "frames", "get_object", "gf256", "keys",
           "manifest", "packet", "put_object"]


class PeeredEdge(Edge):
    """The edge under test, which does not wait long for what a test left unfinished."""

    def __init__(self, master: Master, **config: Any) -> None:
        """As Edge."""
        super().__init__(master, get_ctx().sut.name,
                         **merge({"control": {"drain_timeout": "500ms"}, "cap": PEER_CAP}, config))


class WirePeer(Peer):
    """An edge on the peer node, wired to the edge under test."""

    def __init__(self, master: Master, edge: Edge, symbol_bytes: int = 1432,
                 queues: int = 1) -> None:
        """Nothing is opened before the with block."""
        ctx = get_ctx()
        self._master, self._edge = master, edge
        self._node = ctx.testbed.nodes[ctx.config.test_run.peer_node]
        self.port, self.tg_port = ctx.wire(self._node.name)
        site = self._node.config.site
        self._pki = Identity(master.pki / "ca.pem", master.pki / f"{site}1.pem",
                             master.pki / f"{site}1.key")
        self._args = site, f"{site}1", self.port.ip, symbol_bytes, queues
        self._registered: Channel | None = None
        self._dialed: list[Channel] = []

    def __enter__(self) -> "WirePeer":
        """Give the namespace its address, open the data socket."""
        session = self._node.session
        session.ip("addr", "add", self.port.config.address, "dev", self.port.netdev)
        # The kernel would ask again whenever it likes, and the edge answer: noise.
        session.ip("neigh", "replace", self._edge.ip, "lladdr", self._edge.mac, "dev",
                   self.port.netdev, "nud", "permanent")
        self._helper = SocketSource(session.netns, get_ctx().suite_dir / "sockets.err")
        try:
            site, edge, address, symbol_bytes, queues = self._args
            super().__init__(self._helper, self._pki, site, edge, address, symbol_bytes, queues)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close everything, take the address back."""
        self.close()
        self._leave()

    def _leave(self) -> None:
        self._helper.close()
        session = self._node.session
        session.ip("neigh", "del", self._edge.ip, "dev", self.port.netdev)
        session.ip("addr", "del", self.port.config.address, "dev", self.port.netdev)

    def call(self) -> Channel:
        """A new connection to the edge under test, instead of those before."""
        self.hang_up()
        self._dialed = [self.dial(self._edge.mgmt_ip, EDGE_PORT)]
        return self._dialed[0]

    def channel(self) -> Channel:
        """The connection to the edge under test that was called last."""
        return self._dialed[-1]

    def call_as(self, name: str) -> Channel:
        """A connection with a certificate of somebody else."""
        pki = self._master.pki
        other = Identity(pki / "ca.pem", pki / f"{name}.pem", pki / f"{name}.key")
        return self.dial(self._edge.mgmt_ip, EDGE_PORT, other)

    def send_plain(self, port: int, data: bytes, seconds: float = 0.2) -> None:
        """Bytes that are no TLS, to a port of the edge's management address."""
        with self._helper.connect(self._edge.mgmt_ip, port) as sock:
            sock.sendall(data)
            self.rest(seconds)

    def plain(self, port: int) -> socket.socket:
        """A connection to a port of the edge's management address, without TLS."""
        return self._helper.connect(self._edge.mgmt_ip, port)

    def reset(self, session: Session) -> None:
        """SESSION_RESET of a session that was opened here."""
        self._dialed[-1].send(MsgType.SESSION_RESET, encode([(1, session.peer_id), (2, "test")]))

    def hang_up(self) -> None:
        """Close the connections to the edge under test; sessions stay."""
        for old in self._dialed:
            old.close()

    def open(self, prove: bool = True) -> Session:
        """A new session to the edge under test, as initiator."""
        return self.initiate(self.call(), prove=prove)

    def be_known(self) -> None:
        """Register with the master and take sessions of others."""
        if self._registered is None or self._registered.closed:
            if self._registered is None:
                self.serve(self._node.mgmt_ip, EDGE_PORT)
            self._registered = self.register(self._node.master_ip, MASTER_PORT,
                                             f"{self._node.mgmt_ip}:{EDGE_PORT}")

    def send(self, session: Session, items: list[Item], **options: int) -> dict[int, int]:
        """Deliver objects in a transfer of their own; their statuses."""
        return self.deliver(session, session.transfer(items, **options))

    def raw(self, data: Iterable[bytes]) -> int:
        """Datagrams to the edge, sealed before, in bursts the wire can take; how many."""
        count = 0
        for datagram in data:
            self.udp.sendto(datagram, (self._edge.ip, 4790))
            count += 1
            if count % 16 == 0:
                self.pump(0.001)
        return count

    def order(self, keys_: list[str], priority: str = "normal") -> int:
        """Have objects shipped from the edge under test to this peer."""
        answer = self._master.ctl("order", "submit", "--from", self._edge.site, "--to", self.site,
                                  "--class", priority, "--keys-file", "-",
                                  stdin="".join(k + "\n" for k in keys_))
        return int(answer["order"])

    def wait_order(self, order: int, seconds: float = 20.0) -> str:
        """The order's final state, or its last one when time is up."""
        end = time.monotonic() + seconds
        # The peer does not stand still while straitctl runs.
        with ThreadPoolExecutor(1) as background:
            while True:
                shown = background.submit(self._master.ctl, "order", "show", str(order))
                self.until(shown.done)
                state = str(shown.result()["state"])
                if state in ("done", "failed", "canceled") or time.monotonic() > end:
                    return state
                self.rest(0.03)


def _ctl(*argv: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    program = str(get_ctx().settings.build_dir / "bin/straitctl")
    return subprocess.run((program, *argv), input=data, capture_output=True, timeout=20,
                          check=False)


def get_object(edge: Edge, key: bytes) -> bytes | None:
    """An object of the edge's pool, verified by the pool, or None."""
    done = _ctl("get", "--pool", str(edge.pool), "--hex", key.hex())
    if done.returncode not in (0, 1):
        raise ApplianceError(f"straitctl get: {done.stderr.decode().strip()}")
    return done.stdout if done.returncode == 0 else None


def put_object(edge: Edge, key: bytes, data: bytes) -> None:
    """An object into the edge's pool."""
    done = _ctl("put", "--pool", str(edge.pool), "--hex", key.hex(), data=data)
    if done.returncode != 0:
        raise ApplianceError(f"straitctl put: {done.stderr.decode().strip()}")


@contextmanager
def counted(edge: Edge, peer: WirePeer, what: str, **wanted: int) -> Iterator[None]:
    """What happens inside moves these counters by exactly so much, and no other drop counter.

    Counters that are no drops (rx_duplicate, ..) are looked at where they are named. The peer goes
    on meanwhile: a session that lives makes no noise here."""
    wanted = {name: value for name, value in wanted.items() if value}
    peer.rest(SETTLE_SECONDS)
    before = edge.counters()
    yield
    end = time.monotonic() + 3
    after: Counters = edge.counters()

    def got() -> Counters:
        names = {name for name in wanted if after.get(name, 0) != before.get(name, 0)}
        return moved(before, after) | {n: after[n] - before.get(n, 0) for n in names}
    while got() != wanted and time.monotonic() < end:
        peer.rest(REPORT_INTERVAL / 2)
        after = edge.counters()
    # Whatever else moved is in the next reports.
    peer.rest(SETTLE_SECONDS)
    after = edge.counters()
    log_debug(f"{what}: moved {got()}")
    verify(got() == wanted, f"{what}: wanted {wanted or 'no drops'}, got {got() or 'none'}")
