#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# 20,000 objects of 4 KiB in two orders: they share symbols and blocks, windows of objects hold
# nothing up, and what the edges keep of them is bounded.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init tiny
LAB_CAP=300Mbit LAB_POOL_A=700M LAB_POOL_B=700M
LAB_WAN=(--rate-gbps 0.3 --rtt-ms 60 --loss 0.005)
lab_configure
lab_up

# anonymous SITE: KiB of the edge's memory that are no file's.
anonymous() { awk '/^RssAnon/ { print $2 }' "/proc/${LAB_PID[edge-$1]}/status"; }

# cpu_ms SITE: processor time of the edge's threads, which poll and sleep.
cpu_ms() {
	awk -v hz="$(getconf CLK_TCK)" '{ print int(($14 + $15) * 1000 / hz) }' \
		"/proc/${LAB_PID[edge-$1]}/stat"
}

lab_put one --model one --bytes-per-block 4K --objects 10000 --requests 100000
lab_put two --model two --bytes-per-block 4K --objects 10000 --requests 100000
check_py "20,000 objects of 4 KiB are there" 'n == 20000' \
	n="$(cat "$LAB_DIR"/{one,two} | wc -l)"
before_a=$(anonymous a) before_b=$(anonymous b) cpu_a=$(cpu_ms a) cpu_b=$(cpu_ms b)
lab_submit one
first=$ORDER
lab_submit two
second=$ORDER
until_true 20 order_passed "$second" 1 || die "the second order does not begin"
during_a=$(anonymous a) during_b=$(anonymous b)
lab_wait "$first" 60
one=$RESULT
lab_wait "$second" 60
used_a=$(($(cpu_ms a) - cpu_a)) used_b=$(($(cpu_ms b) - cpu_b))
check_py "both orders are done" \
	'all(o["state"] == "done" and o["committed"] == 10000 for o in (a, b))' a="$one" b="$RESULT"
check "every object at B is the one that was made" lab_verify one
check "of the second order too" lab_verify two
# Whatever else the machine does. A core that took 100 us for an object would carry 330 Mbit/s of them.
check_py "the edges' threads took at most 100 us an object: $((used_a / 20)) and $((used_b / 20))" \
	"$used_a < 2000 and $used_b < 2000"
check_py "no window of objects held them up" 'c["tx_blocked_credit"] < 100' c="$(edge_counters a)"
check_py "A needs $(((during_a - before_a) / 1024)) MiB for it, at most 2 KiB an object" \
	"$during_a - $before_a < 40000"
check_py "B needs $(((during_b - before_b) / 1024)) MiB, at most 2 KiB an object" \
	"$during_b - $before_b < 40000"
finish
