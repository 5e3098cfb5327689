# SPDX-License-Identifier: Apache-2.0
"""Worker processes: each has a testbed of its own and runs the suites it is given.

A worker is a fork of the harness. It lives no longer than the harness: SIGTERM makes it tear down
what it has, and SIGKILL of the harness kills it too, and then what it started. Ctrl-C is the
harness's business, who ends its workers."""
import ctypes
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from framework.config import Configuration
from framework.context import Context, set_ctx
from framework.exception import CommandError, InternalError
from framework.logger import get_logger
from framework.settings import Settings
from framework.suite_runner import SuiteRunner
from framework.test_result import Result, TestRunResult
from framework.test_suite import SuiteSpec
from framework.testbed_model.capability import shared_memory_dir
from framework.testbed_model.netns_session import PREFIX, prefer, remove_run, set_run_name
from framework.testbed_model.node import Testbed
from framework.testbed_model.traffic_generator.scapy import ScapyTrafficGenerator

_PR_SET_PDEATHSIG = 1
# A suite that stands still this long will not end.
END_SECONDS = 60


def _unwind(_number: int, _frame: FrameType | None) -> None:
    """Once: tearing down must not be interrupted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _open_testbed(stack: ExitStack, name: str, settings: Settings,
                  config: Configuration) -> list[dict[str, Any]]:
    """Everything get_ctx() has; the ports for results.json."""
    shm = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-", dir=shared_memory_dir()))
    stack.callback(shutil.rmtree, shm, ignore_errors=True)
    testbed = stack.enter_context(Testbed(config))
    run = config.test_run
    tg_node = testbed.nodes[run.traffic_generator_node]
    netdevs = {link.tg_port: tg_node.ports[link.tg_port].netdev for link in run.links}
    tg = ScapyTrafficGenerator(tg_node, netdevs, settings.output_dir / f"scapy_worker-{name}.err")
    stack.callback(tg.stop)
    set_ctx(Context(settings, config, testbed, tg, shm))
    stack.callback(set_ctx, None)
    return [{"name": port.name, "node": node.name, "netdev": port.netdev, "mac": port.mac,
             "vdev": port.config.vdev, "netns": node.session.netns}
            for node in testbed.nodes.values() for port in node.ports.values()]


def _serve(pipe: Connection, name: str, settings: Settings, config: Configuration,
           seed: int) -> None:
    """The life of a worker: specs come, results go, None is the end."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # The generator's other half and peers in Python live here: a peer that gets no CPU is silent.
    os.setsid()
    prefer(os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _unwind)
    set_run_name(name)
    try:
        with ExitStack() as stack:
            pipe.send(_open_testbed(stack, name, settings, config))
            runner = SuiteRunner(settings, config, seed)
            while (spec := pipe.recv()) is not None:
                pipe.send(runner.run(spec))
    except (KeyboardInterrupt, EOFError):
        pass
    except Exception as error:  # noqa: BLE001 - the harness hears of it, and of the end
        get_logger().debug("%s", traceback.format_exc())
        kind = type(error) if isinstance(error, CommandError) else InternalError
        pipe.send(kind(f"worker {name}: {type(error).__name__}: {error}"))


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    name: str
    spec: SuiteSpec | None = None
    is_ready: bool = False


class Workers:
    """A context manager; leaves nothing behind."""

    def __init__(self, count: int, settings: Settings, config: Configuration, seed: int) -> None:
        """Nothing is started before the with block."""
        self._count, self._args = count, (settings, config, seed)
        self._workers: list[_Worker] = []
        self.ports: list[dict[str, Any]] = []

    def __enter__(self) -> "Workers":
        """All are ready when the block begins."""
        fork = multiprocessing.get_context("fork")
        try:
            for i in range(self._count):
                ours, theirs = fork.Pipe()
                name = f"{os.getpid()}-{i}"
                process = fork.Process(target=_serve, args=(theirs, name, *self._args))
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours, name))
            for worker in self._workers:
                self.ports += self._receive(worker)
                worker.is_ready = True
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """They tear down what they have."""
        self._end()

    @staticmethod
    def _receive(worker: _Worker) -> Any:
        try:
            answer = worker.pipe.recv()
        except EOFError as error:
            raise InternalError(f"worker {worker.process.pid} died") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, specs: list[SuiteSpec], result: TestRunResult) -> None:
        """All of them, each on the next worker that is free; results are added."""
        waiting = list(specs)
        while waiting or any(w.spec for w in self._workers):
            for worker in self._workers:
                if worker.spec is None and waiting:
                    worker.spec = waiting.pop(0)
                    worker.pipe.send(worker.spec)
            busy = {w.pipe: w for w in self._workers if w.spec}
            if not busy:
                raise InternalError("no worker is left")
            for pipe in wait(list(busy)):
                self._take(busy[pipe], result)  # type: ignore[index]

    def _take(self, worker: _Worker, result: TestRunResult) -> None:
        spec = worker.spec
        assert spec is not None
        try:
            result.merge(self._receive(worker))
            worker.spec = None
        except (CommandError, InternalError) as error:
            self._workers.remove(worker)
            self._bury(worker)
            result.add_error(error)
            for case in spec.cases:
                result.add(spec.name, case, Result.ERROR, str(error))

    @staticmethod
    def _bury(worker: _Worker) -> None:
        """It ended, or ends now; what it could not tear down is removed here."""
        worker.process.join(END_SECONDS)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()
        if worker.process.exitcode != 0:
            remove_run(shared_memory_dir(), worker.name)

    def _end(self) -> None:
        for worker in self._workers:
            if worker.spec is None and worker.is_ready:
                try:
                    worker.pipe.send(None)
                except OSError:
                    pass
            else:
                worker.process.terminate()
        for worker in self._workers:
            self._bury(worker)
        self._workers.clear()
