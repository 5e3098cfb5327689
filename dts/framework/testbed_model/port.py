# SPDX-License-Identifier: Apache-2.0
"""Ports: ends of veth pairs between namespaces, prepared so that only what a test sends is seen."""
import ipaddress
from dataclasses import dataclass

from framework.config import PortConfig
from framework.testbed_model.netns_session import NetnsSession


@dataclass
class Port:
    """An interface of a node. ip is the edge's address on it, empty at the traffic generator."""

    node: str
    config: PortConfig
    mac: str = ""

    @property
    def name(self) -> str:
        """As in port_topology."""
        return self.config.name

    @property
    def netdev(self) -> str:
        """The interface's name in its namespace."""
        return self.config.netdev

    @property
    def ip(self) -> str:
        """The edge's address without the prefix length."""
        return str(ipaddress.IPv4Interface(self.config.address).ip) if self.config.address else ""


def prepare_netdev(session: NetnsSession, dev: str, mtu: int) -> None:
    """Nothing on the interface but what a test sends, as it sends it."""
    set_offloads(session, dev, False)
    session.command("sysctl", "-q", "-w", f"net.ipv4.conf.{dev}.arp_ignore=1", check=False)
    session.command("sysctl", "-q", "-w", f"net.ipv6.conf.{dev}.disable_ipv6=1", check=False)
    session.ip("link", "set", dev, "mtu", str(mtu))


def set_offloads(session: NetnsSession, dev: str, on: bool) -> None:
    """Checksums and segmentation by the "hardware", or not."""
    for feature in ("tx", "rx", "tso", "gso", "gro"):
        session.command("ethtool", "-K", dev, feature, "on" if on else "off", check=False)


def make_link(one: NetnsSession, dev1: str, two: NetnsSession, dev2: str, mtu: int) -> None:
    """A veth pair, up: no offloads, no ARP by the kernel for addresses of other interfaces."""
    one.ip("link", "add", "name", dev1, "type", "veth", "peer", "name", dev2, "netns", two.netns)
    for session, dev in ((one, dev1), (two, dev2)):
        prepare_netdev(session, dev, mtu)
    for session, dev in ((one, dev1), (two, dev2)):
        session.ip("link", "set", dev, "up")


def read_mac(session: NetnsSession, dev: str) -> str:
    """The interface's MAC address."""
    return session.command("cat", f"/sys/class/net/{dev}/address").stdout.strip()
