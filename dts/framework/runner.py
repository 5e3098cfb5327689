# SPDX-License-Identifier: Apache-2.0
"""The run: configuration, testbed, suites, cases, results.

    run set-up -> (suite set-up -> (case set-up -> case -> case tear-down)* -> suite tear-down)*
    -> run tear-down

Every tear-down runs whatever happened before. A failed case is run again up to --re-run times,
with the same seed: what fails is either reproducible or the machine's fault."""
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from framework.config import Configuration, fill, load_configuration
from framework.context import Context, get_ctx, set_ctx
from framework.exception import (
    BlockingTestSuiteError,
    ConfigurationError,
    SkippedTestException,
    TestCaseVerifyError,
)
from framework.logger import file_handler, get_logger, set_up_logging
from framework.settings import Settings
from framework.test_result import Result, TestRunResult
from framework.test_suite import SuiteSpec, TestSuite, select
from framework.testbed_model.capability import (
    Capability,
    LinkTopology,
    session_info,
    shared_memory_dir,
    testbed_why_not,
    topology_why_not,
    why_not,
)
from framework.testbed_model.netns_session import HISTORY, PREFIX, remove_stale
from framework.testbed_model.node import Testbed
from framework.testbed_model.traffic_generator.scapy import ScapyTrafficGenerator

PROGRAMS = ("strait-edge", "strait-master", "straitctl", "strait-replay")


def _on_signal(number: int, _frame: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C does, so that everything is torn down."""
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
        out.mkdir(parents=True, exist_ok=True)
        set_up_logging(out, self._settings.verbose)
        signal.signal(signal.SIGTERM, _on_signal)
        start = time.monotonic()
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
        self._result.write(out)
        self._close(time.monotonic() - start)
        return self._result.exit_code()

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
        for spec in specs:
            overrides = self._config.tests.get(spec.name, {})
            fill(spec.cls.Config, overrides, f"tests_config: {spec.name}")
        return specs

    def _run_suites(self, specs: list[SuiteSpec]) -> None:
        missing = testbed_why_not()
        if missing:
            self._log.warning("no testbed: %s", missing)
            for spec in specs:
                for case in spec.cases:
                    self._result.add(spec.name, case, Result.SKIP, missing)
            return
        remove_stale(shared_memory_dir())
        self._result.sut_session_info = session_info()
        with ExitStack() as stack:
            shm = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=shared_memory_dir()))
            stack.callback(shutil.rmtree, shm, ignore_errors=True)
            testbed = stack.enter_context(Testbed(self._config))
            run = self._config.test_run
            tg_node = testbed.nodes[run.traffic_generator_node]
            netdevs = {link.tg_port: tg_node.ports[link.tg_port].netdev for link in run.links}
            tg = ScapyTrafficGenerator(
                tg_node, netdevs, self._settings.output_dir / "scapy_worker.err")
            stack.callback(tg.stop)
            set_ctx(Context(self._settings, self._config, testbed, tg, shm))
            stack.callback(set_ctx, None)
            self._result.ports = [
                {"name": port.name, "node": node.name, "netdev": port.netdev, "mac": port.mac,
                 "vdev": port.config.vdev, "netns": node.session.netns}
                for node in testbed.nodes.values() for port in node.ports.values()]
            blocked_by = ""
            for spec in specs:
                if blocked_by:
                    for case in spec.cases:
                        self._result.add(spec.name, case, Result.BLOCK, blocked_by)
                elif not self._run_suite(spec) and spec.cls.is_blocking:
                    error = BlockingTestSuiteError(spec.name)
                    self._result.add_error(error)
                    blocked_by = str(error)

    def _why_not(self, thing: object) -> str:
        reasons = [why_not(c) for c in getattr(thing, "_dts_needs", frozenset[Capability]())]
        topology = getattr(thing, "_dts_topology", LinkTopology.ONE_LINK)
        reasons.append(topology_why_not(topology, self._config.test_run))
        return "; ".join(filter(None, reasons))

    def _run_suite(self, spec: SuiteSpec) -> bool:
        """false: something in it failed."""
        ctx = get_ctx()
        ctx.suite, ctx.case = spec.name, ""
        shutil.rmtree(ctx.suite_dir, ignore_errors=True)
        ctx.suite_dir.mkdir(parents=True)
        handler = file_handler(ctx.suite_dir / "suite.log")
        self._log.addHandler(handler)
        try:
            return self._run_suite_logged(spec)
        finally:
            self._log.removeHandler(handler)
            handler.close()
            ctx.suite = ctx.case = ""

    def _run_suite_logged(self, spec: SuiteSpec) -> bool:
        missing = self._why_not(spec.cls)
        if missing or not spec.cases:
            for case in spec.cases:
                self._result.add(spec.name, case, Result.SKIP, missing)
            self._log.info("SKIP  %s: %s", spec.name, missing or "no cases chosen")
            return True
        overrides = self._config.tests.get(spec.name, {})
        suite = spec.cls(fill(spec.cls.Config, overrides, spec.name))
        passed = True
        try:
            self._reseed(spec.name)
            try:
                suite.set_up_suite()
            except Exception as error:  # noqa: BLE001
                self._record_error("set_up_suite", error)
                for case in spec.cases:
                    self._result.add(spec.name, case, Result.ERROR, f"set_up_suite: {error}")
                return False
            for case in spec.cases:
                passed &= self._run_case(suite, spec.name, case)
        finally:
            try:
                suite.tear_down_suite()
            except Exception as error:  # noqa: BLE001
                self._record_error("tear_down_suite", error)
                self._result.add(spec.name, "tear_down_suite", Result.ERROR, str(error))
                passed = False
        return passed

    def _record_error(self, where: str, error: Exception) -> None:
        self._log.error("%s: %s: %s", where, type(error).__name__, error)
        self._log.log(logging.DEBUG, "%s", traceback.format_exc())
        self._result.add_error(error)

    def _reseed(self, *names: str) -> None:
        """A case's numbers depend on the seed and its name, not on what else was chosen."""
        random.seed("/".join((str(self._seed), *names)))

    def _run_case(self, suite: TestSuite, suite_name: str, case: str) -> bool:
        missing = self._why_not(getattr(suite, case))
        if missing:
            self._result.add(suite_name, case, Result.SKIP, missing)
            self._log.info("SKIP  %s: %s: %s", suite_name, case, missing)
            return True
        for attempt in range(self._settings.re_run + 1):
            start = time.monotonic()
            result, error = self._attempt(suite, suite_name, case)
            reason = str(error) if error is not None else ""
            self._log.info("%-5s %s: %s (%.1f s)%s", result.name, suite_name, case,
                           time.monotonic() - start, f": {reason}" if reason else "")
            if result in (Result.PASS, Result.SKIP):
                break
            if attempt < self._settings.re_run:
                self._log.info("running %s again", case)
        self._result.add(suite_name, case, result, reason)
        if error is not None and result is not Result.SKIP:
            self._result.add_error(error)
        return result in (Result.PASS, Result.SKIP)

    def _attempt(self, suite: TestSuite, suite_name: str,
                 case: str) -> tuple[Result, Exception | None]:
        get_ctx().case = case
        self._reseed(suite_name, case)
        result: Result = Result.PASS
        why: Exception | None = None
        try:
            suite.set_up_test_case()
            getattr(suite, case)()
        except SkippedTestException as error:
            result, why = Result.SKIP, error
        except TestCaseVerifyError as error:
            result, why = Result.FAIL, error
        except Exception as error:  # noqa: BLE001
            result, why = Result.ERROR, error
        if result in (Result.FAIL, Result.ERROR):
            self._log.debug("%s", traceback.format_exc())
            assert why is not None
            self._log.debug("last commands:\n  %s", "\n  ".join(HISTORY))
            self._log.debug("%s", "".join(traceback.format_exception(why)))
        try:
            suite.tear_down_test_case()
        except Exception as error:  # noqa: BLE001
            self._log.error("tear_down_test_case: %s", error)
            if result not in (Result.FAIL, Result.ERROR):
                result, why = Result.ERROR, error
        return result, why


def main(argv: list[str], settings: Settings) -> int:
    """Run and return the exit code; argv is only logged."""
    sys.dont_write_bytecode = True
    runner = Runner(settings)
    get_logger().debug("arguments: %s", argv)
    return runner.run()
