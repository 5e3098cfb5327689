# SPDX-License-Identifier: Apache-2.0
"""The three configuration files, checked strictly: an unknown key is an error, as is a wrong type.

nodes.yaml names nodes and ports, test_run.yaml what to run and how ports are wired,
tests_config.yaml overrides the `Config` of single suites."""
import dataclasses
import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml

from framework.exception import ConfigurationError

T = TypeVar("T")
_LINK = re.compile(r"^\s*(\w+)\.([\w-]+)\s*<->\s*(\w+)\.([\w-]+)\s*$")
# An interface name is 15 characters at most; a namespace's name is part of none.
_NETDEV = re.compile(r"^[a-z][a-z0-9-]{0,14}$")

# Of symbols from 512 to 8932 bytes, over IPv4.
MTU = range(580, 9001)


@dataclass
class PortConfig:
    """A port of a node. vdev and address only where an edge runs on it."""

    name: str
    netdev: str
    vdev: str = ""
    address: str = ""


@dataclass
class NodeConfig:
    """A node is one network namespace on this machine (`session: local`)."""

    name: str
    session: str
    netns: str
    site: str = ""
    ports: list[PortConfig] = field(default_factory=list)


@dataclass
class LinkConfig:
    """One entry of port_topology: `sut.port-0 <-> tg.port-0`."""

    node: str
    port: str
    tg_node: str
    tg_port: str


@dataclass
class TestRunConfig:
    """test_run.yaml."""

    system_under_test_node: str
    traffic_generator_node: str
    port_topology: list[str]
    test_suites: list[str]
    func_traffic_generator: dict[str, str] = field(default_factory=lambda: {"type": "SCAPY"})
    peer_node: str = ""
    more_nodes: list[str] = field(default_factory=list)
    mtu: int = 1500
    func: bool = True
    perf: bool = False
    random_seed: int | None = None
    links: list[LinkConfig] = field(default_factory=list)


@dataclass
class Configuration:
    """All three files."""

    nodes: dict[str, NodeConfig]
    test_run: TestRunConfig
    tests: dict[str, dict[str, Any]]


def load_yaml(path: Path) -> Any:
    """The file's value."""
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {error}") from error


def fill(cls: type[T], value: Any, where: str) -> T:
    """A dataclass from a mapping: known keys only, scalars of the declared type."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: a mapping is needed")
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key, given in value.items():
        if key not in fields:
            raise ConfigurationError(f"{where}: unknown key '{key}'")
        kind = fields[key].type
        if kind in (str, int, bool, float) and (
                not isinstance(given, kind if kind is not float else (int, float))
                or kind is not bool and isinstance(given, bool)):
            raise ConfigurationError(f"{where}.{key}: a {kind.__name__} is needed")
        if get_origin(kind) is list and not (isinstance(given, list) and (
                str not in get_args(kind) or all(isinstance(one, str) for one in given))):
            raise ConfigurationError(f"{where}.{key}: a list is needed")
    try:
        return cls(**value)
    except TypeError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def parse_link(text: str) -> LinkConfig:
    """`node.port <-> node.port`, the traffic generator's on the right."""
    match = _LINK.match(text)
    if match is None:
        raise ConfigurationError(f"port_topology: '{text}' is not 'node.port <-> node.port'")
    return LinkConfig(*match.groups())


def _load_nodes(path: Path) -> dict[str, NodeConfig]:
    nodes: dict[str, NodeConfig] = {}
    value = load_yaml(path)
    if not isinstance(value, list):
        raise ConfigurationError(f"{path}: a list of nodes is needed")
    for i, item in enumerate(value):
        node = fill(NodeConfig, item, f"{path}[{i}]")
        if node.session != "local":
            raise ConfigurationError(f"{path}: node {node.name}: only session 'local' exists")
        node.ports = [fill(PortConfig, port, f"{path}[{i}].ports[{j}]")
                      for j, port in enumerate(node.ports)]
        for port in node.ports:
            if not _NETDEV.match(port.netdev):
                raise ConfigurationError(f"{path}: '{port.netdev}' is no name of an interface")
            try:
                ipaddress.IPv4Interface(port.address or "0.0.0.0/0")
            except ValueError as error:
                raise ConfigurationError(f"{path}: {node.name}.{port.name}: {error}") from error
        if node.name in nodes or node.netns in [n.netns for n in nodes.values()]:
            raise ConfigurationError(f"{path}: node {node.name} or its namespace comes twice")
        nodes[node.name] = node
    return nodes


def _load_test_run(path: Path, nodes: dict[str, NodeConfig]) -> TestRunConfig:
    run = fill(TestRunConfig, load_yaml(path), str(path))
    if run.func_traffic_generator != {"type": "SCAPY"}:
        raise ConfigurationError(f"{path}: the only func_traffic_generator is SCAPY")
    if run.mtu not in MTU:
        raise ConfigurationError(f"{path}.mtu: {MTU.start} to {MTU.stop - 1}")
    for name in (run.system_under_test_node, run.traffic_generator_node, *run.more_nodes,
                 *filter(None, [run.peer_node])):
        if name not in nodes:
            raise ConfigurationError(f"{path}: there is no node '{name}'")
    run.links = [parse_link(text) for text in run.port_topology]
    ports = {(n.name, p.name): p for n in nodes.values() for p in n.ports}
    used: set[tuple[str, str]] = set()
    for link in run.links:
        ends = (link.node, link.port), (link.tg_node, link.tg_port)
        for end in ends:
            if end not in ports or end in used:
                raise ConfigurationError(f"{path}: port {'.'.join(end)} is unknown or wired twice")
            used.add(end)
        if link.tg_node != run.traffic_generator_node:
            raise ConfigurationError(f"{path}: {link.tg_node} is not the traffic generator")
        if link.node not in (run.system_under_test_node, run.peer_node, *run.more_nodes):
            raise ConfigurationError(
                f"{path}: {link.node} is not under test, nor its peer, nor of more_nodes")
        if not ports[ends[0]].vdev or not ports[ends[0]].address or not nodes[link.node].site:
            raise ConfigurationError(f"{path}: {link.node} needs a site, its port vdev, address")
    if run.system_under_test_node not in [link.node for link in run.links]:
        raise ConfigurationError(f"{path}: the system under test is not wired")
    return run


def load_configuration(nodes: Path, test_run: Path, tests: Path) -> Configuration:
    """All three files, checked against each other."""
    known = _load_nodes(nodes)
    overrides = load_yaml(tests) or {}
    if not isinstance(overrides, dict):
        raise ConfigurationError(f"{tests}: a mapping of suites is needed")
    return Configuration(known, _load_test_run(test_run, known), overrides)
