# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the harness. Each carries a severity; the highest one becomes the exit code."""
from enum import IntEnum


class ErrorSeverity(IntEnum):
    """Exit codes, from harmless to fatal. The numbers are those of the DPDK Test Suite."""

    NO_ERR = 0
    GENERIC_ERR = 1
    CONFIG_ERR = 2
    COMMAND_ERR = 3
    INTERNAL_ERR = 5
    APPLIANCE_ERR = 10
    TESTCASE_VERIFY_ERR = 20
    BLOCKING_TESTSUITE_ERR = 25


class DTSError(Exception):
    """Base of all; also what is raised when nothing better fits."""

    severity: ErrorSeverity = ErrorSeverity.GENERIC_ERR


class ConfigurationError(DTSError):
    """A configuration file or an argument is wrong."""

    severity = ErrorSeverity.CONFIG_ERR


class CommandError(DTSError):
    """A command of the testbed (ip, ethtool, the worker) failed."""

    severity = ErrorSeverity.COMMAND_ERR


class InternalError(DTSError):
    """The harness was used wrongly by a suite, or is broken."""

    severity = ErrorSeverity.INTERNAL_ERR


class ApplianceError(DTSError):
    """A program of the appliance did not start, died, or does not answer."""

    severity = ErrorSeverity.APPLIANCE_ERR


class TestCaseVerifyError(DTSError):
    """verify() did not hold."""

    severity = ErrorSeverity.TESTCASE_VERIFY_ERR


class BlockingTestSuiteError(DTSError):
    """A blocking suite failed; what follows makes no sense."""

    severity = ErrorSeverity.BLOCKING_TESTSUITE_ERR

    def __init__(self, suite: str) -> None:
        """Names the suite that blocks."""
        super().__init__(f"blocking suite {suite} failed")
        self.suite = suite


class SkippedTestException(DTSError):
    """The case cannot run here; the reason is the message."""

    severity = ErrorSeverity.NO_ERR
