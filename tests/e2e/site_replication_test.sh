#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two sites whose pools are followed by site masters: what is put at A appears at B without an order
# by anybody, what B evicts stays away, and any process may be killed meanwhile.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init site-replication
LAB_CAP=400Mbit LAB_POOL_A=128M LAB_POOL_B=128M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.01)
lab_configure

for s in a b; do
	"$LAB_BIN/straitctl" pool create --pool "$LAB_SHM/spare-$s.pool" --size 4M
	lab_site $s <<-YAML
		  - { name: spare-$s, pool: $LAB_SHM/spare-$s.pool }
	YAML
done
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal, least: 1K }
	  - { from: us, to: eu, class: normal, after: 3 }
YAML

site_start() {
	spawn "site-$1" "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$1.yaml"
}
# view SITE: what the inter-dc master says of it.
view() { py '__import__("json").dumps([s for s in r["sites"] if s["site"] == "'"$1"'"][0])' r="$(repl)"; }
counter() { py 'r["counters"]["'"$1"'"]' r="$(repl)"; }
put() {
	head -c "${3:-300000}" /dev/urandom >"$LAB_DIR/$2"
	"$LAB_BIN/straitctl" put --pool "$1" "$2" "$LAB_DIR/$2" || die "put $2"
}
is_gone() { ! has "$1" "$2"; }
arrives() { until_true "${2:-15}" has "$LAB_B" "$1"; }
same() { cmp <("$LAB_BIN/straitctl" get --pool "$LAB_B" "$1") "$LAB_DIR/$1"; }
exist() { "$LAB_BIN/straitctl" exist --socket "$LAB_DIR/run/exist-$1.sock" "$2"; }
# replicates NAME: a new object of that name comes to B as it is at A.
replicates() {
	put "$LAB_A" "$1"
	check "$1: arrives at B by itself" arrives "$1" "${2:-15}"
	check "$1: with the same bytes" same "$1"
}
# Nothing is on its way any more.
is_quiet() {
	[ "$(py 'sum(b["objects"] + b["flying"] for b in r["backlogs"])' r="$(repl)")" = 0 ]
}

lab_up
site_start a
site_start b
wait_views

# ---- what is put appears
replicates first
orders=$(py 'len(r)' r="$(ctl order list -o json)")
check_py "it came by an order of the master's own" "$orders >= 1"
check "the site master of B answers yes" until_true 5 exist b first
check_py "locate names both sites" 'sorted(r[0]["sites"]) == ["a", "b"] and not r[0]["unknown"]' \
	r="$(ctl locate first -o json)"
check_py "policies are shown" '[p["allow"] for p in r if p["from"] == "a"] == [True]' \
	r="$(ctl policy list -o json)"
put "$LAB_A" tiny 100
put "$LAB_B" native
check "native: is seen at B" until_true 5 exist b native
replicates second
check "below the policy's size: stays" is_gone "$LAB_B" tiny
check "the other way only when asked for: not yet" is_gone "$LAB_A" native
for _ in 1 2; do site_says a no native || not_ok "A knows native"; done
replicates third

# ---- what waits says why
waits_for() {
	[ "$(py '[b["objects"] > 0 and b["eta_ms"] is None and "'"$1"'" in b.get("text", "") for b in
		r["backlogs"] if b["to"] == "b"][0]' r="$(repl)")" = True ]
}
ctl edge drain a/a1 --hand-over >/dev/null 2>"$LAB_DIR/out"
check "a site's last edge drains: nobody takes over, and that is said" \
	grep -q 'nobody takes over' "$LAB_DIR/out"
put "$LAB_A" held
check "what waits for the source's edge says so, without an estimate" \
	until_true 10 waits_for 'no edge of site a takes orders: those that are connected drain'
ctl edge drain b/b1 >/dev/null
check "and for the destination's" until_true 10 waits_for 'no edge of it takes orders'
ctl edge undrain a/a1 >/dev/null
ctl edge undrain b/b1 >/dev/null
check "undrained: it comes" arrives held
check "a site is no edge, which is told" grep -q 'say SITE/EDGE' <(ctl edge drain a 2>&1)
check "asked for twice: not yet" is_gone "$LAB_A" native
site_says a no native || not_ok "A knows native"
check "asked for three times: comes" until_true 15 has "$LAB_A" native
check_py "filtered is counted" "$(counter filtered) >= 1"

# ---- what goes stays away
"$LAB_BIN/straitctl" remove --pool "$LAB_B" first || die "remove"
check "B's view follows a removal" until_true 5 site_says b no first
replicates third2
check "what B removed is not brought again" is_gone "$LAB_B" first
"$LAB_BIN/straitctl" remove --pool "$LAB_A" first
put "$LAB_A" first
replicates fourth
check "not even when A stores it again" is_gone "$LAB_B" first
ctl fetch --to b first >/dev/null || not_ok "fetch"
check "but when somebody asks for it" arrives first

# ---- evicted, and over a restart of the site master that has to remember
for i in $(seq 1 18); do put "$LAB_B" "fill$i" 8000000; done
check "second: evicted at B" until_true 5 is_gone "$LAB_B" second
check "and B says so" until_true 5 site_says b no second
sleep 4 # the memory is saved every 3 s
murder site-b
site_start b
wait_views
"$LAB_BIN/straitctl" remove --pool "$LAB_A" second
murder master
master_start
wait_ready master
wait_edges
wait_views
put "$LAB_A" second
replicates fifth
check "evicted: not brought after the master and B's site master were killed" \
	is_gone "$LAB_B" second
check_py "declined by B itself" "$(counter declined) >= 1"

# ---- each process in turn
murder site-a
is_stale() { [ "$(py 'not v["connected"] and v["state"] == "stale"' v="$(view "$1")")" = True ]; }
check "killed site master: its view is stale" until_true 10 is_stale a
site_start a
wait_views
replicates sixth
murder edge-b
edge_start b
wait_ready edge-b
wait_edges
replicates seventh 40
murder edge-a
edge_start a
wait_ready edge-a
wait_edges
replicates eighth 40

# ---- a source that goes and comes back, with what it held and what came meanwhile
put "$LAB_SHM/spare-a.pool" spare 5000
state_of_spare() { py '[s["state"] for s in v if s["name"] == "spare-a"][0]' v="$(ctl source list -o json)"; }
is_down_at_a() { [ "$(state_of_spare)" = down ]; }
mv "$LAB_SHM/spare-a.pool" "$LAB_SHM/away"
check "source gone: said so" until_true 10 is_down_at_a
check_py "source gone: the site is not ready" 'not v["ready"]' v="$(view a)"
check_py "source gone: locate does not know A" '"a" in r[0]["unknown"]' \
	r="$(ctl locate eighth -o json)"
check "source gone: A's site master says unknown" site_says a unknown eighth
put "$LAB_SHM/away" spare2 5000
mv "$LAB_SHM/away" "$LAB_SHM/spare-a.pool"
check "source back: live again" until_true 10 views_live
check "source back: its objects are there" exist a spare
check "source back: and what came meanwhile" exist a spare2
replicates ninth

# ---- who does not belong is refused, and said so
murder site-b
head -c 32 /dev/urandom >"$LAB_DIR/secret2"
chmod 600 "$LAB_DIR/secret2"
sed "s|secret: .*|secret: $LAB_DIR/secret2|" "$LAB_DIR/site-b.yaml" >"$LAB_DIR/strange.yaml"
spawn strange "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/strange.yaml"
refused() { [ "$(py '"'"$1"'" in (v.get("refused") or "")' v="$(view b)")" = True ]; }
check "a site with another secret is refused" until_true 10 refused "secret must be the same"
murder strange
site_start b
wait_views
"$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-b.yaml" >"$LAB_DIR/log/twice.err" 2>&1
check_py "a second process does not take the state directory" 'rc == 1' rc=$?
check "and says why" grep -q 'another strait-master uses it' "$LAB_DIR/log/twice.err"
check "the first one's existence socket still answers" site_says b no nobody-put-it
mkdir -p "$LAB_DIR/site-second"
sed -e "s,state_dir: .*,state_dir: $LAB_DIR/site-second," -e 's,socket: .*/,&second-,' \
	"$LAB_DIR/site-b.yaml" >"$LAB_DIR/second.yaml"
spawn second "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/second.yaml"
check "a second master of a site is refused" until_true 10 refused "another process"
check_py "and the first goes on" 'v["connected"] and v["state"] == "live"' v="$(view b)"
murder second

# ---- history needs to be asked for
murder site-a
put "$LAB_A" older
site_start a
wait_views
replicates tenth
check "stored while nobody looked: history" is_gone "$LAB_B" older
ctl backfill a >/dev/null || not_ok "backfill"
check "until a backfill" arrives older
check "it becomes quiet" until_true 10 is_quiet
check_py "fetch tells what comes of each key" 'r["wanted"] == 0 and r["there"] == r["nowhere"] == 1' \
	r="$(ctl fetch --to b older nobody-has-it -o json)"
check_py "nothing was quarantined" "$(counter quarantined) == 0"
finish
