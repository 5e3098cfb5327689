#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ports that the kernel makes: two workers over af_packet (a fanout group) and tap, one over af_xdp,
# in a network namespace of the test's own. What this kernel does not have is said and left out.
set -uo pipefail
if [ "$(id -u)" -ne 0 ] || ! unshare -n true 2>/dev/null; then
	echo "needs root and network namespaces"
	exit 77
fi
if [ -z "${LAB_UNSHARED:-}" ]; then
	LAB_UNSHARED=1 exec unshare -n "$0" "$@"
fi
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init ports
ip link set lo up
sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 2>/dev/null
LAB_CAP=200Mbit LAB_POOL_A=128M LAB_POOL_B=128M
LAB_EDGE_YAML=$'worker:\n  count: 2'
lab_configure
master_start
wait_ready master

# edges DEVICE_A DEVICE_B: both anew over these; 1: one of them does not start here.
edges() {
	local site
	for site in a b; do
		sed -i "s|device: .*|device: $1|" "$LAB_DIR/$site.yaml"
		shift
		edge_start $site
	done
	for site in a b; do
		until_true 20 is_ready_or_down edge-$site && is_ready edge-$site && continue
		tail -n 1 "$LAB_DIR/log/edge-$site.err"
		stop edge-a
		stop edge-b
		return 1
	done
}

# ship WHAT [QUEUES]: 24 MiB from A to B, both queues have a part of it, and everything ends well.
ship() {
	local q
	wait_edges
	lab_put "$1" --model "$1" --objects 12
	lab_submit "$1"
	lab_wait "$ORDER" 40
	check_py "$1: an order of 24 MiB is done" 'r["state"] == "done" and r["committed"] == 12' \
		r="$RESULT"
	check "$1: every object at B is the one the generator made" lab_verify "$1"
	sleep 0.5 # two reports
	q=$(py '__import__("json").dumps(sum((l.get("queues", []) for l in r["links"]), []))' \
		r="$(ctl edge show a/a1 -o json)")
	[ "${2:-2}" -eq 1 ] || check_py "$1: both queues carried their half" \
		'len(q) == 2 and all(x["delivered_bytes"] >= 12 << 20 for x in q)' q="$q"
	stop edge-a
	check_py "$1: the source edge ends with status 0" 'rc == 0' rc="$RC"
	stop edge-b
	check_py "$1: the destination edge too" 'rc == 0' rc="$RC"
	lab_keys "$1" | pool_tool remove "$LAB_A" >/dev/null
	lab_keys "$1" | pool_tool remove "$LAB_B" >/dev/null
}

veth() {
	ip link add veth-a type veth peer name veth-b 2>"$LAB_DIR/log/ip.err" &&
		ethtool -K veth-a tx off rx off tso off gso off gro off >/dev/null 2>&1
	ethtool -K veth-b tx off rx off tso off gso off gro off >/dev/null 2>&1
	ip link set veth-a up && ip link set veth-b up
}

if veth; then
	if edges net_af_packet0,iface=veth-a net_af_packet0,iface=veth-b; then
		ship af_packet
	else
		not_ok "af_packet: both edges start"
	fi
	# A veth has no combined channels, so it is one queue, and one worker.
	sed -i 's/  count: 2/  count: 1/' "$LAB_DIR/a.yaml" "$LAB_DIR/b.yaml"
	if edges net_af_xdp0,iface=veth-a net_af_xdp0,iface=veth-b; then
		ship af_xdp 1
	else
		echo "af_xdp is not tested: not in this kernel"
	fi
	ip link del veth-a
	sed -i 's/  count: 1/  count: 2/' "$LAB_DIR/a.yaml" "$LAB_DIR/b.yaml"
else
	echo "no veth here: $(tail -n 1 "$LAB_DIR/log/ip.err")"
fi

if edges net_tap0,iface=tap-a net_tap0,iface=tap-b; then
	# Between the two interfaces, the emulator as the wire.
	spawn wan "$LAB_BIN/strait-wan" --port-a net_af_packet0,iface=tap-a \
		--port-b net_af_packet1,iface=tap-b --json --rate-gbps 0.2 --rtt-ms 10 --loss 0.01
	wait_ready wan
	ship tap
	stop wan
else
	echo "net_tap is not tested: no /dev/net/tun here"
fi
finish
