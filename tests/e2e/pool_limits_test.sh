#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Orders that cannot succeed in full: no space at the destination, objects that vanish at the source,
# keys that were never there, the same order twice. Each object ends with a reason; nothing is lost
# and nothing stale or half is visible.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init limits
LAB_CAP=400Mbit LAB_POOL_A=200M LAB_POOL_B=64M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.005)
lab_configure
lab_up

# Objects the destination pool cannot evict, because somebody reads them: it is full.
lab_put pinned --model pinned --objects 24
lab_submit pinned
lab_wait "$ORDER" 20
check_py "24 objects fill most of pool B" 'r["state"] == "done"' r="$RESULT"
n=0
while read -r key; do
	n=$((n + 1))
	spawn "reader-$n" "$LAB_TEST/e2e/pool_tool" hold-get "$LAB_B" "$key"
done < <(lab_keys pinned)
all_leased() { [ "$(py 's["leased"]' s="$(pool_tool stats "$LAB_B")")" -eq 24 ]; }
until_true 10 all_leased || die "the readers get no leases"

lab_put over --model over --objects 16
lab_submit over
lab_wait "$ORDER" 40
s=$(statuses "$ORDER")
check_py "a full destination answers FULL for some, others pass" \
	's.get("FULL", 0) > 0 and s.get("COMMITTED", 0) > 0 and
	 s.get("FULL", 0) + s.get("COMMITTED", 0) == 16 and r["state"] == "failed"' \
	s="$s" r="$RESULT"
check "what passed is right, and the rest is not there" lab_verify over --allow-missing
check "what was there before is untouched" lab_verify pinned
for i in $(seq $n); do murder "reader-$i"; done
lab_submit over
lab_wait "$ORDER" 40
check_py "once there is room again, the same keys pass" \
	'r["state"] == "done" and r["failed"] == 0' r="$RESULT"

# Never there.
lab_put some --model some --objects 2
{ cat "$LAB_DIR/some"; sed 's/@tp_rank:0/@tp_rank:9/' "$LAB_DIR/some"; } >"$LAB_DIR/half"
lab_submit half
lab_wait "$ORDER" 20
check_py "an unknown key ends NOT_FOUND, its neighbors pass" \
	's == {"COMMITTED": 2, "NOT_FOUND": 2} and r["state"] == "failed"' \
	s="$(statuses "$ORDER")" r="$RESULT"
check "the neighbors are right" lab_verify some

# Evicted at the source while the order runs: the last ones of an order that takes two seconds.
lab_put vanish --model vanish --objects 28
lab_submit vanish
until_true 20 order_passed "$ORDER" 1 || die "the transfer does not begin"
lab_keys vanish | tail -n 8 | pool_tool remove "$LAB_A" >/dev/null
lab_wait "$ORDER" 40
s=$(statuses "$ORDER")
check_py "objects that vanish at the source end EVICTED, at once" \
	'r["state"] in ("failed", "done") and
	 s.get("COMMITTED", 0) + s.get("EVICTED", 0) + s.get("NOT_FOUND", 0) == 28 and
	 s.get("COMMITTED", 0) >= 20' s="$s" r="$RESULT"
check "nothing stale was shipped" lab_verify vanish --allow-missing

# The same again.
lab_put twice --model twice --objects 16
before=$(py 'c["ingest_committed"]' c="$(edge_counters b)")
lab_submit twice --idempotency-key nightly-1
first=$ORDER
lab_submit twice --idempotency-key nightly-1
check_py "the same idempotency key is the same order" "$first == $ORDER"
lab_submit twice
second=$ORDER
check_py "without one it is another order" "$first != $second"
lab_wait "$first" 30
check_py "the first is done" 'r["state"] == "done" and r["committed"] == 16' r="$RESULT"
lab_wait "$second" 30
check_py "the second too" 'r["state"] == "done"' r="$RESULT"
check_py "each object was shipped once only" "c['ingest_committed'] - $before == 16" \
	c="$(edge_counters b)"
check "and is right" lab_verify twice
finish
