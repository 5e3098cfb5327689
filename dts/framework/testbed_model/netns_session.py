# SPDX-License-Identifier: Apache-2.0
"""A session on a node: commands and processes in its network namespace, on this machine.

Takes the place of an SSH session. The process of the harness itself never changes its namespace;
everything goes through `ip netns exec`, which execs, so a pid is the pid of what was asked for."""
import ctypes
import functools
import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path

from framework.exception import CommandError
from framework.logger import get_logger

PREFIX = "strait-dts-"
# The last commands of the testbed, for the log of a case that fails.
HISTORY: deque[str] = deque(maxlen=10)
_run_name = ""
_NICE = -10
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def set_run_name(name: str) -> None:
    """What namespaces of this process are called by: the harness's pid, and the worker."""
    global _run_name  # noqa: PLW0603
    _run_name = name


def _die_with(parent: int) -> None:
    """In the child: no orphan, even when the harness is killed with SIGKILL."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before prctl() could be told
        os._exit(1)


def prefer(pid: int) -> None:
    """An appliance, and the equipment that tests it, have their cores; whatever else runs on this
    machine must not be what is measured. A process that leads a session is a scheduling group of
    its own, which has a nice value too."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
        Path(f"/proc/{pid}/autogroup").write_text(str(_NICE), "ascii")
    except OSError as error:
        get_logger().debug("no priority for %d: %s", pid, error)


def run(*argv: str, check: bool = True, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    """A short command, in the namespace of the harness."""
    get_logger().debug("$ %s", " ".join(argv))
    HISTORY.append(" ".join(argv))
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{argv[0]}: {error}") from error
    if check and done.returncode != 0:
        raise CommandError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.strip()}")
    return done


def is_stale(name: str) -> bool:
    """Whether the name is of a harness that is no more: it carries its pid."""
    pid = name.removeprefix(PREFIX).split("-")[0]
    return name.startswith(PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}")


def _remove(shm: Path, is_wanted: Callable[[str], bool]) -> None:
    if not shutil.which("ip"):
        return  # no testbed was ever made here
    for line in run("ip", "netns", "list", check=False).stdout.splitlines():
        name = line.split()[0]
        if is_wanted(name):
            get_logger().info("removing namespace %s of a run that ended", name)
            run("ip", "netns", "del", name, check=False)
    for path in shm.glob(f"{PREFIX}*"):
        if is_wanted(path.name):
            shutil.rmtree(path, ignore_errors=True)


def remove_stale(shm: Path) -> None:
    """Remove namespaces and pools of runs that were killed."""
    _remove(shm, is_stale)


def remove_run(shm: Path, name: str) -> None:
    """Remove those of one worker, by the name that set_run_name() got, or by the harness's pid
    those of all."""
    _remove(shm, lambda one: one.startswith(f"{PREFIX}{name}-"))


class NetnsSession:
    """A namespace, strait-dts-<pid>-<worker>-<name>; what is started in it is ended with it."""

    def __init__(self, name: str) -> None:
        """Create the namespace."""
        self.netns = f"{PREFIX}{_run_name or os.getpid()}-{name}"
        self._processes: list[subprocess.Popen[bytes]] = []
        run("ip", "netns", "add", self.netns)
        try:
            self.command("sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1",
                         "net.ipv6.conf.default.disable_ipv6=1", check=False)
            self.ip("link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def command(self, *argv: str, check: bool = True,
                timeout: float = 20) -> subprocess.CompletedProcess[str]:
        """A short command in the namespace."""
        return run("ip", "netns", "exec", self.netns, *argv, check=check, timeout=timeout)

    def ip(self, *argv: str) -> None:
        """`ip` on the namespace."""
        run("ip", "-n", self.netns, *argv)

    def spawn(self, *argv: str, stdout: Path | int, stderr: Path,
              stdin: int = subprocess.DEVNULL, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        """A process in the namespace that runs until it is ended."""
        get_logger().debug("%s& %s", self.netns, " ".join(argv))
        with open(stderr, "ab") as err:
            out = stdout if isinstance(stdout, int) else open(stdout, "wb")  # noqa: SIM115
            try:
                process = subprocess.Popen(
                    ("ip", "netns", "exec", self.netns, *argv), stdin=stdin, stdout=out,
                    stderr=err, cwd=cwd, start_new_session=True,
                    # No threads here.
                    preexec_fn=functools.partial(_die_with, os.getpid()))  # noqa: PLW1509
            finally:
                if not isinstance(out, int):
                    out.close()
        self._processes.append(process)
        prefer(process.pid)
        return process

    def end(self, process: subprocess.Popen[bytes], timeout: float = 15) -> int:
        """SIGTERM, then SIGKILL, by pid; reaped. Its status."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
        status = process.wait()
        if process in self._processes:
            self._processes.remove(process)
        return status

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL, by pid; reaped."""
        process.kill()
        process.wait()
        if process in self._processes:
            self._processes.remove(process)

    def close(self) -> None:
        """Kill what still runs and delete the namespace, with its interfaces."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._processes.clear()
        run("ip", "netns", "del", self.netns, check=False)
