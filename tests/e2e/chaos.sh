#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos.sh [SEED [ROUNDS]]: orders over a bad line, and in each a process that is killed (SIGKILL, or
# SIGTERM for an edge) at a random point of the transfer and started again. Every order must end, every
# object be right, no partial one stay. A soak, not a part of `make check`; best with a build that has
# sanitizers:  make SAN=1 all && BUILD=build-asan LAB_SLOW=3 tests/e2e/chaos.sh 1 100
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init chaos
LAB_CAP=300Mbit LAB_POOL_A=150M LAB_POOL_B=150M LAB_DRAIN=2s
LAB_WAN=(--rate-gbps 0.3 --rtt-ms 40 --loss 0.02 --ge 0.01,8 --reorder 0.02,5 --dup 0.01
	--corrupt 0.001 --inject-forged 100)
lab_configure
lab_up

restart() {
	case $1 in
	wan) wan_start ;;
	master) master_start ;;
	edge-*) edge_start "${1#edge-}" ;;
	esac
}

RANDOM=${1:-1}
victims=(edge-a edge-b master wan term-edge-a term-edge-b)
for round in $(seq "${2:-20}"); do
	name=round-$round
	lab_put "$name" --model "$name" --bytes-per-block $((50000 + RANDOM * 60)) --objects 60
	bytes=$(awk '{ sum += $2 } END { print sum }' "$LAB_DIR/$name")
	lab_submit "$name"
	until_true 25 order_passed "$ORDER" $((bytes * (RANDOM % 90) / 100))
	victim=${victims[RANDOM % ${#victims[@]}]}
	if [[ $victim == term-* ]]; then
		stop "${victim#term-}"
		check_py "$name: ${victim#term-} drains" 'rc == 0' rc="$RC"
	else
		murder "$victim"
	fi
	restart "${victim#term-}"
	wait_ready "${victim#term-}"
	lab_wait "$ORDER" 40
	check_py "$name, $victim: the order is done" 'r["state"] == "done"' r="$RESULT"
	check "$name: every object is right" lab_verify "$name"
	check_py "$name: no partial object is left" 's["writing"] == 0 and s["partials"] == 0' \
		s="$(pool_tool stats "$LAB_B")"
	[ $LAB_FAILED -eq 0 ] || die "round $round failed"
	lab_keys "$name" | pool_tool remove "$LAB_A" >/dev/null
	lab_keys "$name" | pool_tool remove "$LAB_B" >/dev/null
done
finish
