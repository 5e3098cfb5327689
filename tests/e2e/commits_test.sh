#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who follows commits: what is put at A appears at B by itself, and a subscriber hears of it within a
# second; over a kill of the master it hears of everything once, in order; who comes back later goes
# on where it was; a tenant's certificate tells its own alone.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init commits
LAB_CAP=400Mbit LAB_POOL_A=128M LAB_POOL_B=128M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 20 --loss 0.01)
lab_configure
lab_site a </dev/null
lab_site b </dev/null
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal }
YAML
for t in default other; do
	"$LAB_BIN/straitctl" pki issue "$LAB_DIR/pki" --role tenant --name $t >>"$LAB_DIR/log/pki.out" 2>&1 ||
		die "no certificate of tenant $t"
done
lab_up
for s in a b; do
	spawn site-$s "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$s.yaml"
done
wait_views

put() {
	head -c 300000 /dev/urandom | "$LAB_BIN/straitctl" put --pool "$LAB_A" "$1" || die "put $1"
}
at_b() { "$LAB_BIN/straitctl" exist --pool "$LAB_B" "$1" >/dev/null 2>&1; }
# follow NAME [OPTIONS]: a subscriber in the background, its lines in log/NAME.out.
follow() {
	local name=$1
	shift
	spawn "$name" "$LAB_BIN/straitctl" --master "127.0.0.1:$LAB_PORT_M" --tls-dir "$LAB_DIR/pki" \
		--tls-name operator commits --follow -o json "$@"
}
told() { grep -q "\"key\": *\"$2\"" "$LAB_DIR/log/$1.out"; }
# lines NAME: all it was told, as a JSON array.
lines() { py '__import__("json").dumps([__import__("json").loads(l) for l in open("'"$LAB_DIR/log/$1.out"'")])'; }

# ---- what arrives is told
follow all --since first
follow some --to b --prefix model/ --only objects
until_true 5 is_up all
sleep 0.5
for i in $(seq 1 10); do
	at=$(date +%s%3N)
	put "model/$i"
	until_true 10 at_b "model/$i" || not_ok "model/$i arrives"
	there=$(date +%s%3N)
	until_true 5 told some "model/$i" || not_ok "model/$i is told"
	heard+=($(($(date +%s%3N) - there)))
	whole+=($(($(date +%s%3N) - at)))
done
check_py "told within a second of being there ($(printf '%s ' "${heard[@]}")ms; from put $(
	printf '%s ' "${whole[@]}")ms)" "sorted([$(IFS=,; echo "${heard[*]}")])[-1] < 1000"
put elsewhere
until_true 10 told all elsewhere || not_ok "all of it is told to who follows all"
check_py "with size, sites, class and order" \
	'[(l["bytes"], l["from"], l["to"], l["class"]) for l in r if l.get("key") == "model/1"] ==
		[(300000, "a", "b", "normal")] and all(l["order"] > 0 for l in r)' r="$(lines all)"
ended() { [ "$(py 'sum("state" in l for l in r) == len({l["order"] for l in r})' r="$(lines all)")" = True ]; }
check "each order's end is told, too" until_true 5 ended
check_py "who wants some gets those" \
	'[l["key"] for l in r] == ["model/%d" % i for i in range(1, 11)]' r="$(lines some)"

# ---- the master is killed while they follow
put before-kill
until_true 10 at_b before-kill || not_ok "before-kill arrives" # told of or not yet
murder master
master_start
wait_ready master
wait_edges
wait_views
put after-kill
for k in before-kill after-kill; do
	check "$k: told over the kill" until_true 30 told all $k
done
check_py "one sequence, each once" \
	'[int(l["position"].split("/")[1]) for l in r] == list(range(1, len(r) + 1)) and
		len({l["position"].split("/")[0] for l in r}) == 1' r="$(lines all)"
stop all
stop some

# ---- who comes back later goes on where it was
# list [OPTIONS]: what is kept, in log/list.out; its status in RC.
list() {
	ctl commits -o json "$@" >"$LAB_DIR/log/list.out" 2>"$LAB_DIR/log/list.err"
	RC=$?
}
list --since "$(py 'r[3]["position"]' r="$(lines all)")"
check_py "what is kept after a place is what was told, and no more is waited for" \
	'r[:len(a) - 4] == a[4:] and len(r) > 10' a="$(lines all)" r="$(lines list)"
list --only orders --count 2
check_py "two orders that ended" '[r[0]["state"], r[1]["state"]] == ["done", "done"] and len(r) == 2' \
	r="$(lines list)"
ctl commits --only objects >"$LAB_DIR/log/table.out"
check "a line for people" grep -q -E '^[0-9a-f]{8}/[0-9]+ .* a > b normal +[0-9.]+ .*B +model/1$' \
	"$LAB_DIR/log/table.out"
epoch=$(py 'r[0]["position"].split("/")[0]' r="$(lines all)")
list --since "$epoch/99999999"
check_py "a place that never was: status 1" "$RC == 1"
check "and says from where to go on" grep -q "read anew what is there, then go on after $epoch/" \
	"$LAB_DIR/log/list.err"

# ---- a tenant's certificate
LAB_OPERATOR=default
list
check_py "a tenant is told its own" 'len(r) > 10' r="$(lines list)"
LAB_OPERATOR=other
list
check_py "and nothing of others" 'r == [] and rc == 0' r="$(lines list)" rc=$RC
list --tenant default
check_py "nor if it asks for it" "$RC == 4"
ctl order list >"$LAB_DIR/log/list.out" 2>&1
check_py "nor anything else" "$? == 4"
unset LAB_OPERATOR

# ---- another ledger is another sequence
stop master
rm "$LAB_DIR"/master.db*
spawn master "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml" --min-term 1000
wait_ready master
list --since "$epoch/1"
check_py "a place of another ledger: status 1" "$RC == 1"
finish
