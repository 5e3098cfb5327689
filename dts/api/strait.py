# SPDX-License-Identifier: Apache-2.0
"""The appliance in a testbed: master and edges as context managers.

    with Master() as master, Edge(master, "sut") as edge:
        before = edge.counters()

Programs are ready when the with block begins (polled, never slept for) and are ended by pid when it
ends. Their logs are in the suite's directory."""
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from framework.context import get_ctx
from framework.exception import ApplianceError, TestCaseVerifyError
from framework.testbed_model.netns_session import NetnsSession, run

MASTER_PORT = 7400
EDGE_PORT = 7401
DATA_PORT = 4790
REPORT_INTERVAL = 0.1
# doc/wire.md section 14; the port's own start with port_drop_.
SESSION_DROPS = frozenset(
    "rx_" + name for name in (
        "short", "version", "session", "queue", "generation", "auth", "replay", "transfer",
        "block", "length", "frame", "scratch_full", "rows_full"))
DEVICE_DROPS = frozenset(("device_rx_missed", "device_rx_errors", "device_rx_no_buffer",
                          "device_tx_errors"))
# No packet is dropped, and yet something is wrong: a case that means it names them.
OTHER_ERRORS = frozenset(("rx_digest", "rx_open_refused"))

Counters = dict[str, int]


def merge(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """base with what more says otherwise, mapping by mapping."""
    out = dict(base)
    for key, value in more.items():
        old = out.get(key)
        out[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def is_error(name: str) -> bool:
    """Does this counter count what was refused, lost, or wrong?"""
    return (name.startswith("port_drop_") or name in SESSION_DROPS or name in DEVICE_DROPS
            or name in OTHER_ERRORS)


def poll_until(seconds: float, condition: Callable[[], bool]) -> bool:
    """Does the condition come true in time?"""
    start = time.monotonic()
    while not condition():
        waited = time.monotonic() - start
        if waited > seconds:
            return False
        # Many conditions start a process each time: the longer it takes the less often.
        time.sleep(min(max(0.01, waited / 8), 0.1, max(seconds - waited, 0.001)))
    return True


class _Program:
    """A program of the appliance, from its start until it is ended."""

    def __init__(self, name: str, session: NetnsSession) -> None:
        self.name = name
        self._session = session
        self._dir = get_ctx().suite_dir / name
        self._process: subprocess.Popen[bytes] | None = None

    def _binary(self, program: str) -> str:
        return str(get_ctx().settings.build_dir / "bin" / program)

    def _start(self, *argv: str) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        err = self._dir / "err"
        if err.exists() and err.stat().st_size > 0:
            # Of a start before this one; kept for whoever looks for what went wrong.
            err.rename(self._dir / f"err.{len(list(self._dir.glob('err.*'))) + 1}")
        err.write_bytes(b"")
        self._process = self._session.spawn(*argv, stdout=self._dir / "out", stderr=err)

    def _said_ready(self) -> bool:
        return (b"\nready" in b"\n" + (self._dir / "out").read_bytes()
                or b": ready" in (self._dir / "err").read_bytes())

    def _await_ready(self) -> None:
        def ready() -> bool:
            return not self.is_running() or self._said_ready()
        if not poll_until(20, ready) or not self.is_running():
            tail = (self._dir / "err").read_text("utf-8", "replace").splitlines()[-5:]
            self.stop()
            raise ApplianceError(f"{self.name} does not get ready: {' / '.join(tail)}")

    def is_running(self) -> bool:
        """Started, and not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def waited_for_cpu(self) -> float:
        """Seconds in which its threads were ready to run and did not, as far as they live."""
        if self._process is None:
            return 0.0
        waited = 0
        for path in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            try:
                waited += int(path.read_text("ascii").split()[1])
            except OSError:
                continue  # it ended
        return waited / 1e9

    def stop(self) -> int:
        """SIGTERM and wait; the exit status."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        return self._session.end(process)

    def _leave(self, failed: bool) -> None:
        died = self._process is not None and self._process.poll() is not None
        status = self.stop()
        if not failed and (died or status != 0):
            raise ApplianceError(f"{self.name} ended {'early ' * died}with status {status}")


class Master(_Program):
    """strait-master in the management namespace, with certificates for every wired node."""

    def __init__(self) -> None:
        """Nothing is started before the with block."""
        super().__init__("master", get_ctx().testbed.mgmt)
        ctx = get_ctx()
        self.pki = ctx.suite_dir / "pki"
        self._sites = [n.config.site for n in ctx.testbed.nodes.values() if n.config.site]

    def _make_pki(self) -> None:
        ctl = self._binary("straitctl")
        shutil.rmtree(self.pki, ignore_errors=True)
        run(ctl, "pki", "init", str(self.pki))
        for role in ("master", "operator"):
            run(ctl, "pki", "issue", str(self.pki), "--role", role, "--name", role)
        for site in self._sites:
            run(ctl, "pki", "issue", str(self.pki), "--role", "edge", "--site", site,
                "--name", f"{site}1")

    def __enter__(self) -> "Master":
        """Start, and wait until it is ready."""
        self._make_pki()
        self._dir.mkdir(parents=True, exist_ok=True)
        ledger = self._dir / "ledger.db"
        for old in self._dir.glob("ledger.db*"):
            old.unlink()
        config = self._dir / "master.yaml"
        config.write_text("\n".join([
            f"listen: 0.0.0.0:{MASTER_PORT}", f"ledger: {ledger}",
            f"report_interval: {round(REPORT_INTERVAL * 1000)}ms", "tls:",
            f"  ca: {self.pki}/ca.pem", f"  cert: {self.pki}/master.pem",
            f"  key: {self.pki}/master.key", "sites:",
            *(f"  - name: {site}" for site in self._sites), ""]), "utf-8")
        self._start(self._binary("strait-master"), "--config", str(config))
        self._await_ready()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """End it; a status other than 0 is an error."""
        self._leave(kind is not None)

    def ctl(self, *argv: str, stdin: str = "") -> Any:
        """Run straitctl with JSON output, as operator; the parsed answer."""
        command = ("ip", "netns", "exec", self._session.netns, self._binary("straitctl"),
                   "--master", f"127.0.0.1:{MASTER_PORT}", "--tls-dir", str(self.pki), *argv,
                   "-o", "json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, input=stdin,
                              check=False)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise ApplianceError(
                f"straitctl {' '.join(argv)}: status {done.returncode}: {done.stderr.strip()}"
            ) from error


class Edge(_Program):
    """strait-edge on the first wired port of a node."""

    def __init__(self, master: Master, node: str, **config: Any) -> None:
        """Nothing is started before the with block. config: what edge.yaml shall say otherwise,
        merged into it, as in Edge(master, "sut", cap="50Mbit", port={"dscp": 10})."""
        ctx = get_ctx()
        self.node = node
        self._node = ctx.testbed.nodes[node]
        super().__init__(f"edge-{node}", self._node.session)
        self._master, self._config = master, config
        self.port, self.tg_port = ctx.wire(node)
        self.mac, self.ip = self.port.mac, self.port.ip
        self.site = self._node.config.site
        self.mgmt_ip = self._node.mgmt_ip
        self.edge = f"{self.site}1"
        self.pool = ctx.shm_dir / f"{self.site}.pool"
        # For debug.capture_dir, debug.key_log and debug.socket, when config asks for them.
        self.capture_dir = self._dir / "capture"
        self.key_log = self._dir / "keys"
        self.socket = ctx.shm_dir / f"{self.site}.sock"

    def _fresh(self) -> None:
        """Nothing of an earlier edge is left."""
        for directory in (self._dir / "state", self.capture_dir):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        self.pool.unlink(missing_ok=True)
        self.key_log.unlink(missing_ok=True)

    def _write_config(self) -> Path:
        pki, own = self._master.pki, self.edge
        value = {
            "site": self.site, "edge": own, "state_dir": str(self._dir / "state"),
            "pools": [{"path": str(self.pool), "size": "64M", "create": True}],
            "port": {
                "device": self.port.config.vdev, "address": self.port.config.address,
                "udp_port": DATA_PORT, "mtu": get_ctx().config.test_run.mtu},
            "eal": {"memory": "192M"},
            "control": {"listen": f"{self.mgmt_ip}:{EDGE_PORT}"},
            "master": {"address": f"{self._node.master_ip}:{MASTER_PORT}"},
            "tls": {"ca": f"{pki}/ca.pem", "cert": f"{pki}/{own}.pem", "key": f"{pki}/{own}.key"},
            "cap": "200Mbit",
        }
        config = self._dir / "edge.yaml"
        config.write_text(yaml.safe_dump(merge(value, self._config), sort_keys=False), "utf-8")
        return config

    def mount(self, path: Path, options: str) -> None:
        """An empty tmpfs over the path, which nobody but this edge sees and which ends with it."""
        assert self._process is not None
        run("nsenter", "-t", str(self._process.pid), "-m", "mount", "-t", "tmpfs", "-o", options,
            "tmpfs", str(path))

    def unmount(self, path: Path) -> None:
        """The other way round."""
        assert self._process is not None
        run("nsenter", "-t", str(self._process.pid), "-m", "umount", str(path))

    def seen(self, path: Path) -> Path:
        """Where the edge's view of the path is, for as long as it lives."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root{path}")

    def kill(self) -> None:
        """SIGKILL, as a crash; pool and state stay for start_again()."""
        if self._process is not None:
            process, self._process = self._process, None
            self._session.kill(process)

    def start_again(self) -> None:
        """Start after kill() or stop(), with the pool and state of before."""
        self._start(self._binary("strait-edge"), "--config", str(self._dir / "edge.yaml"))
        self._await_ready()
        if not poll_until(20, self._is_known):
            self.stop()
            raise ApplianceError(f"{self.name} does not reach the master")

    def __enter__(self) -> "Edge":
        """Start, and wait until the master knows it and has a report of it."""
        self._fresh()
        self._write_config()
        self.start_again()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """End it; a status other than 0 is an error."""
        try:
            self._leave(kind is not None)
        finally:
            self.pool.unlink(missing_ok=True)

    def _is_known(self) -> bool:
        return any(e["edge"] == f"{self.site}1" and e["connected"]
                   for e in self._master.ctl("edge", "list")) and bool(self._counters())

    def _counters(self) -> Counters:
        counters = self._master.ctl("edge", "show", f"{self.site}/{self.site}1")["counters"]
        return {name: int(value) for name, value in counters.items()}

    def counters(self) -> Counters:
        """What the edge reported last, at most two report intervals old."""
        if not self.is_running():
            raise ApplianceError(f"{self.name} died")
        return self._counters()

    def settled_counters(self, seconds: float = 5, silent: bool = False) -> Counters:
        """Counters that two reports in a row agree on, as far as packets received go; silent:
        also those sent, so that no announcement is counted in one place and not in the other."""
        last = self.counters()
        names = ["port_rx_packets"]
        if silent:
            names += ["port_tx_packets", "port_tx_bytes", "port_arp_requests", "port_nd_requests"]

        def settled() -> bool:
            nonlocal last
            time.sleep(2 * REPORT_INTERVAL)
            before, last = last, self.counters()
            return all(before[name] == last[name] for name in names)
        if not poll_until(seconds, settled):
            raise ApplianceError(f"{self.name} keeps receiving or sending")
        return last

    def wait_counter(self, name: str, value: int, seconds: float = 5) -> Counters:
        """The first report in which the counter has reached the value, or else the last one."""
        last: Counters = {}

        def reached() -> bool:
            nonlocal last
            last = self.counters()
            return last[name] >= value
        poll_until(seconds, reached)
        return last


def moved(before: Counters, after: Counters) -> Counters:
    """The error counters that moved, and by how much. Every case that sends packets asks."""
    get_ctx().counters_seen = True
    return {name: after[name] - before[name] for name in after
            if is_error(name) and after[name] != before[name]}


@contextmanager
def without_drops(*edges: Edge, **wanted: int) -> Iterator[None]:
    """What happens inside moves no error counter of these edges, but for wanted ones of the first,
    which move by exactly so much. Counters that are no errors are looked at where they are named.

    For edges that get quiet again; counted() of api.wire is for those with a peer that talks."""
    before = [edge.settled_counters() for edge in edges]
    yield
    for name, by in wanted.items():
        edges[0].wait_counter(name, before[0][name] + by)
    for i, (edge, was) in enumerate(zip(edges, before, strict=True)):
        now = edge.settled_counters()
        got = moved(was, now)
        if i == 0:
            got |= {name: now[name] - was[name] for name in wanted}
        expected = wanted if i == 0 else {}
        if got != expected:
            raise TestCaseVerifyError(
                f"counters of {edge.name}: wanted {expected or 'no drops'}, got {got or 'none'}")
