#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ruff and mypy over the gateway, its demo and its tests, with the settings of pyproject.toml.
set -euo pipefail
cd "$(dirname "$0")"
build=${BUILD:-build}
[[ $build == /* ]] || build=../../$build
./venv.sh "$build/mooncake-lint" lint
"$build/mooncake-lint/bin/ruff" check --quiet --no-cache . ../../tests/mooncake
MYPYPATH=. "$build/mooncake-lint/bin/mypy" --no-error-summary --config-file pyproject.toml \
	--cache-dir "$build/mooncake-lint/mypy" strait_mooncake ./*.py ../../tests/mooncake/*.py
