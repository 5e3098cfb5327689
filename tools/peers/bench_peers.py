#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Strait beside what users would pick instead, over the same emulated WAN: doc/peers.md.

Every cell moves the same number of bytes from one network namespace to another through
strait-wan, or as many as it can until the limit. A run in which the emulator fell behind is void
and repeated. Needs root. Usage: make bench-peers [PEERS_ARGS="..."].

  --gbps R          line rate (1)
  --seconds S       bytes to move: what the line carries in S seconds (8), or in 150 round trips
                    where that is more, so that starting costs nobody much; the limit is 1.75
                    times that and 20 round trips, and that time alone for who has not received
                    half of them by then
  --only WORD       candidates whose name has the word; may repeat
  --profile WORD    profiles whose name has the word; may repeat
  --quick           three profiles, 3 s or 30 round trips
  --out DIR         where peers.md and peers.svg go (doc/); with --only or --profile: not written
                    without --out
  --json FILE       all figures as JSON lines, each written as soon as it is known
  --resume          take cells from that file instead of measuring them again
Exit status: 0 measured and Strait reached its targets, 1 it did not, 2 usage, 3 the laboratory
failed.
"""
import argparse
import json
import os
import signal
import sys
import time

import candidates
import lab as labs
import report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ATTEMPTS = 3


class Profile:
    def __init__(self, rtt_ms, name, link, loss):
        self.rtt_ms, self.loss = rtt_ms, loss
        self.name = f"{rtt_ms} ms, {name}"
        self.rest = link

    def seconds(self, least, round_trips):
        """What the line carries in this time is moved."""
        return max(least, round_trips * self.rtt_ms / 1e3)

    def line(self, gbps):
        self.link = f"--rate-gbps {gbps:g} --rtt-ms {self.rtt_ms} {self.rest}"

    def bound(self, gbps):
        """Payload that can arrive, Gbit/s: C (1 - p) 1432/1538."""
        return gbps * (1 - self.loss) * 1432 / 1538


def profiles(quick):
    kinds = [("clean", "--loss 0", 0), ("0.1 %", "--loss 0.001", 0.001),
             ("1 %", "--loss 0.01", 0.01), ("5 %", "--loss 0.05", 0.05),
             ("1 % in bursts of 8", "--ge 0.01,8", 0.01),
             ("25 % reordered by 5 ms", "--reorder 0.25,5", 0)]
    if quick:
        return [Profile(100, *kinds[k]) for k in (0, 2, 4)]
    return [Profile(rtt, *kind) for rtt in (20, 100, 200) for kind in kinds]


def measure(lab, kind, profile, gbps, seconds):
    """One cell: its figures, or None when the emulator fell behind every time."""
    mib = max(32, round(gbps * 1e9 / 8 * seconds / (1 << 20)) // 16 * 16)
    limit = 1.75 * seconds + 20 * profile.rtt_ms / 1e3
    for attempt in range(ATTEMPTS):
        c = kind(lab, profile, mib, gbps)
        lab.steer(kind.steered)
        lab.wan_up(profile)
        try:
            c.prepare()
            cpu = {p: labs.tree_cpu_seconds(p.popen.pid) for p in c.ends}
            before = lab.received_bytes("b")
            start = time.monotonic()
            c.go()
            complete = True
            half_time = seconds + 2 * profile.rtt_ms / 1e3
            while complete and not c.done():
                time.sleep(0.02)
                elapsed = time.monotonic() - start
                complete = elapsed < limit
                if complete and elapsed > half_time:
                    half_time = limit
                    complete = lab.received_bytes("b") - before > mib << 19
            elapsed = time.monotonic() - start
            got = c.delivered()
            elapsed = c.seconds(elapsed)
            # Processes that go on are read before they are stopped, the rest by what they left.
            live = sum(labs.tree_cpu_seconds(p.popen.pid) - cpu.get(p, 0) for p in c.ends
                       if p.alive())
        except BaseException:
            lab.kill()
            raise
        ended = [p for p in c.ends if not p.alive()]
        c.stop()
        wan = lab.wan_down()
        cell = {
            "candidate": c.name, "profile": profile.name, "mib": mib, "attempt": attempt,
            "bytes": got, "seconds": round(elapsed, 3), "complete": complete,
            "gbps": got * 8 / elapsed / 1e9,
            "share": got * 8 / elapsed / 1e9 / profile.bound(gbps),
            "wire": (wan["ab"]["offered_bytes"] + wan["ba"]["offered_bytes"]) / got if got else None,
            "cpu_per_gb": (live + sum(p.cpu_seconds for p in ended)) / (got / 1e9) if got else None,
            "overruns": wan["overruns"], "emulator_cpu": lab.wan.cpu_seconds,
        }
        if wan["overruns"] == 0 and wan["faults"] == 0:
            return cell
    cell["void"] = True
    return cell


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gbps", type=float, default=1)
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--profile", action="append", default=[])
    p.add_argument("--quick", action="store_true")
    p.add_argument("--out")
    p.add_argument("--json")
    p.add_argument("--resume", action="store_true")
    a = p.parse_args()
    if a.resume and not a.json:
        p.error("--resume needs --json FILE")
    if os.geteuid() != 0:
        print("bench_peers: needs root, to make network namespaces", file=sys.stderr)
        return 3
    kinds = [k for k in candidates.ALL
             if not a.only or any(w.lower() in k.name.lower() for w in a.only)]
    lines = [x for x in profiles(a.quick)
             if not a.profile or any(w in x.name for w in a.profile)]
    if not kinds or not lines:
        p.error("no candidate or no profile has that word")
    length = (3, 30) if a.quick else (a.seconds, 150)
    known = {}
    if a.resume and os.path.exists(a.json):
        with open(a.json, encoding="ascii") as f:
            for line in f:
                cell = json.loads(line)
                known[cell["candidate"], cell["profile"]] = cell
    cells = []
    # The laboratory is taken down whoever ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        with labs.Lab(os.environ.get("BUILD", os.path.join(ROOT, "build"))) as lab:
            for x in lines:
                x.line(a.gbps)
                for k in kinds:
                    cell = known.get((k.name, x.name)) or measure(
                        lab, k, x, a.gbps, x.seconds(*length))
                    cells.append(cell)
                    if a.json and (k.name, x.name) not in known:
                        with open(a.json, "a", encoding="ascii") as f:
                            f.write(json.dumps(cell) + "\n")
                    print(report.line(cell), flush=True)
    except labs.LabError as e:
        print(f"bench_peers: {e}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    partial = a.only or a.profile
    if a.out or not partial:
        report.write(a.out or os.path.join(ROOT, "doc"), cells, kinds, lines, a.gbps, length)
    return 0 if report.reached(cells) else 1


if __name__ == "__main__":
    sys.exit(main())
