# SPDX-License-Identifier: Apache-2.0
"""What users would take to move bytes across a WAN, each tuned for the line as its manual says.

A candidate moves at least `mib` MiB from site a to site b: prepare() starts what must run before,
go() starts the transfer, done() says whether all arrived, delivered() how many bytes did so far, and
stop() ends what runs. ends are the processes of both ends whose CPU time counts.
"""
import json
import os
import signal
import time

import lab as labs

A, B = labs.ADDRESS["a"], labs.ADDRESS["b"]
PORT = "5201"


class Candidate:
    name = tuning = ""
    integrity = "none"
    steered = False

    def __init__(self, lab, profile, mib, gbps):
        self.lab, self.profile, self.mib, self.gbps = lab, profile, mib, gbps
        self.ends = []

    def end(self, name, site, argv, ready=None, env=None, where="out"):
        p = self.lab.start(name, site, argv, env)
        self.ends.append(p)
        if ready and not p.wait_text(ready, 20, where):
            raise labs.LabError(f"{self.name}: {name} does not start: {p.errors()[-400:]}")
        return p

    def prepare(self):
        pass

    def seconds(self, elapsed):
        """From start to the last byte, where the candidate knows better than who polls it."""
        return elapsed

    def stop(self):
        for p in self.ends:
            p.stop()


class Tcp(Candidate):
    """iperf3 counts at the receiver, so its own figure is the goodput."""

    streams, algorithm = 1, "cubic"
    steered = True
    integrity = "TCP checksum"

    def prepare(self):
        self.server = self.end("iperf-b", "b", ["iperf3", "-s", "-1", "-J", "--forceflush",
                                                "-i", "1", "-p", PORT])
        # It says nothing with -J before the end; the port is what can be asked.
        while self.server.alive() and not labs.run("ip", "netns", "exec", self.lab.ns["b"], "ss",
                                                   "-Hltn", f"sport = {PORT}"):
            pass

    def go(self):
        self.client = self.end("iperf-a", "a", [
            "iperf3", "-c", B, "-p", PORT, "-C", self.algorithm, "-P", str(self.streams),
            "-n", f"{self.mib << 20}", "-J", "-i", "0"])

    def done(self):
        return not self.client.alive()

    def delivered(self):
        if self.client.alive():
            os.killpg(self.client.popen.pid, signal.SIGINT)
        if self.server.wait(15) is None:
            # What the client says at the end is lost in a full queue now and then.
            self.server.stop(signal.SIGINT)
        try:
            report = json.loads(self.server.text())
        except ValueError:
            return 0
        whole = report.get("end", {}).get("sum_received", {}).get("bytes", 0)
        # Of intervals the last is there twice when it was interrupted.
        return whole or sum(i["sum"]["bytes"] for i in report.get("intervals", [])[:-1])


def tcp(algorithm, streams):
    word = "stream" if streams == 1 else "streams"
    return type(f"Tcp{algorithm}{streams}", (Tcp,), {
        "algorithm": algorithm, "streams": streams,
        "name": f"TCP {algorithm.upper()}, {streams} {word}",
        "tuning": f"iperf3 -C {algorithm} -P {streams}, socket buffers up to 256 MiB"})


class File(Candidate):
    """Tools that ship a file; it lies in memory at both ends."""

    def prepare(self):
        self.file = os.path.join(self.lab.shm, f"data-{self.mib}")
        if not os.path.exists(self.file):
            with open(self.file, "wb") as f:
                for _ in range(self.mib):
                    f.write(os.urandom(1 << 20))
        self.into = os.path.join(self.lab.shm, "into")
        labs.run("rm", "-rf", self.into)
        os.mkdir(self.into)

    def delivered(self):
        total = 0
        for folder, _, names in os.walk(self.into):
            # Files may have holes: blocks are what was written.
            total += sum(min(os.stat(os.path.join(folder, n)).st_size,
                             os.stat(os.path.join(folder, n)).st_blocks * 512) for n in names)
        return min(total, self.mib << 20)

    def stop(self):
        super().stop()
        labs.run("rm", "-rf", self.into)


class Rsync(File):
    name = "rsync"
    tuning = "rsync daemon, --whole-file --inplace, TCP CUBIC, socket buffers up to 256 MiB"
    integrity = "TCP checksum, file checksum"
    steered = True

    def prepare(self):
        super().prepare()
        conf = self.lab.path("rsyncd.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(f"use chroot = no\nuid = root\ngid = root\n[in]\npath = {self.into}\n"
                    "read only = no\n")
        self.end("rsync-b", "b", ["rsync", "--daemon", "--no-detach", f"--config={conf}",
                                  "--port", PORT, "--log-file", self.lab.path("rsyncd.log")])

    def go(self):
        self.client = self.end("rsync-a", "a", ["rsync", "--whole-file", "--inplace", self.file,
                                                f"rsync://{B}:{PORT}/in/"])

    def done(self):
        return not self.client.alive() and self.client.popen.returncode == 0


class Srt(File):
    name = "SRT file mode"
    tuning = "srt-file-transmit, transtype=file, maxbw unlimited, FC and buffers of 256 MiB"

    def options(self, mode):
        return (f"transtype=file&mode={mode}&messageapi=0&maxbw=0&fc=262144&"
                "sndbuf=268435456&rcvbuf=268435456&linger=60")

    def prepare(self):
        super().prepare()
        self.target = os.path.join(self.into, "data")
        self.server = self.end("srt-b", "b", ["srt-file-transmit", "-q",
                                              f"srt://{B}:{PORT}?{self.options('listener')}",
                                              f"file://{self.target}"])

    def go(self):
        self.client = self.end("srt-a", "a", ["srt-file-transmit", "-q", f"file://{self.file}",
                                              f"srt://{B}:{PORT}?{self.options('caller')}"])

    def done(self):
        return self.delivered() == self.mib << 20


class Uftp(File):
    name = "UFTP"
    tuning = "uftp -R at 0.95 of the line, blocks of 1,400 bytes, 100 MB socket buffers, GRTT = RTT"

    def prepare(self):
        super().prepare()
        self.end("uftpd-b", "b", ["uftpd", "-d", "-q", "-I", "wan", "-D", self.into,
                                  "-B", "104857600"], ready="Loaded|ready", where="err")

    def go(self):
        rtt = max(0.01, self.profile.rtt_ms / 1e3)
        self.client = self.end("uftp-a", "a", [
            "uftp", "-R", str(round(self.gbps * 1e6 * 0.95)), "-I", "wan", "-M", B, "-P", B,
            "-b", "1400", "-B", "104857600", "-r", f"{rtt}:0.01:15", "-t", "8", self.file])

    def done(self):
        return self.delivered() == self.mib << 20


class Own(Candidate):
    """Programs of ours around a library, memory to memory, contents compared."""

    program = ""

    def sender(self):
        raise NotImplementedError

    def prepare(self):
        where = os.path.join(os.path.dirname(self.lab.bin), "peers", self.program)
        self.where = where
        self.server = self.end("own-b", "b", [where, "recv", *self.receiver()], ready="^ready")

    def receiver(self):
        return [B, PORT, str(self.mib)]

    def go(self):
        self.client = self.end("own-a", "a", [self.where, "send", *self.sender()])

    def done(self):
        return not self.server.alive()

    def delivered(self):
        self.server.stop()
        text = self.server.text().split()
        return int(text[-1]) if "received" in text else 0


class Udt(Own):
    name = "UDT 4"
    tuning = "library defaults, FC and buffers of 256 MiB, UDP buffers of 64 MiB"
    program = "udt_copy"

    def sender(self):
        return [B, PORT, str(self.mib)]


class Norm(Own):
    name = "NORM"
    tuning = "RFC 5740, fixed rate at 0.98 of the line, blocks of 64, GRTT = RTT, no back-off"
    program = "norm_copy"

    def receiver(self):
        return [A, PORT, str(self.mib)]

    def sender(self):
        return [B, PORT, str(self.mib), str(self.gbps * 980), str(self.profile.rtt_ms)]


class Strait(Candidate):
    """The appliance as shipped: one order, from its submission to the last object verified."""

    name = "Strait"
    tuning = "defaults; cap = line; `worker.realtime: 1`"
    integrity = "AES-256-GCM, CRC-64 of every object"
    port = "net_af_packet0,iface=wan,qdisc_bypass=1,blocksz=65536,framesz=2048,framecnt=4096"

    def _yaml(self, site):
        d, shm, name = self.lab.dir, self.lab.shm, f"{site}1"
        with open(self.lab.path(f"{site}.yaml"), "w", encoding="ascii") as f:
            f.write(f"""site: {site}
edge: {name}
state_dir: {d}/state-{site}
pools:
  - path: {shm}/{site}.pool
    size: {self.mib * 5 // 4 + 64}M
    create: true
port:
  device: {self.port}
  address: 10.77.0.{11 if site == 'a' else 12}/24
worker:
  realtime: 1
eal:
  memory: 192M
control:
  listen: {'10.78.1.1' if site == 'a' else '10.78.2.1'}:7401
master:
  address: {'10.78.1.2' if site == 'a' else '10.78.2.2'}:7400
tls:
  ca: {d}/pki/ca.pem
  cert: {d}/pki/{name}.pem
  key: {d}/pki/{name}.key
cap: {round(self.gbps * 1000)}Mbit
""")
        os.makedirs(f"{d}/state-{site}", exist_ok=True)

    def _management(self):
        """A second, clean wire from each site to the master, which lives with the emulator."""
        w = self.lab.ns["w"]
        for n, site in ((1, "a"), (2, "b")):
            ns = self.lab.ns[site]
            labs.run("ip", "link", "add", "mgmt", "netns", ns, "type", "veth", "peer", "name",
                     f"mgmt-{site}", "netns", w)
            labs.run("ip", "-n", ns, "addr", "add", f"10.78.{n}.1/24", "dev", "mgmt")
            labs.run("ip", "-n", w, "addr", "add", f"10.78.{n}.2/24", "dev", f"mgmt-{site}")
            labs.run("ip", "-n", ns, "link", "set", "mgmt", "up")
            labs.run("ip", "-n", w, "link", "set", f"mgmt-{site}", "up")
            labs.run("ip", "-n", ns, "route", "replace", "default", "via", f"10.78.{n}.2")
        labs.run("ip", "netns", "exec", w, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")

    def ctl(self, *argv):
        out = labs.run("ip", "netns", "exec", self.lab.ns["w"], f"{self.lab.bin}/straitctl",
                       "--master", "127.0.0.1:7400", "--tls-dir", self.lab.path("pki"), *argv,
                       "-o", "json")
        return json.loads(out)

    def prepare(self):
        lab, pki = self.lab, self.lab.path("pki")
        if not os.path.exists(pki):
            ctl = f"{lab.bin}/straitctl"
            labs.run(ctl, "pki", "init", pki)
            for role in (["master", "--name", "master"], ["operator", "--name", "operator"],
                         ["edge", "--site", "a", "--name", "a1"],
                         ["edge", "--site", "b", "--name", "b1"]):
                labs.run(ctl, "pki", "issue", pki, "--role", *role)
            self._management()
        for site in "ab":
            self._yaml(site)
        for name in ("master.db", "master.db-wal", "master.db-shm"):
            if os.path.exists(lab.path(name)):
                os.unlink(lab.path(name))
        with open(lab.path("master.yaml"), "w", encoding="ascii") as f:
            f.write(f"""listen: 0.0.0.0:7400
ledger: {lab.dir}/master.db
report_interval: 200ms
tls:
  ca: {pki}/ca.pem
  cert: {pki}/master.pem
  key: {pki}/master.key
sites:
  - name: a
  - name: b
""")
        self.master = lab.start("master", "w", [f"{lab.bin}/strait-master", "--config",
                                                lab.path("master.yaml")])
        if not self.master.wait_text(": ready", 20, "err"):
            raise labs.LabError(f"strait-master does not start: {self.master.errors()[-400:]}")
        for site in "ab":
            self.end(f"edge-{site}", site, [f"{lab.bin}/strait-edge", "--config",
                                            lab.path(f"{site}.yaml")], ready="^ready")
        labs.run(f"{lab.bin}/strait-replay", "put", "--pool", f"{lab.shm}/a.pool", "--manifest",
                 lab.path("manifest"), "--synthetic", "--requests", "100000",
                 "--blocks-per-request", "64", "--objects", str(self.mib // 2))
        with open(lab.path("manifest"), encoding="utf-8") as f, \
                open(lab.path("keys"), "w", encoding="utf-8") as keys:
            keys.writelines(line.split(" ", 2)[2] for line in f)
        while sum(e["connected"] for e in self.ctl("edge", "list")) < 2:
            if not self.master.alive():
                raise labs.LabError("strait-master ended")
        self._wait_resident()

    def _wait_resident(self):
        """Edges touch their pools in the background once they are up: that is starting, too."""
        end = time.monotonic() + 120
        for site, edge in zip("ab", self.ends):
            size = os.stat(f"{self.lab.shm}/{site}.pool").st_size >> 10
            while labs.shared_kib(edge.popen.pid) < size:
                if not edge.alive() or time.monotonic() > end:
                    raise labs.LabError(f"the pool of {edge.name} is not in memory after two "
                                        "minutes")
                time.sleep(0.05)

    def go(self):
        self.order = str(self.ctl("order", "submit", "--from", "a", "--to", "b", "--keys-file",
                                  self.lab.path("keys"))["order"])

    def state(self):
        return self.ctl("order", "show", self.order)

    def done(self):
        return self.state()["state"] not in ("queued", "running")

    def delivered(self):
        return self.state()["bytes_done"]

    def seconds(self, elapsed):
        order = self.state()
        if "finished_ms" not in order:
            return elapsed
        return (order["finished_ms"] - order["created_ms"]) / 1e3

    def stop(self):
        super().stop()
        self.master.stop()
        for site in "ab":
            pool = f"{self.lab.shm}/{site}.pool"
            if os.path.exists(pool):
                os.unlink(pool)


ALL = [Strait, tcp("cubic", 1), tcp("cubic", 16), tcp("bbr", 1), tcp("bbr", 16), Udt, Srt, Uftp,
       Norm, Rsync]
