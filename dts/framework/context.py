# SPDX-License-Identifier: Apache-2.0
"""What the API works on while a run goes on: one run a process, so one context."""
from dataclasses import dataclass
from pathlib import Path

from framework.config import Configuration
from framework.exception import InternalError
from framework.settings import Settings
from framework.testbed_model.node import Node, Testbed
from framework.testbed_model.port import Port
from framework.testbed_model.traffic_generator.scapy import ScapyTrafficGenerator


@dataclass
class Context:
    """Testbed, traffic generator and where files go. shm_dir is for pools."""

    settings: Settings
    config: Configuration
    testbed: Testbed
    tg: ScapyTrafficGenerator
    shm_dir: Path
    suite: str = ""
    case: str = ""
    counters_seen: bool = False  # the case compared drop counters

    @property
    def suite_dir(self) -> Path:
        """Logs and files of the suite that runs."""
        return self.settings.output_dir / (self.suite or "run")

    @property
    def sut(self) -> Node:
        """The node under test."""
        return self.testbed.nodes[self.config.test_run.system_under_test_node]

    @property
    def tg_node(self) -> Node:
        """The traffic generator's node."""
        return self.testbed.nodes[self.config.test_run.traffic_generator_node]

    def wire(self, node: str, index: int = 0) -> tuple[Port, Port]:
        """The index-th link of a node: its port, and the generator's at the other end."""
        links = [link for link in self.config.test_run.links if link.node == node]
        if index >= len(links):
            raise InternalError(f"node {node} has no link {index}")
        link = links[index]
        return (self.testbed.nodes[node].ports[link.port],
                self.tg_node.ports[link.tg_port])


_context: Context | None = None


def set_ctx(ctx: Context | None) -> None:
    """The runner's."""
    global _context  # noqa: PLW0603
    _context = ctx


def get_ctx() -> Context:
    """The run's context."""
    if _context is None:
        raise InternalError("no run is going on")
    return _context
