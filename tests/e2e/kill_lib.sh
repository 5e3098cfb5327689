# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# One order of 192 MiB, a process killed with SIGKILL in mid-transfer and started again. Sourced by
# the kill tests after lib.sh.

KILL_OBJECTS=96
KILL_BYTES=$((KILL_OBJECTS << 21))
# What may be sent again: one BDP (400 Mbit/s x 40 ms) and 64 MiB.
KILL_AGAIN=$((2000000 + (64 << 20)))

kill_begin() {
	lab_init "$1"
	LAB_CAP=400Mbit LAB_POOL_A=260M LAB_POOL_B=260M LAB_WAN_STATS_MS=100
	LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.01)
	lab_configure
	lab_up
}

# kill_order NAME: submit, and wait until a third is across; the rest leaves time to kill before it ends.
kill_order() {
	lab_put "$1" --model "$1" --objects $KILL_OBJECTS
	sent_before=$(sent_bytes)
	lab_submit "$1"
	until_true 25 order_passed "$ORDER" $((KILL_BYTES / 3)) || die "the transfer does not proceed"
	check_py "$1: still running when the kill comes" 'r["state"] == "running"' \
		r="$(order_json "$ORDER")"
}

# Symbols A has sent, in bytes: by the emulator's count of its bytes, or by A's own counters. Each
# count must outlive the process that is killed.
KILL_COUNT=line
sent_bytes() {
	local w c
	if [ "$KILL_COUNT" = edge ]; then
		c=$(edge_counters a)
		py '(c["tx_source"] + c["tx_resend"] + c["tx_repair"]) * 1432' c="$c"
	else
		w=$(wan_figures)
		py 'w["ab"]["offered_bytes"] * 1432 // 1538 if w else 0' w="$w"
	fi
}

# kill_end NAME: the order completes, nothing is half visible, little is sent again.
kill_end() {
	local again
	lab_wait "$ORDER" 40
	check_py "$1: the order completes" \
		'r["state"] == "done" and r["committed"] + r.get("existed", 0) == n' \
		r="$RESULT" n=$KILL_OBJECTS
	check "$1: every object at B is the one that was made" lab_verify "$1"
	# The count's next report has it all.
	until_true 5 has_settled
	again=$(($(sent_bytes) - sent_before - KILL_BYTES))
	check_py "$1: $((again >> 20)) MiB sent beyond the objects, at most 65 and repair" \
		"0 <= $again <= $KILL_AGAIN + $KILL_BYTES // 50"
	check_py "$1: no partial object is left" 's["writing"] == 0 and s["partials"] == 0' \
		s="$(pool_tool stats "$LAB_B")"
	# Room for the next one.
	lab_keys "$1" | pool_tool remove "$LAB_A" >/dev/null
	lab_keys "$1" | pool_tool remove "$LAB_B" >/dev/null
}

has_settled() {
	local before
	before=$(sent_bytes)
	sleep 0.25
	[ $(($(sent_bytes) - before)) -lt 200000 ]
}
