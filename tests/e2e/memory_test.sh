#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Memory of the edges while order follows order at 5 % loss, with objects that are always new and
# pools that are always full: it must not grow. MEMORY_SECONDS=3600 for an hour (make soak-memory).
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

SECONDS_WANTED=${MEMORY_SECONDS:-15}
# Pages of what was asked for at the start are touched late now and then: a waiting place for a
# symbol that was never needed before. Nothing more is ever asked for.
RESIDENT_KIB=512 ASKED_KIB=512

lab_init memory
LAB_CAP=150Mbit LAB_POOL_A=96M LAB_POOL_B=96M
LAB_WAN=(--rate-gbps 0.15 --rtt-ms 40 --loss 0.05)
lab_configure
lab_up

# memory_of PROCESS FIELD: KiB. RssAnon is resident and no file's, VmData what may become so.
memory_of() { awk -v f="$2:" '$1 == f { print $2 }' "/proc/${LAB_PID[$1]}/status"; }

# finished ORDER
round=0 moved=0
finished() {
	lab_wait "$1" 60
	[ "$(py 'r["state"]' r="$RESULT")" = done ] || not_ok "order $1 is done: $RESULT"
	moved=$((moved + $(py 'r["bytes_done"]' r="$RESULT")))
}

# Two orders at a time, one of 2 MiB objects and one of small ones.
next_round() {
	local large
	round=$((round + 1))
	lab_put large --model "l$round" --objects 8 --allow-evict
	lab_put small --model "s$round" --bytes-per-block 20001 --objects 200 --allow-evict
	lab_submit large
	large=$ORDER
	lab_submit small
	finished "$large"
	finished "$ORDER"
}

# until_time SECONDS: rounds until then, a line every five minutes.
until_time() {
	local end=$((start + $1))
	while [ "$(date +%s)" -lt "$end" ]; do
		next_round
		if [ $(($(date +%s) - reported)) -ge 300 ]; then
			reported=$(date +%s)
			echo "after $((reported - start)) s: $round rounds, $((moved >> 20)) MiB;" \
				"resident $(memory_of edge-a RssAnon) and $(memory_of edge-b RssAnon) KiB"
		fi
	done
}

# Both pools full, and all that is made once made.
until [ $round -ge 5 ]; do next_round; done
start=$(date +%s) reported=$(date +%s)
declare -A asked half
for p in edge-a edge-b master; do asked[$p]=$(memory_of $p VmData); done
until_time $((SECONDS_WANTED / 2))
for p in edge-a edge-b; do half[$p]=$(memory_of $p RssAnon); done
until_time "$SECONDS_WANTED"
check "every object of the last round is as it was made" lab_verify large
check "and the small ones" lab_verify small
echo "$((round - 5)) rounds in $(($(date +%s) - start)) s, $((moved >> 20)) MiB"
for p in edge-a edge-b; do
	now=$(memory_of $p VmData)
	check_py "$p asks for no more: ${asked[$p]} KiB, then $now" "now - before <= $ASKED_KIB" \
		now="$now" before="${asked[$p]}"
done
now=$(memory_of master VmData)
check_py "the master for 1 KiB an order, as it keeps a record: ${asked[master]} KiB, then $now" \
	"now - before <= $ASKED_KIB + 2 * (rounds - 5)" now="$now" before="${asked[master]}" \
	rounds="$round"
for p in edge-a edge-b; do
	now=$(memory_of $p RssAnon)
	check_py "$p is resident with ${half[$p]} KiB after half of the time, then $now" \
		"now - before <= $RESIDENT_KIB" now="$now" before="${half[$p]}"
done
finish
