#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs strait-bench over the cases of doc/performance.md and prints a table (make bench).

BUILD says where the programs are. Takes about two minutes. Status 1 if a case failed."""
import argparse
import json
import os
import subprocess
import sys

CASES = [
    ("limit", ["--rows", "4"]),
    ("tx", ["--rows", "0"]),
    ("tx", ["--rows", "4"]),
    ("rx", []),
    ("rx", ["--loss", "0.01"]),
]
COLUMNS = ["gbps", "min", "max", "ceiling", "ratio", "raw ratio", "Mpps", "rows", "cpu"]
FORMATS = [".1f", ".1f", ".1f", ".1f", ".2f", ".2f", ".2f", ".1f", ".2f"]
KEYS = ["gbps", "gbps_min", "gbps_max", "ceiling", "ratio", "raw_ratio", "mpps", "rows_per_block",
        "cpu_share"]


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
            print(f"{name:22}" + "".join(f"{r[k]:11{f}}" for k, f in zip(KEYS, FORMATS)), flush=True)
    if not args.json:
        print("\nGbit/s of source payload a core, medians of CPU time; ratio: to the ceiling of the "
              "same run;\nraw ratio: to AES-256-GCM alone; cpu: share of the CPU we had.")
    return failed


if __name__ == "__main__":
    sys.exit(main())
