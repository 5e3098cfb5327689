#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# As many live sources as one site master takes, 1,024 stand-ins of Mooncake masters: all are
# followed within seconds, what any of them stores is known, and a process that may not open enough
# files says so at its start.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

N=1024
[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 8192 ] || skip "needs ulimit -Hn of 8192"
ulimit -n 8192
lab_init many-sources
LAB_NO_POOL=1
lab_pki
master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
lab_policies <<-YAML
	  - { from: eu, to: us, class: normal }
YAML
spawn tiny "$LAB_TEST/e2e/mooncake_stand_in" $N
wait_ready tiny
mapfile -t PORTS < <(grep -v ready "$LAB_DIR/log/tiny.out")
lab_site a <<-YAML
	$(for i in "${!PORTS[@]}"; do
		read -r events admin <<<"${PORTS[$i]}"
		echo "  - {name: t$i, events: 'tcp://127.0.0.1:$events', admin: 'http://127.0.0.1:$admin'}"
	done)
YAML
site=("$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-a.yaml")

out=$(
	ulimit -n 4096
	"${site[@]}" 2>&1
)
check "too few files: it does not start, and says how many it needs" \
	grep -q "$N sources need 6208 open files, 4096 are allowed: raise the limit" <<<"$out"

# do_at N COMMAND KEY: at a stand-in
do_at() { lab_tell "${PORTS[$1]#* }" "$2" "k=$3"; }
all_live() { ctl replication status | grep -q " $N of $N live"; }
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/${LAB_PID[site-a]}/stat"; }

master_start
wait_ready master
began=$(date +%s.%N)
spawn site-a "${site[@]}"
check "all are followed" until_true 60 all_live
took=$(py "round($(date +%s.%N) - $began, 1)")
do_at 0 put one
do_at $((N - 1)) put one
do_at $((N / 2)) put other
check "what the first and the last have is known" until_true 20 site_says a yes one
check "and one in the middle" until_true 20 site_says a yes other
do_at 0 remove one
do_at $((N / 2)) remove other
check "gone where it was alone" until_true 20 site_says a no other
check "there where another has it" site_says a yes one
ticks=$(cpu_ticks)
sleep 2
check_py "followed in $took s; idle it takes $((($(cpu_ticks) - ticks) / 2)) % of a core, $(ls "/proc/${LAB_PID[site-a]}/fd" | wc -l) files, $(sed -n 's/^VmRSS:[[:space:]]*//p' "/proc/${LAB_PID[site-a]}/status")" \
	"$(cpu_ticks) - $ticks < 200"
check "all live still" all_live
stop site-a
check "it ends cleanly" test "$RC" = 0
finish
