#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sites beyond those a master can follow: the site master of the seventeenth is told why and what to
# do, the sixteen go on, and when one of them is removed it takes its place, by itself.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init many-sites
read -r EVENTS ADMIN <<<"$(free_ports 2)"
lab_pki
master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
head -c 32 /dev/urandom >"$LAB_DIR/secret"
chmod 600 "$LAB_DIR/secret"
LAB_NO_POOL=1

spawn m1 "$LAB_TEST/e2e/mooncake_stand_in" "$EVENTS" "$ADMIN"
wait_ready m1
lab_site z <<-YAML
	  - name: m1
	    events: tcp://127.0.0.1:$EVENTS
	    admin: http://127.0.0.1:$ADMIN
YAML
sed -i '/^sites:/,$d' "$LAB_DIR/master.yaml"
{
	echo "secret: $LAB_DIR/secret"
	echo "sites:"
	echo "  - { name: s1 }"
} >>"$LAB_DIR/master.yaml"

state_of_z() {
	py "next((x['state'] for x in r['sites'] if x['site'] == 'z'), 'not followed')" \
		r="$(ctl replication status -o json)"
}
z_is() { [ "$(state_of_z)" = "$1" ]; }
count_is() { [ "$(py "len(r['sites'])" r="$(ctl replication status -o json)")" = "$1" ]; }

master_start
wait_ready master
for i in $(seq 2 16); do ctl site add "s$i" >/dev/null || die "site s$i cannot be added"; done
check "a seventeenth can be added" ctl site add z
spawn site-z "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-z.yaml"
check "sixteen sites are followed" count_is 16
check "the seventeenth is not" z_is "not followed"
check "its site master says why and what to do" until_true 10 \
	grep -rqs "site z is known, but this master follows 16 others.*straitctl site del" \
	"$LAB_DIR/log"
check "and the master that it is not followed" \
	grep -rqs "site is not followed, there are 16 already site=z" "$LAB_DIR/log"
check "one of the sixteen is removed" ctl site del s3
check "and the seventeenth takes its place" until_true 40 z_is live
check "sixteen sites are followed again" count_is 16
stop master
check "the master ends cleanly" test "$RC" = 0
finish
