# SPDX-License-Identifier: Apache-2.0
"""The scapy traffic generator, seen from the harness.

A worker process inside the generator's namespace owns the sockets (scapy caches interfaces when it
is imported, so changing the namespace of a process that has it leads nowhere)."""
import base64
import json
import select
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from framework.exception import CommandError
from framework.settings import DTS_DIR
from framework.testbed_model.node import Node

WORKER = "framework.testbed_model.traffic_generator.scapy_worker"


class CapturedPacket(NamedTuple):
    """A frame that arrived at a port of the generator; time is the kernel's."""

    port: str
    time: float
    data: bytes


class ScapyTrafficGenerator:
    """Sends raw frames and hands out what arrived. stop() must be called."""

    def __init__(self, node: Node, netdevs: dict[str, str], log: Path) -> None:
        """Start the worker; ports are {name: interface}."""
        self._node = node
        self._buffer = b""
        log.write_bytes(b"")
        self._process = node.session.spawn(
            sys.executable, "-B", "-m", WORKER, *(f"{p}={d}" for p, d in netdevs.items()),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=DTS_DIR)
        if "ready" not in self._read(30):
            raise CommandError("the scapy worker does not get ready")

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([fd], [], [], timeout)
            chunk = self._process.stdout.read1(1 << 16) if ready else b""  # type: ignore
            if not chunk:
                raise CommandError(f"no answer from the scapy worker ({self._process.poll()})")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CommandError(f"scapy worker: {answer['error']}")
        return answer

    def _ask(self, timeout: float = 30, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._read(timeout)

    def send(self, port: str, frames: Iterable[bytes], gap_us: int = 0) -> int:
        """Raw frames out of a port, back to back or gap_us apart."""
        packets = [base64.b64encode(frame).decode() for frame in frames]
        return int(self._ask(op="send", port=port, packets=packets, gap_us=gap_us)["sent"])

    def flush(self) -> None:
        """Forget what arrived so far."""
        self._ask(op="flush")

    def take(self) -> list[CapturedPacket]:
        """Hand out what arrived since the last flush or take."""
        return [CapturedPacket(p["port"], p["time"], base64.b64decode(p["data"]))
                for p in self._ask(op="take")["packets"]]

    def stop(self) -> None:
        """End the worker; safe to call twice."""
        try:
            if self._process.poll() is None:
                self._ask(timeout=5, op="quit")
        except (CommandError, OSError):
            pass
        self._node.session.end(self._process, 2)
