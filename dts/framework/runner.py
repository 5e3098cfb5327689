# SPDX-License-Identifier: Apache-2.0
"""The run: configuration, which suites, on how many testbeds, results.

Suites that block come first, one by one; then all others, --jobs of them at a time, each on a
testbed of its own; then one by one those that look at times on the wire."""
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from framework.config import Configuration, fill, load_configuration
from framework.exception import BlockingTestSuiteError, ConfigurationError, ErrorSeverity
from framework.logger import get_logger, set_up_logging
from framework.settings import Settings
from framework.test_result import Result, TestRunResult
from framework.test_suite import SuiteSpec, load_suite, select
from framework.testbed_model.capability import (
    build_info,
    session_info,
    shared_memory_dir,
    testbed_why_not,
)
from framework.testbed_model.netns_session import remove_run, remove_stale
from framework.workers import Workers

PROGRAMS = ("strait-edge", "strait-master", "straitctl", "strait-replay")


def _on_signal(number: int, _frame: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C does, so that everything is torn down. Once: whoever ends a group
    of processes may well send it twice, and tearing down must not be interrupted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt(f"signal {number}")


class Runner:
    """One run."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is touched before run()."""
        self._settings = settings
        self._result = TestRunResult()
        self._log = get_logger()
        self._config: Configuration
        self._seed = 0

    def run(self) -> int:
        """The exit code."""
        out = self._settings.output_dir
        try:
            out.mkdir(parents=True, exist_ok=True)
            set_up_logging(out, self._settings.verbose)
        except OSError as error:
            print(f"dts: no results can be written: {error}", file=sys.stderr)
            return ErrorSeverity.CONFIG_ERR
        signal.signal(signal.SIGTERM, _on_signal)
        signal.signal(signal.SIGINT, _on_signal)
        start = time.monotonic()
        specs: list[SuiteSpec] = []
        try:
            specs = self._prepare()
            if self._settings.list_cases:
                for spec in specs:
                    print(spec.name, *spec.cases)
                return 0
            self._run_suites(specs)
        except KeyboardInterrupt as error:
            self._log.error("interrupted")
            self._result.add_error(error)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs into the results
            self._log.error("%s: %s", type(error).__name__, error)
            self._log.debug("%s", traceback.format_exc())
            self._result.add_error(error)
        finally:
            self._remove_rest()
        self._result.sort([s.name for s in specs])
        self._result.write(out)
        self._close(time.monotonic() - start)
        return self._result.exit_code()

    @staticmethod
    def _remove_rest() -> None:
        """What was being made when a signal came belongs to nobody yet; its name tells."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        remove_run(shared_memory_dir(), str(os.getpid()))

    def _close(self, seconds: float) -> None:
        count = self._result.count()
        failed = sum(count[r] for r in (Result.BLOCK, Result.FAIL, Result.ERROR))
        if failed == 0 and self._result.exit_code() != 0:
            failed = 1
        line = f"{count[Result.PASS]} passed, {failed} failed"
        if count[Result.SKIP]:
            line += f", {count[Result.SKIP]} skipped"
        self._log.info("results: %s", self._settings.output_dir / "results.json")
        self._log.info("%.0f s", seconds)
        # A stage of `make check` adds up counts and prints the line itself.
        counts = os.environ.get("STRAIT_COUNTS")
        if counts:
            Path(counts).write_text(
                f"{count[Result.PASS]} {failed} {count[Result.SKIP]}\n", "utf-8")
        if not os.environ.get("STRAIT_STAGE"):
            print(line, flush=True)

    def _prepare(self) -> list[SuiteSpec]:
        s = self._settings
        self._config = load_configuration(s.nodes_config, s.test_run_config, s.tests_config)
        run = self._config.test_run
        seed = s.seed if s.seed is not None else run.random_seed
        self._seed = seed if seed is not None else random.SystemRandom().randrange(1 << 32)
        self._log.info("seed %d", self._seed)
        for program in PROGRAMS:
            if not (s.build_dir / "bin" / program).is_file():
                raise ConfigurationError(f"{s.build_dir}/bin/{program} is not built")
        specs = select(s.test_suites or run.test_suites, run.func, run.perf or s.perf)
        for name, overrides in self._config.tests.items():
            fill(load_suite(name).Config, overrides, f"tests_config: {name}")
        return specs

    def _run_suites(self, specs: list[SuiteSpec]) -> None:
        missing = testbed_why_not()
        if missing:
            self._log.warning("no testbed: %s", missing)
            self._add_all(specs, Result.SKIP, missing)
            return
        remove_stale(shared_memory_dir())
        self._result.sut_session_info = session_info()
        self._result.dpdk_build_info = build_info(self._settings.build_dir / "bin/strait-edge")
        spread = [s for s in specs if not s.cls.is_blocking and not s.cls.is_alone]
        count = max(1, min(self._settings.jobs, len(spread)))
        with Workers(count, self._settings, self._config, self._seed) as workers:
            self._result.ports = workers.ports
            for spec in (s for s in specs if s.cls.is_blocking):
                workers.run([spec], self._result)
                if any(c.result in (Result.FAIL, Result.ERROR)
                       for c in self._result.test_suites[spec.name].values()):
                    error = BlockingTestSuiteError(spec.name)
                    self._result.add_error(error)
                    self._add_all([s for s in specs if not s.cls.is_blocking], Result.BLOCK,
                                  str(error))
                    return
            workers.run(spread, self._result)
            for spec in (s for s in specs if s.cls.is_alone and not s.cls.is_blocking):
                workers.run([spec], self._result)

    def _add_all(self, specs: list[SuiteSpec], result: Result, reason: str) -> None:
        for spec in specs:
            for case in spec.cases:
                self._result.add(spec.name, case, result, reason)


def main(argv: list[str], settings: Settings) -> int:
    """Run and return the exit code; argv is only logged."""
    sys.dont_write_bytecode = True
    runner = Runner(settings)
    get_logger().debug("arguments: %s", argv)
    return runner.run()
