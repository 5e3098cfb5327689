# SPDX-License-Identifier: Apache-2.0
"""Results of cases and of the run, and the files they end up in."""
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from framework.exception import DTSError, ErrorSeverity


class Result(IntEnum):
    """From harmless to worst."""

    SKIP = 0
    PASS = 1
    BLOCK = 2
    FAIL = 3
    ERROR = 4


@dataclass
class CaseResult:
    """What became of a case, and why."""

    result: Result
    reason: str = ""


@dataclass
class TestRunResult:
    """Everything that goes into results.json."""

    sut_session_info: dict[str, str] = field(default_factory=dict)
    dpdk_build_info: dict[str, str] = field(default_factory=dict)
    ports: list[dict[str, Any]] = field(default_factory=list)
    test_suites: dict[str, dict[str, CaseResult]] = field(default_factory=dict)
    errors: list[tuple[str, int]] = field(default_factory=list)  # text, severity

    def add(self, suite: str, case: str, result: Result, reason: str = "") -> None:
        """Record a case; the last word on it counts."""
        self.test_suites.setdefault(suite, {})[case] = CaseResult(result, reason)

    def add_error(self, error: BaseException) -> None:
        """Record what goes into execution_errors and the exit code."""
        severity = error.severity if isinstance(error, DTSError) else ErrorSeverity.GENERIC_ERR
        self.errors.append((f"{type(error).__name__}: {error}", int(severity)))

    def merge(self, other: "TestRunResult") -> None:
        """Add what became of other suites."""
        for suite, cases in other.test_suites.items():
            self.test_suites.setdefault(suite, {}).update(cases)
        self.errors += other.errors

    def sort(self, suites: list[str]) -> None:
        """Suites in this order: they end in any."""
        known = {name: self.test_suites[name] for name in suites if name in self.test_suites}
        self.test_suites = known | self.test_suites

    def count(self) -> Counter[Result]:
        """How many cases ended how."""
        return Counter(c.result for s in self.test_suites.values() for c in s.values())

    def summary(self) -> dict[str, int | float]:
        """Cases by result, and the share of passed ones among those that were not skipped."""
        count = self.count()
        out: dict[str, int | float] = {r.name: count[r] for r in Result}
        ran = sum(count.values()) - count[Result.SKIP]
        out["PASS_RATE"] = round(100 * count[Result.PASS] / ran, 2) if ran else 0.0
        return out

    def exit_code(self) -> int:
        """The highest severity of all errors."""
        return max((severity for _, severity in self.errors), default=int(ErrorSeverity.NO_ERR))

    def to_dict(self) -> dict[str, Any]:
        """The value of results.json."""
        return {
            "sut_session_info": self.sut_session_info,
            "dpdk_build_info": self.dpdk_build_info,
            "ports": self.ports,
            "test_suites": {
                suite: {name: {"result": case.result.name}
                        | ({"reason": case.reason} if case.reason else {})
                        for name, case in cases.items()}
                for suite, cases in self.test_suites.items()},
            "execution_errors": [text for text, _ in self.errors],
            "summary": self.summary(),
        }

    def write(self, output_dir: Path) -> None:
        """results.json for programs, results_summary.txt for people."""
        value = self.to_dict()
        (output_dir / "results.json").write_text(json.dumps(value, indent=2) + "\n", "utf-8")
        lines = [f"{case.result.name:5} {suite}: {name}" + (f": {case.reason}" * bool(case.reason))
                 for suite, cases in self.test_suites.items() for name, case in cases.items()]
        lines += [f"{name} = {number}" for name, number in value["summary"].items()]
        (output_dir / "results_summary.txt").write_text("\n".join(lines) + "\n", "utf-8")
