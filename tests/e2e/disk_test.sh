#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The disk of a master and a site master is full, read-only, or has damaged files, at the start and in
# the middle: each says so in words, nothing that was accepted is lost, what was evicted stays away.
# Root, as it mounts a small tmpfs.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root"

lab_init disk
DISK=$LAB_DIR/disk
mkdir "$DISK"
lab_clean_more() { umount "$DISK" 2>/dev/null; }
mount -t tmpfs -o size=4m none "$DISK" || skip "cannot mount a tmpfs here"
lab_pki
master_yaml "127.0.0.1:$LAB_PORT_M" | sed "s|^ledger: .*|ledger: $DISK/master.db|" >"$LAB_DIR/master.yaml"
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal }
YAML
lab_site a </dev/null
sed -i "s|^state_dir: .*|state_dir: $DISK/state|" "$LAB_DIR/site-a.yaml"
"$LAB_BIN/straitctl" pool create --pool "$LAB_A" --size 4M >"$LAB_DIR/log/pool.out"

fill() { dd if=/dev/zero of="$DISK/filler" bs=4k status=none 2>"$LAB_DIR/log/dd.err"; }
empty() { rm -f "$DISK/filler"; }
master=("$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml")
# refuses NAME REGEX: to start, for a reason in these words
refuses() {
	local out
	out=$(timeout 20 "${master[@]}" 2>&1)
	check "$1: does not start" test $? = 1
	check "$1: says why" grep -Eq "$2" <<<"$out"
}
orders() { py 'sorted(o["order"] for o in r)' r="$(ctl order list -o json)"; }
submit() { ctl order submit --from a --to b "$@"; }
trouble() { ctl replication status | grep -q "^TROUBLE a: .*$1"; }

# ---- at the start
fill
refuses "a full disk" "$DISK/master.db.*(full|No space left)"
empty
mount -o remount,ro "$DISK"
refuses "a read-only disk" "$DISK/master.db.*Read-only file system"
mount -o remount,rw "$DISK"

# ---- in the middle
master_start
wait_ready master
submit one >"$LAB_DIR/log/submit.out"
check "an order is taken" test "$(orders)" = "[1]"
fill
submit two >"$LAB_DIR/log/refused.out" 2>&1
check_py "full: the second is refused at once" 'rc == 1' rc=$?
check "full: and why" grep -q 'ledger cannot be written.*full' "$LAB_DIR/log/refused.out"
check "full: the master says that orders stand still" until_true 10 \
	logged master "ledger cannot be written, orders stand still: .*full"
check "full: so does straitctl" eval 'ctl status 2>&1 | grep -q "ledger cannot be written"'
empty
check "room again: the master says so" until_true 10 logged master "the ledger can be written again"
submit two >"$LAB_DIR/log/submit.out"
before=$(orders)
check_py "room again: the second is taken" 'len(r) == 2' r="$before"
murder master
master_start
wait_ready master
check "killed and started: both orders are there" test "$(orders)" = "$before"

# ---- a site master's memory of what was evicted
mkdir "$DISK/state"
site_start() { spawn site-a "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-a.yaml"; }
evict() {
	echo "$1" | "$LAB_BIN/straitctl" put --pool "$LAB_A" "$1" -
	until_true 5 site_says a yes "$1"
	"$LAB_BIN/straitctl" remove --pool "$LAB_A" "$1"
}
site_start
check "the site master is followed" until_true 10 eval '[ "$(ctl replication status | grep -c " live .*1 of 1 live")" = 1 ]'
evict first >"$LAB_DIR/log/evict.out"
check "what is evicted is saved" until_true 10 test -s "$DISK/state/recall"
cp "$DISK/state/recall" "$LAB_DIR/recall.good"
fill
evict second >>"$LAB_DIR/log/evict.out"
check "full: the site says so" until_true 10 trouble "what was evicted cannot be saved: No space left"
check "full: what was saved before is whole" cmp "$DISK/state/recall" "$LAB_DIR/recall.good"
empty
check "room again: it is saved" until_true 10 eval '! cmp -s "$DISK/state/recall" "$LAB_DIR/recall.good"'
check "room again: no trouble" until_true 10 eval '! trouble evicted'
fill
evict third >>"$LAB_DIR/log/evict.out"
until_true 10 trouble "what was evicted cannot be saved" || not_ok "full again: the site says so"
stop site-a
check "full at the end: what is lost is told" \
	grep -q 'since the last save is lost.*No space left' "$LAB_DIR/log/site-a.err"
empty
printf 'x' | dd of="$DISK/state/recall" bs=1 seek=5000 conv=notrunc status=none
site_start
check "damaged: the site says so" until_true 10 trouble "the file was damaged"
check "damaged: it was put aside" test -s "$DISK/state/recall.damaged"
stop site-a
mkdir "$DISK/state/aside" && mv "$DISK"/state/recall* "$DISK/state/aside"
mkdir "$DISK/state/recall"
out=$(timeout 20 "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-a.yaml" 2>&1)
check "unreadable: it does not start" test $? = 1
check "unreadable: says why" grep -q "$DISK/state/recall: what was evicted before cannot be read: Is a directory" <<<"$out"

# ---- a damaged ledger
stop master
cp "$DISK/master.db" "$LAB_DIR/master.good"
dd if=/dev/urandom of="$DISK/master.db" bs=4096 seek=2 count=3 conv=notrunc status=none
refuses "a damaged ledger" "$DISK/master.db: the file is damaged .*--min-term"
cp "$LAB_DIR/master.good" "$DISK/master.db"
master_start
wait_ready master
check "the copy put back: both orders are there" test "$(orders)" = "$before"
# nobody but SQLite knows which pages it reads again: whatever happens, no order is made up
dd if=/dev/urandom of="$DISK/master.db" bs=4096 seek=1 conv=notrunc count=20 status=none
timeout 5 "$LAB_BIN/straitctl" --master "127.0.0.1:$LAB_PORT_M" --tls-dir "$LAB_DIR/pki" \
	order submit --from a --to b three >"$LAB_DIR/log/submit.out" 2>&1
check "damaged in the middle: the master lives" is_up master
stop master
check "damaged in the middle: it ends" test "$RC" = 0
refuses "damaged in the middle, at the next start" "$DISK/master.db: the file is damaged"
finish
