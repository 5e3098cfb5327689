#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An open order as a prefill engine uses it: submitted before its objects exist, appended to layer by
# layer while earlier layers travel, with kill -9 of the master and of both edges in between, sealed.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init open
LAB_CAP=400Mbit LAB_POOL_A=128M LAB_POOL_B=128M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.005)
lab_configure
lab_up

# layer N: 4 objects into pool A.
layer() { lab_put "layer$1" --model "layer$1" --objects 4; }
# append N [OPTIONS]: the layer's keys to the order.
append() {
	local n=$1
	shift
	lab_keys "layer$n" | ctl order append "$ORDER" --number "$n" --keys-file - "$@"
}
has_arrived() { [ "$(py 'r["committed"]' r="$(order_json "$ORDER")")" -ge "$1" ]; }

open=(order submit --from a --to b --open --class urgent --idempotency-key prefill-1 -o json)
reply=$(ctl "${open[@]}")
ORDER=$(py 'r["order"]' r="$reply")
check_py "an order without objects is open" \
	'r["open"] and r["opened"] == "open" and r["objects"] == 0 and r["appends"] == 0' r="$reply"
layer 1
check_py "an append is taken: JSON" 'r["open"] and r["appends"] == 1 and r["objects"] == 4' \
	r="$(append 1 -o json)"
until_true 10 has_arrived 4 || not_ok "the first layer arrives while the order is open"
check_py "it arrived, and the order is still open" \
	'r["state"] == "running" and r["open"] and r["committed"] == 4' r="$(order_json "$ORDER")"
check "it can be used at B" lab_verify layer1
check_py "the same append again changes nothing" 'r["appends"] == 1 and r["objects"] == 4' \
	r="$(append 1 -o json)"
check "the order list shows that it is open" grep -q 'running, open' <(ctl order list)

layer 2
murder master
append 2 >"$LAB_DIR/out" 2>&1
check_py "without a master an append is not taken" 'rc == 3' rc=$?
master_start
wait_ready master
check_py "a repeated submission finds the order again" 'r["order"] == n and r["open"]' \
	r="$(ctl "${open[@]}")" n="$ORDER"
check "the append is taken by the next master" append 2
murder master
master_start
wait_ready master
check_py "it is not forgotten, and not taken twice" 'r["appends"] == 2 and r["objects"] == 8' \
	r="$(append 2 -o json)"
wait_edges

layer 3
append 3 >/dev/null
murder edge-a
edge_start a
wait_ready edge-a
layer 4
check "an append is taken whatever the edges do" append 4
murder edge-b
edge_start b
wait_ready edge-b
wait_edges
layer 6
append 6 >"$LAB_DIR/out" 2>&1
check_py "an append out of turn is refused" 'rc == 4' rc=$?
check "and told which one is next" grep -q ': 5 is' "$LAB_DIR/out"
layer 5
append 5 >/dev/null
check_py "sealing: JSON" 'not r["open"] and r["opened"] == "sealed"' \
	r="$(ctl order seal "$ORDER" -o json)"
lab_wait "$ORDER" 40
check_py "the sealed order is done, with all of its objects" \
	'r["state"] == "done" and r["objects"] == 20 and r["committed"] + r["existed"] == 20' \
	r="$RESULT"
cat "$LAB_DIR"/layer{1,2,3,4,5} >"$LAB_DIR/layers"
check "every object at B is the one that was made" lab_verify layers
check_py "sealing again is no error" 'r["state"] == "done"' r="$(ctl order seal "$ORDER" -o json)"
check "nor is an append that was taken before" append 5
append 6 >"$LAB_DIR/out" 2>&1
check_py "but nothing new is taken" 'rc == 4' rc=$?

# One whose engine died.
echo "open_order_idle: 2s" >>"$LAB_DIR/master.yaml"
stop master
master_start
wait_ready master
wait_edges
reply=$(lab_keys layer6 | ctl order submit --from a --to b --open --keys-file - -o json)
ORDER=$(py 'r["order"]' r="$reply")
lab_wait "$ORDER" 20
check_py "an open order that gets nothing more is sealed, and says so" \
	'r["state"] == "done" and r["opened"] == "expired" and "nothing was appended" in r["text"] and
	 r["committed"] == 4' r="$RESULT"
reply=$(ctl order submit --from a --to b --open -o json)
ORDER=$(py 'r["order"]' r="$reply")
ctl order cancel "$ORDER" >/dev/null
check_py "an open order can be canceled" 'r["state"] == "canceled" and r["opened"] == "ended"' \
	r="$(order_json "$ORDER")"
finish
