# SPDX-License-Identifier: Apache-2.0
"""The harness itself: configuration, results, rules, timing, conventions. No root, no packets.

    cd dts; python3 -m unittest tests_unit.test_harness"""
import contextlib
import importlib.util
import io
import json
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from api import strait
from api.capabilities import Capability, LinkTopology, requires, requires_link_topology
from api.strait import is_error, merge, moved
from api.test import skip, verify
from api.timing import bucket_levels, longest_gap, most_in_window, rate_bps
from api.transfer import parse_rate
from framework.config import fill, load_configuration, parse_link
from framework.context import Context, set_ctx
from framework.exception import (
    ApplianceError,
    BlockingTestSuiteError,
    ConfigurationError,
    SkippedTestException,
    TestCaseVerifyError,
)
from framework.runner import Runner
from framework.settings import DTS_DIR, ROOT_DIR, parse_settings
from framework.suite_runner import SuiteRunner
from framework.test_result import Result, TestRunResult
from framework.test_suite import (
    BaseConfig,
    SuiteSpec,
    TestSuite,
    cases_of,
    func_test,
    no_packets,
    perf_test,
    select,
)
from framework.testbed_model.capability import topology_why_not
from framework.testbed_model.netns_session import PREFIX, is_stale
from framework.testbed_model.traffic_generator.scapy import CapturedPacket
from framework.testbed_model.traffic_generator.segment_worker import Rule, flip, is_strait

EXAMPLES = DTS_DIR / "configurations"


def load(nodes: str = "", test_run: str = "", tests: str = "") -> Any:
    """The example configuration, with texts replaced: "from -> to"."""
    with tempfile.TemporaryDirectory() as name:
        paths = []
        for file, change in (("nodes", nodes), ("test_run", test_run), ("tests_config", tests)):
            text = (EXAMPLES / f"{file}.example.yaml").read_text("utf-8")
            if change:
                old, new = change.split(" -> ")
                assert old in text, old
                text = text.replace(old, new.replace("\\n", "\n"), 1)
            paths.append(Path(name) / file)
            paths[-1].write_text(text, "utf-8")
        return load_configuration(*paths)


@contextlib.contextmanager
def context(re_run: int = 0) -> Iterator[Context]:
    """A run without a testbed."""
    with tempfile.TemporaryDirectory() as name:
        settings = parse_settings(["--output-dir", name, "--re-run", str(re_run)])
        ctx = Context(settings, load(), mock.Mock(), mock.Mock(), Path(name))
        set_ctx(ctx)
        try:
            yield ctx
        finally:
            set_ctx(None)


def conventions() -> Any:
    """tools/check_docstrings.py as a module."""
    spec = importlib.util.spec_from_file_location(
        "check_docstrings", DTS_DIR / "tools/check_docstrings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestConfig(unittest.TestCase):
    """Files of configurations/."""

    def test_examples_load(self) -> None:
        """They are the defaults."""
        config = load()
        self.assertEqual([link.node for link in config.test_run.links],
                         ["sut", "peer", "third"])

    def test_grammar_of_port_topology(self) -> None:
        """As in the DPDK Test Suite."""
        link = parse_link("sut.port-0 <-> tg.port-0")
        self.assertEqual((link.node, link.port, link.tg_node, link.tg_port),
                         ("sut", "port-0", "tg", "port-0"))
        for wrong in ("sut.port-0", "sut <-> tg", "sut.a <> tg.b", "a.b <-> c.d <-> e.f", ""):
            with self.assertRaises(ConfigurationError, msg=wrong):
                parse_link(wrong)

    def test_mistakes_are_named(self) -> None:
        """An unknown key, a wrong type, a port that is not there, a port wired twice, and so on."""
        wrong: tuple[dict[str, str], ...] = (
            {"nodes": "netns: sut -> netsn: sut"},
            {"nodes": "session: local -> session: ssh"},
            {"nodes": "10.66.0.1/24 -> 10.66.0.300/24"},
            {"nodes": "netdev: data0 -> netdev: Data 0"},
            {"nodes": "netns: peer -> netns: sut"},
            {"test_run": "mtu: 1500 -> mtu: many"},
            {"test_run": "mtu: 1500 -> mtu: 1500\\ncolor: red"},
            {"test_run": "sut.port-0 <-> tg.port-0 -> sut.port-9 <-> tg.port-0"},
            {"test_run": "tg.port-1 -> tg.port-0"},
            {"test_run": "more_nodes: [third] -> more_nodes: []"},
            {"test_run": "type: SCAPY -> type: TREX"},
            {"test_run": "mtu: 1500 -> mtu: 579"},
            {"test_run": "mtu: 1500 -> mtu: 9001"},
            {"test_run": "peer_node: peer -> peer_node: pear"},
            {"test_run": "more_nodes: [third] -> more_nodes: third"},
            {"test_run": "more_nodes: [third] -> more_nodes: [3]"},
            {"tests": "malformed_headers: -> - malformed_headers:"})
        for change in wrong:
            with self.assertRaises(ConfigurationError, msg=str(change)):
                load(**change)

    def test_types_are_checked(self) -> None:
        """true is no number, and a number no text."""
        @contextlib.contextmanager
        def refused() -> Any:
            with self.assertRaises(ConfigurationError):
                yield
        from framework.config import PortConfig, TestRunConfig  # noqa: PLC0415
        with refused():
            fill(PortConfig, {"name": 1, "netdev": "x"}, "x")
        with refused():
            fill(TestRunConfig, {"mtu": True}, "x")
        with refused():
            fill(PortConfig, [], "x")
        lists: tuple[Any, ...] = ("arp", 5, [5], {})
        for wrong in lists:
            with refused():
                fill(TestRunConfig, {"test_suites": wrong}, "x")


class TestSettings(unittest.TestCase):
    """Command line and environment."""

    def test_command_line_wins_over_environment(self) -> None:
        """And the environment over the default."""
        with mock.patch.dict(os.environ, {"DTS_SEED": "7", "DTS_RE_RUN": "2",
                                          "DTS_TEST_SUITES": "a b, c"}):
            settings = parse_settings([])
            self.assertEqual((settings.seed, settings.re_run), (7, 2))
            self.assertEqual([s.strip() for s in settings.test_suites], ["a b", "c"])
            settings = parse_settings(["--seed", "8", "--test-suite", "d"])
            self.assertEqual((settings.seed, settings.test_suites), (8, ["d"]))

    def test_wrong_arguments_are_status_2(self) -> None:
        """As configuration errors are."""
        for argv in (["--re-run", "-1"], ["--seed", "x"], ["--what"]):
            with contextlib.redirect_stderr(io.StringIO()), \
                    self.assertRaises(SystemExit) as caught:
                parse_settings(argv)
            self.assertEqual(caught.exception.code, 2)
        for name in ("SEED", "RE_RUN", "JOBS"):
            with mock.patch.dict(os.environ, {"DTS_" + name: "x"}), \
                    contextlib.redirect_stderr(io.StringIO()), \
                    self.assertRaises(SystemExit) as caught:
                parse_settings([])
            self.assertEqual(caught.exception.code, 2)

    def test_a_run_that_cannot_begin_is_status_2(self) -> None:
        """No place for results; settings of a suite that is not there, or not run this time."""
        status = Runner(parse_settings(["--output-dir", "/proc/x"])).run
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(status(), 2)
        self.assertIn("/proc/x", err.getvalue())
        for text in ("nosuch: {}", "malformed_headers: {random_packets: many}"):
            with tempfile.TemporaryDirectory() as name:
                tests = Path(name) / "tests.yaml"
                tests.write_text(text, "utf-8")
                done = subprocess.run(
                    (sys.executable, "-B", str(DTS_DIR / "main.py"), "--output-dir", name + "/out",
                     "--tests-config-file", str(tests), "--test-suite", "wire_vectors", "--list"),
                    capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stdout)


class TestResults(unittest.TestCase):
    """results.json and the exit code."""

    def test_schema(self) -> None:
        """Keys of the DPDK Test Suite's file, every case with its result."""
        result = TestRunResult()
        result.add("smoke", "first", Result.PASS)
        result.add("smoke", "second", Result.FAIL, "because")
        result.add("smoke", "third", Result.SKIP, "no hardware")
        result.add_error(TestCaseVerifyError("because"))
        with tempfile.TemporaryDirectory() as name:
            result.write(Path(name))
            value = json.loads((Path(name) / "results.json").read_text("utf-8"))
            summary = (Path(name) / "results_summary.txt").read_text("utf-8")
        self.assertEqual(list(value), ["sut_session_info", "dpdk_build_info", "ports",
                                       "test_suites", "execution_errors", "summary"])
        self.assertEqual(value["test_suites"]["smoke"]["second"],
                         {"result": "FAIL", "reason": "because"})
        self.assertEqual(value["test_suites"]["smoke"]["first"], {"result": "PASS"})
        self.assertEqual(value["summary"], {"SKIP": 1, "PASS": 1, "BLOCK": 0, "FAIL": 1,
                                            "ERROR": 0, "PASS_RATE": 50.0})
        self.assertIn("FAIL  smoke: second: because", summary)

    def test_exit_code_is_the_highest_severity(self) -> None:
        """0 nothing, 10 appliance, 20 verify, 25 blocking; anything else 1."""
        result = TestRunResult()
        self.assertEqual(result.exit_code(), 0)
        for error, code in ((SkippedTestException("x"), 0), (ValueError("x"), 1),
                            (ApplianceError("x"), 10), (TestCaseVerifyError("x"), 20),
                            (ConfigurationError("x"), 20), (BlockingTestSuiteError("x"), 25)):
            result.add_error(error)
            self.assertEqual(result.exit_code(), code)


    def test_results_of_workers_add_up(self) -> None:
        """In the order of the suites, with the errors of all."""
        whole, first, second = TestRunResult(), TestRunResult(), TestRunResult()
        first.add("b", "one", Result.PASS)
        second.add("a", "two", Result.FAIL, "because")
        second.add_error(TestCaseVerifyError("because"))
        for part in (first, pickle.loads(pickle.dumps(second))):
            whole.merge(part)
        whole.sort(["a", "b"])
        self.assertEqual(list(whole.test_suites), ["a", "b"])
        self.assertEqual(whole.exit_code(), 20)
        self.assertEqual(whole.to_dict()["execution_errors"], ["TestCaseVerifyError: because"])


class Sample(TestSuite):
    """Cases: one, two."""

    Config: ClassVar[type[BaseConfig]] = BaseConfig

    @func_test
    def one(self) -> None:
        """Functional."""

    @perf_test
    def two(self) -> None:
        """Performance."""

    def three(self) -> None:
        """No case."""


class Attempts(TestSuite):
    """Cases: silent, speaks, offline, flaky, fails, skips."""

    numbers: ClassVar[list[float]] = []

    @func_test
    def silent(self) -> None:
        """Looks at no counter."""

    @func_test
    def speaks(self) -> None:
        """Looks at counters."""
        moved({}, {})

    @no_packets
    @func_test
    def offline(self) -> None:
        """Has none to look at."""

    @func_test
    def flaky(self) -> None:
        """Passes the third time."""
        self.numbers.append(random.random())
        verify(len(self.numbers) == 3, "not yet")
        moved({}, {})

    @func_test
    def fails(self) -> None:
        """Always."""
        self.numbers.append(random.random())
        verify(False, "never")

    @func_test
    def skips(self) -> None:
        """Says why."""
        skip("no hardware")


class TestSuiteRunner(unittest.TestCase):
    """What becomes of a case."""

    def _run(self, *cases: str, re_run: int = 0) -> tuple[dict[str, tuple[str, str]], int]:
        Attempts.numbers.clear()
        with context(re_run) as ctx:
            runner = SuiteRunner(ctx.settings, ctx.config, 1)
            with mock.patch("framework.test_suite.load_suite", lambda name: Attempts):
                result = runner.run(SuiteSpec("attempts", list(cases)))
        return ({case: (got.result.name, got.reason)
                 for case, got in result.test_suites["attempts"].items()}, result.exit_code())

    def test_whoever_sends_packets_compares_counters(self) -> None:
        """Or says that there are none; otherwise it is an error of the harness."""
        got, code = self._run("speaks", "offline", "silent")
        self.assertEqual([got[case][0] for case in ("speaks", "offline", "silent")],
                         ["PASS", "PASS", "ERROR"])
        self.assertIn("compares no counters", got["silent"][1])
        self.assertEqual(code, 5)

    def test_re_run_is_with_the_same_numbers(self) -> None:
        """Up to N times, and the last result counts."""
        for re_run, result, code in ((0, "FAIL", 20), (1, "FAIL", 20), (2, "PASS", 0),
                                     (9, "PASS", 0)):
            got, exit_code = self._run("flaky", re_run=re_run)
            self.assertEqual((got["flaky"][0], exit_code), (result, code), re_run)
            self.assertEqual(len(Attempts.numbers), min(re_run, 2) + 1)
            self.assertEqual(len(set(Attempts.numbers)), 1)
        got, code = self._run("fails", re_run=3)
        self.assertEqual((got["fails"], len(Attempts.numbers)), (("FAIL", "never"), 4))

    def test_a_skip_has_its_reason_and_is_no_failure(self) -> None:
        """Nor is it run again."""
        got, code = self._run("skips", re_run=3)
        self.assertEqual((got["skips"], code), (("SKIP", "no hardware"), 0))


class TestSelection(unittest.TestCase):
    """Which cases run."""

    def test_cases_are_decorated_methods(self) -> None:
        """In the order of the file."""
        self.assertEqual(list(cases_of(Sample)), ["one", "two"])

    def test_every_configured_suite_loads(self) -> None:
        """And each has cases; unknown ones are errors."""
        for spec in select(load().test_run.test_suites, True, True):
            self.assertTrue(spec.cases, spec.name)
        for entry in ("no_such_suite", "smoke_tests no_such_case"):
            with self.assertRaises(ConfigurationError):
                select([entry], True, True)

    def test_what_is_not_installed_is_named(self) -> None:
        """Not a traceback."""
        with mock.patch("importlib.import_module", side_effect=ImportError("No module 'scapy'")), \
                self.assertRaisesRegex(ConfigurationError, "arp: No module 'scapy'"):
            select(["arp"], True, True)

    def test_every_suite_is_configured(self) -> None:
        """None is written and forgotten."""
        named = {entry.split()[0] for entry in load().test_run.test_suites}
        there = {p.stem.removeprefix("TestSuite_") for p in DTS_DIR.glob("tests/TestSuite_*.py")}
        self.assertEqual(there - named, set())

    def test_requirements_add_up(self) -> None:
        """On one thing, from several decorators."""
        @requires_link_topology(LinkTopology.TWO_LINKS)
        @requires(Capability.ROOT)
        @requires(Capability.TSHARK)
        def thing() -> None: ...
        self.assertEqual(getattr(thing, "_dts_needs"),  # noqa: B009
                         {Capability.ROOT, Capability.TSHARK})
        run = load().test_run
        self.assertEqual(topology_why_not(LinkTopology.THREE_LINKS, run), "")
        run.links.pop()
        self.assertIn("needs 3 links", topology_why_not(LinkTopology.THREE_LINKS, run))


class TestApi(unittest.TestCase):
    """Helpers of suites."""

    def test_merge_goes_into_mappings(self) -> None:
        """And replaces everything else."""
        base = {"a": {"b": 1, "c": 2}, "d": [1]}
        self.assertEqual(merge(base, {"a": {"b": 3}, "d": [2], "e": 4}),
                         {"a": {"b": 3, "c": 2}, "d": [2], "e": 4})
        self.assertEqual(base, {"a": {"b": 1, "c": 2}, "d": [1]})

    def test_only_error_counters_count_as_moved(self) -> None:
        """Packets that were received are no errors."""
        before = {"rx_auth": 1, "port_drop_checksum": 0, "rx_packets": 5, "device_rx_missed": 0}
        after = {"rx_auth": 3, "port_drop_checksum": 0, "rx_packets": 9, "device_rx_missed": 1}
        with context() as ctx:
            self.assertEqual(moved(before, after), {"rx_auth": 2, "device_rx_missed": 1})
            self.assertTrue(ctx.counters_seen)
        self.assertFalse(is_error("rx_duplicate"))

    def test_every_drop_counter_of_the_edge_is_known(self) -> None:
        """The tables of the C side have no drop that no case would notice."""
        tables = {"include/strait/counters.h": "", "dataplane/edge/worker.h": "port_"}
        for path, prefix in tables.items():
            text = (ROOT_DIR / path).read_text("utf-8")
            drops = {prefix + name for name in re.findall(r"X\((\w+), DROP,", text)}
            self.assertGreater(len(drops), 9, path)
            self.assertEqual({name for name in drops if not is_error(name)}, set(), path)
        text = (ROOT_DIR / "include/strait/counters.h").read_text("utf-8")
        names = set(re.findall(r"X\((\w+), \w+,", text))
        self.assertEqual((strait.SESSION_DROPS | strait.OTHER_ERRORS) - names, set())

    def test_rates(self) -> None:
        """As in edge.yaml."""
        self.assertEqual(parse_rate("50Mbit"), 50e6)
        self.assertEqual(parse_rate("1Gbit"), 1e9)
        with self.assertRaises(ValueError):
            parse_rate("fast")


def packets(*times: float, size: int = 1226) -> list[CapturedPacket]:
    """1226 + 24 bytes are 10,000 bits."""
    return [CapturedPacket("port-0", t, b"", size) for t in times]


class TestTiming(unittest.TestCase):
    """Buckets and windows: a checker that cannot fail checks nothing."""

    def test_even_packets_fill_no_bucket(self) -> None:
        """One every millisecond at 10 Mbit/s."""
        even = packets(*(i / 1000 for i in range(50)))
        self.assertLess(max(bucket_levels(even, 10e6)), 1251)
        self.assertAlmostEqual(rate_bps(even), 10e6, delta=1)
        self.assertEqual(most_in_window(even, 0.0105), 11 * 1250)

    def test_a_burst_fills_it(self) -> None:
        """17 at once are 17, wherever they are."""
        burst = packets(*[0.0] * 4, *[1.0] * 17, 1.5)
        self.assertEqual(max(bucket_levels(burst, 10e6)), 17 * 1250)
        self.assertEqual(most_in_window(burst, 0.01), 17 * 1250)
        self.assertEqual(longest_gap(burst), 1.0)

    def test_a_rate_above_the_cap_fills_it_slowly(self) -> None:
        """Each window of 10 ms may look harmless."""
        fast = packets(*(i / 1100 for i in range(1000)))
        self.assertGreater(max(bucket_levels(fast, 10e6)), 80 * 1250)


def rule(**value: Any) -> Rule:
    """A rule as the worker gets it."""
    base = {"action": "drop", "kind": "", "flags": 0, "esi_min": 0, "esi_max": 255,
            "block_min": 0, "block_max": 0xffffffff, "skip": 0, "every": 1, "spared": False,
            "count": 1 << 30, "copies": 1, "ms": 0, "spread_ms": 0, "offset": 0, "direction": ""}
    return Rule(base | value)


def frame(kind: int = 1, flags: int = 0, esi: int = 0, block: int = 0) -> bytes:
    """A datagram of the data path."""
    payload = (bytes((0x10 | kind, 0, flags, esi)) + bytes(16) + block.to_bytes(4, "big")
               + bytes(20))
    udp = (4790).to_bytes(2, "big") * 2 + (len(payload) + 8).to_bytes(2, "big") + b"\xab\xcd"
    ip = bytes((0x45, 0)) + (len(payload) + 28).to_bytes(2, "big") + bytes(5) + b"\x11" + bytes(10)
    return bytes(12) + b"\x08\x00" + ip + udp + payload


class TestRules(unittest.TestCase):
    """What the forwarder does to which packets."""

    def test_what_is_strait(self) -> None:
        """UDP to the data port, header whole."""
        self.assertTrue(is_strait(frame()))
        self.assertFalse(is_strait(frame()[:60]))
        self.assertFalse(is_strait(frame().replace(b"\x11", b"\x06", 1)))

    def test_packets_are_told_apart(self) -> None:
        """By direction, kind, flags, ESI and block."""
        self.assertTrue(rule(kind="DATA").matches("inward", frame(1)))
        self.assertFalse(rule(kind="DATA").matches("inward", frame(3)))
        self.assertFalse(rule(direction="outward").matches("inward", frame()))
        self.assertFalse(rule(flags=2).matches("inward", frame(flags=1)))
        self.assertTrue(rule(flags=2).matches("inward", frame(flags=3)))
        self.assertFalse(rule(esi_max=9).matches("inward", frame(esi=10)))
        self.assertFalse(rule(block_min=2).matches("inward", frame(block=1)))
        self.assertFalse(rule(kind="DATA").matches("inward", b"\0" * 60))
        self.assertTrue(rule().matches("inward", b"\0" * 60))

    def test_whose_turn_it_is(self) -> None:
        """skip, every, spared and count."""
        def taken(n: int, **value: Any) -> list[int]:
            r = rule(**value)
            return [i for i in range(1, n + 1) if r.takes()]
        self.assertEqual(taken(7, every=3), [3, 6])
        self.assertEqual(taken(7, every=3, spared=True), [1, 2, 4, 5, 7])
        self.assertEqual(taken(7, skip=4), [5, 6, 7])
        self.assertEqual(taken(7, every=2, count=2), [2, 4])

    def test_a_flipped_bit_has_no_checksum(self) -> None:
        """One bit of the payload differs, and the checksum says that there is none."""
        before, after = frame(), flip(frame(), -1)
        self.assertEqual(after[40:42], b"\0\0")
        self.assertEqual([i for i in range(42, len(before)) if before[i] != after[i]],
                         [len(before) - 1])


class TestStale(unittest.TestCase):
    """Namespaces that killed runs left."""

    def test_only_of_dead_runs(self) -> None:
        """Ours are alive, others are nobody's business."""
        self.assertFalse(is_stale(f"{PREFIX}{os.getpid()}-sut"))
        self.assertFalse(is_stale("strait-dts-x-sut"))
        self.assertFalse(is_stale("somebody"))
        self.assertTrue(is_stale(f"{PREFIX}{2 ** 22 + 1}-sut"))


GOOD = '''"""A suite."""
from framework.test_suite import TestSuite, func_test


class TestSample(TestSuite):
    """Cases: case_one."""

    @func_test
    def case_one(self) -> None:
        """What.

        Steps:
            Do.
        Verify:
            Done.
        """
'''


class TestConventions(unittest.TestCase):
    """check_docstrings.py finds what it should."""

    def _check(self, text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "TestSuite_sample.py"
            path.write_text(text, "utf-8")
            return list(conventions().check_file(path))

    def test_a_good_suite_passes(self) -> None:
        """And so does everything in the tree."""
        self.assertEqual(self._check(GOOD), [])

    def test_each_mistake_is_found(self) -> None:
        """One at a time."""
        for old, new in (('"""A suite."""\n', ""), ("class TestSample", "class TestOther"),
                         ("Cases: case_one.", "Cases: case_two."), ("Steps:", "Step:"),
                         ("            Done.\n", ""), ("Verify:", "Verified:"),
                         ("        Steps:\n            Do.\n        Verify:\n            Done.\n",
                          "        Verify:\n            Done.\n        Steps:\n            Do.\n"),
                         ("    @func_test\n", "")):
            self.assertIn(old, GOOD)
            self.assertNotEqual(self._check(GOOD.replace(old, new)), [], msg=f"{old!r}")


if __name__ == "__main__":
    unittest.main()
