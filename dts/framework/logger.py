# SPDX-License-Identifier: Apache-2.0
"""Logging: to the terminal, to one file for the run and to one more per suite."""
import logging
import sys
from pathlib import Path

ROOT = "dts"
_FORMAT = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")


def get_logger() -> logging.Logger:
    """The one logger of the run."""
    return logging.getLogger(ROOT)


def set_up_logging(output_dir: Path, verbose: bool) -> None:
    """Called once, before anything logs."""
    logger = get_logger()
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    terminal = logging.StreamHandler(sys.stdout)
    terminal.setLevel(logging.DEBUG if verbose else logging.INFO)
    terminal.setFormatter(_FORMAT)
    logger.addHandler(terminal)
    logger.addHandler(file_handler(output_dir / "dts.log"))


def file_handler(path: Path) -> logging.Handler:
    """Everything, into a file."""
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(_FORMAT)
    return handler
