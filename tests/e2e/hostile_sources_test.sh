#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sources that mean harm beside one that does not (tests/e2e/hostile_source.py has all of them): what
# they send costs the site master no memory to speak of, it names the fault of each, and follows the
# good one as if they were not there.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

KINDS=(claims deep large garbage flood endless specks parts silent lines drip json chunks headers
	status hang replay back leave)
RESIDENT_MIB=1500 # of which a message of empty parts takes a half (control/sources/stream.h), more on a busy machine
lab_init hostile-sources
LAB_NO_POOL=1
lab_pki
master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal }
YAML
read -r EVENTS ADMIN <<<"$(free_ports 2)"
spawn m1 "$LAB_TEST/e2e/mooncake_stand_in" "$EVENTS" "$ADMIN"
wait_ready m1
# One process each: threads of one would keep each other from answering.
for kind in "${KINDS[@]}" list; do
	spawn "$kind" "$LAB_PYTHON" tests/e2e/hostile_source.py "$kind"
done
for kind in "${KINDS[@]}" list; do
	wait_ready "$kind"
done

# site KIND..: m1 and these
site() {
	rm -f "$LAB_DIR"/pki/site-a.*
	lab_site a <<-YAML
		  - { name: m1, events: "tcp://127.0.0.1:$EVENTS", admin: "http://127.0.0.1:$ADMIN" }
		$(while read -r kind events other; do
			case $kind in
			ready) ;;
			replay | back | leave) echo "  - { name: $kind, engine: vllm, keys: [ 'v:{hash}' ]," \
				"events: 'tcp://127.0.0.1:$events', replay: 'tcp://127.0.0.1:$other' }" ;;
			*) echo "  - { name: $kind, events: 'tcp://127.0.0.1:$events'," \
				"admin: 'http://127.0.0.1:$other' }" ;;
			esac
		done < <(for k in "$@"; do cat "$LAB_DIR/log/$k.out"; done))
		memory: 64M
	YAML
	spawn site-a "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-a.yaml"
}
sources() { ctl source list -o json; }
# says NAME REGEX: what is told of the source
says() {
	[ "$(py '__import__("re").search(pattern, next(s.get("trouble", "") for s in r
		if s["name"] == name)) is not None' \
		r="$(sources)" name="\"$1\"" pattern="\"$2\"")" = True ]
}
view() { py "next(v for v in r['sites'] if v['site'] == 'a')$1" r="$(ctl replication status -o json)"; }
# followed N: the good one, with so many objects; its view at the inter-dc master is new
followed() {
	[ "$(py '[(s["state"], s["objects"]) for s in r if s["name"] == "m1"]' r="$(sources)")" = \
		"[('live', $1)]" ] && [ "$(view '["state"]')" = live ] &&
		[ "$(view '["staleness_ms"]')" -lt 3000 ]
}
peak_mib() { sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/${LAB_PID[site-a]}/status" |
	awk '{ print int($1 / 1024) }'; }
is_fault() { check "$1: is said to be at fault" until_true 30 says "$@"; }

master_start
wait_ready master
site "${KINDS[@]}"
check "the good one is followed among ${#KINDS[@]} that are not" until_true 30 followed 0
lab_tell "$ADMIN" put k=first
check "and what it stores" until_true 20 followed 1
for kind in endless specks; do
	is_fault "$kind" "cut off"
done
# On a busy machine they are cut off, too.
for kind in garbage flood claims deep parts; do
	is_fault "$kind" "cut off|^[0-9]+ messages or events of it cannot be read"
done
is_fault large "its connection was lost, ([2-9]|[1-9][0-9]+) times"
is_fault lines "^is longer than all keys in memory can be|^is listed slowly"
is_fault drip "^is listed slowly, and others wait"
is_fault hang "^is listed slowly, and others wait|timed out|Timeout"
is_fault json "answers something else"
is_fault chunks "chunked"
is_fault headers "header"
is_fault status "^/kv_events/status: "
is_fault replay "^its replay does not end"
is_fault back "^its replay does not end"
check "silent: is not" until_true 20 says silent '^$'
lab_tell "$ADMIN" put k=second
check "the good one is followed as before" until_true 20 followed 2
peak=$(peak_mib)
check_py "memory was bounded: $peak MiB at most" "$peak < $RESIDENT_MIB"
for kind in "${KINDS[@]}"; do stop "$kind"; done
check "they are gone: the good one is followed" until_true 20 followed 2
stop site-a
check "the site master ends cleanly" test "$RC" = 0

# ---- a listing without an end fills what memory there is, and is named for it
site list
is_fault list "^names more keys than memory suffices for"
check "and the site says so" until_true 30 eval '[[ $(view "[\"trouble\"]") == *"raise memory"* ]]'
check_py "memory was bounded: $(peak_mib) MiB at most" "$(peak_mib) < 256"
finish
