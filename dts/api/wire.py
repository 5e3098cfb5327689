# SPDX-License-Identifier: Apache-2.0
"""The independent implementation of the wire as an edge of the testbed.

    with Master() as master, Edge(master, "sut") as edge, WirePeer(master, edge) as peer:
        session = peer.open()
        peer.send(session, [Item(b"key", b"bytes")])

It takes the place of the peer node's edge: that site's certificate, its address on the WAN segment
(given to the namespace's kernel, which answers ARP), its address on the management network. What
it seals is authentic."""
import subprocess
import time
from collections.abc import Iterable
from types import TracebackType

from api.strait import EDGE_PORT, MASTER_PORT, REPORT_INTERVAL, Counters, Edge, Master, moved
from api.test import log_debug, verify
from framework.context import get_ctx
from framework.exception import ApplianceError
from wire import frames, gf256, keys, manifest, packet
from wire.frames import Status
from wire.outgoing import MANIFEST, OBJECTS, Item, Outgoing
from wire.peer import Peer
from wire.session import Session
from wire.sockets import SocketSource
from wire.tls import Channel, Identity

__all__ = ["MANIFEST", "OBJECTS", "Channel", "Item", "Outgoing", "Session", "Status", "WirePeer",
           "frames", "get_object", "gf256", "keys", "manifest", "packet", "put_object",
           "verify_counted"]


class WirePeer(Peer):
    """An edge on the peer node, wired to the edge under test."""

    def __init__(self, master: Master, edge: Edge, symbol_bytes: int = 1432) -> None:
        """Nothing is opened before the with block."""
        ctx = get_ctx()
        self._master, self._edge = master, edge
        self._node = ctx.testbed.nodes[ctx.config.test_run.peer_node]
        self.port, self.tg_port = ctx.wire(self._node.name)
        site = self._node.config.site
        self._pki = Identity(master.pki / "ca.pem", master.pki / f"{site}1.pem",
                             master.pki / f"{site}1.key")
        self._args = site, f"{site}1", self.port.ip, symbol_bytes
        self._registered: Channel | None = None

    def __enter__(self) -> "WirePeer":
        """Give the namespace its address, open the data socket."""
        session = self._node.session
        session.ip("addr", "add", self.port.config.address, "dev", self.port.netdev)
        self._helper = SocketSource(session.netns, get_ctx().suite_dir / "sockets.err")
        try:
            site, edge, address, symbol_bytes = self._args
            super().__init__(self._helper, self._pki, site, edge, address, symbol_bytes)
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
        self._node.session.ip("addr", "del", self.port.config.address, "dev", self.port.netdev)

    def open(self) -> Session:
        """A new session to the edge under test, as initiator."""
        return self.initiate(self.dial(self._edge.mgmt_ip, EDGE_PORT))

    def be_known(self) -> None:
        """Register with the master and take sessions of others."""
        if self._registered is None or self._registered.closed:
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

    def order_state(self, order: int) -> str:
        """Of an order."""
        return str(self._master.ctl("order", "show", str(order))["state"])


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


def verify_counted(edge: Edge, peer: WirePeer, before: Counters, wanted: Counters,
                   what: str) -> Counters:
    """Since `before`, the drop counters moved exactly so and no other did.

    Counters wanted that are no drops (rx_duplicate, ..) are looked at, too. The peer goes on
    meanwhile, so a session that lives makes no noise here."""
    def get(after: Counters) -> Counters:
        got = moved(before, after)
        for name in wanted:
            if after.get(name, 0) != before.get(name, 0):
                got[name] = after[name] - before[name]
        return got
    end = time.monotonic() + 3
    after = edge.counters()
    while get(after) != wanted and time.monotonic() < end:
        peer.rest(REPORT_INTERVAL / 2)
        after = edge.counters()
    # Whatever else moved is in the next reports.
    peer.rest(2.5 * REPORT_INTERVAL)
    after = edge.counters()
    log_debug(f"{what}: moved {get(after)}")
    verify(get(after) == {k: v for k, v in wanted.items() if v},
           f"{what}: wanted {wanted} and no other, but {get(after)}")
    return after
