#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs strait-bench over the cases of doc/performance.md and prints a table (make bench).

BUILD says where the programs are. Takes about four minutes. Status 1 if a case failed."""
import argparse
import json
import os
import subprocess
import sys

ROWS = ["0", "2", "4", "8"]
CASES = [("limit", ["--rows", "4"]), *(("tx", ["--rows", rows]) for rows in ROWS), ("rx", []),
         ("rx", ["--loss", "0.01"]), ("edge", [])]
COLUMNS = ["gbps", "min", "max", "ceiling", "ratio", "spread", "raw ratio", "Mpps", "rows", "cpu"]
FORMATS = [".1f", ".1f", ".1f", ".1f", ".2f", ".2f", ".2f", ".2f", ".1f", ".2f"]
KEYS = ["gbps", "gbps_min", "gbps_max", "ceiling", "ratio", "ratio_spread", "raw_ratio", "mpps",
        "rows_per_block", "cpu_share"]
# Slices of a case further apart than this say more of the machine than of the program.
SPREAD_MAX = 0.2
STAGES = [
    ("tx --rows 4", [("header", ["apart_header_cycles"]), ("seal, hot", ["apart_seal_hot_cycles"]),
                     ("ring and memory", ["apart_seal_cycles", "-apart_seal_hot_cycles"]),
                     ("parity", ["apart_parity_cycles"]), ("feedback", ["path_feedback_cycles"])]),
    ("rx --loss 0.01", [("open", ["apart_open_cycles"]), ("digest", ["apart_digest_cycles"]),
                        ("decode", ["apart_decode_cycles"]),
                        ("feedback", ["path_feedback_cycles"])]),
]


def print_stages(mtu, results):
    """What the steps cost in cycles of the time stamp counter for each packet."""
    for case, stages in STAGES:
        if case not in results:
            continue
        r = results[case]
        cells = [f"{name} {sum(-r[k[1:]] if k[0] == '-' else r[k] for k in keys):.0f}"
                 for name, keys in stages]
        print(f"cycles a packet, {case} @{mtu}: " + ", ".join(cells) +
              f"; the path as a whole {r['path_cycles']:.0f}")


def print_edge(name, r):
    """Both edges' CPU time beside what copies and ciphers alone take."""
    part = {k: r["cpu_s_per_gb_floor_" + k] for k in ("send", "receive", "seal", "open")}
    noisy = "; slices far apart: again" if r["cpu_ratio_spread"] > SPREAD_MAX else ""
    print(f"{name:22}{r['gbps']:11.1f}{r['gbps_min']:11.1f}{r['gbps_max']:11.1f} on the wall; "
          f"{r['core_gbps']:.1f} a core of the busier edge, ratio {r['ratio']:.2f}\n"
          f"{'':22}CPU s/GB of both: {r['cpu_s_per_gb']:.2f} (source {r['cpu_s_per_gb_source']:.2f}, "
          f"sink {r['cpu_s_per_gb_sink']:.2f}, spread {r['cpu_spread']:.2f}); floor "
          f"{r['cpu_s_per_gb_floor']:.2f} (" + ", ".join(f"{k} {v:.3f}" for k, v in part.items()) +
          f"), ratio {r['cpu_ratio']:.2f};\n{'':22}in one loop {r['cpu_s_per_gb_bare']:.2f} "
          f"(source {r['cpu_s_per_gb_bare_source']:.2f}, sink {r['cpu_s_per_gb_bare_sink']:.2f}), "
          f"ratio {r['cpu_ratio_bare']:.2f}; a cache line from CPU to CPU {r['line_ns']:.0f} ns"
          f"{noisy}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="5")
    parser.add_argument("--seconds", default="0.8")
    parser.add_argument("--mtu", nargs="*", default=["1500", "9000"])
    parser.add_argument("--json", action="store_true", help="one line a case instead of a table")
    args = parser.parse_args()
    program = os.path.join(os.environ.get("BUILD", "build"), "bin", "strait-bench")
    failed = 0
    if not args.json:
        print(f"{'':22}" + "".join(f"{c:>11}" for c in COLUMNS))
    for mtu in args.mtu:
        results = {}
        for verb, options in CASES:
            command = [program, verb, *options, "--mtu", mtu, "--runs", args.runs, "--seconds",
                       args.seconds, "--json"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            name = " ".join([verb, *(o.lstrip("-") for o in options)]) + f" @{mtu}"
            if run.returncode:
                failed = 1
                print(f"{name:22} failed: {run.stderr.strip()}")
                continue
            if args.json:
                print(run.stdout, end="", flush=True)
                continue
            r = json.loads(run.stdout)
            if verb == "limit":
                print(f"{name:22} tx {r['ceiling']:.1f}, tx with 4 rows {r['ceiling_tx_rows']:.1f}, "
                      f"rx {r['ceiling_rx']:.1f}, seal {r['raw']:.1f}, open {r['raw_open']:.1f}",
                      flush=True)
                continue
            if verb == "edge":
                print_edge(name, r)
                continue
            results[" ".join([verb, *options])] = r
            noisy = "  slices far apart: again" if r["ratio_spread"] > SPREAD_MAX else ""
            print(f"{name:22}" + "".join(f"{r[k]:11{f}}" for k, f in zip(KEYS, FORMATS)) + noisy,
                  flush=True)
        if not args.json:
            print_stages(mtu, results)
    if not args.json:
        print("\nGbit/s of source payload a core, medians of CPU time; ratio: to the ceiling of the "
              "same run;\nraw ratio: to AES-256-GCM alone; spread: quartiles of the slices' ratios; cpu: share of the "
              "CPU we had.")
    return failed


if __name__ == "__main__":
    sys.exit(main())
