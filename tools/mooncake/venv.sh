#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# venv.sh DIR: a virtual environment with Mooncake's official wheel, made anew when requirements.txt
# changes. venv.sh DIR lint: one with ruff and mypy.
set -euo pipefail
here=$(dirname "$0")
dir=$1 list=$here/requirements${2:+-$2}.txt

cmp -s "$list" "$dir/installed" && exit 0
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
python3 -m venv "$dir"
if ! "$dir/bin/pip" install -q --disable-pip-version-check -r "$list"; then
	echo "mooncake: $list cannot be installed from PyPI; is there a network?" >&2
	rm -rf "$dir"
	exit 1
fi
cp "$list" "$dir/installed"
