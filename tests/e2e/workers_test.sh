#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Edges with several workers: one order spreads over all queues, through one port queue (worker 0
# hands out) at 1 % loss, against an edge with fewer workers, over a kill of each, and straight over a
# memif with a queue pair for each worker.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/kill_lib.sh
. "$(dirname "$0")/kill_lib.sh"

# queues_of SITE: what straitctl says of the queues of its link, [] if it is one.
queues_of() {
	py '__import__("json").dumps(sum((l.get("queues", []) for l in r["links"]), []))' \
		r="$(ctl edge show "$1/${1}1" -o json)"
}
have_delivered() { [ "$(py 'sum(x["delivered_bytes"] for x in q) >= n' q="$(queues_of a)" n="$1")" = True ]; }
with_workers() { sed -i -e '/^worker:/,$d' "$LAB_DIR/$1.yaml"; printf 'worker:\n  count: %s\n' "$2" >>"$LAB_DIR/$1.yaml"; }

LAB_EDGE_YAML=$'worker:\n  count: 2'
kill_begin workers

lab_put spread --model spread --objects 48
lab_submit spread
lab_wait "$ORDER" 40
check_py "two workers at each end: an order of 96 MiB is done at 1 % loss" \
	'r["state"] == "done" and r["committed"] == 48' r="$RESULT"
check "every object at B is the one the generator made" lab_verify spread
until_true 5 have_delivered $((96 << 20))
check_py "both queues carried their half" \
	'len(q) == 2 and all(x["up"] and x["delivered_bytes"] >= 48 << 20 for x in q)' q="$(queues_of a)"
check_py "the caps of both are within that of the link" 'sum(x["cap_bps"] for x in q) <= 400e6' \
	q="$(queues_of a)"
check "straitctl shows queues and workers" \
	bash -c "'$LAB_BIN/straitctl' --master 127.0.0.1:$LAB_PORT_M --tls-dir '$LAB_DIR/pki' \
		--tls-name operator edge show a/a1 | grep -q 'HANDED ON'"
check_py "worker 0 handed the other one its packets, none was lost on the way" \
	'b["port_rx_misdirected"] > 20000 and b["port_drop_misdirected"] == 0' b="$(edge_counters b)"

lab_put single --model single --objects 1
lab_submit single --class urgent
lab_wait "$ORDER" 20
check_py "an order of one object is done" 'r["state"] == "done"' r="$RESULT"
lab_keys spread | pool_tool remove "$LAB_A" >/dev/null
lab_keys spread | pool_tool remove "$LAB_B" >/dev/null

kill_order destination
murder edge-b
check "right after the kill, what is visible at B is whole" lab_verify destination --allow-missing
edge_start b
wait_ready edge-b
kill_end destination

kill_order source
murder edge-a
edge_start a
wait_ready edge-a
kill_end source

# In mid-transfer B comes back with one worker: what is left is dealt anew.
kill_order fewer
murder edge-b
with_workers b 1
edge_start b
wait_ready edge-b
kill_end fewer
check_py "two workers and one use one queue" 'q == []' q="$(queues_of a)"

stop edge-a
check_py "the source edge drains and ends with status 0" 'rc == 0' rc="$RC"
stop edge-b
check_py "the destination edge too" 'rc == 0' rc="$RC"
stop wan

# Back to back, a queue pair for each worker: nobody receives what is another's.
with_workers a 2
with_workers b 2
sed -i -e "s|device: .*|device: $(memif 0 server direct)|" -e 's|^port:|&\n  queues: 2|' "$LAB_DIR/a.yaml"
sed -i -e "s|device: .*|device: $(memif 0 client direct)|" -e 's|^port:|&\n  queues: 2|' "$LAB_DIR/b.yaml"
edge_start a
wait_ready edge-a
edge_start b
wait_ready edge-b
wait_edges
lab_put direct --model direct --objects 48
lab_submit direct
lab_wait "$ORDER" 40
check_py "over a queue pair for each worker an order is done" \
	'r["state"] == "done" and r["committed"] == 48' r="$RESULT"
check "its objects are those that were made" lab_verify direct
check_py "each worker received its own packets and no others" \
	'b["port_rx_misdirected"] == 0 and a["port_rx_misdirected"] == 0' \
	a="$(edge_counters a)" b="$(edge_counters b)"
until_true 5 have_delivered $((96 << 20))
check_py "both queues carried their half" \
	'len(q) == 2 and all(x["delivered_bytes"] >= 48 << 20 for x in q)' q="$(queues_of a)"
finish
