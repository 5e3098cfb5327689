#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An idle edge leaves the CPU alone; --poll-mode takes all of one.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init idle
LAB_POOL_A=32M LAB_POOL_B=32M
lab_configure
lab_up

# cpu_ms NAME: user and system time of the process.
cpu_ms() {
	awk -v hz="$(getconf CLK_TCK)" '{ sub(/^.*\) /, ""); print int(($12 + $13) * 1000 / hz) }' \
		"/proc/${LAB_PID[$1]}/stat"
}
# used_percent NAME..: of one core over three seconds, each.
used_percent() {
	local name
	local -A before=()
	for name in "$@"; do before[$name]=$(cpu_ms "$name"); done
	sleep 3
	for name in "$@"; do echo $((($(cpu_ms "$name") - before[$name]) / 30)); done
}
# wanted_percent NAME: of three seconds its busiest thread ran or waited for a CPU that others had.
wanted_percent() {
	local tasks=/proc/${LAB_PID[$1]}/task before
	before=$(cat "$tasks"/*/schedstat)
	sleep 3
	paste <(echo "$before") <(cat "$tasks"/*/schedstat) |
		awk '{ d = $4 + $5 - $1 - $2; if (d > max) max = d } END { print int(max / 3e7) }'
}

# An idle worker wakes 10,000 times a second: 3 to 10 % of a core of a virtual machine, whose timers
# are dear.
# After a transfer, when both have a session and everything to be idle about.
lab_put objects --objects 4
lab_submit objects
lab_wait "$ORDER" 20
check_py "a transfer first" 'r["state"] == "done"' r="$RESULT"

mapfile -t used < <(used_percent edge-a edge-b)
check_py "edge a idles at ${used[0]} % of a core, below 20" "${used[0]} < 20"
check_py "edge b idles at ${used[1]} % of a core, below 20" "${used[1]} < 20"
sleeps=$(py 'c["port_sleeps"]' c="$(edge_counters a)")
check_py "its worker sleeps" "$sleeps > 0"

stop edge-a
spawn edge-a "$LAB_BIN/strait-edge" --config "$LAB_DIR/a.yaml" --poll-mode
wait_ready edge-a
wait_edges
wanted=$(wanted_percent edge-a)
check_py "with --poll-mode it wants $wanted % of a core" "$wanted > 90"
check_py "and its worker never sleeps" 'c["port_sleeps"] == 0' c="$(edge_counters a)"
lab_put more --model more --objects 4
lab_submit more
lab_wait "$ORDER" 20
check_py "and ships as before" 'r["state"] == "done"' r="$RESULT"
finish
