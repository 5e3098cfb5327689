# SPDX-License-Identifier: Apache-2.0
"""Command line. Every option has a twin in the environment, DTS_<OPTION>; the command line wins
over the environment, the environment over the configuration files."""
import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path

DTS_DIR = Path(__file__).resolve().parent.parent
ROOT_DIR = DTS_DIR.parent


@dataclass
class Settings:
    """What the run was told, besides the configuration files."""

    nodes_config: Path
    test_run_config: Path
    tests_config: Path
    output_dir: Path
    build_dir: Path
    test_suites: list[str] = field(default_factory=list)
    re_run: int = 0
    seed: int | None = None
    jobs: int = 1
    perf: bool = False
    verbose: bool = False
    list_cases: bool = False


def parse_settings(argv: list[str]) -> Settings:
    """Settings from arguments and environment; exits with status 2 when they are wrong."""
    examples = DTS_DIR / "configurations"
    parser = argparse.ArgumentParser(prog="dts/main.py", description="packet-level tests of Strait")

    def add(name: str, default: str, text: str) -> None:
        env = "DTS_" + name.upper().replace("-", "_")
        parser.add_argument(
            f"--{name}", metavar="PATH", type=Path, default=os.environ.get(env, default),
            help=f"{text} [{env}]")

    def flag(name: str, text: str) -> None:
        env = "DTS_" + name.upper().replace("-", "_")
        parser.add_argument(
            f"--{name}", action="store_true",
            default=os.environ.get(env, "") not in ("", "0"), help=f"{text} [{env}]")

    add("nodes-config-file", str(examples / "nodes.example.yaml"), "nodes and their ports")
    add("test-run-config-file", str(examples / "test_run.example.yaml"), "what to run")
    add("tests-config-file", str(examples / "tests_config.example.yaml"), "per-suite settings")
    add("output-dir", str(ROOT_DIR / "build/dts"), "logs and results.json")
    add("build-dir", str(ROOT_DIR / "build"), "where bin/ with the programs is")
    env_suites = [s for s in os.environ.get("DTS_TEST_SUITES", "").split(",") if s.strip()]
    parser.add_argument(
        "--test-suite", action="append", metavar="'SUITE [CASE..]'",
        help="run only this; may be given again [DTS_TEST_SUITES, separated by commas]")
    parser.add_argument(
        "--re-run", type=int, metavar="N", default=os.environ.get("DTS_RE_RUN", "0"),
        help="run a failed case up to N times more [DTS_RE_RUN]")
    parser.add_argument(
        "--seed", type=int, default=os.environ.get("DTS_SEED") or None,
        help="of everything random; printed at the start [DTS_SEED]")
    parser.add_argument(
        "--jobs", type=int, metavar="N", default=os.environ.get("DTS_JOBS", "4"),
        help="so many suites at a time, each on a testbed of its own; 4 unless told [DTS_JOBS]")
    flag("perf", "run performance cases too")
    flag("verbose", "debug messages on the terminal")
    parser.add_argument("--list", action="store_true", help="list suites and cases, run none")
    args = parser.parse_args(argv)
    if args.re_run < 0:
        parser.error("--re-run must not be negative")
    if args.jobs < 1:
        parser.error("--jobs must be 1 at least")
    return Settings(
        nodes_config=args.nodes_config_file, test_run_config=args.test_run_config_file,
        tests_config=args.tests_config_file, output_dir=args.output_dir.resolve(),
        build_dir=args.build_dir.resolve(), test_suites=args.test_suite or env_suites,
        re_run=args.re_run, seed=args.seed, jobs=args.jobs, perf=args.perf,
        verbose=args.verbose, list_cases=args.list)
