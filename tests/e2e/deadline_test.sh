#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Deadlines: what cannot be met is refused at once with the numbers, by the master or by the source
# edge; what was taken is in time, or ends DEADLINE as soon as it cannot be any more.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init deadline
LAB_CAP=100Mbit LAB_POOL_A=400M LAB_POOL_B=400M
LAB_WAN=(--rate-gbps 0.1 --rtt-ms 40 --loss 0.005)
lab_configure
lab_up

# 32 MiB: 2.9 s of the link.
lab_put big --model big --objects 16
lab_put small --model small --objects 1
took() { py 'r["finished_ms"] - r["created_ms"]' r="$1"; }

lab_submit big --deadline 1s
lab_wait "$ORDER" 10
check_py "the source edge refuses what cannot be in time, object by object" \
	'r["state"] == "failed" and r["failed"] == 16 and s == {"DEADLINE": 16}' \
	r="$RESULT" s="$(statuses "$ORDER")"
check_py "at once" "$(took "$RESULT") < 900"
check_py "with bytes, rate and times" \
	'all(w in r["text"] for w in ("MB go before it", "Mbit/s", "its deadline is in"))' r="$RESULT"
check_py "without a byte of it sent" 'r["bytes_done"] == 0' r="$RESULT"

lab_submit big --deadline 15s
lab_wait "$ORDER" 20
check_py "one that can be met is done in time" \
	'r["state"] == "done" and r["finished_ms"] <= r["deadline_ms"]' r="$RESULT"
check "and is right" lab_verify big

# Eleven seconds, of which one or so is over when others come.
lab_put next --model next --objects 60
lab_submit next --deadline 120s
behind=$ORDER
until_true 10 order_passed "$behind" 1 || die "the order does not begin"
lab_keys small | ctl order submit --from a --to b --class normal --deadline 1200ms --bytes 200M \
	--keys-file - >"$LAB_DIR/out" 2>&1
check_py "the master refuses what the client says is too large" 'rc == 4' rc=$?
check "and says why" grep -q 'deadline cannot be met: .* MB: at .*Mbit/s it ends in' "$LAB_DIR/out"
check_py "as JSON too" 'rc == 4' rc="$(lab_keys small | ctl order submit --from a --to b \
	--deadline 1200ms --bytes 200M --keys-file - -o json >/dev/null 2>&1; echo $?)"
lab_submit small --deadline 5s
lab_wait "$ORDER" 10
check_py "a small one with an earlier deadline passes by" \
	'r["state"] == "done" and r["finished_ms"] <= r["deadline_ms"]' r="$RESULT"
check_py "while the large one still runs" 'r["state"] == "running"' r="$(order_json "$behind")"
lab_wait "$behind" 60
check_py "which is in time as well" 'r["state"] == "done"' r="$RESULT"

# The line is cut: what is not sent in time cannot be. 80 MiB need 7.2 s.
lab_put long --model long --objects 40
lab_submit long --deadline 12s
until_true 10 order_passed "$ORDER" 1 || die "the order does not begin"
murder wan
lab_wait "$ORDER" 20
check_py "one that has become impossible ends DEADLINE before its deadline" \
	'r["state"] == "failed" and r["finished_ms"] < r["deadline_ms"] and
	 "not sent yet" in r["text"]' r="$RESULT"
check_py "all of it that was not there" 'set(s) <= {"DEADLINE", "COMMITTED"}' \
	s="$(statuses "$ORDER")"
finish
