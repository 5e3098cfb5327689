# SPDX-License-Identifier: Apache-2.0
"""Base class of suites, decorators of cases, and how suites are found.

A suite is one class `Test<Pascal>` in tests/TestSuite_<snake>.py. A case is a method under
@func_test or @perf_test; its docstring says `Steps:` and `Verify:`, which
tools/check_docstrings.py holds it to."""
import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from framework.exception import ConfigurationError, InternalError

Method = TypeVar("Method", bound=Callable[..., None])


class TestCaseType(Enum):
    """Functional cases always run, performance cases when asked for."""

    FUNCTIONAL = "func"
    PERFORMANCE = "perf"


def _mark(method: Method, kind: TestCaseType) -> Method:
    setattr(method, "_dts_type", kind)  # noqa: B010
    return method


def func_test(method: Method) -> Method:
    """A functional case."""
    return _mark(method, TestCaseType.FUNCTIONAL)


def perf_test(method: Method) -> Method:
    """A performance case."""
    return _mark(method, TestCaseType.PERFORMANCE)


def no_packets(method: Method) -> Method:
    """A case in which nobody sends an edge a packet, so that no counter has anything to say. All
    others must compare counters, or are an error."""
    setattr(method, "_dts_no_packets", True)  # noqa: B010
    return method


@dataclass
class BaseConfig:
    """What tests_config.yaml may set for a suite; suites derive a `Config` from it."""


class TestSuite:
    """Hooks do nothing unless a suite says what."""

    is_blocking: ClassVar[bool] = False  # when it fails nothing else runs
    is_alone: ClassVar[bool] = False  # looks at times: nothing else runs meanwhile
    Config: ClassVar[type[BaseConfig]] = BaseConfig
    config: Any

    def __init__(self, config: BaseConfig) -> None:
        """The runner makes suites; they do their work in the hooks."""
        self.config = config

    def set_up_suite(self) -> None:
        """Before the first case; an error here is an error of every case."""

    def tear_down_suite(self) -> None:
        """After the last case, also when set_up_suite failed half-way."""

    def set_up_test_case(self) -> None:
        """Before each case."""

    def tear_down_test_case(self) -> None:
        """After each case, whatever became of it."""


@dataclass
class SuiteSpec:
    """A suite that was found, and those of its cases that were chosen."""

    name: str
    cases: list[str]

    @property
    def cls(self) -> type[TestSuite]:
        """Its class; not kept, as specs go to other processes."""
        return load_suite(self.name)


def cases_of(cls: type[TestSuite]) -> dict[str, TestCaseType]:
    """Cases in the order of the file."""
    return {name: getattr(method, "_dts_type") for name, method in vars(cls).items()  # noqa: B009
            if inspect.isfunction(method) and hasattr(method, "_dts_type")}


def load_suite(name: str) -> type[TestSuite]:
    """The class of tests/TestSuite_<name>.py."""
    if not (Path(__file__).parent.parent / "tests" / f"TestSuite_{name}.py").is_file():
        raise ConfigurationError(f"there is no suite '{name}'")
    try:
        module = importlib.import_module(f"tests.TestSuite_{name}")
    except ImportError as error:
        raise ConfigurationError(f"suite {name}: {error}; `make dts` installs what is missing, "
                                 "for /usr/bin/python3") from error
    wanted = "Test" + "".join(part.capitalize() for part in name.split("_"))
    found = [c for _, c in inspect.getmembers(module, inspect.isclass)
             if issubclass(c, TestSuite) and c.__module__ == module.__name__]
    if [c.__name__ for c in found] != [wanted]:
        raise InternalError(f"TestSuite_{name}.py must have one suite, {wanted}")
    return found[0]


def select(entries: Iterable[str], func: bool, perf: bool) -> list[SuiteSpec]:
    """Suites and cases from entries `suite case case`; without cases all of the wanted types."""
    kinds = {TestCaseType.FUNCTIONAL: func, TestCaseType.PERFORMANCE: perf}
    out = []
    for entry in entries:
        name, *wanted = entry.split()
        cls = load_suite(name)
        cases = cases_of(cls)
        for case in wanted:
            if case not in cases:
                raise ConfigurationError(f"suite {name} has no case '{case}'")
        out.append(SuiteSpec(name, wanted or [c for c, kind in cases.items() if kinds[kind]]))
    return out
