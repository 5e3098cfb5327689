#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two levels end to end: no site masters, the inter-dc master follows both sites' sources itself, a
# pool and a Mooncake master at each. What is put at A appears at B, what B removes stays away, over a
# kill of the only master there is; and objects of a Mooncake master are ordered by their real size.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init two-level
LAB_CAP=400Mbit LAB_POOL_A=64M LAB_POOL_B=64M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 20 --loss 0.01)
lab_configure
head -c 32 /dev/urandom >"$LAB_DIR/secret"
chmod 600 "$LAB_DIR/secret"
spawn mooncake "$LAB_TEST/e2e/mooncake_stand_in" 2
wait_ready mooncake
mapfile -t PORTS < <(grep -v ready "$LAB_DIR/log/mooncake.out")
for s in a b; do
	read -r events admin <<<"${PORTS[$([ $s = a ] && echo 0 || echo 1)]}"
	[ $s = b ] || ADMIN=$admin
	mkdir -p "$LAB_DIR/site-$s"
	cat >"$LAB_DIR/site-$s.yaml" <<-YAML
		site: $s
		secret: $LAB_DIR/secret
		state_dir: $LAB_DIR/site-$s
		sources:
		  - { name: pool-$s, pool: $LAB_SHM/$s.pool }
		  - name: mooncake-$s
		    events: tcp://127.0.0.1:$events
		    admin: http://127.0.0.1:$admin
		tenants:
		  - { name: default, socket: $LAB_DIR/run/exist-$s.sock }
	YAML
done
sed -i '/^sites:/,$d' "$LAB_DIR/master.yaml"
cat >>"$LAB_DIR/master.yaml" <<-YAML
	secret: $LAB_DIR/secret
	sites:
	  - { name: a, follow: $LAB_DIR/site-a.yaml }
	  - { name: b, follow: $LAB_DIR/site-b.yaml }
	policies:
	  - { from: a, to: b, class: normal, least: 2K }
YAML

counter() { py 'r["counters"]["'"$1"'"]' r="$(repl)"; }
views_live() {
	[ "$(py 'all(s["connected"] and s["state"] == "live" and s.get("ready") and
		s["address"] == "this process" for s in r["sites"])' r="$(repl)")" = True ]
}
put() {
	head -c "${2:-300000}" /dev/urandom >"$LAB_DIR/$1"
	"$LAB_BIN/straitctl" put --pool "$LAB_A" "$1" "$LAB_DIR/$1" || die "put $1"
}
is_gone() { ! has "$LAB_B" "$1"; }
same() { cmp <("$LAB_BIN/straitctl" get --pool "$LAB_B" "$1") "$LAB_DIR/$1"; }
replicates() {
	put "$1"
	check "$1: arrives at B by itself" until_true 20 has "$LAB_B" "$1"
	check "$1: with the same bytes" same "$1"
}
counts() { [ "$(counter "$1")" -ge "$2" ]; }

lab_up
wait_views
replicates first
check "the socket of B answers yes" until_true 5 site_says b yes first
check "and no for what is not there" site_says b no nothing
put tiny 100
"$LAB_BIN/straitctl" remove --pool "$LAB_B" first || die "remove"
check "B's view follows a removal" until_true 5 site_says b no first
"$LAB_BIN/straitctl" remove --pool "$LAB_A" first
sleep 4 # the memory is saved every 3 s
murder master
master_start
wait_ready master
wait_edges
wait_views
put first
replicates second
check "what B removed is not brought again, over a kill of the master" is_gone first
check "below the policy's size: stays" is_gone tiny

# ---- sizes of a Mooncake master's objects come when they are to be ordered; 1000 bytes are too few
before=$(counter filtered)
lab_tell "$ADMIN" put k=small
check "of a Mooncake master: seen" until_true 10 site_says a yes small
check "of a Mooncake master: its size does not suit the policy" until_true 10 counts filtered \
	$((before + 1))
check_py "of a Mooncake master: nothing is on its way" \
	'sum(b["objects"] + b["flying"] for b in r["backlogs"]) == 0' r="$(repl)"
finish
