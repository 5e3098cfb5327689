#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every verb of straitctl: a table for people, JSON that parses for programs, statuses that scripts
# can rely on (0 done, 1 failed, 2 usage, 3 unreachable, 4 refused, 5 timeout).
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init cli
LAB_CAP=200Mbit LAB_POOL_A=128M LAB_POOL_B=128M
LAB_WAN=(--rate-gbps 0.2 --rtt-ms 40 --loss 0.01)
lab_configure
lab_up
lab_put objects --objects 24

# both NAME EXPRESSION COMMAND..: a table, and JSON r with which the expression holds.
both() {
	local name=$1 expr=$2 table
	shift 2
	table=$("$@" 2>&1)
	check_py "$name: a table" 'rc == 0 and lines > 0' rc=$? lines="$(wc -l <<<"$table")"
	check_py "$name: JSON" "$expr" r="$("$@" -o json 2>&1)"
}

status_of() {
	local want=$1
	shift
	"$@" >"$LAB_DIR/out" 2>&1 </dev/null
	RC=$?
	check_py "status $want of: $(printf '%s ' "${@##*/}" | cut -c1-70)" "$RC == $want"
}

both "site list" '[s["site"] for s in r] == ["a", "b"]' ctl site list
both "edge list" 'len(r) == 2 and all(e["connected"] for e in r)' ctl edge list
both "edge show" 'r["edge"] == "a1" and "counters" in r' ctl edge show a/a1
both "status" 'r["term"] >= 1' ctl status
both "site add" 'True' ctl site add c --label far
both "site show" 'r[0]["label"] == "far"' ctl site show c
umlaut=$'z\xc3\xbcrich'
LC_ALL=C.UTF-8 ctl site add c --label "$umlaut" >"$LAB_DIR/out"
check "a label in a table" grep -q "$umlaut" "$LAB_DIR/out"
check_py "and in JSON" 'r[0]["label"] == "z\u00fcrich"' r="$(ctl site show c -o json)"
status_of 4 ctl site add c --label $'z\xfc'
check "a label that is not UTF-8 is refused" grep -q 'UTF-8' "$LAB_DIR/out"
status_of 1 "$LAB_BIN/straitctl" exist --socket "$LAB_DIR/nothing" key
check "a socket that is not there is said so" grep -q 'nobody answers there' "$LAB_DIR/out"
status_of 0 ctl site del c
status_of 4 ctl site del c
check_py "site del: JSON" 'r == {}' r="$(ctl site add d >/dev/null && ctl site del d -o json)"
check_py "site list no longer shows it" '"c" not in [s["site"] for s in r]' r="$(ctl site list -o json)"

check "an empty order list has its header" grep -q '^ORDER' <(ctl order list)
lab_submit objects
ctl order watch "$ORDER" >"$LAB_DIR/watch" 2>&1
check_py "order watch waits for the end" 'rc == 0' rc=$?
check "order watch tells the progress" grep -q -E '[0-9]+ ?%' "$LAB_DIR/watch"
ctl order watch "$ORDER" -o json >"$LAB_DIR/watch.json" 2>&1
check_py "order watch: JSON lines" 'all(__import__("json").loads(l) for l in t.splitlines())' \
	t="$(py '__import__("json").dumps(open("'"$LAB_DIR"'/watch.json").read())')"
check "all is there" lab_verify objects
both "order list" 'len(r) == 1 and r[0]["state"] == "done"' ctl order list
both "order show" 'r["state"] == "done" and len(r["detail"]) == r["objects"] == 24' \
	ctl order show "$ORDER" --objects

lab_put long --model long --objects 20
lab_submit long
status_of 0 ctl order cancel "$ORDER"
lab_wait "$ORDER" 20
check_py "a canceled order is canceled" 'r["state"] == "canceled"' r="$RESULT"
status_of 4 ctl order cancel "$ORDER"
status_of 4 ctl order show 4711
status_of 1 ctl order watch "$ORDER"

head -c 100000 /dev/urandom >"$LAB_DIR/value"
status_of 0 "$LAB_BIN/straitctl" put --pool "$LAB_A" key-1 "$LAB_DIR/value"
status_of 0 "$LAB_BIN/straitctl" exist --pool "$LAB_A" key-1
status_of 1 "$LAB_BIN/straitctl" exist --pool "$LAB_A" key-2
status_of 0 "$LAB_BIN/straitctl" get --pool "$LAB_A" key-1 --to "$LAB_DIR/back"
check "get gives the bytes that were put" cmp "$LAB_DIR/value" "$LAB_DIR/back"
# A device of its own: a mistake must not cost the machine its /dev/null.
if mknod "$LAB_DIR/null" c 1 3 2>/dev/null && : 2>/dev/null >"$LAB_DIR/null"; then
	status_of 0 "$LAB_BIN/straitctl" get --pool "$LAB_A" key-1 --to "$LAB_DIR/null"
	check "get leaves a device a device" test -c "$LAB_DIR/null"
fi
mkfifo "$LAB_DIR/fifo"
cat "$LAB_DIR/fifo" >"$LAB_DIR/from-fifo" &
reader=$!
status_of 0 timeout 20 "$LAB_BIN/straitctl" get --pool "$LAB_A" key-1 --to "$LAB_DIR/fifo"
check "get leaves a pipe a pipe" test -p "$LAB_DIR/fifo"
[ "$RC" -eq 0 ] || kill $reader
wait $reader
check "and writes into it" cmp "$LAB_DIR/value" "$LAB_DIR/from-fifo"
ln -s back "$LAB_DIR/link"
(umask 077 && rm "$LAB_DIR/back" && exec "$LAB_BIN/straitctl" get --pool "$LAB_A" key-1 --to "$LAB_DIR/link")
check "get follows a symbolic link" cmp "$LAB_DIR/value" "$LAB_DIR/back"
check "get leaves it a link" test -L "$LAB_DIR/link"
check "get honors the umask" test "$(stat -c %a "$LAB_DIR/back")" = 600
status_of 1 "$LAB_BIN/straitctl" get --pool "$LAB_A" key-2 --to "$LAB_DIR/back"
check_py "exist: JSON" 'r[0]["exists"] is True' \
	r="$("$LAB_BIN/straitctl" exist --pool "$LAB_A" key-1 -o json)"
check_py "pool show: JSON" 'r["objects"] > 0' \
	r="$("$LAB_BIN/straitctl" pool show --pool "$LAB_A" -o json)"
check_py "remove: JSON" 'r == {"removed": 1}' \
	r="$(pool_tool put "$LAB_A" key-3 9 && "$LAB_BIN/straitctl" remove --pool "$LAB_A" key-3 -o json)"
check_py "pki: JSON" '"ca.pem" in r["cert"]' r="$("$LAB_BIN/straitctl" pki init "$LAB_DIR/ca" -o json)"
status_of 0 ctl order submit --from a --to b --idempotency-key once key-1
status_of 0 ctl order submit --from a --to b --idempotency-key once key-1
status_of 4 ctl order submit --from a --to b --idempotency-key once key-2
printf 'key-1\n' | ctl order submit --from a --to b --keys-file - --wait >"$LAB_DIR/out" 2>&1
check_py "order submit --wait" 'rc == 0' rc=$?
status_of 0 "$LAB_BIN/straitctl" get --pool "$LAB_B" key-1 --to "$LAB_DIR/back"
check "and it came across" cmp "$LAB_DIR/value" "$LAB_DIR/back"

status_of 2 ctl bogus
status_of 2 ctl order
status_of 2 ctl order submit --from a
status_of 2 ctl order submit --from a --to b --deadline 0s key-1
status_of 2 ctl order list --limit 0
check "a number that cannot be is told from what" grep -q 'a number from 1' "$LAB_DIR/out"
status_of 2 "$LAB_BIN/straitctl" exist --socket "$LAB_DIR/x" --pool "$LAB_A" key-1
status_of 4 ctl edge drain a
check "an edge is asked for with its site" grep -q 'say SITE/EDGE' "$LAB_DIR/out"
status_of 2 "$LAB_BIN/straitctl" --master 127.0.0.1 --insecure-loopback status
status_of 2 ctl order show
check "a missing argument is named" grep -q 'argument is missing: ID' "$LAB_DIR/out"
status_of 2 ctl order show 1 2
check "and one too many" grep -q 'too many: "2"' "$LAB_DIR/out"
status_of 1 "$LAB_BIN/straitctl" pool create --pool /proc/x --size 8M
check "a pool that cannot be is named once, and without advice" \
	grep -q '^straitctl: /proc/x: [^/(]*$' "$LAB_DIR/out"
status_of 0 ctl --help
status_of 0 ctl --version
stop master
status_of 3 ctl status
check "a master that is not there is named" grep -q "$LAB_PORT_M" "$LAB_DIR/out"
finish
