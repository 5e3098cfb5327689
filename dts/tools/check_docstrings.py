#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds suites to their conventions, without importing them:

* tests/TestSuite_<snake>.py has one class, Test<Pascal>(TestSuite), and a module docstring;
* the class's docstring names every case;
* the docstring of every case has text under `Steps:` and `Verify:`;
* every other class and public function of the harness has a docstring."""
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DTS = Path(__file__).resolve().parent.parent
DECORATORS = {"func_test", "perf_test"}


def is_case(node: ast.AST) -> bool:
    """A function under one of the decorators."""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(d, ast.Name) and d.id in DECORATORS for d in node.decorator_list)


def check_case(case: ast.FunctionDef) -> Iterator[str]:
    """Steps: and Verify:, in this order, each with something under it."""
    text = ast.get_docstring(case) or ""
    at = {}
    for section in ("Steps", "Verify"):
        match = re.search(rf"^{section}:[ \t]*\n[ \t]+\S", text, re.M)
        if match is None:
            yield f"{case.lineno}: case {case.name} has no '{section}:' with text under it"
        else:
            at[section] = match.start()
    if len(at) == 2 and at["Steps"] > at["Verify"]:
        yield f"{case.lineno}: case {case.name} verifies before its steps"


def check_suite(name: str, tree: ast.Module) -> Iterator[str]:
    """What a file of tests/ must look like."""
    wanted = "Test" + "".join(part.capitalize() for part in name.split("_"))
    suites = [n for n in tree.body if isinstance(n, ast.ClassDef)
              and any(isinstance(b, ast.Name) and b.id == "TestSuite" for b in n.bases)]
    if [s.name for s in suites] != [wanted]:
        yield f"1: must have exactly one suite, class {wanted}(TestSuite)"
        return
    cases = [n for n in suites[0].body if isinstance(n, ast.FunctionDef) and is_case(n)]
    if not cases:
        yield f"{suites[0].lineno}: {wanted} has no cases"
    listed = set(re.findall(r"\w+", ast.get_docstring(suites[0]) or ""))
    for case in cases:
        if case.name not in listed:
            yield f"{case.lineno}: {wanted}'s docstring does not name {case.name}"
        yield from check_case(case)


def check_file(path: Path) -> Iterator[str]:
    """Everything wrong with one file."""
    tree = ast.parse(path.read_text("utf-8"), str(path))
    if path.name != "__init__.py" and not ast.get_docstring(tree):
        yield "1: no module docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_") \
                and not is_case(node) and not ast.get_docstring(node) \
                and node not in nested_functions(tree):
            yield f"{node.lineno}: {node.name} has no docstring"
    if path.name.startswith("TestSuite_"):
        yield from check_suite(path.stem.removeprefix("TestSuite_"), tree)


def nested_functions(tree: ast.Module) -> set[ast.AST]:
    """Functions inside functions: nobody's interface."""
    return {inner for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
            for inner in ast.walk(node) if inner is not node}


def main() -> int:
    """1 if anything is wrong. Arguments: files instead of all of dts/."""
    files = [Path(a) for a in sys.argv[1:]] or sorted(DTS.rglob("*.py"))
    wrong = 0
    for path in files:
        for line in check_file(path):
            print(f"{path}:{line}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
