#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A slice of prefill as a service by the clock: strait-replay puts what instances would make into
# the pools of two sites, site masters see it, and Strait has it at the decode site when it is
# needed, over a line with loss. Nobody orders anything.
#
# PRFAAS_REQUESTS, PRFAAS_DEADLINE and TRACE choose another slice; PRFAAS_MODES="none" plays it in
# that mode, too.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init prfaas-live
LAB_CAP=160Mbit LAB_POOL_A=400M LAB_POOL_B=400M
LAB_WAN=(--rate-gbps 0.16 --rtt-ms 30 --loss 0.005)
lab_configure

for s in a b; do
	lab_site $s <<-YAML
		layouts: $LAB_DIR/layouts.yaml
	YAML
done
# Two tensor ranks: a block is of use when both objects are there.
cat >"$LAB_DIR/layouts.yaml" <<-YAML
	layouts:
	  - { model: "meta-llama/*", form: vllm, tp: 2 }
YAML
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal }
YAML

lab_up
for s in a b; do
	spawn "site-$s" "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$s.yaml"
done
wait_views

# The edges have met when the slice begins.
head -c 100000 /dev/urandom >"$LAB_DIR/first"
"$LAB_BIN/straitctl" put --pool "$LAB_A" first "$LAB_DIR/first" || die "put"
arrived() { "$LAB_BIN/straitctl" exist --pool "$LAB_B" first >/dev/null 2>&1; }
until_true 40 arrived || die "nothing is replicated"

# The paper's 13 Gbit/s and 2,552,000 bytes a block by 81; half as many requests a second.
options=(--requests "${PRFAAS_REQUESTS:-24}" --threshold 8000 --speed 0.5 --rtt 30ms --cap 160M
	--block-tokens 64 --bytes-per-block 31500 --tp 2 --deadline "${PRFAAS_DEADLINE:-20s}")
if [ -n "${TRACE:-}" ]; then options+=(--trace "$TRACE"); fi
slice() { # mode key-prefix
	replay prfaas "${options[@]}" --mode "$1" --model "$2" --pool "$LAB_A" --to-pool "$LAB_B" \
		--json || die "replay"
}
live=$(slice strait meta-llama/live)
model=$(replay prfaas "${options[@]}" --mode strait --json) || die "replay in virtual time"
echo "live:  $live"
echo "model: $model"
check_py "some were prefilled at the other site" 'v["remote"] >= 3' v="$live"
check_py "blocks are there before needed" 'v["there_before_needed"] >= 0.95' v="$live"
check_py "hits as in virtual time" 'abs(v["hit_rate"] - m["hit_rate"]) <= 0.05' v="$live" m="$model"
whole() {
	[ "$(py 'sum(b["waiting_in_sets"] for b in r["backlogs"])' \
		r="$(ctl replication status -o json)")" = 0 ]
}
check "no block is left with one of its two objects" until_true 20 whole
for mode in ${PRFAAS_MODES:-}; do
	# A copier of its own takes the place of what replicates.
	if [ "$mode" = serial ]; then stop site-a; fi
	echo "live:  $(slice "$mode" "meta-llama/$mode")"
	echo "model: $(replay prfaas "${options[@]}" --mode "$mode" --json)"
done
finish
