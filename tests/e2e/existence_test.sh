#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who may ask a site what it has, and what it says of what could not be fetched: a failed order or
# fetch makes a key absent at both ends for a while, until the time is over or the object comes.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init existence
LAB_POOL_A=64M LAB_POOL_B=64M
lab_configure

# Each site knows of a pool that its edge does not read. Negative entries of a are short, b's long.
for s in a b; do
	"$LAB_BIN/straitctl" pool create --pool "$LAB_SHM/spare-$s.pool" --size 4M
done
lab_site a <<-YAML
	  - { name: spare-a, pool: $LAB_SHM/spare-a.pool }
	negative_for: 3s
YAML
lab_site b <<-YAML
	  - { name: spare-b, pool: $LAB_SHM/spare-b.pool }
	negative_for: 10m
YAML
sed -i "s,^tenants:,&\n  - { name: team\, socket: $LAB_DIR/run/exist-team.sock\, users: [4001]\, groups: [5001] }," \
	"$LAB_DIR/site-a.yaml"
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal, least: 1M }
YAML

ask() { "$LAB_BIN/straitctl" exist --socket "$LAB_DIR/run/exist-$1.sock" "$2"; }
says() { [[ $(ask "$1" "$3") == "$2"* ]]; }
put() {
	head -c 5000 /dev/urandom >"$LAB_DIR/$2"
	"$LAB_BIN/straitctl" put --pool "$1" "$2" "$LAB_DIR/$2" || die "put $2"
}
order_fails() {
	ORDER=$(py 'r["order"]' r="$(ctl order submit --from a --to b --class urgent "$1" -o json)") ||
		die "order submit"
	lab_wait "$ORDER" 20
	check_py "an order of $1 fails, as no edge reads it" 'r == {"NOT_FOUND": 1}' r="$(statuses "$ORDER")"
}

lab_up
for s in a b; do
	spawn "site-$s" "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-$s.yaml"
	until_true 20 says $s no nothing || die "site $s does not get ready"
done
until_true 20 grep -q 'view of site=b is live' "$LAB_DIR/log/master.err" || die "the views do not become live"

# ---- what could not be fetched
for s in a b; do
	put "$LAB_SHM/spare-$s.pool" elsewhere
	check "$s says that it has what its edge does not read" until_true 5 says $s yes elsewhere
done
order_fails elsewhere
check "a failed order makes it absent where it was said to be" until_true 2 says a no elsewhere
check "for a while" until_true 8 says a yes elsewhere
order_fails elsewhere
until_true 2 says a no elsewhere || not_ok "it is not absent again"
put "$LAB_A" elsewhere
check "an object that comes ends it at once" until_true 1 says a yes elsewhere
check "where it was wanted it is absent still, though it was said to be there" says b no elsewhere
put "$LAB_B" elsewhere
check "until it comes there, though that is minutes away" until_true 5 says b yes elsewhere
ctl fetch --to b nobody-has >"$LAB_DIR/log/fetch.out" 2>&1
check "what nobody has is absent where it was fetched" says b no nobody-has
put "$LAB_B" nobody-has
check "until somebody puts it there" until_true 5 says b yes nobody-has

# ---- who may ask: only root can be somebody else
[ "$(id -u)" -eq 0 ] || { finish; exit; }
chmod 711 "$LAB_DIR" "$LAB_DIR/run"
cp "$LAB_BIN/straitctl" "$LAB_DIR/run/straitctl"
# as USER GROUP SOCKET KEY
as() {
	setpriv --reuid "$1" --regid "$2" --clear-groups "$LAB_DIR/run/straitctl" exist \
		--socket "$LAB_DIR/run/exist-$3.sock" "$4" 2>&1
}
check "a user of the tenant may ask" [ "$(as 4001 9 team elsewhere)" = "no      elsewhere" ]
check "who is in its group, too" [ "$(as 4002 5001 team elsewhere)" = "no      elsewhere" ]
check "another is refused and told what to do" grep -q 'user 4002 is not of this socket.s tenant: name it' \
	<(as 4002 9 team elsewhere)
check "the site says who it was" grep -q 'was refused.*uid=4002 gid=9' "$LAB_DIR/log/site-a.err"
check "of a tenant without users it is refused, too" grep -q 'user 4001 is not of this socket.s tenant' \
	<(as 4001 9 a elsewhere)
check "root may ask for each" says team no elsewhere

finish
