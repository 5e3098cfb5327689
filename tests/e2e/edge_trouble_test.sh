#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The file of a destination's pool is replaced under its edge, which refuses orders until it is
# started again: the edge, not the objects, is at fault, and everybody who looks is told.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init edge-trouble
LAB_CAP=400Mbit LAB_POOL_A=64M LAB_POOL_B=64M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 10)
lab_configure
lab_site a </dev/null
lab_site b </dev/null
lab_policies <<-YAML
	  - { from: eu, to: us, class: bulk, pause_below: 10m }
YAML

site_start() {
	spawn "site-$1" "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$1.yaml"
}
put() {
	head -c 20000 /dev/urandom >"$LAB_DIR/$1"
	"$LAB_BIN/straitctl" put --pool "$LAB_A" "$1" "$LAB_DIR/$1" || die "put $1"
}
arrives() { "$LAB_BIN/straitctl" exist --pool "$LAB_B" "$1" >/dev/null 2>&1; }
refused() {
	[ "$(py 'sum(o["failed"] > 0 for o in r) >= 3' r="$(ctl order list -o json)")" = True ]
}
# backlog EXPRESSION: of what is still to come to B.
backlog() { py '[('"$1"') for b in r["backlogs"] if b["to"] == "b"][0]' r="$(repl)"; }
says() { [ "$(backlog '"'"$1"'" in (b.get("text") or "")')" = True ]; }

lab_up
site_start a
site_start b
wait_views
for i in $(seq 40); do put "before-$i"; done
check "what is put comes" until_true 20 arrives before-40

rm "$LAB_B"
"$LAB_BIN/straitctl" pool create --pool "$LAB_B" --size 64M
until_true 20 says 'restart the edge' || true
check "replication status says whose trouble it is" says 'trouble of its edge: pool '
trouble() { ctl edge list | grep -q "^TROUBLE b/.*: pool $LAB_B was deleted"; }
check "and so does edge list" trouble
put during
check "orders are refused, again and again" until_true 40 refused
check_py "but no object is blamed" "q == 0" q="$(backlog 'b["quarantined"]')"
check_py "and all is wanted still" "n > 0" n="$(backlog 'b["objects"] + b["flying"]')"
check_py "what B lost was not evicted" "not e" \
	e="$(backlog 'b.get("eviction_age_ms") or 0')"
stop edge-b
edge_start b
wait_ready edge-b
check "the edge is started again: it comes" until_true 60 arrives during
no_trouble() { ctl edge list >"$LAB_DIR/out" && ! grep -q '^TROUBLE' "$LAB_DIR/out"; }
check "and there is no trouble" until_true 10 no_trouble
finish
