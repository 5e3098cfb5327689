#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Clocks of live masters: the wall clock steps an hour ahead and two back (libfaketime), and a machine
# is suspended for longer than what counts as silence (SIGSTOP). Replication goes on, nothing is
# shipped twice, what was evicted stays away.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
FAKE=$(find /usr/lib -name libfaketime.so.1 2>/dev/null | head -n 1)
[ -n "$FAKE" ] || skip "needs libfaketime"

lab_init clock
LAB_CAP=400Mbit LAB_POOL_A=64M LAB_POOL_B=64M
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 20)
lab_configure
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal }
YAML
for s in a b; do lab_site $s </dev/null; done

# steps NAME SECONDS: the wall clock of one process, from the true one
steps() { echo "$2" >"$LAB_DIR/clock-$1.new" && mv "$LAB_DIR/clock-$1.new" "$LAB_DIR/clock-$1"; }
faked() {
	local name=$1
	shift
	steps "$name" +0
	spawn "$name" env LD_PRELOAD="$FAKE" FAKETIME_TIMESTAMP_FILE="$LAB_DIR/clock-$name" \
		DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_NO_CACHE=1 "$@"
}
master_start() { faked master "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"; }
put() { head -c 100000 /dev/urandom | "$LAB_BIN/straitctl" put --pool "$LAB_A" "$1" - || die "put $1"; }
objects=0
# replicates NAME: a new object of that name
replicates() {
	put "$1"
	objects=$((objects + 1))
	check "$1: it arrives" until_true 10 has "$LAB_B" "$1"
	check "$1: and is known there" until_true 10 site_says b yes "$1"
}
log_time() { tail -n 1 "$LAB_DIR/log/$1.err" | cut -c1-16; }

lab_up
for s in a b; do
	faked "site-$s" "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$s.yaml"
done
wait_views
replicates before
replicates evicted
check "evicted at B" "$LAB_BIN/straitctl" remove --pool "$LAB_B" evicted
check "evicted: B's site knows" until_true 5 site_says b no evicted

for p in master site-a site-b; do steps $p +1h; done
replicates ahead
check "the master's clock did step" test "$(log_time master)" \> "$(date -u -d '+50 min' +%FT%H:%M)"
for p in master site-a site-b; do steps $p -1h; done
replicates back
"$LAB_BIN/straitctl" remove --pool "$LAB_A" evicted
until_true 5 site_says a no evicted || not_ok "A's site knows that it is gone there"
put evicted
replicates behind # what was put before it was looked at before it
check "what B evicted within the hour is not brought again" eval '! has "$LAB_B" evicted'

for p in master site-b; do steps $p +0; done # site-a's stays behind
replicates apart

# longer than the 10 s that are silence: all that they have been to each other is given up
for p in master site-a; do kill -STOP "${LAB_PID[$p]}"; done
put meanwhile
objects=$((objects + 1))
sleep 12
for p in master site-a; do steps $p +10m && kill -CONT "${LAB_PID[$p]}"; done
check "suspended: views are live again" until_true 20 views_live
check "suspended: edges are back" until_true 20 edges_up 2
replicates after
check "what was stored meanwhile arrives" until_true 10 has "$LAB_B" meanwhile
check_py "each was shipped once: $objects" \
	'r["counters"]["brought"] == n and r["counters"]["failed"] == 0' r="$(repl)" n=$objects
check "evicted: still" eval '! has "$LAB_B" evicted'
finish
