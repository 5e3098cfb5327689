#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two live edges at each of two sites, each in a network namespace of its own; the data ports are on
# one bridge, the management ports on another. Edges of a site have its pool in common. Orders are
# spread over them, together they stay within the link's cap (counted at the bridge, not by us), an edge
# drains, is killed in mid-transfer and comes back.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/netns_lib.sh
. "$(dirname "$0")/netns_lib.sh"

lab_init edges
id=$$
ns_w=edw-$id
EDGES=(a1 a2 b1 b2)
CAP_MBIT=80
netns_add $ns_w "${EDGES[@]/%/-$id}"
netns_without_ipv6
for bridge in data mgmt; do
	ip -n $ns_w link add $bridge type bridge 2>"$LAB_DIR/log/ip.err" || skip "no bridges here"
	ip -n $ns_w link set $bridge up
done
ip -n $ns_w addr add 10.99.0.1/24 dev mgmt
n=10
for e in "${EDGES[@]}"; do
	n=$((n + 1))
	veth "$e-$id" data $ns_w "d-$e"
	veth "$e-$id" mgmt $ns_w "m-$e"
	ip -n $ns_w link set "d-$e" master data
	ip -n $ns_w link set "m-$e" master mgmt
	ip -n "$e-$id" addr add 10.99.0.$n/24 dev mgmt
done

LAB_CAP=500Mbit
lab_pki
for e in a2 b2; do
	"$LAB_BIN/straitctl" pki issue "$LAB_DIR/pki" --role edge --site "${e%2}" --name $e \
		>>"$LAB_DIR/log/pki.out" 2>&1 || die "no certificate for $e"
done
n=10
for e in "${EDGES[@]}"; do
	n=$((n + 1))
	mkdir -p "$LAB_DIR/state-$e"
	edge_yaml "${e%?}" "net_af_packet0,iface=data" 200M 7401 10.66.0.$n |
		sed -e "s/^edge: .*/edge: $e/" -e "s,^state_dir: .*,state_dir: $LAB_DIR/state-$e," \
			-e "s/listen: 127.0.0.1/listen: 10.99.0.$n/" -e "s/memory: 192M/memory: 96M/" \
			-e "s/address: 127.0.0.1:.*/address: 10.99.0.1:7400/" \
			-e "s,pki/${e%?}1\.,pki/$e.," >"$LAB_DIR/$e.yaml"
done
{
	master_yaml 0.0.0.0:7400
	echo "links:"
	echo "  - { from: a, to: b, cap: ${CAP_MBIT}M }"
	echo "edge_lost: 3s"
} >"$LAB_DIR/master.yaml"
master_start() { spawn master ip netns exec $ns_w "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"; }
edge_start() {
	spawn "edge-$1" ip netns exec "$1-$id" "$LAB_BIN/strait-edge" --config "$LAB_DIR/$1.yaml"
}
ctl() {
	ip netns exec $ns_w "$LAB_BIN/straitctl" --master 10.99.0.1:7400 --tls-dir "$LAB_DIR/pki" "$@"
}
edge_kill() { murder "edge-$1"; }

edges() { ctl edge list -o json; }
# edge_is EDGE EXPRESSION: of its entry e.
edge_is() {
	[ "$(py "[$2 for e in r if e['edge'] == '$1'][0]" r="$(edges)")" = True ]
}
# Edges under way by, of an order: "a1 > b1".
ways() { py "r.get('edges', [])" r="$(order_json "$1")"; }

master_start
wait_ready master
for e in "${EDGES[@]}"; do edge_start "$e"; done
for e in "${EDGES[@]}"; do wait_ready "edge-$e"; done
until_true 20 edges_up 4 || die "the edges do not reach the master"

# What leaves both edges of a, at the bridge, ten times a second: seconds and bytes on the line.
cat >"$LAB_DIR/counter.py" <<-'PY'
	import time
	def read(dev):
	    for line in open("/proc/net/dev"):
	        name, _, rest = line.partition(":")
	        if name.strip() == dev:
	            f = rest.split()
	            return int(f[0]) + 24 * int(f[1])
	    return 0
	while True:
	    print("%.3f %d %d" % (time.monotonic(), read("d-a1"), read("d-a2")), flush=True)
	    time.sleep(0.1)
PY
spawn counter ip netns exec $ns_w "$LAB_PYTHON" "$LAB_DIR/counter.py"
now() { "$LAB_PYTHON" -c 'import time; print("%.3f" % time.monotonic())'; }
# carried FROM TO: [least, most, a1, a2]: Mbit/s of both over any second, and of each in all.
carried() {
	"$LAB_PYTHON" - "$1" "$2" "$LAB_DIR/log/counter.out" <<-'PY'
		import sys
		a, z = float(sys.argv[1]), float(sys.argv[2])
		rows = [tuple(map(float, l.split())) for l in open(sys.argv[3]) if l.count(" ") == 2]
		rows = [r for r in rows if a <= r[0] <= z]
		rates = []
		for i, r in enumerate(rows):
		    for k in range(i + 1, len(rows)):
		        if rows[k][0] - r[0] >= 1:
		            rates.append((rows[k][1] + rows[k][2] - r[1] - r[2]) * 8e-6 / (rows[k][0] - r[0]))
		            break
		if not rows or not rates:
		    print("[0, 0, 0, 0]")
		else:
		    print([round(min(rates), 1), round(max(rates), 1), rows[-1][1] - rows[0][1], rows[-1][2] - rows[0][2]])
	PY
}

# submit NAME.. : an order of 16 MiB each, numbers in ORDERS.
submit_all() {
	local m
	ORDERS=()
	for m in "$@"; do
		lab_put "$m" --model "$m" --objects 8
		lab_submit "$m"
		ORDERS+=("$ORDER")
	done
}
all_done() {
	local o
	for o in "${ORDERS[@]}"; do order_is_final "$o" || return 1; done
}
# ended LABEL NAME..: all orders are done, each object once, and right.
ended() {
	local label=$1 m i=0
	shift
	until_true 30 all_done || not_ok "$label: the orders end"
	for m in "$@"; do
		check_py "$label: $m is done" \
			'r["state"] == "done" and r["committed"] + r["existed"] == 8 and r["failed"] == 0' \
			r="$(order_json "${ORDERS[$i]}")"
		check "$label: $m is right" lab_verify "$m"
		lab_keys "$m" | pool_tool remove "$LAB_A" >/dev/null
		lab_keys "$m" | pool_tool remove "$LAB_B" >/dev/null
		i=$((i + 1))
	done
}

# ---- spread ---------------------------------------------------------------------------------------

start=$(now)
submit_all s1 s2 s3 s4
check_py "orders are spread over both edges of both sites" \
	"{tuple(w) for w in ($(ways "${ORDERS[0]}"), $(ways "${ORDERS[1]}"), $(ways "${ORDERS[2]}"), $(ways "${ORDERS[3]}"))} == {('a1 > b1',), ('a2 > b2',)}"
shared() {
	[ "$(py "sum(e.get('share_bps', 0) for e in r if e['site'] == 'a') <= ${CAP_MBIT}e6 and
		all(e.get('share_bps', 0) >= ${CAP_MBIT}e6 * 0.4 and e['state'] == 'active' and e['orders'] >= 1
		for e in r if e['site'] == 'a')" r="$(edges)")" = True ]
}
check "each has about half of the link's cap, and orders, by straitctl" until_true 5 shared
ended "spread" s1 s2 s3 s4
C=$(carried "$start" "$(now)")
check_py "both carried, and never more than the cap in any second: $C" \
	"c[1] <= $CAP_MBIT * 1.03 and c[2] > 12e6 and c[3] > 12e6" c="$C"
check_py "and the cap was used" "c[1] >= $CAP_MBIT * 0.8" c="$C"

# ---- deadlines ------------------------------------------------------------------------------------

# Idle edges have a quarter of the cap each; an order gets all of it: 16 MiB in less than 2 s, and 6 s
# by what was idle.
for m in "due1 --bytes 16777216" due2; do
	lab_put "${m%% *}" --model "${m%% *}" --objects 8
	# shellcheck disable=SC2086
	lab_submit ${m%% *} --deadline 5s ${m#"${m%% *}"}
	lab_wait "$ORDER" 10
	check_py "a deadline that the link's cap can meet is met: $m" \
		'r["state"] == "done" and r["finished_ms"] <= r["deadline_ms"]' r="$RESULT"
	sleep 2 # until shares are those of idle edges again
done

# ---- one edge alone has all of it -----------------------------------------------------------------

start=$(now)
submit_all one
until_true 20 all_done
C=$(carried "$start" "$(now)")
check_py "the edge with a backlog has what the other does not need: $C" \
	"c[1] >= $CAP_MBIT * 0.8 and c[1] <= $CAP_MBIT * 1.03" c="$C"
ended "alone" one

# ---- drain ----------------------------------------------------------------------------------------

submit_all d1 d2
check "straitctl edge drain" ctl edge drain a/a1
check "it drains: what it has goes on" edge_is a1 "e['state'] == 'draining' and e['draining'] and e['orders'] == 1"
lab_put d3 --model d3 --objects 8
lab_submit d3
ORDERS+=("$ORDER")
check_py "a new order goes to the other edge" "[w[:2] for w in $(ways "$ORDER")] == ['a2']"
ended "drain" d1 d2 d3
check "it is drained" until_true 5 edge_is a1 "e['state'] == 'drained' and e['orders'] == 0"
edge_kill a1
edge_start a1
murder master
master_start
wait_ready master
until_true 20 edges_up 4 || die "the edges do not come back"
check "and stays so over a restart of edge and master" edge_is a1 "e['state'] == 'drained'"
submit_all d4
check_py "nothing goes there" "[w[:2] for w in $(ways "${ORDERS[0]}")] == ['a2']"
check "the other one drains, too" ctl edge drain a/a2 --hand-over
lab_put d5 --model d5 --objects 8
lab_submit d5
ORDERS+=("$ORDER")
waits() { [ "$(py "'drain' in r.get('text', '')" r="$(order_json "$ORDER")")" = True ]; }
check "an order waits, and says why" until_true 5 waits
check "straitctl edge undrain" ctl edge undrain a1 -o json
check "what waited goes on" edge_is a1 "e['state'] == 'active'"
check "what the draining edge has is handed over on request" ctl edge drain a/a2 --hand-over
handed() { [ "$(py "[w[:2] for w in $(ways "${ORDERS[0]}")] in (['a1'], [])")" = True ]; }
check "to the other edge" until_true 5 handed
ended "hand-over" d4 d5
ctl edge undrain a/a2 >/dev/null
check "both take orders" edge_is a2 "e['state'] == 'active'"
ctl edge drain a/nobody >/dev/null 2>"$LAB_DIR/out"
check_py "an edge that never was cannot drain" "$? != 0"

# ---- kill -9 --------------------------------------------------------------------------------------

start=$(now)
submit_all k1 k2 k3 k4
until_true 20 order_passed "${ORDERS[0]}" 4000000 || die "the transfer does not proceed"
edge_kill a1
check "the killed edge is gone" until_true 5 edge_is a1 "e['state'] == 'gone'"
alone() { [ "$(py "[w[:2] for w in $(ways "${ORDERS[0]}") + $(ways "${ORDERS[2]}")].count('a1') == 0")" = True ]; }
check "its orders are the other edge's" until_true 10 alone
whole() { edge_is a2 "e.get('share_bps', 0) >= ${CAP_MBIT}e6 * 0.95"; }
check "and its share of the cap" until_true 5 whole
ended "source killed" k1 k2 k3 k4
check_py "no partial object is left" 's["writing"] == 0 and s["partials"] == 0' s="$(pool_tool stats "$LAB_B")"
edge_start a1
wait_ready edge-a1
check "it is back" until_true 10 edge_is a1 "e['state'] == 'active' and not e['lost']"
submit_all r1 r2
check_py "and takes part again" "sorted(w[0][:2] for w in ($(ways "${ORDERS[0]}"), $(ways "${ORDERS[1]}"))) == ['a1', 'a2']"
ended "return" r1 r2
submit_all t1 t2
until_true 20 order_passed "${ORDERS[0]}" 4000000 || die "the transfer does not proceed"
edge_kill b1
ended "destination killed" t1 t2
C=$(carried "$start" "$(now)")
check_py "never more than the cap in any second, kills and return included: $C" \
	"$CAP_MBIT * 0.8 <= c[1] <= $CAP_MBIT * 1.03" c="$C"
finish
