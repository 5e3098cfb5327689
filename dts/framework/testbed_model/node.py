# SPDX-License-Identifier: Apache-2.0
"""Nodes and the testbed they make.

Each node of nodes.yaml is a namespace. All ports of the traffic generator are on one bridge, the
WAN segment: it carries what edges say to each other, while the generator sends out of a single port
and sees everything. One more namespace, mgmt, holds the master and routes between the edges."""
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from framework.config import Configuration, NodeConfig
from framework.testbed_model.netns_session import NetnsSession
from framework.testbed_model.port import Port, make_link, read_mac

BRIDGE = "wan"


@dataclass
class Node:
    """A namespace, its ports, and its address on the management network."""

    config: NodeConfig
    session: NetnsSession
    ports: dict[str, Port] = field(default_factory=dict)
    mgmt_ip: str = ""
    master_ip: str = ""

    @property
    def name(self) -> str:
        """As in nodes.yaml."""
        return self.config.name


class Testbed:
    """All namespaces of a run; a context manager that leaves nothing behind."""

    def __init__(self, config: Configuration) -> None:
        """Nothing is made before __enter__."""
        self._config = config
        self._stack = ExitStack()
        self.nodes: dict[str, Node] = {}
        self.mgmt: NetnsSession

    def _session(self, name: str) -> NetnsSession:
        session = NetnsSession(name)
        self._stack.callback(session.close)
        return session

    def __enter__(self) -> "Testbed":
        """Make namespaces and links; all or nothing."""
        try:
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _make(self) -> None:
        run = self._config.test_run
        self.mgmt = self._session("mgmt")
        self.mgmt.command("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        names = [run.traffic_generator_node, *dict.fromkeys(link.node for link in run.links)]
        for name in names:
            config = self._config.nodes[name]
            node = self.nodes[name] = Node(config, self._session(config.netns))
            node.ports = {p.name: Port(name, p) for p in config.ports}
        tg = self.nodes[run.traffic_generator_node]
        tg.session.ip("link", "add", "name", BRIDGE, "type", "bridge", "stp_state", "0",
                      "mcast_snooping", "0")
        tg.session.ip("link", "set", BRIDGE, "up")
        for i, link in enumerate(run.links, 1):
            node = self.nodes[link.node]
            port, tg_port = node.ports[link.port], tg.ports[link.tg_port]
            make_link(node.session, port.netdev, tg.session, tg_port.netdev, run.mtu)
            port.mac = read_mac(node.session, port.netdev)
            tg_port.mac = read_mac(tg.session, tg_port.netdev)
            tg.session.ip("link", "set", tg_port.netdev, "master", BRIDGE)
            node.mgmt_ip, node.master_ip = f"10.99.{i}.2", f"10.99.{i}.1"
            make_link(node.session, "mgmt", self.mgmt, f"to-{i}", 1500)
            node.session.ip("addr", "add", f"{node.mgmt_ip}/24", "dev", "mgmt")
            self.mgmt.ip("addr", "add", f"{node.master_ip}/24", "dev", f"to-{i}")
            node.session.ip("route", "add", "default", "via", node.master_ip)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Kill what runs in the namespaces, and delete them."""
        self._stack.close()
