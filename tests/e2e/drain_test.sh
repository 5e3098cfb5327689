#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SIGTERM in mid-transfer: an edge drains and leaves with status 0 within its time; the order goes
# on when it is back.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/kill_lib.sh
. "$(dirname "$0")/kill_lib.sh"

lab_init drain
# The line is slow and the time short: the drain cannot wait for the whole transfer.
LAB_CAP=300Mbit LAB_POOL_A=260M LAB_POOL_B=260M LAB_WAN_STATS_MS=100 LAB_DRAIN=1s
LAB_WAN=(--rate-gbps 0.3 --rtt-ms 40 --loss 0.01)
lab_configure
lab_up

drain() {
	local start=$SECONDS
	stop "edge-$1" 15
	check_py "$2: SIGTERM ends the edge with status 0" 'rc == 0' rc="$RC"
	check_py "$2: within its drain timeout and a little" "$((SECONDS - start)) <= 8"
	check "$2: what is visible at B is whole" lab_verify "$2" --allow-missing
	edge_start "$1"
	wait_ready "edge-$1"
}

kill_order source
drain a source
kill_end source

kill_order destination
drain b destination
kill_end destination

# With time enough, a transfer that runs is finished before the edge leaves.
lab_put short --model short --objects 12
lab_submit short
until_true 20 order_passed "$ORDER" 1 || die "the transfer does not begin"
stop edge-a 15
check_py "a short transfer: status 0" 'rc == 0' rc="$RC"
edge_start a
lab_wait "$ORDER" 20
check_py "and the order is done" 'r["state"] == "done"' r="$RESULT"
check "and right" lab_verify short
stop master
check_py "SIGTERM ends the master with status 0" 'rc == 0' rc="$RC"
finish
