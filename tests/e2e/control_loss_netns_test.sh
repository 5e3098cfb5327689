#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A site far away: its edge and its site master reach the inter-dc master over strait-wan with 200 ms,
# 1 % loss and 800 kbit/s. While the snapshot of all its objects crawls through, reports and signs of
# life must not wait behind it, and no connection may be given up. One that is given up in the middle
# goes on where it was.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/netns_lib.sh
. "$(dirname "$0")/netns_lib.sh"

objects=30000
lab_init control-loss
id=$$
ns_a=cla-$id ns_w=clw-$id ns_m=clm-$id
netns_add $ns_a $ns_w $ns_m
netns_without_ipv6

veth $ns_a far $ns_w wan-a
veth $ns_m far $ns_w wan-m
veth $ns_a data $ns_a nowhere
ip -n $ns_a addr add 10.98.0.2/24 dev far
ip -n $ns_m addr add 10.98.0.1/24 dev far

lab_pki
edge_yaml a "net_af_packet0,iface=data" 1G 7401 10.66.0.1 |
	sed -e "s/listen: 127.0.0.1/listen: 10.98.0.2/" \
		-e "s/address: 127.0.0.1:.*/address: 10.98.0.1:7400/" >"$LAB_DIR/a.yaml"
master_yaml 10.98.0.1:7400 >"$LAB_DIR/master.yaml"
head -c 32 /dev/urandom >"$LAB_DIR/secret"
chmod 600 "$LAB_DIR/secret"
lab_site a </dev/null
sed -i "s/^master: .*/master: 10.98.0.1:7400/" "$LAB_DIR/site-a.yaml"
ctl() {
	ip netns exec $ns_m "$LAB_BIN/straitctl" --master 10.98.0.1:7400 --tls-dir "$LAB_DIR/pki" "$@"
}
view() { py '__import__("json").dumps([s for s in r["sites"] if s["site"] == "a"][0])' \
	r="$(ctl replication status -o json)"; }

"$LAB_BIN/straitctl" pool create --pool "$LAB_A" --size 1G >/dev/null
lab_put many --bytes-per-block 1024 --objects $objects --requests 100000

spawn wan ip netns exec $ns_w "$LAB_BIN/strait-wan" --port-a net_af_packet0,iface=wan-a,qdisc_bypass=1 \
	--port-b net_af_packet1,iface=wan-m,qdisc_bypass=1 --json --stats-ms 0 --late-us 20000 \
	--rate-gbps 0.0008 --queue-bytes 64000 --rtt-ms 200 --loss 0.01 --seed 3
wait_ready wan
spawn master ip netns exec $ns_m "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"
wait_ready master
spawn edge-a ip netns exec $ns_a "$LAB_BIN/strait-edge" --config "$LAB_DIR/a.yaml"
wait_ready edge-a
until_true 20 edges_up 1 || die "the edge does not reach the master"
spawn site-a ip netns exec $ns_a "$LAB_BIN/strait-master" --role site --config "$LAB_DIR/site-a.yaml"

# What the master knows of the far site, as often as it can be asked, until its view is live and was
# so for some seconds.
report_ms=0 loading=0 live=0 stale=()
end=$((SECONDS + 90 * LAB_SLOW))
while [ "$SECONDS" -lt "$end" ] && [ $live -lt 20 ]; do
	read -r state age staleness <<<"$(py '" ".join(str(x) for x in (v["state"], v.get("report_age_ms", 0), v.get("staleness_ms", 0)))' v="$(view)")"
	[ "$state" != loading ] || loading=$((loading + 1))
	[ "${age:-0}" -le $report_ms ] || report_ms=$age
	if [ "$state" = live ]; then
		live=$((live + 1))
		stale+=("$staleness")
	fi
	sleep 0.2
done
v=$(view)
check_py "the view of the far site gets complete" 'v["state"] == "live" and v["connected"]' v="$v"
check_py "with every object" "v['objects'] == $objects" v="$v"
# when SITE-MASTER-EVENT: Unix time of the first such line of the master's log
when() { date -d "$(grep -m1 "$1" "$LAB_DIR/log/master.err" | cut -d ' ' -f 1)" +%s.%N; }
check_py "its snapshot was bulk for the line: longer than what counts as silence" \
	"$(when 'view of site=a is live') - $(when 'site master registered') > 10 and $loading > 2"
check_py "no report waited behind it: the oldest was $report_ms ms old" "0 < $report_ms < 6000"
check_py "staleness then: at most a few round trips ($(printf '%s ' "${stale[@]}")ms)" \
	"sorted([$(IFS=,; echo "${stale[*]}")])[-1] < 3000"
check_py "in one piece" 'v["snapshots"] == 1 and v["snapshots_failed"] == 0 and v["gaps"] == 0' v="$v"
registrations() { grep -c "$1" "$LAB_DIR/log/master.err"; }
check_py "one connection of the site master" "$(registrations 'site master registered') == 1"
check_py "one connection of the edge" "$(registrations 'edge registered') == 1"
check "the edge is connected" edges_up 1

# ---- the snapshot of a new master, and its connection is given up in the middle of it
stop edge-a
murder master
spawn master ip netns exec $ns_m "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"
wait_ready master
rx() { py 'r[0]["stats64"]["rx"]["bytes"]' r="$(ip -n $ns_m -j -s link show far)"; }
before=$(rx)
half=$((objects * 40 / 2))
came() { [ $(($(rx) - before)) -gt "$1" ]; }
until_true 40 came $half || die "no snapshot comes"
kill -STOP "${LAB_PID[site-a]}"
until_true 20 logged master 'site master is gone' || die "it is not given up"
kill -CONT "${LAB_PID[site-a]}"
is_live() { [ "$(py 'v["state"]' v="$(view)")" = live ]; }
until_true 60 is_live || not_ok "its view gets complete"
sent=$(($(rx) - before))
v=$(view)
check_py "the view is complete" "v['objects'] == $objects and v['snapshots'] == 1 and
	v['snapshots_failed'] == 0" v="$v"
check_py "what had come did not come again: $sent bytes of $((2 * half)), all of it packets and reports" \
	"$sent < 1.25 * $((2 * half))"
stop wan
check_py "the line lost packets" 'w["ab"]["lost_random"] > 5' w="$(wan_figures)"
finish
