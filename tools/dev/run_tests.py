#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test programs and counts.

One line a program while it goes, the whole output of those that fail, and a closing line
`N passed, M failed[, K skipped]`. What is counted: cmocka's cases if the program printed them;
else the program's own closing line if it has one; else the program itself. Exit code 77 is a skip,
its last line the reason. A program gets no more than its time; then its process group is killed.

With STRAIT_STAGE=name in the environment (make check) the closing line is prefixed with the stage
and the counts are also written to the file named by STRAIT_COUNTS.
"""
import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
CMOCKA_RUN = re.compile(r"^\[=+\] (?:.*: )?Running \d+ test\(s\)\.", re.M)
CMOCKA = {
    "passed": re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.M),
    "failed": re.compile(r"^\[  FAILED  \] (?:.*: )?(\d+) test\(s\)", re.M),
    "skipped": re.compile(r"^\[  SKIPPED \] (?:.*: )?(\d+) test\(s\)", re.M),
}


def count(output, code):
    """(passed, failed, skipped) of one finished program."""
    if code == 77:
        return 0, 0, 1
    lines = output.strip().splitlines()
    closing = CLOSING.match(lines[-1].strip()) if lines else None
    if closing:
        passed, failed, skipped = (int(g or 0) for g in closing.groups())
    elif CMOCKA_RUN.search(output):
        passed, failed, skipped = (
            sum(map(int, rx.findall(output))) for rx in CMOCKA.values()
        )
    else:
        passed, failed, skipped = int(code == 0), int(code != 0), 0
    if code != 0 and failed == 0:  # died outside its cases: crash, leak report, timeout
        failed = 1
    if code == 0 and passed + failed + skipped == 0:  # ran nothing, which proves nothing
        failed = 1
    return passed, failed, skipped


def run(path, timeout):
    """(path, exit code, output, seconds); code is negative for a signal, None for a timeout."""
    start = time.monotonic()
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    # Into a file, not a pipe: a daemon left behind must not keep us waiting for end of file.
    with tempfile.TemporaryFile() as out:
        try:
            proc = subprocess.Popen([os.path.abspath(path)], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, env=env, start_new_session=True)
        except OSError as e:
            return path, 126, f"cannot run: {e}\n", 0.0
        try:
            code = proc.wait(timeout)
        except subprocess.TimeoutExpired:
            # Ask first: scripts end their processes and namespaces on SIGTERM.
            code = None
            os.killpg(proc.pid, signal.SIGTERM)
            try:
                proc.wait(10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        proc.wait()
        out.seek(0)
        text = out.read().decode(errors="replace")
    return path, code, text, time.monotonic() - start


def report(path, code, output, seconds):
    counts = count(output, code)
    passed, failed, skipped = counts
    if failed:
        why = "timeout" if code is None else f"signal {-code}" if code < 0 else f"exit {code}"
        print(f"  FAIL  {path} ({why}, {seconds:.1f} s)")
        print("\n".join("        " + line for line in output.rstrip().splitlines()))
    elif code == 77:
        lines = output.strip().splitlines()
        print(f"  SKIP  {path}: {lines[-1] if lines else 'no reason given'}")
    else:
        print(f"  ok    {path} ({passed}{f', {skipped} skipped' if skipped else ''}, {seconds:.1f} s)")
    sys.stdout.flush()
    return counts


def close(totals):
    passed, failed, skipped = totals
    line = f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
    stage = os.environ.get("STRAIT_STAGE")
    if stage:
        with open(os.environ["STRAIT_COUNTS"], "w", encoding="ascii") as f:
            f.write(line + "\n")
        line = f"{stage}: {line}"
    print(line)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("-j", type=int, default=1, help="how many at once")
    ap.add_argument("-t", type=float, default=60, help="seconds each may take")
    ap.add_argument("--only", help="run those whose path contains this")
    ap.add_argument("programs", nargs="*")
    args = ap.parse_args()
    programs = [p for p in args.programs if not args.only or args.only in p]
    totals = [0, 0, 0]
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        jobs = [pool.submit(run, p, args.t) for p in programs]
        for job in concurrent.futures.as_completed(jobs):
            totals = [a + b for a, b in zip(totals, report(*job.result()))]
    close(totals)
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
