# SPDX-License-Identifier: Apache-2.0
"""Two sites and a WAN between them: three network namespaces, two veth pairs, strait-wan.

    site a (ns a, 10.77.0.1) --veth-- strait-wan (ns w) --veth-- site b (ns b, 10.77.0.2)

Both sites are one Ethernet segment whose wire is the emulator. Segmentation, checksum and
coalescing offloads are off, so that a frame on the wire is a packet of the line.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

ADDRESS = {"a": "10.77.0.1", "b": "10.77.0.2"}
LINE_OVERHEAD = 24  # preamble, gap, FCS: what a frame takes on the line beyond its bytes
SOCKET_BUFFER = 256 << 20  # most that a socket may ask for
WIRE_CPU = 0


class LabError(Exception):
    """The laboratory itself failed; says what to do."""


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read().strip()


def tree_cpu_seconds(pid):
    """User and system seconds of a process, all its threads and its children that ended."""
    try:
        fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(x) for x in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def shared_kib(pid):
    """Memory shared with others that a process has touched; 0 when it ended."""
    try:
        found = re.search(r"^RssShmem:\s*(\d+) kB", read(f"/proc/{pid}/status"), re.M)
    except OSError:
        return 0
    return int(found[1]) if found else 0


class Process:
    """A program inside a namespace. Output goes to files, so that nothing blocks on a pipe."""

    def __init__(self, lab, name, site, argv, env=None):
        self.name, self.lab = name, lab
        self.out, self.err = lab.path(f"{name}.out"), lab.path(f"{name}.err")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.popen = subprocess.Popen(
                ["ip", "netns", "exec", lab.ns[site], *argv], stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, env=env, start_new_session=True)
        self.cpu_seconds = 0.0

    def text(self):
        with open(self.out, encoding="utf-8", errors="replace") as f:
            return f.read()

    def errors(self):
        with open(self.err, encoding="utf-8", errors="replace") as f:
            return f.read()

    def alive(self):
        """Reaps it when it ended, with the CPU time it used."""
        if self.popen.returncode is None:
            pid, status, used = os.wait4(self.popen.pid, os.WNOHANG)
            if pid:
                self.popen.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_seconds = used.ru_utime + used.ru_stime
        return self.popen.returncode is None

    def wait_text(self, pattern, seconds, where="out"):
        """Until its output matches; the match, or None when the time is over or it ended."""
        end = time.monotonic() + seconds
        while True:
            over = not self.alive() or time.monotonic() > end
            found = re.search(pattern, self.text() if where == "out" else self.errors(), re.M)
            if found or over:
                return found
            time.sleep(0.01)

    def wait(self, seconds):
        """Exit status, or None if it still runs."""
        end = time.monotonic() + seconds
        while self.alive() and time.monotonic() < end:
            time.sleep(0.01)
        return self.popen.returncode

    def stop(self, sig=signal.SIGTERM, seconds=10):
        if self.alive():
            os.killpg(self.popen.pid, sig)
            if self.wait(seconds) is None:
                os.killpg(self.popen.pid, signal.SIGKILL)
                self.wait(seconds)
        return self.popen.returncode


class Lab:
    def __init__(self, build):
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.dir = tempfile.mkdtemp(prefix="strait-peers-")
        self.shm = tempfile.mkdtemp(prefix="strait-peers-", dir="/dev/shm")
        self.ns = {s: f"sp{s}-{os.getpid()}" for s in "abw"}
        self.processes, self.saved = [], {}
        self.wan = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        # Namespaces inherit the algorithm in use when they are made and may not choose CUBIC later.
        for name, value in (("core/rmem_max", SOCKET_BUFFER), ("core/wmem_max", SOCKET_BUFFER),
                            ("ipv4/tcp_congestion_control", "cubic")):
            path = f"/proc/sys/net/{name}"
            self.saved[path] = read(path)
            self._sysctl(path, str(value))
        for ns in self.ns.values():
            run("ip", "netns", "add", ns)
            self._in(ns, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1",
                     "net.ipv6.conf.default.disable_ipv6=1")
            run("ip", "-n", ns, "link", "set", "lo", "up")
        for site in "ab":
            ns, w = self.ns[site], self.ns["w"]
            run("ip", "link", "add", "wan", "netns", ns, "mtu", "1500", "type", "veth",
                "peer", "name", f"wan-{site}", "netns", w, "mtu", "1500")
            for where, name in ((ns, "wan"), (w, f"wan-{site}")):
                self._in(where, "ethtool", "-K", name, "tx", "off", "rx", "off", "tso", "off",
                         "gso", "off", "gro", "off")
                run("ip", "-n", where, "link", "set", name, "txqueuelen", "10000", "up")
            run("ip", "-n", ns, "addr", "add", f"{ADDRESS[site]}/24", "dev", "wan")
            for key in ("tcp_rmem", "tcp_wmem"):
                self._in(ns, "sysctl", "-q", "-w", f"net.ipv4.{key}=4096 131072 {SOCKET_BUFFER}")
            # A lossy run must not teach the next one its threshold.
            self._in(ns, "sysctl", "-q", "-w", "net.ipv4.tcp_no_metrics_save=1")
        # ARP would need the emulator before anything can be measured.
        for site, other in ("ab", "ba"):
            mac = json.loads(run("ip", "-n", self.ns[other], "-j", "link", "show",
                                 "wan"))[0]["address"]
            run("ip", "-n", self.ns[site], "neigh", "replace", ADDRESS[other], "lladdr", mac,
                "dev", "wan", "nud", "permanent")

    @staticmethod
    def _sysctl(path, value):
        with open(path, "w", encoding="ascii") as f:
            f.write(value)

    @staticmethod
    def _in(ns, *argv):
        run("ip", "netns", "exec", ns, *argv)

    def kill(self):
        """Everything at once: whoever is asked to end first waits for what the rest has."""
        for p in self.processes:
            if p.alive():
                os.killpg(p.popen.pid, signal.SIGKILL)
        for p in self.processes:
            p.wait(10)

    def __exit__(self, *_):
        self.kill()
        for ns in self.ns.values():
            subprocess.run(["ip", "netns", "del", ns], capture_output=True, check=False)
        for path, value in self.saved.items():
            self._sysctl(path, value)
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)

    def received_bytes(self, site):
        """That came over the line so far, headers included."""
        return int(run("ip", "netns", "exec", self.ns[site], "cat",
                       "/sys/class/net/wan/statistics/rx_bytes"))

    def start(self, name, site, argv, env=None):
        p = Process(self, name, site, argv, env)
        self.processes = [q for q in self.processes if q.alive()] + [p]
        return p

    def steer(self, away):
        """
        Away: what an end's kernel does with a frame, all of TCP, is done by other CPUs than that of
        the emulator, who delivers it.
        """
        most = min(os.cpu_count(), 32)  # one word of the mask is enough
        cpus = (1 << most) - 1 & ~(1 << WIRE_CPU) if away else 0
        for site in "ab":
            self._in(self.ns[site], "sh", "-c",
                     f"echo {cpus:x} > /sys/class/net/wan/queues/rx-0/rps_cpus")

    def wan_up(self, profile):
        argv = [f"{self.bin}/strait-wan", "--json", "--stats-ms", "0", "--late-us", "20000",
                *profile.link.split()]
        for i, side in enumerate("ab"):
            argv += [f"--port-{side}", f"net_af_packet{i},iface=wan-{side},qdisc_bypass=1,"
                     "blocksz=65536,framesz=2048,framecnt=4096"]
        # Before everything else on its CPU, or what is late there would look like the line's doing.
        self.wan = self.start("wan", "w", ["chrt", "--rr", "2", "taskset", "--cpu-list",
                                           str(WIRE_CPU), *argv])
        if not self.wan.wait_text("^ready", 20):
            raise LabError(f"strait-wan does not start: {self.wan.errors()[-500:]}")

    def wan_down(self):
        """What the emulator counted, as printed by it."""
        self.wan.stop(signal.SIGTERM)
        lines = [x for x in self.wan.text().splitlines() if x.startswith("{")]
        if not lines:
            raise LabError(f"strait-wan printed no counters: {self.wan.errors()[-500:]}")
        return json.loads(lines[-1])
