#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A LAN domain: sites a, b and c have one label. Edge a1 has the pools of a and of c, so it copies
# between them and nothing of that is on the line; to b the same transport goes as over a WAN, with
# nothing sent ahead of a loss. By policy and by order, with a cap, over kills of edge and master.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init local-copy
LAB_CAP=400Mbit LAB_POOL_A=160M LAB_POOL_B=64M
LAB_WAN=(--rate-gbps 1 --rtt-ms 1 --loss 0.01)
lab_configure
LAB_C=$LAB_SHM/c.pool
sed -i "/create: true/a\\  - { site: c, path: $LAB_C, size: 160M, create: true }" "$LAB_DIR/a.yaml"
echo "lan_cap: 800Mbit" >>"$LAB_DIR/a.yaml"
head -c 32 /dev/urandom >"$LAB_DIR/secret"
chmod 600 "$LAB_DIR/secret"
for s in a b c; do
	mkdir -p "$LAB_DIR/site-$s"
	cat >"$LAB_DIR/site-$s.yaml" <<-YAML
		site: $s
		secret: $LAB_DIR/secret
		state_dir: $LAB_DIR/site-$s
		sources:
		  - { name: pool-$s, pool: $LAB_SHM/$s.pool }
		tenants:
		  - { name: default, socket: $LAB_DIR/run/exist-$s.sock }
	YAML
done
sed -i '/^sites:/,$d' "$LAB_DIR/master.yaml"
cp "$LAB_DIR/master.yaml" "$LAB_DIR/master.head"
# master_config EDGE: which one has the pools of c, too, as the master knows it.
master_config() {
	cp "$LAB_DIR/master.head" "$LAB_DIR/master.yaml"
	cat >>"$LAB_DIR/master.yaml" <<-YAML
		secret: $LAB_DIR/secret
		sites:
		  - { name: a, label: eu, cap: 10Mbit, follow: $LAB_DIR/site-a.yaml }
		  - { name: b, label: eu, follow: $LAB_DIR/site-b.yaml }
		  - { name: c, label: eu, follow: $LAB_DIR/site-c.yaml, pools_at: [$1] }
		policies:
		  - { from: a, to: c, class: normal, cap: 400Mbit, most: 800K }
		  - { from: c, to: a, class: normal, most: 800K }
	YAML
}
master_config a/a1

put() {
	head -c "${3:-300000}" /dev/urandom >"$LAB_DIR/$2"
	"$LAB_BIN/straitctl" put --pool "$1" "$2" "$LAB_DIR/$2" || die "put $2"
}
same() { cmp <("$LAB_BIN/straitctl" get --pool "$1" "$2") "$LAB_DIR/$2"; }
counter_of_a() { py "r['$1']" r="$(edge_counters a)"; }
link() { py "[l for l in r['links'] if (l['from'], l['to']) == ('$1', '$2')][0]['$3']" r="$(repl)"; }
# Packets of all its sessions, both ways.
line_packets() { py 'r["tx_packets"] + r["rx_packets"]' r="$(edge_counters a)"; }

lab_up
wait_views

# ---- by policy
check "way from a to c: local" test "$(link a c way)" = local
check "way from a to c: at a1" test "$(link a c local_edge)" = a/a1
check "way from a to b: over the LAN" test "$(link a b way)" = lan
check "the cap of the policy counts" test "$(link a c cap_bps)" = 400000000
check "the cap of a site does not count within the LAN domain" test "$(link a b cap_bps)" = 0
check_py "the edge says whose pools it has" 'r["pool_sites"] == ["c"]' \
	r="$(ctl edge show a/a1 -o json)"
put "$LAB_A" first
check "put in a's pool: appears in c's" until_true 15 has "$LAB_C" first
check "with the same bytes" same "$LAB_C" first
put "$LAB_A" odd 777777
check "of an odd size" until_true 15 has "$LAB_C" odd
check "with the same bytes too" same "$LAB_C" odd
put "$LAB_C" back
check "put in c's pool: appears in a's" until_true 15 has "$LAB_A" back
check_py "orders say how they went" 'len(r) >= 3 and all(
	o["way"] == "local" and o["state"] == "done" for o in r)' r="$(ctl order list -o json)"
copied() { [ "$(counter_of_a copied_objects)" = "$1" ]; }
check "the edge counts what it copied" until_true 5 copied 3
check "and the bytes" test "$(counter_of_a copied_bytes)" = $((300000 + 777777 + 300000))
check "no packet of data was sent" test "$(line_packets)" = 0
check_py "no session was opened" 'r["links"] == []' r="$(ctl edge show a/a1 -o json)"
sleep 1 # would an echo go back, it would have by now
check "what was brought does not go back" copied 3

# ---- by order, again, and at the pace of the cap
lab_put many --model many --objects 24 --bytes-per-block 1M
submit_c() {
	reply=$(lab_keys many | ctl order submit --from a --to c --keys-file - -o json) ||
		die "order submit"
	ORDER=$(py 'r["order"]' r="$reply")
}
submit_c
lab_wait "$ORDER" 30
check_py "an order to the other pool is done" 'r["state"] == "done" and r["way"] == "local"' r="$RESULT"
check "every object as the generator made it" \
	replay verify --pool "$LAB_C" --manifest "$LAB_DIR/many"
check_py "no faster than the cap" 'r["finished_ms"] - r["created_ms"] >= 0.8 * 24 * 8388.6 / 400' \
	r="$RESULT"
submit_c
lab_wait "$ORDER" 30
check_py "again: everything is there" 'r["existed"] == 24 and r["state"] == "done"' r="$RESULT"

# ---- killed in the middle
lab_put more --model more --objects 60 --bytes-per-block 1M
reply=$(lab_keys more | ctl order submit --from a --to c --keys-file - -o json)
ORDER=$(py 'r["order"]' r="$reply")
until_true 20 order_passed "$ORDER" 4000000 || die "the order does not begin"
murder edge-a
check_py "killed edge: the order goes on waiting" 'r["state"] == "running"' r="$(order_json "$ORDER")"
edge_start a
wait_ready edge-a
wait_edges
until_true 20 order_passed "$ORDER" 8000000
murder master
master_start
wait_ready master
wait_edges
lab_wait "$ORDER" 60
check_py "killed edge and master: the order is done" \
	'r["state"] == "done" and r["failed"] == 0 and r["committed"] + r["existed"] == 60' r="$RESULT"
check "nothing is missing or wrong" replay verify --pool "$LAB_C" --manifest "$LAB_DIR/more"
check "still no packet of data" test "$(line_packets)" = 0

# ---- to b: the same transport, nothing ahead of a loss
lab_submit many
lab_wait "$ORDER" 60
check_py "to b it is the LAN" 'r["state"] == "done" and r["way"] == "lan"' r="$RESULT"
check "b has every object" lab_verify many
check_py "losses are repaired by sending again" \
	'r["tx_resend"] > 50 and r["tx_repair"] * 10 <= r["tx_resend"]' r="$(edge_counters a)"
check_py "lan_cap counts in place of cap" 'r["links"][0]["cap_bps"] == 800000000' \
	r="$(ctl edge show a/a1 -o json)"

# ---- a policy by labels: what no edge can bring is in nobody's way
sed -i '/^policies:/,$d' "$LAB_DIR/master.yaml"
cat >>"$LAB_DIR/master.yaml" <<-YAML
	policies:
	  - { from: eu, to: eu, class: normal, most: 800K }
YAML
kill -HUP "${LAB_PID[master]}"
is_eu() { [ "$(link a b allow)" = True ]; }
check "the policy by labels counts" until_true 5 is_eu
check "from c to b there is no way" test "$(link c b way)" = none
for i in 1 2 3; do put "$LAB_C" "guest$i"; done
put "$LAB_A" all
check "put in a's pool: appears in c's" until_true 15 has "$LAB_C" all
check "and at b" until_true 15 has "$LAB_B" all
check "put in c's pool: appears in a's" until_true 15 has "$LAB_A" guest3
is_quiet() { [ "$(py 'sum(b["objects"] + b["flying"] for b in r["backlogs"])' r="$(repl)")" = 0 ]; }
check "nothing waits" until_true 10 is_quiet

# ---- only where the site agrees
master_config b/b1
stop master
master_start
wait_ready master
wait_edges
wait_views
check_py "a site that does not name the edge: said so" '"pools_at" in r["pool_sites"][0]' \
	r="$(ctl edge show a/a1 -o json)"
check "and not by it: there is no way" test "$(link a c way)" = none
put "$LAB_A" refused
sleep 1
check "nothing is copied" test "$(has "$LAB_C" refused && echo there)" = ""
finish
