#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the transport in the simulator and write doc/transport-report.md.

Every row of the report names what is to be reached, over which points (one strait-sim command
each), and what was measured at the worst of them. Run it with `make sim-report`.
  --quick        a few seeds a point: shows the shape, proves little
  --share F      that share of the seeds, at least 3, but all where a row asks for 3,000
  --only WORD    only groups whose name has the word; written only with --out
  --out DIR      write there instead of doc/
  --fresh        measure again what build/sim-report/ holds
  --revision R   what the program was built from, where that is not this tree
Points already measured by the same program are taken from there, so an interrupted report goes on
where it was. Seeds run with --light, which changes no packet and no figure (light_test.c); the whole
takes about 25 minutes on two idle cores.
"""
import argparse
import datetime
import hashlib
import json
import math
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINE_PER_SYMBOL = (1432 + 106) / 1432
QUICK_SEEDS = 3
# The numbers of the design. Of the other rows those that have a promise behind them are judged too;
# a group marked `measured` has none: it shows figures and decides nothing.
NUMBERS = ("grid", "overhead", "feedback", "unknown", "cap1.5", "bursts", "reorder", "completion",
           "completion5", "urgent", "blackout1", "blackout30")
SHARING_SEEDS = 6


class Point:
    """One strait-sim command: label and arguments; runs and summary once measured."""

    def __init__(self, label, args, seeds):
        self.label, self.args, self.seeds = label, args, seeds
        self.runs = []

    def value(self, name):
        at = self.args.split()
        return float(at[at.index(name) + 1])

    def options(self):
        oracle = [] if "--flows" in self.args or "--every-ms" in self.args else ["--with-oracle"]
        return [*self.args.split(), "--seeds", str(self.seeds), *oracle, "--light", "--json"]

    def column(self, field):
        return sorted(r[field] for r in self.runs if r.get(field) is not None)

    def stat(self, field, stat):
        v = self.column(field)
        if not v:
            return None
        rank = {"min": 0, "p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1}
        if stat == "mean":
            return sum(v) / len(v)
        return v[max(0, math.ceil(rank[stat] * len(v)) - 1)]


class Want:
    """A statistic of a field against a limit, which may depend on the point."""

    def __init__(self, field, stat, op, limit, scale=1, digits=4):
        self.field, self.stat, self.op, self.limit = field, stat, op, limit
        self.scale, self.digits = scale, digits

    def bound(self, point):
        return self.limit(point) if callable(self.limit) else self.limit

    def holds(self, point):
        v = point.stat(self.field, self.stat)
        if v is None:
            return False
        return v >= self.bound(point) if self.op == ">=" else v <= self.bound(point)

    def slack(self, point):
        """Negative when missed; to find the worst point."""
        v = point.stat(self.field, self.stat)
        if v is None:
            return -math.inf
        return v - self.bound(point) if self.op == ">=" else self.bound(point) - v

    def show(self, v):
        return "-" if v is None else f"{v * self.scale:.{self.digits}f}".rstrip("0").rstrip(".") or "0"


class Group:
    def __init__(self, name, what, reach, wants, points, note="", measured=False):
        self.name, self.what, self.reach, self.wants = name, what, reach, wants
        self.points, self.note, self.measured = points, note, measured

    def passed(self):
        """Bytes that differ, and runs that do not end, fail a row that is only measured too."""
        return all(r["ok"] for p in self.points for r in p.runs) and \
            (self.measured or all(w.holds(p) for w in self.wants for p in self.points))


def mib_of_bdp(gbps, rtt_ms, bdp):
    return max(1, round(gbps * 1e9 * rtt_ms / 1e3 / 8 * bdp / (1 << 20)))


def order(gbps, rtt_ms, bdp, rest=""):
    return f"--rate-gbps {gbps:g} --rtt-ms {rtt_ms:g} --mib {mib_of_bdp(gbps, rtt_ms, bdp)}{rest}"


RTTS = (10, 50, 100, 200)
LOSSES = (0, 0.0001, 0.001, 0.01, 0.02, 0.05)
BURSTS = ((0.001, 8), (0.001, 64), (0.01, 8), (0.01, 64), (0.02, 16))


def percent(p):
    return f"{p * 100:g} %"


def groups():
    def ms(p):
        return p.value("--rtt-ms")

    grid = [Point(f"{r} ms, {percent(p)}", order(1, r, 50, f" --loss {p:g}"), 30)
            for r in RTTS for p in LOSSES]
    yield Group(
        "grid", "efficiency, cap = link, 10 to 200 ms, 0 to 5 % iid loss, 50 BDP",
        "median >= 0.985, min >= 0.96",
        [Want("efficiency", "p50", ">=", 0.985), Want("efficiency", "min", ">=", 0.96)], grid)
    yield Group(
        "overhead", "overhead, not urgent, 50 BDP (the runs above)", "<= 0.3 %",
        [Want("overhead", "max", "<=", 0.003, 100, 3)], grid)
    yield Group(
        "feedback", "feedback (the runs above)", "<= max(0.1 %, 520 bytes an RTT)",
        [Want("feedback_share", "max", "<=", 1)], grid,
        "`feedback_share` is the feedback as a share of what is allowed.")
    yield Group(
        "unknown", "the same with the cap unknown, 1000 BDP", ">= 0.97",
        [Want("efficiency", "p50", ">=", 0.97)],
        [Point(f"{g:g} Gbit/s, {r} ms, {percent(p)}",
               order(g, r, 1000, f" --loss {p:g} --cap-gbps 0"), 30)
         for g, r in ((1, 10), (0.2, 50), (0.1, 100), (0.1, 200)) for p in (0, 0.01, 0.05)])
    yield Group(
        "cap1.5", "the same with cap 1.5 x link", ">= 0.95 with queueing delay bounded",
        [Want("efficiency", "p50", ">=", 0.95),
         Want("queue_delay_ms_p95", "max", "<=", lambda p: ms(p) / 2, 1, 2)],
        [Point(f"{r} ms, {percent(p)}", order(1, r, 50, f" --loss {p:g} --cap-gbps 1.5"), 30)
         for r in RTTS for p in (0, 0.01, 0.05)],
        "Bounded is read as: 95 of 100 packets wait less than half an RTT, where the queue holds "
        "one BDP.")
    shallow = [Point(f"{r} ms, {c}, {q} BDP",
                     order(0.2, r, 50, f" --cap-gbps 0.3 --class {c} --queue-bdp {q}"), 30)
               for r in (20, 100) for c in ("normal", "urgent") for q in (0.02, 0.05, 0.2)]
    yield Group(
        "shallow", "cap 1.5 x link, a queue of a few packets to 0.2 BDP, 50 BDP",
        ">= 0.95 (urgent, with its rows: 0.85), redundancy does not grow with loss of our own "
        "making: overhead <= 12.5 %",
        [Want("efficiency", "p50", ">=", lambda p: 0.85 if "urgent" in p.args else 0.95),
         Want("overhead", "max", "<=", 0.125, 100, 2)], shallow)
    yield Group(
        "shallow-loss", "what the queue drops meanwhile (the runs above)", "queue loss <= 2 %",
        [Want("queue_loss", "max", "<=", 0.02, 100, 3)], shallow,
        "A queue that is too short to be seen tells of excess by dropping: a cap above the line has "
        "to lose something until the rate fits. Promised is what it costs, which is the row above.",
        measured=True)
    yield Group(
        "bursts", "efficiency under bursts (GE 0.1 to 2 %, mean 8 to 64), 50 BDP",
        "median >= 0.97", [Want("efficiency", "p50", ">=", 0.97)],
        [Point(f"{r} ms, {percent(p)} in {b}", order(1, r, 50, f" --ge {p:g},{b}"), 30)
         for r in (10, 50, 100) for p, b in BURSTS])
    yield Group(
        "reorder", "efficiency under 5 ms / 25 % reordering, 50 BDP",
        ">= 0.98 of clean, spurious repair <= 0.5 %",
        [Want("clean_ratio", "min", ">=", 0.98),
         Want("spurious_repair", "max", "<=", 0.005, 100, 3)],
        [Point(f"{r} ms, {percent(p)}", order(1, r, 50, f" --loss {p:g} --reorder 0.25,5"), 30)
         for r in RTTS for p in (0, 0.01)],
        "`clean_ratio` is efficiency over the median of the grid's at the same RTT and loss.")
    yield Group(
        "completion", "completion beyond ideal, p <= 2 % (3,000 seeds)",
        "p50 <= 0.15 RTT, p99.9 <= 1.1 RTT",
        [Want("extra_rtt", "p50", "<=", 0.15), Want("extra_rtt", "p999", "<=", 1.1)],
        [Point(f"{r} ms, {percent(p)}, {m} MiB",
               f"--rate-gbps 1 --rtt-ms {r} --mib {m} --loss {p:g}", 3000)
         for r, m, losses in ((10, 8, LOSSES[:5]), (100, 4, (0.01, 0.02)), (100, 16, (0.01, 0.02)))
         for p in losses],
        "8 MiB at 10 ms are 6.7 BDP; 16 and 4 MiB at 100 ms are 1.3 and 0.3: when the first report comes "
        "most or all is sent, and the loss was assumed to be 1 %.")
    yield Group(
        "completion5", "completion beyond ideal, 5 % (3,000 seeds)",
        "p50 <= 0.15 RTT, p99.9 <= 2.1 RTT",
        [Want("extra_rtt", "p50", "<=", 0.15), Want("extra_rtt", "p999", "<=", 2.1)],
        [Point(f"{r} ms, 5 %, {m} MiB", f"--rate-gbps 1 --rtt-ms {r} --mib {m} --loss 0.05", 3000)
         for r, m in ((10, 8), (100, 4), (100, 16))])
    yield Group(
        "urgent", "urgent 1 MiB, 1 % loss (3,000 seeds)",
        "<= 1e-3 need a repair round, <= 12.5 % overhead",
        [Want("repaired", "mean", "<=", 1e-3, 1, 5), Want("overhead", "max", "<=", 0.125, 100, 2)],
        [Point(f"{g} Gbit/s, {r} ms",
               f"--rate-gbps {g} --rtt-ms {r} --class urgent --mib 1 --object-kib 1024 --loss 0.01",
               3000) for g, r in ((1, 50), (1, 100), (10, 100))],
        "`repaired` is the share of orders with a block that needed repair after its planned "
        "symbols.")
    for length in (1, 30):
        yield Group(
            f"blackout{length}", f"{length} s blackout",
            "95 % goodput again within 3 RTT, no order lost",
            [Want("recovery_rtt", "max", "<=", 3, 1, 3)],
            [Point(f"{r} ms, {percent(p)}",
                   order(1, r, 40, f" --loss {p:g} --cut {10 * r},{length * 1000}"), 30)
             for r in RTTS for p in (0, 0.01, 0.05)])
    yield Group(
        "yield", "bulk beside a CUBIC flow (cap = link)",
        ">= 90 % given up within 1 s, taken back within 2 s",
        [Want("given_up", "min", ">=", 0.9), Want("given_up_ms", "max", "<=", 1000, 1, 0),
         Want("taken_back_ms", "max", "<=", 2000, 1, 0)],
        [Point(f"{r} ms", f"--rate-gbps 1 --rtt-ms {r} --class bulk --mib {m} --cross cubic:2000,3000",
               30) for r, m in ((10, 750), (50, 800), (100, 900))],
        "From 1 s after the flow's start until its end the source gives up the share `given_up` of "
        "its earlier rate.")
    yield Group(
        "stay", "urgent beside a CUBIC flow (cap = link)", "does not yield: gives up <= 10 %",
        [Want("given_up", "max", "<=", 0.1)],
        [Point(f"{r} ms", f"--rate-gbps 1 --rtt-ms {r} --class urgent --mib 700 "
               "--cross cubic:2000,3000", 30) for r in (10, 50, 100)])
    steps = "".join(f" --rtt-step {at},{rtt}" for at, rtt in
                    ((700, 65), (1400, 50), (2100, 35), (2800, 50), (3500, 65), (4200, 35)))
    yield Group(
        "steps", "the round trip of 50 ms steps by 30 % every 0.7 s, 100 BDP", "median >= 0.97",
        [Want("efficiency", "p50", ">=", 0.97), Want("spurious_repair", "max", "<=", 0.005, 100, 3)],
        [Point(f"{percent(p)}, cap {c:g} x link", order(1, 50, 100, f" --loss {p:g} --cap-gbps {c}")
               + steps, 30) for p in (0, 0.01) for c in (1, 1.5)])
    yield Group(
        "return", "feedback that fares worse: half of it lost, in bursts too, a line of a hundredth; 50 "
        "BDP, 1 % loss of data", "median >= 0.985",
        [Want("efficiency", "p50", ">=", 0.985), Want("efficiency", "min", ">=", 0.96)],
        [Point(f"{r} ms, {name}", order(1, r, 50, f" --loss 0.01 {args}"), 30)
         for r in (10, 100)
         for name, args in (("50 % lost", "--fb-loss 0.5"), ("30 % lost in bursts of 500",
                            "--fb-loss 0 --fb-ge 0.3,500"), ("1/100 of the rate", "--fb-rate-gbps 0.01"))])
    yield Group(
        "spot", "spot checks: 0.1 to 400 Gbit/s, 0.05 to 600 ms, jumbo frames; 50 BDP or more, 1 % loss",
        "median >= 0.985",
        [Want("efficiency", "p50", ">=", 0.985)],
        [Point("10 Gbit/s, 20 ms", order(10, 20, 50, " --loss 0.01"), 30),
         Point("10 Gbit/s, 20 ms, 5 %", order(10, 20, 50, " --loss 0.05"), 30),
         Point("10 Gbit/s, 0.05 ms, 500 BDP", order(10, 0.05, 500, " --loss 0.01"), 30),
         Point("100 Gbit/s, 2 ms", order(100, 2, 50, " --loss 0.01"), 30),
         Point("400 Gbit/s, 0.5 ms", order(400, 0.5, 50, " --loss 0.01"), 30),
         Point("0.1 Gbit/s, 600 ms", order(0.1, 600, 50, " --loss 0.01"), 30),
         Point("0.1 Gbit/s, 0.05 ms, 20000 BDP", order(0.1, 0.05, 20000, " --loss 0.01"), 30),
         Point("1 Gbit/s, 50 ms, MTU 9000", order(1, 50, 50, " --loss 0.01 --mtu 9000"), 30)])
    yield Group(
        "beside", "normal beside a CUBIC flow, caps 0.5 x, 1 x and 1.5 x the line and none",
        "keeps a third of the line and leaves the flow a quarter",
        [Want("cross_share", "max", "<=", 0.667), Want("cross_share", "min", ">=", 0.25)],
        [Point(f"{r} ms, {f'cap {c:g} x' if c else 'no cap'}",
               f"--rate-gbps 0.2 --rtt-ms {r} --cap-gbps {c * 0.2:g} --mib 200 "
               "--cross cubic:2000,6000", SHARING_SEEDS)
         for r in (20, 50, 100) for c in (0.5, 1, 1.5, 0)],
        "Promised are the classes on either side: bulk yields, urgent does not. With a cap of half the "
        "line the flow has the other half in any case.", measured=True)
    yield Group(
        "fair", "2 and 4 sessions of a class that start 0.7 s apart, caps 1 x and 1.5 x the line each and "
        "none; a queue of 1 BDP", "Jain >= 0.9 from 2 s or 20 RTT after the last start, line >= 0.95 used, "
        "queueing delay p95 < RTT / 2",
        [Want("jain", "min", ">=", 0.9), Want("flows_used", "min", ">=", 0.95),
         Want("flows_queue_ms_p95", "max", "<=", lambda p: ms(p) / 2, 1, 2)],
        [Point(f"{n} flows, {r} ms, {percent(p)}, {f'cap {c:g} x' if c else 'no cap'}",
               f"--rate-gbps 0.2 --rtt-ms {r} --loss {p:g} --cap-gbps {c * 0.2:g} --flows {n} "
               f"--flow-start-ms 700 --mib {160 if n == 2 else 120}", SHARING_SEEDS)
         for n in (2, 4) for r in (10, 50, 100) for p in (0, 0.01) for c in (1, 1.5, 0)],
        "Promised are fair shares of the transfers of a session, whose scheduler divides them "
        "(tests/unit/transport_fair_test.c), and of the edges of a site, whose caps add up to that of "
        "the link. Here every session may use the whole line or more, and knows of no other.",
        measured=True)
    yield Group(
        "fair-bulk", "the same of class bulk, cap = line", "Jain >= 0.9, line >= 0.6 used",
        [Want("jain", "min", ">=", 0.9), Want("flows_used", "min", ">=", 0.6)],
        [Point(f"{n} flows, {r} ms", f"--rate-gbps 0.2 --rtt-ms {r} --class bulk --flows {n} "
               f"--flow-start-ms 700 --mib {160 if n == 2 else 120}", SHARING_SEEDS)
         for n in (2, 4) for r in (10, 50)],
        "Bulk takes the queue of other bulk for that of others and gives way in turns.",
        measured=True)
    yield Group(
        "bulk-step", "the round trip steps while a session is idle (40 MiB each side of it, 0.2 Gbit/s)",
        "the order after the step takes <= 1.2 of the ideal time",
        [Want("slowest_seconds", "max", "<=", 1.2 * 40 * (1 << 20) * 8 * LINE_PER_SYMBOL / 0.2e9, 1, 3)],
        [Point(f"{c}, {a:g} to {b:g} ms", f"--rate-gbps 0.2 --rtt-ms {a:g} --rtt-step 3000,{b:g} --class {c} "
               "--mib 80 --transfers 2 --every-ms 6000 --queue-bytes 500000", SHARING_SEEDS)
         for c in ("bulk", "normal", "urgent") for a, b in ((0.2, 20), (20, 0.2), (5, 60), (60, 5))])


PICTURES = (
    ("transport-loss", order(1, 50, 50, " --loss 0.01"), "An order of 50 BDP at 1 % loss"),
    ("transport-blackout", order(1, 50, 80, " --loss 0.01 --cut 1000,1000"), "A blackout of 1 s"),
    ("transport-unknown", order(1, 50, 100, " --cap-gbps 0 --loss 0.001"), "The cap is not known"),
    ("transport-reorder", order(1, 50, 50, " --reorder 0.25,5"), "5 ms / 25 % reordering"),
    ("transport-yield", "--rate-gbps 1 --rtt-ms 50 --class bulk --mib 1500 --cross cubic:2000,5000",
     "Bulk beside a CUBIC flow"),
)


def derive(point, clean):
    """Fields of a run that follow from others."""
    rtt_s = point.value("--rtt-ms") / 1e3
    for r in point.runs:
        if r.get("seconds"):
            line = r["bytes"] * LINE_PER_SYMBOL
            allowed = max(0.001, 520 * r["seconds"] / rtt_s / line)
            r["feedback_share"] = r["feedback_ratio"] / allowed
        r["repaired"] = None if r.get("repair_rounds") is None else float(r["repair_rounds"] > 0)
        if "--reorder" in point.args and r.get("efficiency"):
            base = clean.get(point.label)
            r["clean_ratio"] = r["efficiency"] / base if base else None


def runs_of(sim, program, p, fresh):
    """The runs of a point; the second: they were measured now."""
    name = hashlib.sha256(" ".join([program, *p.options()]).encode()).hexdigest()[:24]
    path = os.path.join(os.path.dirname(os.path.dirname(sim)), "sim-report", name)
    if os.path.exists(path) and not fresh:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f], False
    out = subprocess.run([sim, *p.options()], capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    runs = [r for r in rows if "seed" in r]
    if len(runs) == p.seeds and len(rows) > len(runs):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in runs)
        os.rename(path + ".part", path)
    return runs, True


def measure(sim, todo, clean, fresh):
    done = {}
    with open(sim, "rb") as f:
        program = hashlib.sha256(f.read()).hexdigest()
    for g in todo:
        for p in g.points:
            if p.args in done:
                continue
            done[p.args] = p
            start = time.monotonic()
            p.runs, now = runs_of(sim, program, p, fresh)
            derive(p, clean)
            if g.name == "grid":
                clean[p.label] = p.stat("efficiency", "p50")
            bad = sum(not r["ok"] for r in p.runs)
            marks = " ".join(f"{w.field} {w.stat} {w.show(p.stat(w.field, w.stat))}"
                             f"{'' if g.measured or w.holds(p) else ' MISSED'}" for w in g.wants)
            took = f"{time.monotonic() - start:6.1f} s" if now else "  known "
            print(f"{g.name:12} {p.label:34} {took}  {marks}"
                  f"{f'  {bad} SEEDS FAILED' if bad or not p.runs else ''}", flush=True)


def spread(w, p):
    return " / ".join(w.show(p.stat(w.field, s)) for s in ("min", "p50", "p999", "max"))


SUMMARY_HEAD = (
    "| what | reach | judged by | measured, worst point | worst point | oracle there | reached |",
    "|---|---|---|---|---|---|---|")
MEASURED_HEAD = (
    "| what | would be good | looked at | measured, worst point | worst point | oracle there | "
    "measured, not promised |",
    "|---|---|---|---|---|---|---|")


SECTIONS = (
    ("Numbers", "numbers", "The numbers of the design. A row is reached when all of its points are."),
    ("What else was asked", "beside",
     "Behaviors the transport has to have besides, judged likewise: who yields to a TCP flow and who does "
     "not, redundancy that does not grow with loss of our own making, paths that change, feedback that "
     "fares worse, the range of rates and delays. Asked for without a number, the limit is that of the "
     "nearest number above."),
    ("Measured, not promised", "measured",
     "What somebody who operates several of these on one line wants to know. Nothing promises a figure for "
     "it, so nothing here passes or fails, except that every byte must arrive. The last column says at "
     "how many points it is as would be good."),
)


def summary_rows(g):
    for i, w in enumerate(g.wants):
        worst = min(g.points, key=w.slack)
        missed = [p for p in g.points if not w.holds(p)]
        passed = "**no**" if missed else "yes"
        if g.measured:
            passed = f"so at {len(g.points) - len(missed)} of {len(g.points)} points"
        elif missed and w.field in ("efficiency", "extra_rtt", "clean_ratio") and \
                all((p.stat("oracle_ratio", "p50") or math.inf) <= 1.1 for p in missed):
            passed = "**no**, but within 1.1 of the oracle"
        bad = sum(not r["ok"] for p in g.points for r in p.runs)
        if bad:
            passed = f"**no**, {bad} seeds failed"
        unit = " (%)" if w.scale == 100 else ""
        oracle = worst.stat("oracle_efficiency", "p50") if w.field in ("efficiency", "clean_ratio") else \
            worst.stat("oracle_extra_rtt", "p999") if w.field == "extra_rtt" else None
        ratio = worst.stat("oracle_ratio", "p50")
        tail = "" if oracle is None else f"{oracle:.4f}; we take {ratio:.4f} of its time" \
            if ratio else f"{oracle:.4f}"
        yield (f"| {g.what if i == 0 else ''} | {g.reach if i == 0 else ''} "
               f"| {w.field}{unit}, {w.stat} | {spread(w, worst)} | {worst.label} | {tail} "
               f"| {passed} |")


def details(g):
    head = ["point", "seeds"] + [f"{w.field}{' (%)' if w.scale == 100 else ''}"
                                 for i, w in enumerate(g.wants)
                                 if w.field not in [v.field for v in g.wants[:i]]]
    yield "| " + " | ".join(head + ["time / oracle's", g.reach if g.measured else "pass",
                                    "command"]) + " |"
    yield "|" + "---|" * (len(head) + 3)
    for p in g.points:
        seen, cells = [], []
        for w in g.wants:
            if w.field not in seen:
                seen.append(w.field)
                cells.append(spread(w, p))
        ok = all(w.holds(p) for w in g.wants) and all(r["ok"] for r in p.runs)
        ratio = p.stat("oracle_ratio", "p50")
        told = "**no**" if not ok else "yes"
        if g.measured and all(r["ok"] for r in p.runs):
            told = "so" if ok else "not so"
        yield (f"| {p.label} | {len(p.runs)} | " + " | ".join(cells) +
               f" | {'-' if ratio is None else f'{ratio:.4f}'} | {told} "
               f"| `{p.args}` |")


def pictures(sim, out_dir):
    for name, args, _ in PICTURES:
        subprocess.run([sim, *args.split(), "--plot", os.path.join(out_dir, name + ".svg"), "--json"],
                       stdout=subprocess.DEVNULL, check=False)


COLORS = ("#0072b2", "#d55e00", "#009e73", "#a3508a")


def chart(grid, out_dir):
    """Efficiency over loss, one line an RTT, bars from the smallest to the largest seed."""
    left, top, width, height, low = 62, 48, 640, 300, 0.98
    low = min([low] + [p.stat("efficiency", "min") for p in grid.points if p.runs])
    low = math.floor(low * 100) / 100

    def x(i, shift=0):
        return left + width * (i + 0.5) / len(LOSSES) + shift

    def y(v):
        return top + height * (1 - v) / (1 - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" '
           f'height="{top + height + 52}" font-family="Helvetica,Arial,sans-serif" font-size="12" '
           'fill="#222">', '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{left}" y="22" font-size="16" font-weight="bold">Efficiency, cap = link, '
           '1 Gbit/s, orders of 50 BDP</text>']
    for i in range(6):
        v = low + (1 - low) * i / 5
        out.append(f'<path d="M{left} {y(v):.1f}h{width}" stroke="#e3e3e3"/>'
                   f'<text x="{left - 7}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.3f}</text>')
    if low < 0.985:
        out.append(f'<path d="M{left} {y(0.985):.1f}h{width}" stroke="#444" stroke-dasharray="5 4"/>'
                   f'<text x="{left + 4}" y="{y(0.985) - 5:.1f}" fill="#444">reach: 0.985</text>')
    for j, rtt in enumerate(RTTS):
        shift = (j - 1.5) * 12
        line = []
        for i, p in enumerate(q for q in grid.points if q.value("--rtt-ms") == rtt):
            a, b, c = (y(p.stat("efficiency", s)) for s in ("min", "p50", "max"))
            line.append(f"{x(i, shift):.1f} {b:.1f}")
            out.append(f'<path d="M{x(i, shift):.1f} {a:.1f}V{c:.1f}" stroke="{COLORS[j]}" '
                       f'stroke-width="4" stroke-opacity=".35"/><circle cx="{x(i, shift):.1f}" '
                       f'cy="{b:.1f}" r="3" fill="{COLORS[j]}"/>')
        out.append(f'<path d="M{"L".join(line)}" fill="none" stroke="{COLORS[j]}"/>'
                   f'<rect x="{left + width - 280 + 70 * j}" y="{top - 15}" width="14" height="4" '
                   f'fill="{COLORS[j]}"/><text x="{left + width - 262 + 70 * j}" y="{top - 9}">'
                   f'{rtt} ms</text>')
    for i, p in enumerate(LOSSES):
        out.append(f'<text x="{x(i):.1f}" y="{top + height + 18}" text-anchor="middle">'
                   f'{percent(p)}</text>')
    out += [f'<path d="M{left} {top}v{height}h{width}" fill="none" stroke="#444"/>',
            f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">packet loss; '
            'median, and smallest to largest seed</text>', "</svg>", ""]
    with open(os.path.join(out_dir, "transport-efficiency.svg"), "w", encoding="utf-8") as f:
        f.write("\n".join(out))


def git(*args):
    r = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=False)
    return r.stdout.strip()


def write(todo, out_dir, revision, args):
    numbers = [g for g in todo if g.name in NUMBERS]
    beside = [g for g in todo if g.name not in NUMBERS and not g.measured]
    measured = [g for g in todo if g.measured]
    seeds = sum(len(p.runs) for p in {p.args: p for g in todo for p in g.points}.values())
    text = [
        "# Transport report", "",
        "Measured by `make sim-report`: the protocol core over the simulator's link model, every "
        "byte compared. Do not edit.", "",
        f"{sum(g.passed() for g in numbers)} of {len(numbers)} numbers reached, and "
        f"{sum(g.passed() for g in beside)} of {len(beside)} of what else was asked; "
        f"{len(measured)} rows are measured without a promise. {seeds} runs, "
        f"{datetime.date.today().isoformat()}, revision {revision}."
        + (" **Quick: few seeds, proves little.**" if args.quick else "")
        + (f" **With {args.share:g} of the seeds only.**" if args.share < 1 else ""), "",
        "Figures are min / median / p99.9 / max over the seeds of the worst point of a row. The "
        "oracle sends over the same link with the same seed, knows every loss in advance and needs "
        "no feedback; its efficiency (or time beyond ideal) is that of the same point.", "",
    ]
    for title, rows, said in SECTIONS:
        rows = {"numbers": numbers, "beside": beside, "measured": measured}[rows]
        if rows:
            head = MEASURED_HEAD if rows == measured else SUMMARY_HEAD
            text += [f"## {title}", "", said, "", *head]
            for g in rows:
                text += summary_rows(g)
            text.append("")
    text += ["## Pictures", ""]
    if todo[0].name == "grid":
        chart(todo[0], out_dir)
        text += ["![Efficiency over loss](transport-efficiency.svg)", ""]
    for name, args, title in PICTURES:
        text += [f"{title}: `strait-sim {args} --plot {name}.svg`", "", f"![{title}]({name}.svg)", ""]
    text += ["## Every point", "",
             "The command of a point is `strait-sim COMMAND --seeds SEEDS --with-oracle --light --json`; "
             "fields are explained by `strait-sim --help`.", ""]
    for g in todo:
        if g.name in ("overhead", "feedback"):
            g.note = g.note or "Commands are those of the first table."
        told = "Looked for, not promised" if g.measured else "Reach"
        text += [f"### {g.what}", "", f"{told}: {g.reach}. {g.note}".rstrip(), "", *details(g), ""]
    with open(os.path.join(out_dir, "transport-report.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text).rstrip("\n") + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--share", type=float, default=1)
    ap.add_argument("--only", default="")
    ap.add_argument("--out")
    ap.add_argument("--fresh", action="store_true")
    ap.add_argument("--revision")
    args = ap.parse_args()
    sim = os.path.join(os.environ.get("BUILD", "build"), "bin", "strait-sim")
    sim = os.path.join(ROOT, sim)
    if not os.access(sim, os.X_OK):
        print(f"no {sim}: run make\n0 passed, 1 failed")
        return 1
    todo = [g for g in groups() if args.only in g.name]
    assert not any(g.measured for g in todo if g.name in NUMBERS), "a number of the design is a promise"
    for p in {id(p): p for g in todo for p in g.points}.values():
        if args.quick:
            p.seeds = min(p.seeds, QUICK_SEEDS if p.seeds < 3000 else 100)
        elif p.seeds < 3000:
            p.seeds = max(min(p.seeds, QUICK_SEEDS), round(p.seeds * args.share))
    revision = args.revision or git("rev-parse", "--short", "HEAD")
    measure(sim, todo, {}, args.fresh)
    if args.out or not args.only:
        out_dir = args.out or os.path.join(ROOT, "doc")
        pictures(sim, out_dir)
        write(todo, out_dir, revision, args)
    missed = [g.name for g in todo if not g.passed()]
    for g in todo:
        if g.measured:
            print(f"measured, not promised: {g.name}: {g.reach}: at "
                  f"{sum(all(w.holds(p) for w in g.wants) for p in g.points)} of {len(g.points)} points")
    if missed:
        print("missed: " + ", ".join(missed))
    judged = sum(not g.measured for g in todo)
    print(f"{judged - sum(not g.measured for g in todo if not g.passed())} passed, {len(missed)} failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
