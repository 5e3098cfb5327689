#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kill -9 of libstrait clients in mid-put and with a lease, at both sites, while a transfer runs.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init kill-client
LAB_CAP=400Mbit LAB_POOL_A=320M LAB_POOL_B=320M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.01)
lab_configure
lab_up

holding() { grep -q holding "$LAB_DIR/log/$1.out"; }
gone() { [ "$(py "s['$2']" s="$(pool_tool stats "$1")")" -le "$3" ]; }

lab_put first --objects 40
lab_put torn --model torn --objects 1
torn=$(lab_keys torn)
lab_submit first

# Two clients of pool B begin puts, one of them of a key that the next order ships.
lab_keys torn | pool_tool remove "$LAB_B" >/dev/null
spawn put-b "$LAB_TEST/e2e/pool_tool" hold-put "$LAB_B" "$torn" 2000000
spawn put-a "$LAB_TEST/e2e/pool_tool" hold-put "$LAB_A" half-put-at-a 5000000
until_true 5 holding put-b || die "the client does not begin its put"
until_true 5 holding put-a || die "the client does not begin its put"
check "a put that is not committed is invisible" \
	bash -c "! '$LAB_BIN/straitctl' exist --pool '$LAB_B' '$torn'"
murder put-b
murder put-a

# A generator killed in the middle of many puts.
spawn generator "$LAB_BIN/strait-replay" put --pool "$LAB_A" --manifest "$LAB_DIR/partial" \
	--model partial --bytes-per-block 300000 --objects 400
some_lines() { [ "$(wc -l <"$LAB_DIR/partial")" -ge 20 ]; }
until_true 10 some_lines || die "the generator does not put"
murder generator
head -n -1 "$LAB_DIR/partial" >"$LAB_DIR/complete" # the last line may be torn

lab_wait "$ORDER" 30
check_py "the transfer meanwhile is done" 'r["state"] == "done" and r["committed"] == 40' r="$RESULT"
check "and all of it is right" lab_verify first
lab_submit torn
lab_wait "$ORDER" 20
check_py "a key left by a dead writer can be shipped" 'r["state"] == "done"' r="$RESULT"
check "and is right" lab_verify torn
check "what a killed generator had committed is whole" replay verify --pool "$LAB_A" \
	--manifest "$LAB_DIR/complete" --allow-missing
until_true 5 gone "$LAB_A" writing 0
check_py "the dead writers' space was given back" 's["writing"] == 0 and t["writing"] == 0' \
	s="$(pool_tool stats "$LAB_A")" t="$(pool_tool stats "$LAB_B")"

# A reader killed with its lease: the object becomes evictable again.
spawn lease "$LAB_TEST/e2e/pool_tool" hold-get "$LAB_B" "$(lab_keys first | head -n 1)"
until_true 5 holding lease || die "the client gets no lease"
murder lease
until_true 5 gone "$LAB_B" leased 0
check "a dead reader's lease is taken back" gone "$LAB_B" leased 0
finish
