#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Policies that change while objects wait under them, all at one reload: what another site has, too,
# and may ship from then on waits for that one; what no policy brings any more is forgotten. No edge.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init policy-reload
LAB_NO_POOL=1
read -r EVENTS_A ADMIN_A EVENTS_C ADMIN_C <<<"$(free_ports 4)"
lab_pki
master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
lab_policies </dev/null
# policies FROM: only these may ship to b
policies() {
	sed -i '/^sites:/,$d' "$LAB_DIR/master.yaml"
	cat >>"$LAB_DIR/master.yaml" <<-YAML
		sites: [ { name: a }, { name: b }, { name: c } ]
		policies:
		  - { from: $1, to: b, class: normal }
	YAML
}
# follow SITE EVENTS ADMIN: its site master and a stand-in
follow() {
	spawn "m-$1" "$LAB_TEST/e2e/mooncake_stand_in" "$2" "$3"
	wait_ready "m-$1"
	lab_site "$1" <<-YAML
		  - { name: m-$1, events: "tcp://127.0.0.1:$2", admin: "http://127.0.0.1:$3" }
	YAML
	spawn "site-$1" "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$1.yaml"
}
live() { [ "$(py 'sorted(s["site"] for s in r["sites"] if s["state"] == "live")' r="$(repl)")" = "$1" ]; }
# wanted N: so many objects wait for b
wanted() { [ "$(py 'next(b["objects"] for b in r["backlogs"] if b["to"] == "b")' r="$(repl)")" = "$1" ]; }
# ships FROM: it alone, to b
ships() { [ "$(py '[p["from"] for p in r if p["allow"]]' r="$(ctl policy list -o json)")" = "['$1']" ]; }
reload() {
	policies "$1"
	kill -HUP "${LAB_PID[master]}"
	until_true 10 ships "$1"
}

policies a
master_start
wait_ready master
follow a "$EVENTS_A" "$ADMIN_A"
follow c "$EVENTS_C" "$ADMIN_C"
check "both are followed" until_true 20 live "['a', 'c']"
lab_tell "$ADMIN_C" put 'k=both&n=10'
check "what c has is known" until_true 10 site_says c yes both-9
lab_tell "$ADMIN_A" put 'k=both&n=10'
lab_tell "$ADMIN_A" put 'k=alone&n=5'
check "what a has waits for b" until_true 10 wanted 15
check "another may ship, and a not" reload c
check "what c has, too, waits still" until_true 10 wanted 10
check "and back" reload a
check "it waits for a again" until_true 10 wanted 10
finish
