#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Holds the harness to its conventions: ruff and mypy with the settings of pyproject.toml, and
# check_docstrings.py. ruff and mypy are not in Debian; they live in $BUILD/dts-venv, which sees
# Debian's packages (scapy, cryptography) and is made again when requirements-lint.txt changes.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
[[ $build == /* ]] || build=../$build
venv=$build/dts-venv
if ! cmp -s requirements-lint.txt "$venv/installed"; then
	rm -rf "$venv"
	mkdir -p "$build"
	/usr/bin/python3 -m venv --system-site-packages "$venv"
	if ! "$venv/bin/pip" install -q --disable-pip-version-check -r requirements-lint.txt; then
		echo "dts-lint: ruff and mypy cannot be installed from PyPI; without network run" >&2
		echo "dts-lint: dts/main.py itself, which needs neither" >&2
		rm -rf "$venv"
		exit 1
	fi
	cp requirements-lint.txt "$venv/installed"
fi
tools/check_docstrings.py
"$venv/bin/ruff" check --quiet --no-cache .
"$venv/bin/mypy" --no-error-summary --cache-dir "$venv/mypy" .
