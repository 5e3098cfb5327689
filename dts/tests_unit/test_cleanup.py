# SPDX-License-Identifier: Apache-2.0
"""A run that is interrupted leaves nothing: no process, no namespace, no pool. Needs root and
programs in $BUILD/bin; skipped without.

    cd dts; python3 -m unittest tests_unit.test_cleanup"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from framework.settings import DTS_DIR, ROOT_DIR
from framework.testbed_model.capability import shared_memory_dir
from framework.testbed_model.netns_session import PREFIX

BUILD = Path(os.environ.get("BUILD", "build"))
BUILD = BUILD if BUILD.is_absolute() else ROOT_DIR / BUILD


def processes_of(marker: str) -> list[str]:
    """Command lines that name it, or that live in a namespace that does."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if marker in line and "test_cleanup" not in line:
            found.append(f"{entry.name} {line}")
    return found


def workers_of(pid: int) -> list[int]:
    """Forks of the harness, its children."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def namespaces_of(pid: int) -> list[str]:
    """Namespaces of a run."""
    text = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True,
                          check=False).stdout
    return [line.split()[0] for line in text.splitlines() if line.startswith(f"{PREFIX}{pid}-")]


@unittest.skipUnless(os.geteuid() == 0 and (BUILD / "bin/strait-edge").is_file(),
                     "needs root and what `make` builds")
class TestInterrupted(unittest.TestCase):
    """Ctrl-C, SIGTERM and SIGKILL in the middle of a suite that has edges running."""

    def _start(self, path: str = "") -> tuple["subprocess.Popen[bytes]", Path]:
        out = Path(tempfile.mkdtemp(prefix="strait-dts-cleanup-"))
        self.addCleanup(subprocess.run, ("rm", "-rf", str(out)), check=False)
        process = subprocess.Popen(
            (sys.executable, "-B", str(DTS_DIR / "main.py"), "--build-dir", str(BUILD),
             "--output-dir", str(out), "--test-suite", "session_headers"),
            env={**os.environ, "PATH": path + os.environ["PATH"]},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return process, out

    def _interrupt(self, number: int, worker: bool = False) -> tuple[int, int, Path]:
        process, out = self._start()
        try:
            # Until both edges run; the worker of the generator does then too.
            end = time.monotonic() + 60
            while not (out / "session_headers/edge-peer/out").is_file() and process.poll() is None:
                self.assertLess(time.monotonic(), end, "the suite does not begin")
                time.sleep(0.05)
            self.assertTrue(namespaces_of(process.pid), "no namespaces")
            self.assertTrue(processes_of(str(out)), "no processes")
            if worker:
                os.kill(workers_of(process.pid)[0], number)
            else:
                process.send_signal(number)
            if number != signal.SIGKILL:
                self._insist(process, number)
            status = process.wait(40)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return process.pid, status, out

    def _insist(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        """The same again and again while it tears down, as whoever ends a group of processes does,
        make and timeout together, or somebody who thinks it hangs; workers hear of it too."""
        end = time.monotonic() + 40
        while process.poll() is None:
            self.assertLess(time.monotonic(), end, "it does not end")
            for pid in (process.pid, *workers_of(process.pid)):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)

    def _nothing_left(self, pid: int, out: Path) -> None:
        self.assertEqual(processes_of(str(out)), [])
        self.assertEqual(namespaces_of(pid), [])
        self.assertEqual(list(shared_memory_dir().glob(f"{PREFIX}{pid}-*")), [])

    def test_ctrl_c(self) -> None:
        """SIGINT unwinds everything and writes results."""
        pid, status, out = self._interrupt(signal.SIGINT)
        self._nothing_left(pid, out)
        self.assertEqual(status, 1)
        self.assertTrue((out / "results.json").is_file())

    def test_sigterm(self) -> None:
        """So does SIGTERM."""
        pid, status, out = self._interrupt(signal.SIGTERM)
        self._nothing_left(pid, out)
        self.assertEqual(status, 1)

    def test_sigterm_while_the_testbed_is_made(self) -> None:
        """A worker that is not ready yet does not finish first."""
        process, out = self._start()
        try:
            end = time.monotonic() + 60
            while not namespaces_of(process.pid) and process.poll() is None:
                self.assertLess(time.monotonic(), end, "nothing is made")
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._nothing_left(process.pid, out)
        self.assertEqual(status, 1)

    def test_sigterm_while_a_namespace_is_made(self) -> None:
        """It exists and nobody has it yet: of the harness, of a worker."""
        for name in ("probe", "mgmt"):
            with self.subTest(name), tempfile.TemporaryDirectory() as tools:
                stand_in = Path(tools) / "ip"
                stand_in.write_text(f"""#!/bin/sh
                    {shutil.which("ip")} "$@"
                    status=$?
                    case "$*" in "netns add {PREFIX}"*-{name})
                        pid=${{3#{PREFIX}}}
                        kill -TERM "${{pid%%-*}}"
                        sleep 1 ;;
                    esac
                    exit $status""", "ascii")
                stand_in.chmod(0o755)
                process, out = self._start(f"{tools}:")
                try:
                    status = process.wait(60)
                finally:
                    process.kill()
                    process.wait()
                self._nothing_left(process.pid, out)
                self.assertEqual(status, 1)

    def test_a_worker_is_killed(self) -> None:
        """The harness says so and removes what the worker had."""
        pid, status, out = self._interrupt(signal.SIGKILL, worker=True)
        self._nothing_left(pid, out)
        self.assertEqual(status, 5)
        cases = json.loads((out / "results.json").read_text("utf-8"))["test_suites"]
        results = {case["result"] for case in cases["session_headers"].values()}
        self.assertEqual(results, {"ERROR"})

    def test_sigkill(self) -> None:
        """After SIGKILL no process lives on; the next run removes namespaces and pools."""
        pid, status, out = self._interrupt(signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL)
        end = time.monotonic() + 5
        while processes_of(str(out)) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(processes_of(str(out)), [])
        self.assertTrue(namespaces_of(pid))
        subprocess.run((sys.executable, "-B", str(DTS_DIR / "main.py"), "--build-dir", str(BUILD),
                        "--output-dir", str(out / "next"), "--test-suite",
                        "smoke_tests edge_is_known"), check=True, capture_output=True, timeout=60)
        self._nothing_left(pid, out)


if __name__ == "__main__":
    unittest.main()
