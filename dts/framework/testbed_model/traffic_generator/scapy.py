# SPDX-License-Identifier: Apache-2.0
"""The scapy traffic generator, seen from the harness.

A worker process inside the generator's namespace owns the sockets (scapy caches interfaces when it
is imported, so changing the namespace of a process that has it leads nowhere)."""
import base64
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from framework.settings import DTS_DIR
from framework.testbed_model.json_worker import JsonWorker
from framework.testbed_model.node import Node

WORKER = "framework.testbed_model.traffic_generator.scapy_worker"


class CapturedPacket(NamedTuple):
    """A frame that arrived at a port of the generator; time is the kernel's. data may be cut, size
    is what was on the wire."""

    port: str
    time: float
    data: bytes
    size: int


class ScapyTrafficGenerator:
    """Sends raw frames and hands out what arrived. stop() must be called."""

    def __init__(self, node: Node, netdevs: dict[str, str], log: Path) -> None:
        """Start the worker; ports are {name: interface}."""
        self._worker = JsonWorker(
            node.session, log, sys.executable, "-B", "-m", WORKER,
            *(f"{p}={d}" for p, d in netdevs.items()), cwd=DTS_DIR)

    def send(self, port: str, frames: Iterable[bytes], gap_us: int = 0) -> int:
        """Raw frames out of a port, back to back or gap_us apart."""
        packets = [base64.b64encode(frame).decode() for frame in frames]
        return int(self._worker.ask(op="send", port=port, packets=packets, gap_us=gap_us)["sent"])

    def flush(self, keep: int = 65536) -> None:
        """Forget what arrived so far; keep so many bytes of what comes from now on."""
        self._worker.ask(op="flush", keep=keep)

    def take(self) -> list[CapturedPacket]:
        """Hand out what arrived since the last flush or take."""
        return [CapturedPacket(p[0], p[1], base64.b64decode(p[3]), p[2])
                for p in self._worker.ask(op="take")["packets"]]

    def missed(self) -> int:
        """Frames that arrived and found no room since the worker started: then captures have
        holes."""
        return int(self._worker.ask(op="missed")["missed"])

    def stop(self) -> None:
        """End the worker; safe to call twice."""
        self._worker.stop()
