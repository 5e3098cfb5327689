# SPDX-License-Identifier: Apache-2.0
"""straitctl capture on an edge of the testbed.

    edge = Edge(master, "sut", debug=debug_config("sut"))
    capture_start(edge, "x.pcapng"); ...; capture_stop(edge)"""
import json
import subprocess
from pathlib import Path
from typing import Any

from scapy.utils import RawPcapNgReader

from api.strait import Edge
from api.timing import is_data_path
from framework.context import get_ctx
from framework.exception import ApplianceError
from framework.testbed_model.traffic_generator.scapy import CapturedPacket


def debug_config(node: str, key_log: bool = False) -> dict[str, str]:
    """What an edge needs in its configuration, at the paths that Edge has for it."""
    ctx = get_ctx()
    directory = ctx.suite_dir / f"edge-{node}"
    site = ctx.testbed.nodes[node].config.site
    out = {"socket": str(ctx.shm_dir / f"{site}.sock"), "capture_dir": str(directory / "capture")}
    if key_log:
        out["key_log"] = str(directory / "keys")
    return out


def capture_ctl(edge: Edge, *argv: str) -> subprocess.CompletedProcess[str]:
    """straitctl capture, as it is."""
    program = str(get_ctx().settings.build_dir / "bin/straitctl")
    return subprocess.run(
        (program, "capture", *argv, "--socket", str(edge.socket), "-o", "json"),
        capture_output=True, text=True, timeout=20, check=False)


def _checked(edge: Edge, *argv: str) -> dict[str, Any]:
    done = capture_ctl(edge, *argv)
    if done.returncode != 0:
        raise ApplianceError(f"straitctl capture {' '.join(argv)}: {done.stderr.strip()}")
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def capture_start(edge: Edge, name: str, *options: str) -> Path:
    """Start; where the file is."""
    _checked(edge, "start", "--file", name, *options)
    return edge.capture_dir / name


def capture_stop(edge: Edge) -> dict[str, Any]:
    """Stop; the status."""
    return _checked(edge, "stop")


def capture_status(edge: Edge) -> dict[str, Any]:
    """The status."""
    return _checked(edge, "status")


def read_sent(path: Path, edge: Edge) -> list[CapturedPacket]:
    """Datagrams of the data path that the edge sent, with the times of its own clock: the one its
    pacer goes by."""
    out = []
    source = bytes.fromhex(edge.mac.replace(":", ""))
    reader = RawPcapNgReader(str(path))
    for data, meta in reader:
        time = (meta.tshigh << 32 | meta.tslow) / meta.tsresol
        if data[6:12] == source and is_data_path(data):
            out.append(CapturedPacket(edge.tg_port.name, time, data, meta.wirelen))
    reader.close()
    return out
