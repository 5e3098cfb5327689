# SPDX-License-Identifier: Apache-2.0
"""What the machine can do, probed once a run. A case that needs more is skipped with the reason."""
import importlib.util
import os
import re
import shutil
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path

from framework.config import TestRunConfig
from framework.exception import CommandError
from framework.testbed_model.netns_session import NetnsSession, run


class Capability(Enum):
    """Things to require with @requires."""

    ROOT = "root"
    NETNS = "network namespaces with veth and a bridge"
    ETHTOOL = "ethtool"
    SCAPY = "scapy"
    SHARED_MEMORY = "256 MiB of shared memory"
    TWO_LCORES = "two CPUs"
    TSHARK = "tshark"


class LinkTopology(Enum):
    """How many links to the traffic generator a case needs; the value is their number."""

    NO_LINK = 0
    ONE_LINK = 1
    TWO_LINKS = 2
    THREE_LINKS = 3


def _probe_root() -> str:
    return "" if os.geteuid() == 0 else "needs root"


def _probe_netns() -> str:
    if _probe_root():
        return "needs root"
    if not shutil.which("ip"):
        return "ip is not installed"
    session = None
    try:
        session = NetnsSession("probe")
        session.ip("link", "add", "name", "br0", "type", "bridge")
        session.ip("link", "add", "name", "veth0", "type", "veth", "peer", "name", "veth1")
    except CommandError as error:
        return f"no namespaces with veth and bridge here: {error}"
    finally:
        if session is not None:
            session.close()
    return ""


def _probe_ethtool() -> str:
    return "" if shutil.which("ethtool") else "ethtool is not installed"


def _probe_scapy() -> str:
    return "" if importlib.util.find_spec("scapy") else "scapy is not installed"


def _probe_shared_memory() -> str:
    try:
        stat = os.statvfs(shared_memory_dir())
    except OSError as error:
        return str(error)
    return "" if stat.f_bavail * stat.f_frsize >= 256 << 20 else "no room for pools"


def _probe_lcores() -> str:
    return "" if len(os.sched_getaffinity(0)) >= 2 else "needs two CPUs"


def _probe_tshark() -> str:
    return "" if shutil.which("tshark") else "tshark is not installed"


PROBES: dict[Capability, Callable[[], str]] = {
    Capability.ROOT: _probe_root,
    Capability.NETNS: _probe_netns,
    Capability.ETHTOOL: _probe_ethtool,
    Capability.SCAPY: _probe_scapy,
    Capability.SHARED_MEMORY: _probe_shared_memory,
    Capability.TWO_LCORES: _probe_lcores,
    Capability.TSHARK: _probe_tshark,
}
# Without these there is no testbed at all.
TESTBED = (Capability.ROOT, Capability.NETNS, Capability.ETHTOOL, Capability.SCAPY,
           Capability.SHARED_MEMORY)


@cache
def why_not(capability: Capability) -> str:
    """Empty when the machine has it."""
    return PROBES[capability]()


def testbed_why_not() -> str:
    """Empty when a testbed can be made."""
    return "; ".join(filter(None, (why_not(c) for c in TESTBED)))


def topology_why_not(topology: LinkTopology, config: TestRunConfig) -> str:
    """Empty when port_topology has that many links."""
    if len(config.links) >= topology.value:
        return ""
    return f"needs {topology.value} links, port_topology has {len(config.links)}"


def shared_memory_dir() -> Path:
    """Where pools go: a container's /dev/shm may be small, then the disk must do."""
    shm = Path("/dev/shm")
    try:
        stat = os.statvfs(shm)
        if os.access(shm, os.W_OK) and stat.f_bavail * stat.f_frsize >= 256 << 20:
            return shm
    except OSError:
        pass
    return Path(os.environ.get("TMPDIR", "/tmp"))


def session_info() -> dict[str, str]:
    """sut_session_info of results.json."""
    release = run("uname", "-srm").stdout.strip()
    pretty = ""
    try:
        for line in Path("/etc/os-release").read_text("utf-8").splitlines():
            if line.startswith("PRETTY_NAME="):
                pretty = line.split("=", 1)[1].strip('"')
    except OSError:
        pass
    name, kernel, machine = (release.split() + ["", "", ""])[:3]
    return {"os_name": pretty or name, "kernel_version": kernel, "machine": machine,
            "cpus": str(len(os.sched_getaffinity(0)))}


def build_info(edge: Path) -> dict[str, str]:
    """dpdk_build_info of results.json: which DPDK strait-edge runs on, and what compiled it."""
    said = run(str(edge), "--version").stdout
    version = re.search(r"DPDK (\S+?)\)", said)
    compiler = re.search(rb"(GCC: \([^\0]+|clang version [^\0]+)", edge.read_bytes())
    return {"dpdk_version": version[1] if version else "",
            "compiler_version": compiler[1].decode("ascii", "replace") if compiler else ""}
