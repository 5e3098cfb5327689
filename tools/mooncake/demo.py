# SPDX-License-Identifier: Apache-2.0
"""`make demo-mooncake`: KVCache from one Mooncake store to another across an emulated WAN.

Two network namespaces joined by strait-wan, each with a real Mooncake master and real clients. A
request trace puts KV objects at the prefill side; nobody orders anything: Strait sees the
difference and ships it; the decode side reads every object through Mooncake's own client, and the
hashes must be the generator's. Then the prefill side evicts, and its master restarts: nothing may
be shipped back.

Exit status: 0 all of that held, and while there was a backlog the goodput was 0.9 of the cap; 1 if
not; 3 if the laboratory failed, or the emulator never kept time (also on half and a quarter of the
rate).
"""

import argparse
import itertools
import statistics
import sys
import time
from dataclasses import dataclass, field

import load
from lab import Lab, LabError, until

MIB = 1 << 20
OBJECT = 2 * MIB
GOODPUT_LEAST = 0.9
POLL_S = 0.5
TURN = 16  # objects put at once
ATTEMPTS = 3


class Void(Exception):
    """The emulator did not keep time: the run says nothing."""


@dataclass
class Run:
    """What one run showed."""

    put_at: dict[str, float] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    seen_at: dict[str, float] = field(default_factory=dict)
    # (time, objects that Strait had to bring, objects it brought)
    samples: list[tuple[float, int, int]] = field(default_factory=list)

    def goodput(self, margin: int) -> tuple[float, float]:
        """Bit/s while there was a backlog, and for how many seconds there was.

        That is all the time from the first object's arrival on in which more than `margin` objects
        were wanted or ordered and not there, at both ends of a step.
        """
        seconds, done = 0.0, 0
        for (t0, n0, b0), (t1, n1, b1) in itertools.pairwise(self.samples):
            if b0 > 0 and min(n0, n1) > margin:
                seconds, done = seconds + t1 - t0, done + b1 - b0
        return (done * OBJECT * 8 / seconds if seconds else 0.0), seconds


def progress(lab: Lab) -> tuple[int, int]:
    """Objects that the inter-dc master wants or has ordered and that are not there; that are."""
    wanted = sum(b["objects"] for b in lab.ctl("replication", "status")["backlogs"])
    orders = lab.ctl("order", "list")
    there = sum(int(o["committed"]) for o in orders)
    left = sum(int(o["objects"] - o["committed"] - o["existed"] - o["failed"]) for o in orders)
    return wanted + left, there


def ship(lab: Lab, plan: list[load.Put], run: Run, limit_s: float) -> None:
    """Put what is due, watch it arrive."""
    a, b = lab.both()
    began = time.monotonic()
    left, size = list(plan), OBJECT
    keys: list[str] = []  # being put
    shown, polled = 0.0, -POLL_S
    while len(run.seen_at) < len(plan):
        now = time.monotonic() - began
        if keys and a.has_answered():
            answer = a.answer()
            for key, code in zip(keys, answer["codes"], strict=True):
                if code != 0:
                    raise LabError(f"put at A says {code}")
                run.put_at[key] = now
            keys = []
        if not keys and left and left[0].at <= now:
            keys = [p.key for p in left[:TURN] if p.at <= now]
            left = left[len(keys):]
            a.start("put", keys, size=size, blind=True)
        if now < polled + POLL_S:
            time.sleep(POLL_S / 20)
            continue
        polled = now
        missing = [k for k in run.put_at if k not in run.seen_at]
        if missing:
            there = b.ask("exist", missing)["there"]
            at = time.monotonic() - began
            run.seen_at.update({k: at for k, yes in zip(missing, there, strict=True) if yes})
        run.samples.append((time.monotonic() - began, *progress(lab)))
        if now >= shown:
            print(f"  {now:6.1f} s  put {len(run.put_at):5d}  at the decode side "
                  f"{len(run.seen_at):5d}  coverage {len(run.seen_at) / len(plan):5.1%}",
                  flush=True)
            shown = now + 2
        if now > limit_s:
            raise LabError(f"{len(plan) - len(run.seen_at)} objects are not there "
                           f"after {limit_s:.0f} s")


def prepare(lab: Lab, plan: list[load.Put], run: Run) -> None:
    """What is not to take time later: both stores' memory is touched, the load's hashes made."""
    a, b = lab.both()
    for engine, site in ((a, "a"), (b, "b")):
        # Named as what SGLang warms its store up with: nobody ships these.
        warm = [f"sglang_mooncake_store_warmup_key-{site}-{i}"
                for i in range((lab.segment(site) << 20) * 9 // 10 // OBJECT)]
        engine.ask("put", warm, size=OBJECT, blind=True)
        engine.ask("remove", warm)
    keys = [p.key for p in plan]
    run.hashes = dict(zip(keys, a.ask("hash", keys, size=OBJECT)["hashes"], strict=True))


def read_back(lab: Lab, run: Run) -> int:
    """How many objects B's store hands over with the hash they were made with."""
    _, b = lab.both()
    left, right = list(run.put_at), 0
    for _ in range(3):  # leases expire on a busy machine
        got = b.ask("get", left, size=OBJECT, batch=8)["hashes"]
        right += sum(g == run.hashes[k] for k, g in zip(left, got, strict=True))
        left = [k for k, g in zip(left, got, strict=True) if g is None]
    return right


def echoes(lab: Lab) -> int:
    """Objects that were ordered from B to A."""
    return sum(int(o["objects"]) for o in lab.ctl("order", "list") if o["from"] == "b")


def quiet(lab: Lab) -> bool:
    """Nothing is on its way."""
    return not any(b["objects"] + b["flying"]
                   for b in lab.ctl("replication", "status")["backlogs"])


def disturb(lab: Lab, held: list[str]) -> str:
    """A evicts, then its master restarts; what that left of what was shipped."""
    a, _ = lab.both()
    for turn in range(4):
        a.ask("put", [f"pressure@{turn}@{i}" for i in range(max(1, len(held) // 6))], size=OBJECT)
        # Asked at the admin port: asking the store would lease them, and nothing leased is evicted.
        lost = len(set(held) - set(lab.admin("a", "/get_all_keys").decode().splitlines()))
        if lost > len(held) // 20:
            break
    until("nothing is on its way", lambda: quiet(lab), 120)
    lab.kill("mooncake-a")
    lab.mooncake_master("a")
    until("A's memory is mounted again", lambda: b'"status":"OK"' in
          lab.admin("a", "/get_segments_detail"))
    until("the views are live", lab.views_live)
    fresh = ["after-the-restart@0"]
    until("A's store can be reached", lambda: int(a.ask("exist", fresh)["code"]) >= 0)
    a.ask("put", fresh, size=OBJECT)
    _, b = lab.both()
    until("what is put then arrives", lambda: bool(b.ask("exist", fresh)["there"][0]))
    until("nothing is on its way", lambda: quiet(lab))
    return f"A evicted {lost} of {len(held)}, then lost all with its master"


def attempt(o: argparse.Namespace, gbps: float) -> bool:
    """One run; whether everything held."""
    objects = max(8, o.mib * MIB // OBJECT)
    plan = load.puts(load.lines(o.trace, f"{o.build}/bin/strait-replay"), objects,
                       objects * OBJECT * 8 / (gbps * 1e9) * o.load)
    objects = len(plan)
    run = Run()
    link = ["--rate-gbps", f"{gbps:g}", "--rtt-ms", f"{o.rtt_ms:g}", "--loss", f"{o.loss:g}"]
    # A is full enough that later objects evict.
    segment = objects * OBJECT // MIB * 5 // 4
    with Lab(o.build, "moon", netns=True, wan=link, cap=f"{round(gbps * 1000)}Mbit",
             pool_mib=o.pool_mib, segment_mib=segment, lease_ms=10000,
             line=o.line) as lab:
        try:
            lab.segments = {"b": 2 * segment}
            lab.memory = {"a": "engine", "b": "gateway"}
            lab.up()
            lab.engine("a")
            lab.engine("b")
            prepare(lab, plan, run)
            print(f"two Mooncake stores, {gbps:g} Gbit/s, {o.rtt_ms:g} ms, {o.loss:.1%} loss; "
                  f"{objects} objects of 2 MiB from {o.trace or 'a generated trace'}", flush=True)
            late = int(lab.wan_figures().get("overruns", 0))
            cpu = lab.cpu()
            ship(lab, plan, run, o.limit)
            cpu = {name: seconds - cpu[name] for name, seconds in lab.cpu().items()}
            wan = lab.wan_figures()
            late = int(wan["overruns"]) - late
            keys = list(run.put_at)
            right = read_back(lab, run)
            was = disturb(lab, keys)
            echo = echoes(lab)
        except LabError:
            print(lab.tails(), file=sys.stderr)
            raise
    goodput, busy = run.goodput(round(gbps * 1e9 / 8 * o.rtt_ms / 1e3 * 2 / OBJECT) + 2)
    if late > 0:
        raise Void(f"the emulator was late {late} times")
    delays = sorted(run.seen_at[k] - run.put_at[k] for k in keys)
    took = max(run.seen_at.values())
    carried = wan["ab"]["carried_bytes"]
    ok = right == len(keys) and echo == 0 and goodput >= GOODPUT_LEAST * gbps * 1e9
    print(f"""
read back at the decode side  {right} of {len(keys)} with the generator's hash
all there after               {took:.1f} s (the last was put after {max(run.put_at.values()):.1f} s)
time to available             p50 {statistics.median(delays):.2f} s, p99 {
    delays[min(len(delays) - 1, len(delays) * 99 // 100)]:.2f} s
bytes on the WAN              {carried / MIB:.1f} MiB for {len(keys) * OBJECT / MIB:.0f} MiB of \
objects ({carried / (len(keys) * OBJECT) - 1:+.1%}, headers and repair)
goodput while backlogged      {goodput / 1e6:.0f} Mbit/s, {goodput / gbps / 1e9:.3f} of the cap \
over {busy:.1f} s (payload and loss allow {1432 / 1538 * (1 - o.loss):.3f})
shipped back                  {echo} objects ({was})
processors                    {sum(cpu.values()):.1f} s in {took:.1f} s: {', '.join(
    f"{name} {seconds:.1f}" for name, seconds in cpu.items())}""", flush=True)
    return ok


def main() -> int:
    """Run, again on half the rate where the emulator could not keep time."""
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", help="where the programs are (%(default)s)")
    p.add_argument("--mib", type=int, default=2048, help="objects to ship (%(default)s)")
    p.add_argument("--rate-gbps", type=float, default=1.0, help="line and cap (%(default)s)")
    p.add_argument("--rtt-ms", type=float, default=100, help="(%(default)s)")
    p.add_argument("--loss", type=float, default=0.01, help="of packets (%(default)s)")
    p.add_argument("--load", type=float, default=0.5, metavar="F",
                   help="objects come in F times the time the line needs for them (%(default)s)")
    p.add_argument("--line", choices=("memif", "kernel"), default="memif",
                   help="ports of the edges; kernel: af_packet on a veth, three times the work of "
                   "a processor for each packet (%(default)s)")
    p.add_argument("--pool-mib", type=int, default=768, help="of each edge (%(default)s)")
    p.add_argument("--limit", type=float, default=240, metavar="SECONDS", help="(%(default)s)")
    p.add_argument("--trace", metavar="FILE", help="Mooncake request trace; default: generated")
    o = p.parse_args()
    gbps = o.rate_gbps
    try:
        for n in range(ATTEMPTS):
            try:
                good = attempt(o, gbps)
                print("\ndemo: " + ("ok" if good else "FAILED"))
                return 0 if good else 1
            except Void as e:
                print(f"void: {e}" + ("; again at half the rate" if n < ATTEMPTS - 1 else ""))
                gbps /= 2
    except LabError as e:
        print(f"demo: {e}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())
