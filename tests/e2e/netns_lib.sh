# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Network namespaces and veth between them, for tests of kernel ports; sourced after lib.sh, used after
# lab_init. What was added goes away with the lab.

[ "$(id -u)" -eq 0 ] || skip "needs root"
for tool in ip ethtool; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done

NETNS=()
lab_clean_more() {
	local ns
	for ns in "${NETNS[@]}"; do ip netns del "$ns" 2>/dev/null; done
}

# netns_add NS..: each with its loopback up.
netns_add() {
	local ns
	for ns in "$@"; do
		ip netns add "$ns" 2>"$LAB_DIR/log/ip.err" ||
			skip "no network namespaces here: $(tail -n 1 "$LAB_DIR/log/ip.err")"
		NETNS+=("$ns")
		ip -n "$ns" link set lo up
	done
}

# netns_sysctl KEY=VALUE..: in every namespace, where the kernel has the key.
netns_sysctl() {
	local ns
	for ns in "${NETNS[@]}"; do ip netns exec "$ns" sysctl -q -w "$@" 2>/dev/null; done
}

# Without IPv6 the kernel says nothing on its own.
netns_without_ipv6() {
	netns_sysctl net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
}

# veth NS1 NAME1 NS2 NAME2 [MTU]: up, without offloads.
veth() {
	local mtu=${5:-1500}
	ip link add "$2" mtu "$mtu" netns "$1" type veth peer name "$4" mtu "$mtu" netns "$3" \
		2>"$LAB_DIR/log/ip.err" ||
		skip "no veth here: $(tail -n 1 "$LAB_DIR/log/ip.err")"
	ip netns exec "$1" ethtool -K "$2" tx off rx off tso off gso off gro off >/dev/null 2>&1
	ip netns exec "$3" ethtool -K "$4" tx off rx off tso off gso off gro off >/dev/null 2>&1
	ip -n "$1" link set "$2" up
	ip -n "$3" link set "$4" up
}
