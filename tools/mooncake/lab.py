# SPDX-License-Identifier: Apache-2.0
"""Two sites, each with a Mooncake master, a store client, a gateway, an edge and a site master.

    engine -- Mooncake -- strait-mooncake -- edge a == strait-wan == edge b -- .. -- engine

Of one machine: without namespaces all addresses are 127.0.0.1 and the edges' ports are memif; with
them (root) each site is a network namespace, the edges' ports are af_packet on the wire to
strait-wan, and the same wire has the kernel's address, so that Mooncake's own TCP can cross it.
Nothing waits for a fixed time: all waits poll, up to a limit.
"""

import contextlib
import json
import os
import random
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60.0  # for what should come; a busy machine is slow


class LabError(Exception):
    """The laboratory itself failed."""


def run(*argv: str, stdin: str | None = None) -> str:
    """A command that must succeed; what it printed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, input=stdin)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def until(what: str, condition: Callable[[], bool], seconds: float = PATIENCE,
          every: float = 0.05) -> float:
    """Poll until it is true; how long that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise LabError(f"not within {seconds:.0f} s: {what}")
        time.sleep(every)
    return time.monotonic() - began


class Process:
    """A program whose output goes to a file."""

    def __init__(self, lab: "Lab", name: str, argv: Sequence[str],
                 pipes: bool = False) -> None:
        self.name, self.log = name, lab.path("log", name)
        with open(self.log, "ab") as out:
            self.mark = out.tell()
            self.popen = subprocess.Popen(
                argv, stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else out, stderr=out, text=pipes,
                process_group=0, cwd=lab.dir, env=lab.env)

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def text(self) -> str:
        """What it said since it was started."""
        with open(self.log, encoding="utf-8", errors="replace") as f:
            f.seek(self.mark)
            return f.read()

    def end(self, sig: int = signal.SIGTERM, seconds: float = 20) -> int:
        """Its exit status."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, sig)
            try:
                self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(self.popen.pid, signal.SIGKILL)
                self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return self.popen.returncode


class Engine:
    """The other end of engine.py."""

    def __init__(self, process: Process) -> None:
        self.process = process
        if not self._read().get("ready"):
            raise LabError("engine is not ready")

    def _read(self) -> dict[str, Any]:
        assert self.process.popen.stdout is not None
        line = self.process.popen.stdout.readline()
        if not line:
            raise LabError(f"{self.process.name} ended: {self.process.text()[-600:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def start(self, op: str, keys: Sequence[str], **more: Any) -> None:
        """Send a request whose answer() is fetched later."""
        assert self.process.popen.stdin is not None
        self.process.popen.stdin.write(json.dumps({"op": op, "keys": list(keys), **more}) + "\n")
        self.process.popen.stdin.flush()

    def has_answered(self) -> bool:
        """Whether answer() would not wait."""
        assert self.process.popen.stdout is not None
        return bool(select.select([self.process.popen.stdout], [], [], 0)[0])

    def answer(self) -> dict[str, Any]:
        """The answer to start()."""
        return self._read()

    def ask(self, op: str, keys: Sequence[str], **more: Any) -> dict[str, Any]:
        """One request and its answer."""
        self.start(op, keys, **more)
        return self._read()


class Lab:
    """All processes, their files and addresses; a context manager."""

    def __init__(self, build: str, name: str, *, netns: bool = False, wan: Sequence[str] = (),
                 cap: str = "400Mbit", line: str = "", pool_mib: int = 256, segment_mib: int = 512,
                 lease_ms: int = 2000, client_ttl_s: int = 5) -> None:
        self.build = os.path.abspath(build)
        self.bin = os.path.join(self.build, "bin")
        self.netns, self.wan, self.cap = netns, list(wan), cap
        self.line = line or ("kernel" if netns else "memif")
        self.pool_mib, self.segment_mib = pool_mib, segment_mib
        self.lease_ms, self.client_ttl_s = lease_ms, client_ttl_s
        self.dir = tempfile.mkdtemp(prefix=f"strait-{name}-")
        shm = "/dev/shm"
        if not os.access(shm, os.W_OK) or shutil.disk_usage(shm).free < 3 * (pool_mib << 20):
            shm = self.dir
        self.shm = tempfile.mkdtemp(prefix=f"strait-{name}-", dir=shm)
        self.ns = {s: f"{name[:8]}{s}-{os.getpid()}" for s in "abm"}
        self.processes: dict[str, Process] = {}
        self.engines: dict[str, Engine] = {}
        self.segments: dict[str, int] = {}  # MiB, where not segment_mib
        # Whose memory a site's store has: "client" (of its own), "engine" or "gateway".
        self.memory = {"a": "client", "b": "client"}
        self.env = {**os.environ, "GLOG_minloglevel": "1"}
        self.keep = bool(os.environ.get("KEEP"))
        # Mooncake's own package of the environment this runs in.
        self.venv = os.path.join(self.build, "mooncake-venv")
        self.python = os.path.join(self.venv, "bin", "python")
        self.port = self._ports()
        # A full disk's queue must not stop the line when it prints its counters.
        os.mkdir(os.path.join(self.shm, "log"))
        os.symlink(os.path.join(self.shm, "log"), self.path("log"))
        for d in ("run", "state-a", "state-b", "site-a", "site-b"):
            os.makedirs(self.path(d))

    def path(self, *parts: str) -> str:
        """A file of the laboratory."""
        return os.path.join(self.dir, *parts)

    def __enter__(self) -> "Lab":
        # Nothing is left behind when it is ended, either.
        signal.signal(signal.SIGTERM, self._ended)
        try:
            if self.netns:
                self._network()
            self._configure()
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _ended(*_: object) -> None:
        # timeout(1) says it twice: the second one must not end the tidying up.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    def __exit__(self, *_: object) -> None:
        for p in reversed(list(self.processes.values())):
            p.end(signal.SIGKILL)
        if self.netns:
            for ns in self.ns.values():
                subprocess.run(["ip", "netns", "del", ns], capture_output=True, check=False)
        if self.keep:
            os.unlink(self.path("log"))
            shutil.copytree(os.path.join(self.shm, "log"), self.path("log"))
        shutil.rmtree(self.shm, ignore_errors=True)
        if self.keep:
            print(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def tails(self, lines: int = 12) -> str:
        """The ends of all logs, for whoever has to find out why."""
        out = []
        for name in sorted(os.listdir(self.path("log"))):
            with open(self.path("log", name), encoding="utf-8", errors="replace") as f:
                tail = f.read().splitlines()[-lines:]
            out.append(f"---- {name}\n" + "\n".join(x[:300] for x in tail))
        return "\n".join(out)

    # ---- addresses

    PORTS = ("master", "edge-a", "edge-b", "rpc-a", "rpc-b", "admin-a", "admin-b", "client-a",
             "client-b", "http-a", "http-b", "none")

    def _ports(self) -> dict[str, int]:
        if self.netns:  # all to itself
            return {n: 7400 + i for i, n in enumerate(self.PORTS)}
        out: dict[str, int] = {}
        first = 23000 + os.getpid() % 40 * 100
        for name in self.PORTS:
            while name not in out:
                port = random.randrange(first, first + 100)
                if port in out.values():
                    continue
                with socket.socket() as s:
                    with contextlib.suppress(OSError):
                        s.bind(("127.0.0.1", port))
                        out[name] = port
        return out

    def host(self, site: str) -> str:
        """Where a site's Mooncake can be reached: over the wide area in its namespaces."""
        if not self.netns:
            return "127.0.0.1"
        return "10.77.0.1" if site == "a" else "10.77.0.2"

    def mgmt(self, site: str) -> str:
        """A site's address on the management network."""
        if not self.netns:
            return "127.0.0.1"
        return {"a": "10.78.1.1", "b": "10.78.2.1"}[site]

    def master_at(self, site: str) -> str:
        """The inter-dc master as a site sees it."""
        if not self.netns:
            return f"127.0.0.1:{self.port['master']}"
        return {"a": "10.78.1.2", "b": "10.78.2.2"}[site] + f":{self.port['master']}"

    def _within(self, site: str, argv: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.ns[site], *argv] if self.netns else list(argv)

    def _network(self) -> None:
        for ns in self.ns.values():
            run("ip", "netns", "add", ns)
            run("ip", "netns", "exec", ns, "sysctl", "-q", "-w",
                "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
            run("ip", "-n", ns, "link", "set", "lo", "up")
        m = self.ns["m"]
        for n, site in ((1, "a"), (2, "b")):
            ns = self.ns[site]
            for link in ("wan", "mgmt"):
                run("ip", "link", "add", link, "netns", ns, "mtu", "1500", "type", "veth", "peer",
                    "name", f"{link}-{site}", "netns", m, "mtu", "1500")
                for where, dev in ((ns, link), (m, f"{link}-{site}")):
                    run("ip", "netns", "exec", where, "ethtool", "-K", dev, "tx", "off", "rx",
                        "off", "tso", "off", "gso", "off", "gro", "off")
                    run("ip", "-n", where, "link", "set", dev, "txqueuelen", "10000", "up")
            run("ip", "-n", ns, "addr", "add", f"10.77.0.{n}/24", "dev", "wan")
            run("ip", "-n", ns, "addr", "add", f"10.78.{n}.1/24", "dev", "mgmt")
            run("ip", "-n", m, "addr", "add", f"10.78.{n}.2/24", "dev", f"mgmt-{site}")
            run("ip", "-n", ns, "route", "replace", "default", "via", f"10.78.{n}.2")
        run("ip", "netns", "exec", m, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        for site, other in ("ab", "ba"):
            mac = json.loads(run("ip", "-n", self.ns[other], "-j", "link", "show",
                                 "wan"))[0]["address"]
            run("ip", "-n", self.ns[site], "neigh", "replace", self.host(other), "lladdr", mac,
                "dev", "wan", "nud", "permanent")

    # ---- configuration

    def _write(self, name: str, text: str) -> None:
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def device(self, site: str) -> str:
        """An edge's port."""
        if self.line == "kernel":
            return ("net_af_packet0,iface=wan,qdisc_bypass=1,blocksz=65536,framesz=2048,"
                    "framecnt=4096")
        return (f"net_memif0,role=client,id=0,socket={self.path('run', site + '.memif')},"
                "socket-abstract=no")

    def _configure(self) -> None:
        pki, ctl = self.path("pki"), os.path.join(self.bin, "straitctl")
        run(ctl, "pki", "init", pki)
        for role in (("master", "--name", "master"), ("operator", "--name", "operator"),
                     *(x for s in "ab" for x in (
                         ("edge", "--site", s, "--name", f"{s}1"),
                         ("site-master", "--site", s, "--name", f"site-{s}")))):
            run(ctl, "pki", "issue", pki, "--role", *role)
        with open(self.path("secret"), "wb") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(os.urandom(32))
        for s in "ab":
            self._write(f"edge-{s}.yaml", f"""site: {s}
edge: {s}1
state_dir: {self.path('state-' + s)}
pools:
  - path: {self.shm}/{s}.pool
    size: {self.pool_mib}M
    create: true
    gateway: {self.path('run', 'gateway-' + s)}
port:
  device: {self.device(s)}
  address: 10.77.0.{11 if s == 'a' else 12}/24
eal:
  memory: 192M
worker:
  max_sleep_us: 500
control:
  listen: {self.mgmt(s)}:{self.port['edge-' + s]}
  drain_timeout: 2s
master:
  address: {self.master_at(s)}
tls:
  ca: {pki}/ca.pem
  cert: {pki}/{s}1.pem
  key: {pki}/{s}1.key
cap: {self.cap}
""")
            self._write(f"site-{s}.yaml", f"""site: {s}
secret: {self.path('secret')}
state_dir: {self.path('site-' + s)}
master: {self.master_at(s)}
tls:
  ca: {pki}/ca.pem
  cert: {pki}/site-{s}.pem
  key: {pki}/site-{s}.key
sources:
  - name: mooncake-{s}
    events: tcp://{self.host(s)}:{self.port['none']}
    admin: http://{self.host(s)}:{self.port['admin-' + s]}
tenants:
  - {{ name: default, socket: {self.path('run', 'exist-' + s)} }}
""")
        self._write("master.yaml", f"""listen: {'0.0.0.0' if self.netns else '127.0.0.1'}:{
            self.port['master']}
ledger: {self.path('master.db')}
report_interval: 200ms
tls:
  ca: {pki}/ca.pem
  cert: {pki}/master.pem
  key: {pki}/master.key
secret: {self.path('secret')}
sites:
  - {{ name: a, label: prefill }}
  - {{ name: b, label: decode }}
policies:
  - {{ from: prefill, to: decode, class: normal }}
  - {{ from: decode, to: prefill, class: bulk }}
""")

    # ---- processes

    def spawn(self, name: str, site: str, argv: Sequence[str], pipes: bool = False) -> Process:
        """Start a program at a site (m: in between) under a name of the laboratory.

        The edges, which have processors of their own elsewhere, have real-time priority instead,
        as the line takes for itself; they sleep when there is nothing to do.
        """
        if os.geteuid() == 0:
            first = ["chrt", "--rr", "1"] if name.startswith("edge") else ["nice", "-n", "-5"]
            argv = [*first, *argv]
        p = Process(self, name, self._within(site, argv), pipes)
        self.processes[name] = p
        return p

    def cpu(self) -> dict[str, float]:
        """Seconds of a processor that each program which runs has used, and this one."""
        out = {}
        for name, p in self.processes.items():
            with contextlib.suppress(OSError), open(f"/proc/{p.popen.pid}/stat",
                                                    encoding="utf-8") as f:
                fields = f.read().rpartition(")")[2].split()  # proc(5): 14 and 15 count from pid
                out[name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF,
                                                   resource.RUSAGE_CHILDREN)]
        out["watching"] = sum(r.ru_utime + r.ru_stime for r in own)
        return out

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes.pop(name).end(signal.SIGKILL)

    def stop(self, name: str) -> int:
        """SIGTERM, its exit status."""
        return self.processes.pop(name).end()

    def ready(self, name: str, word: str = "ready") -> None:
        """Wait until it says so."""
        p = self.processes[name]
        until(f"{name}: {word}", lambda: word in p.text() or not p.alive())
        if not p.alive():
            raise LabError(f"{name} ended: {p.text()[-800:]}")

    def mooncake_bin(self, program: str) -> str:
        """A program of the wheel itself, not its Python wrapper, so that a signal reaches it."""
        out = run(self.python, "-c", "import mooncake; print(mooncake.__path__[0])").strip()
        return os.path.join(out, program)

    def mooncake_master(self, site: str) -> None:
        """Start one and wait until it serves."""
        self.spawn(f"mooncake-{site}", site, [
            self.mooncake_bin("mooncake_master"), f"--rpc_address={self.host(site)}",
            f"--rpc_port={self.port['rpc-' + site]}", f"--metrics_host={self.host(site)}",
            f"--metrics_port={self.port['admin-' + site]}", f"--client_ttl={self.client_ttl_s}",
            f"--default_kv_lease_ttl={self.lease_ms}", "--put_start_discard_timeout_sec=5"])
        until(f"Mooncake master of {site} serves", lambda: self.is_serving(site))

    def mooncake_client(self, site: str) -> None:
        """The client whose memory the site's store has; waits until it is mounted."""
        self.spawn(f"client-{site}", site, [
            self.mooncake_bin("mooncake_client"), f"--host={self.host(site)}",
            "--metadata_server=P2PHANDSHAKE", f"--master_server_address={self.rpc(site)}",
            "--protocol=tcp", f"--port={self.port['client-' + site]}",
            f"--http_port={self.port['http-' + site]}",
            f"--global_segment_size={self.segment(site)} MB"])
        self.mounted(site)

    def segment(self, site: str) -> int:
        """MiB of memory of a site's store."""
        return self.segments.get(site, self.segment_mib)

    def mounted(self, site: str) -> None:
        """Wait until a site's store has memory."""
        until(f"store memory of {site} is mounted",
              lambda: b'"status":"OK"' in self.admin(site, "/get_segments_detail"))

    def rpc(self, site: str) -> str:
        """A Mooncake master's RPC address."""
        return f"{self.host(site)}:{self.port['rpc-' + site]}"

    def admin(self, site: str, path: str) -> bytes:
        """What the admin port says, or nothing."""
        url = f"http://{self.host(site)}:{self.port['admin-' + site]}{path}"
        if self.netns:
            done = subprocess.run(self._within(site, [
                self.python, "-c", "import sys, urllib.request\nsys.stdout.buffer.write("
                "urllib.request.urlopen(sys.argv[1], timeout=5).read())", url]),
                capture_output=True, check=False)
            return done.stdout
        try:
            with urllib.request.urlopen(url, timeout=5) as r:
                body: bytes = r.read()
                return body
        except (urllib.error.URLError, OSError):
            return b""

    def is_serving(self, site: str) -> bool:
        """Whether the Mooncake master answers."""
        if not self.processes[f"mooncake-{site}"].alive():
            raise LabError(self.processes[f"mooncake-{site}"].text()[-800:])
        return b'"service_ready":true' in self.admin(site, "/health")

    def engine(self, site: str, of: str = "", name: str = "") -> Engine:
        """A client at a site, of its store or another's."""
        name = name or f"engine-{site}{of}"
        own = not of and self.memory[site] == "engine"
        self.engines[name] = Engine(self.spawn(name, site, [
            self.python, os.path.join(HERE, "engine.py"), "--master", self.rpc(of or site),
            "--host", self.host(site), "--slice", "0" if of else str(1 << 20),
            "--segment", str(self.segment(site) << 20 if own else 0)], pipes=True))
        if own:
            self.mounted(site)
        return self.engines[name]

    def both(self) -> tuple[Engine, Engine]:
        """Those of both sites."""
        return self.engines["engine-a"], self.engines["engine-b"]

    def gateway(self, site: str, *more: str) -> None:
        """Start strait-mooncake."""
        self.spawn(f"gateway-{site}", site, [
            os.path.join(self.bin, "strait-mooncake"), "--socket",
            self.path("run", f"gateway-{site}"), "--pool", f"{self.shm}/{site}.pool", "--master",
            self.rpc(site), "--host", self.host(site),
            "--segment", str(self.segment(site) if self.memory[site] == "gateway" else 0),
            *more])
        self.ready(f"gateway-{site}")

    def gateway_status(self, site: str) -> dict[str, Any]:
        """Its counters."""
        out: dict[str, Any] = json.loads(run(
            os.path.join(self.bin, "strait-mooncake"), "--status", "--socket",
            self.path("run", f"gateway-{site}")))
        return out

    def edge(self, site: str) -> None:
        """Start an edge."""
        self.spawn(f"edge-{site}", site, [os.path.join(self.bin, "strait-edge"), "--config",
                                          self.path(f"edge-{site}.yaml")])
        self.ready(f"edge-{site}")

    def site_master(self, site: str) -> None:
        """Start a site's master."""
        self.spawn(f"site-{site}", site, [
            os.path.join(self.bin, "strait-master"), "--role", "site", "--config",
            self.path(f"site-{site}.yaml")])

    def master(self) -> None:
        """Start the inter-dc master."""
        self.spawn("master", "m", [os.path.join(self.bin, "strait-master"), "--config",
                                   self.path("master.yaml")])
        self.ready("master", ": ready")

    def wan_up(self) -> None:
        """Start the emulator."""
        argv = [os.path.join(self.bin, "strait-wan"), "--json", "--stats-ms", "500", "--late-us",
                "20000", "--nap-us", "250", *self.wan]
        for i, side in enumerate("ab"):
            if self.line == "kernel":
                argv += [f"--port-{side}", f"net_af_packet{i},iface=wan-{side},qdisc_bypass=1,"
                         "blocksz=65536,framesz=2048,framecnt=4096"]
            else:
                argv += [f"--port-{side}", f"net_memif{i},role=server,id=0,socket="
                         f"{self.path('run', side + '.memif')},socket-abstract=no,bsize=2048"]
        self.spawn("wan", "m", argv)
        self.ready("wan")

    def wan_figures(self) -> dict[str, Any]:
        """What the emulator printed last."""
        lines = [x for x in self.processes["wan"].text().splitlines() if x.startswith("{")]
        out: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return out

    def up(self) -> None:
        """Everything, until the views of both sites are live."""
        self.wan_up()
        self.master()
        for s in "ab":
            self.mooncake_master(s)
            if self.memory[s] == "client":
                self.mooncake_client(s)
            self.edge(s)
            self.gateway(s)
            self.site_master(s)
        self.wait_whole()

    def wait_whole(self) -> None:
        """Both edges and both site masters at the inter-dc master, both gateways at their edges."""
        until("edges connect", lambda: sum(
            e["connected"] for e in self.ctl("edge", "list")) == 2)
        until("views are live", self.views_live)
        for s in "ab":
            until(f"gateway of {s} has its edge", lambda s=s: bool(  # type: ignore[misc]
                self.gateway_status(s)["edge"]))

    def views_live(self) -> bool:
        """Whether the inter-dc master knows what both sites hold."""
        sites = self.ctl("replication", "status")["sites"]
        return len(sites) == 2 and all(
            s["connected"] and s["state"] == "live" and s.get("ready") for s in sites)

    def ctl(self, *argv: str, stdin: str | None = None) -> Any:
        """Straitctl's JSON."""
        return json.loads(run(*self._within("m", [
            os.path.join(self.bin, "straitctl"), "--master",
            f"127.0.0.1:{self.port['master']}", "--tls-dir", self.path("pki"), *argv, "-o",
            "json"]), stdin=stdin))
