# SPDX-License-Identifier: Apache-2.0
"""What a case says: verify, fail, skip, log."""
import json
from typing import Any, NoReturn

from framework.context import get_ctx
from framework.exception import SkippedTestException, TestCaseVerifyError
from framework.logger import get_logger


def fail(failure_description: str) -> NoReturn:
    """End the case: it failed."""
    get_logger().debug("fails: %s", failure_description)
    raise TestCaseVerifyError(failure_description)


def verify(condition: bool, failure_description: str) -> None:
    """Fail unless condition; the description says what was wrong."""
    if not condition:
        fail(failure_description)


def skip(reason: str) -> NoReturn:
    """End the case: it cannot run here."""
    raise SkippedTestException(reason)


def verify_else_skip(condition: bool, skip_reason: str) -> None:
    """Skip unless condition."""
    if not condition:
        skip(skip_reason)


def log(message: str) -> None:
    """To the terminal and the log files."""
    get_logger().info("      %s: %s", get_ctx().suite, message)


def log_debug(message: str) -> None:
    """To the log files."""
    get_logger().debug("%s", message)


def write_performance_json(value: dict[str, Any], filename: str = "performance.json") -> None:
    """Figures of a performance case, beside the suite's log."""
    path = get_ctx().suite_dir / filename
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
