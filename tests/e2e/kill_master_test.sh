#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kill -9 of the master, then of the line itself, each in mid-transfer.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/kill_lib.sh
. "$(dirname "$0")/kill_lib.sh"

kill_begin kill-master
KILL_COUNT=edge

kill_order master
term=$(py 's["term"]' s="$(ctl status -o json)")
murder master
master_start
wait_ready master
wait_edges
check_py "a restarted master has a higher term" "s['term'] > $term" s="$(ctl status -o json)"
kill_end master

kill_order line
murder wan
wan_start
wait_ready wan
kill_end line
finish
