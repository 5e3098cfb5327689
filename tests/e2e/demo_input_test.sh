#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The demo called wrongly: one line that names the variable, status 2, nothing started or left.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init demo-input
: >"$LAB_DIR/empty"
echo '{"timestamp": 0}' >"$LAB_DIR/odd"
mkdir "$LAB_DIR/tmp"

# refuses NAME=VALUE
refuses() {
	local out rc
	out=$(env TMPDIR="$LAB_DIR/tmp" "$1" tools/demo/demo.sh 2>&1 </dev/null)
	rc=$?
	if [ $rc -eq 2 ] && [[ $out == "demo: ${1%%=*}"* && $out != *$'\n'* ]]; then
		ok "${1//$LAB_DIR/DIR} $out"
	else
		not_ok "$1" "status $rc: $out"
	fi
}
for value in 0 1 -1 abc 1.5 010x 99999999999999999999 '1 2'; do refuses "MIB=$value"; done
for value in 0 -1 fast 1e3 nan; do refuses "RATE_GBPS=$value"; done
for value in 1 -0.1 x; do refuses "LOSS=$value"; done
refuses RTT_MS=soon
refuses FORGED_PPS=1.5
refuses "TRACE=$LAB_DIR/empty"
refuses "TRACE=$LAB_DIR/none"
refuses "TRACE=$LAB_DIR/odd"
refuses "TRACE=$LAB_DIR"
check_py "nothing was left" "$(find "$LAB_DIR/tmp" -mindepth 1 | wc -l) == 0"
finish
