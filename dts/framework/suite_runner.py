# SPDX-License-Identifier: Apache-2.0
"""One suite after another on one testbed, inside a worker process.

    suite set-up -> (case set-up -> case -> case tear-down)* -> suite tear-down

Every tear-down runs whatever happened before. A failed case is run again up to --re-run times,
with the same seed: what fails is either reproducible or the machine's fault."""
import logging
import random
import shutil
import time
import traceback

from framework.config import Configuration, fill
from framework.context import get_ctx
from framework.exception import InternalError, SkippedTestException, TestCaseVerifyError
from framework.logger import file_handler, get_logger
from framework.settings import Settings
from framework.test_result import Result, TestRunResult
from framework.test_suite import SuiteSpec, TestSuite
from framework.testbed_model.capability import Capability, LinkTopology, topology_why_not, why_not
from framework.testbed_model.netns_session import HISTORY


class SuiteRunner:
    """Runs suites in the context that is set, and records what became of their cases."""

    def __init__(self, settings: Settings, config: Configuration, seed: int) -> None:
        """Of the run."""
        self._settings, self._config, self._seed = settings, config, seed
        self._result = TestRunResult()
        self._log = get_logger()

    def run(self, spec: SuiteSpec) -> TestRunResult:
        """The results of this suite alone."""
        self._result = TestRunResult()
        self._run_suite(spec)
        return self._result

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

    @staticmethod
    def _verify_counters_seen(suite: TestSuite, case: str) -> None:
        """What was said about packets was said about counters too."""
        on_the_wire = getattr(suite, "_dts_topology", LinkTopology.ONE_LINK)
        if on_the_wire is not LinkTopology.NO_LINK and not get_ctx().counters_seen \
                and not hasattr(getattr(suite, case), "_dts_no_packets"):
            raise InternalError(f"{case} sends packets and compares no counters")

    def _attempt(self, suite: TestSuite, suite_name: str,
                 case: str) -> tuple[Result, Exception | None]:
        get_ctx().case = case
        self._reseed(suite_name, case)
        result: Result = Result.PASS
        why: Exception | None = None
        try:
            suite.set_up_test_case()
            get_ctx().counters_seen = False
            getattr(suite, case)()
            self._verify_counters_seen(suite, case)
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
