#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sources that lose events, restart, fall silent and go, at one site with a master of its own (three
# levels) and one that the inter-dc master follows itself (two levels, sixty tiny sub-masters): what
# straitctl says is exactly so. Stand-ins publish what was recorded from a Mooncake master; no edge.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init sources
VECTORS=tests/vectors/kv_events
TINY=60
read -r EVENTS ADMIN <<<"$(free_ports 2)"
lab_pki
master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
head -c 32 /dev/urandom >"$LAB_DIR/secret"
chmod 600 "$LAB_DIR/secret"
mkdir -p "$LAB_DIR/site-b"
LAB_NO_POOL=1

stand_in() { spawn "$1" "$LAB_TEST/e2e/mooncake_stand_in" "${@:2}"; }
m1() { lab_tell "$ADMIN" "$@"; }

stand_in m1 "$EVENTS" "$ADMIN"
stand_in tiny $TINY
wait_ready m1
wait_ready tiny
mapfile -t TINY_PORTS < <(grep -v ready "$LAB_DIR/log/tiny.out")
lab_site a <<-YAML
	  - name: m1
	    events: tcp://127.0.0.1:$EVENTS
	    admin: http://127.0.0.1:$ADMIN
	    list_every: 3s
YAML
{
	cat <<-YAML
		site: b
		secret: $LAB_DIR/secret
		state_dir: $LAB_DIR/site-b
		tenants:
		  - { name: default, socket: $LAB_DIR/run/exist-b.sock }
		sources:
	YAML
	for i in "${!TINY_PORTS[@]}"; do
		read -r events admin <<<"${TINY_PORTS[$i]}"
		echo "  - {name: t$i, events: 'tcp://127.0.0.1:$events', admin: 'http://127.0.0.1:$admin'}"
	done
} >"$LAB_DIR/site-b.yaml"
sed -i '/^sites:/,$d' "$LAB_DIR/master.yaml"
cat >>"$LAB_DIR/master.yaml" <<-YAML
	secret: $LAB_DIR/secret
	forget_after: 6s
	sites:
	  - { name: a, label: eu }
	  - { name: b, label: us, follow: $LAB_DIR/site-b.yaml }
	policies:
	  - { from: eu, to: us, class: normal, cap: 1G, after: 0, most: 64M, ttl: 90m,
	      pause_below: 30s, profile: wan, tenants: [default] }
	  - { from: b, to: a, allow: false, after: 2, ttl: eviction-age, tenants: [nobody, default] }
YAML

site_start() { spawn site-a "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-a.yaml"; }
sources() { ctl source list -o json; }
# holds EXPRESSION: of r (replication status), s (sources by name), a and b (sites).
holds() {
	[ "$(py "$1" r="$(repl)" l="$(sources)" 2>&1)" = True ]
}
A='next(x for x in r["sites"] if x["site"] == "a")'
B='next(x for x in r["sites"] if x["site"] == "b")'
M1='next(x for x in l if x["name"] == "m1")'
# becomes NAME SECONDS EXPRESSION
becomes() {
	if until_true "$2" holds "$3"; then ok "$1"; else not_ok "$1" "not so: $3; $(repl) $(sources)"; fi
}
# seen NAME SITE KEY, gone NAME SITE KEY: by the site's socket and by the inter-dc master.
located() {
	[ "$(py "('$1' in r[0]['sites'], '$1' in r[0]['unknown'])" r="$(ctl locate "$2" -o json)")" = "$3" ]
}
seen() {
	check "$1: the site says yes" until_true 10 site_says "$2" yes "$3"
	check "$1: and the inter-dc master" until_true 10 located "$2" "$3" "(True, False)"
}
gone() {
	check "$1: the site says no" until_true "${4:-10}" site_says "$2" no "$3"
	check "$1: and the inter-dc master" until_true 10 located "$2" "$3" "(False, False)"
}
live="$A['connected'] and $A['state'] == 'live' and $A['ready'] and $M1['state'] == 'live'"

check "configurations of both kinds are good" \
	"$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml" --check-config
sed 's/site: b/site: c/' "$LAB_DIR/site-b.yaml" >"$LAB_DIR/site-c.yaml"
sed "s/site-b.yaml/site-c.yaml/" "$LAB_DIR/master.yaml" >"$LAB_DIR/wrong.yaml"
out=$("$LAB_BIN/strait-master" --config "$LAB_DIR/wrong.yaml" --check-config 2>&1)
check "a site's file of another name is refused, with its line" \
	grep -q 'wrong.yaml:.*is of site c, not b' <<<"$out"

master_start
wait_ready master
site_start
becomes "both sites are followed, every source is live" 20 \
	"$live and $B['connected'] and $B['state'] == 'live' and $B['ready'] and
	len(l) == $TINY + 1 and all(x['state'] == 'live' for x in l)"

# ---- two levels, many tiny sub-masters
read -r _ last <<<"${TINY_PORTS[$((TINY - 1))]}"
read -r _ first <<<"${TINY_PORTS[0]}"
lab_tell "$last" put k=tiny-last
lab_tell "$first" put 'k=both'
lab_tell "$last" put 'k=both'
seen "of the last tiny one" b tiny-last
seen "of two at once" b both
lab_tell "$first" remove 'k=both'
lab_tell "$first" put 'k=marker'
seen "a marker after it" b marker
check "gone from one of two: still there" site_says b yes both
lab_tell "$last" remove 'k=both'
gone "gone from both" b both
becomes "each source has its own" 5 \
	"[x['objects'] for x in l if x['name'] in ('t0', 't$((TINY - 1))')] == [1, 1]"
lab_tell "$last" lose k=lost
lab_tell "$last" put k=after
seen "lost at a tiny one" b lost

# ---- three levels: whatever happens to events, the view is right
m1 put k=one
seen "stored" a one
m1 remove k=one
gone "removed" a one
m1 lose k=lost
m1 put k=after
seen "a lost event" a lost
becomes "which was a gap" 5 "$live and $M1['gaps'] == 1"
m1 lose k=last-lost
seen "a lost event with nothing after it" a last-lost
m1 drop 'k=dropped&n=300'
m1 put k=after2
seen "a queue that overflowed" a dropped-299
m1 put 'k=many&n=500'
seen "many at once" a many-499
m1 forget k=many
gone "removed without a word" a many-7 20
m1 put k=segment-1
seen "of a client" a segment-1
m1 die k=segment
gone "its death" a segment-1 20
m1 off
becomes "publisher off: polled" 15 "$A['ready'] and $M1['state'] == 'polled'"
m1 put k=unpublished
check "publisher off: seen by the next look" until_true 30 site_says a yes unpublished
m1 on
becomes "publisher on again: live" 15 "$live"
m1 put k=published
seen "publisher on again" a published

# ---- an admin port that fails
m1 fail
m1 lose k=while-failing
m1 put k=after3
becomes "no listing: incomplete, and said so" 10 "not $A['ready'] and $M1['state'] == 'incomplete'"
check "no listing: the site says unknown" until_true 5 site_says a unknown after3
check "no listing: so does the inter-dc master" until_true 5 located a after3 "(False, True)"
m1 heal
becomes "listed again: live" 20 "$live"
seen "what was lost meanwhile" a while-failing

# ---- killed and started again
n=$(py "$M1['objects']" l="$(sources)")
murder m1
becomes "killed: down, the site is not ready, what was known is kept" 20 \
	"$A['connected'] and $A['state'] == 'live' and not $A['ready'] and
	$M1['state'] == 'down' and $M1['objects'] == $n"
check "killed: the site says unknown" site_says a unknown one
check "killed: so does the inter-dc master" until_true 5 located a after "(False, True)"
age=$(py "$M1['age_ms']" l="$(sources)")
becomes "killed: its age grows" 10 "$M1['age_ms'] >= $age + 1000"
check_py "killed: the other site is as it was" "$B['ready'] and $B['state'] == 'live'" r="$(repl)"
out=$(ctl replication status)
check "killed: the table counts it" grep -Eq "^a +eu .* 0 of 1 live" <<<"$out"
check "killed: and the other's" grep -Eq "^b +us +this process .* $TINY of $TINY live" <<<"$out"
stand_in m1 "$EVENTS" "$ADMIN"
wait_ready m1
becomes "back: live, and it has nothing" 20 "$live and $M1['objects'] == 0 and $A['objects'] == 0"
gone "back: what it had is gone" a after
m1 put k=new
seen "back: what is new" a new

# ---- what was recorded, over a restart
m1 forget k=
m1 play "k=$VECTORS/mooncake_events.jsonl&from=1&to=7"
seen "recorded" a k2
check "recorded: what it removed is gone" until_true 10 site_says a no 0xdeadbeef
murder m1
becomes "recorded: killed" 20 "$M1['state'] == 'down'"
stand_in m1 "$EVENTS" "$ADMIN"
wait_ready m1
becomes "recorded: connected again" 20 "$live and $M1['objects'] == 0"
m1 play "k=$VECTORS/mooncake_events_restart.jsonl&from=1&to=5"
truth() { (exec 9<>"/dev/tcp/127.0.0.1/$ADMIN" && printf 'GET /get_all_keys HTTP/1.0\r\n\r\n' >&9 &&
	sed '1,/^\r$/d' <&9 | grep -c .); }
becomes "recorded: the seq goes back, the view is what the master says" 20 \
	"$live and $M1['objects'] == $(truth) and $A['objects'] == $(truth)"

# ---- backlog and policies without an edge
check_py "nothing is to come to a, so there is no age and no end of it" \
	'[(b["objects"], b["oldest_ms"], b["eta_ms"]) for b in r["backlogs"] if b["to"] == "a"] ==
	[(0, None, None)]' r="$(repl)"
out=$(ctl replication status)
check "the table says so" grep -Eq '^a +0 +0 B +- +0 +0 +0 +- ' <<<"$out"
check_py "and nowhere that something takes no time" "not $(grep -c ' 0 ns' <<<"$out")"
m1 put 'k=waits&n=10'
becomes "backlog: what is wanted waits for an edge, and says so" 10 \
	"next((x['objects'], x['flying'], x['text']) for x in r['backlogs'] if x['to'] == 'b')[1:] ==
	(0, 'no edge of it is connected') and
	next(x['objects'] for x in r['backlogs'] if x['to'] == 'b') >= 10"
wanted_age() { py "next(x['oldest_ms'] for x in r['backlogs'] if x['to'] == 'b')" r="$(repl)"; }
age=$(wanted_age)
becomes "backlog: it grows older, and has no end in sight" 10 \
	"[(x['oldest_ms'] > $age + 500, x['eta_ms']) for x in r['backlogs'] if x['to'] == 'b'] ==
	[(True, None)]"
check_py "policies: as configured" \
	'[(p["from"], p["to"], p["allow"], p["cap_bps"]) for p in r] ==
	[("a", "b", True, 1000000000), ("b", "a", False, 0)]' r="$(ctl policy list -o json)"
limits='("after", "least_bytes", "most_bytes", "ttl_ms", "ttl_by_eviction_age", "pause_below_ms",
	"tenants", "profile")'
check_py "policies: with all that they say" "[[p.get(x, 'not told') for x in $limits] for p in r] ==
	[[0, None, 64 << 20, 5400000, False, 30000, ['default'], 'wan'],
	[2, None, None, None, True, None, ['nobody', 'default'], None]]" r="$(ctl policy list -o json)"
out=$(ctl policy list)
check "policies: the table says so" grep -Eq \
	'^a .*1.00 Gbit/s +0 +to 64.0 MiB +1.50 h +30.0 s +default' <<<"$out"

# ---- masters that go
murder site-a
becomes "killed site master: gone, its view is stale, its sources are not known" 20 \
	"not $A['connected'] and $A['state'] == 'stale' and $M1['state'] == 'not known'"
stale=$(py "$A['staleness_ms']" r="$(repl)")
age=$(py "$M1['age_ms']" l="$(sources)")
becomes "killed site master: its view and its sources grow old, how far it is behind is not known" 10 \
	"$A['staleness_ms'] > $stale + 500 and $M1['age_ms'] > $age + 500 and
	$A['lag_events'] is None"
check "killed site master: locate does not know" located a new "(False, True)"
check_py "killed site master: it did not take its leave" \
	"not $A['left'] and $A['gone_since_ms'] > 0 and $A['gone_reason'] != ''" r="$(repl)"
becomes "gone for long: what it held is forgotten" 15 \
	"$A['state'] == 'expired' and $A['objects'] == 0 and $A['sources'] == []"
check "gone for long: locate does not know" located a new "(False, True)"
check_py "gone for long: nor is its age known" "$A['staleness_ms'] is None" r="$(repl)"
site_start
becomes "and back" 20 "$live and $A['objects'] == $(truth)"
becomes "back: young again, and not behind" 10 \
	"$A['staleness_ms'] < 2000 and $A['lag_events'] == 0 and $M1['age_ms'] < 5000"
stop site-a
check "the site master ends cleanly" test "$RC" = 0
becomes "stopped site master: it left" 5 "$A['left'] and $A['gone_reason'] == 'it was stopped'"
check "stopped: the table says so" grep -Eq "^a +eu +left +stale " <<<"$(ctl replication status)"
site_start
becomes "and back again" 20 "$live"
murder master
murder tiny
stand_in tiny 1
wait_ready tiny
master_start
wait_ready master
becomes "killed inter-dc master: it follows again, and says what is gone" 30 \
	"$live and $B['connected'] and not $B['ready'] and
	{x['state'] for x in l if x['site'] == 'b'} == {'down'}"
sed -i "s/, follow: [^}]*}/ }/" "$LAB_DIR/master.yaml"
kill -HUP "${LAB_PID[master]}"
becomes "no longer configured: not followed any more" 10 "not $B['connected'] and $live"
stop master
check "the inter-dc master ends cleanly" test "$RC" = 0
finish
