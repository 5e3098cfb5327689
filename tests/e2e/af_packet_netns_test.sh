#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Edges in network namespaces of their own, on veth through af_packet: first straight to each other,
# under the eyes of the kernel and tcpdump, then through strait-wan in a third namespace. A fourth
# one is the management network: the master is there, and routes between the edges.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/netns_lib.sh
. "$(dirname "$0")/netns_lib.sh"
command -v tcpdump >/dev/null || skip "tcpdump is not installed"

lab_init netns
id=$$
ns_a=sta-$id ns_b=stb-$id ns_w=stw-$id ns_m=stm-$id
netns_add $ns_a $ns_b $ns_w $ns_m
netns_without_ipv6

veth $ns_a mgmt $ns_m to-a
veth $ns_b mgmt $ns_m to-b
veth $ns_a straight $ns_b straight
veth $ns_a wan $ns_w wan-a
veth $ns_b wan $ns_w wan-b
ip -n $ns_m addr add 10.99.1.1/24 dev to-a
ip -n $ns_m addr add 10.99.2.1/24 dev to-b
ip -n $ns_a addr add 10.99.1.2/24 dev mgmt
ip -n $ns_b addr add 10.99.2.2/24 dev mgmt
ip -n $ns_a route add default via 10.99.1.1
ip -n $ns_b route add default via 10.99.2.1
ip netns exec $ns_m sysctl -q -w net.ipv4.ip_forward=1
# The kernel's own addresses on the data wire, to ping and probe the edges from.
ip -n $ns_a addr add 10.66.0.8/24 dev straight
ip -n $ns_b addr add 10.66.0.9/24 dev straight

LAB_CAP=400Mbit LAB_POOL_A=128M LAB_POOL_B=128M
lab_pki
# edge_config SITE INTERFACE
edge_config() {
	local n=1 ip=10.66.0.1
	[ "$1" = a ] || n=2 ip=10.66.0.2
	edge_yaml "$1" "net_af_packet0,iface=$2" 128M 7401 "$ip" |
		sed -e "s/listen: 127.0.0.1/listen: 10.99.$n.2/" \
			-e "s/address: 127.0.0.1:.*/address: 10.99.$n.1:7400/" \
			-e 's,^\(  *\)\(address: 10.66.*\),\1\2\n\1dscp: 46,' >"$LAB_DIR/$1.yaml"
}
master_yaml 0.0.0.0:7400 >"$LAB_DIR/master.yaml"
master_start() { spawn master ip netns exec $ns_m "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"; }
edge_start() {
	spawn "edge-$1" ip netns exec "st$1-$id" "$LAB_BIN/strait-edge" --config "$LAB_DIR/$1.yaml"
}
ctl() {
	ip netns exec $ns_m "$LAB_BIN/straitctl" --master 10.99.1.1:7400 --tls-dir "$LAB_DIR/pki" "$@"
}

# ---- straight -------------------------------------------------------------------------------------

edge_config a straight
edge_config b straight
master_start
wait_ready master
edge_start a
edge_start b
wait_ready edge-a
wait_ready edge-b
wait_edges

# pings NS ADDRESS COUNT: that many echo requests, whose answers must be the same bytes.
pings() {
	ip netns exec "$1" "$LAB_PYTHON" - "$2" "$3" <<-'PY'
		import os, socket, struct, sys, time
		def checksum(data):
		    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
		    while total >> 16:
		        total = (total & 0xffff) + (total >> 16)
		    return ~total & 0xffff
		s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
		answered = 0
		for seq in range(int(sys.argv[2])):
		    body = os.urandom(56)
		    head = struct.pack("!BBHHH", 8, 0, 0, 0x5354, seq)
		    head = struct.pack("!BBHHH", 8, 0, checksum(head + body), 0x5354, seq)
		    want = struct.pack("!HH", 0x5354, seq) + body
		    s.sendto(head + body, (sys.argv[1], 0))
		    end = time.monotonic() + 2
		    while time.monotonic() < end:
		        s.settimeout(max(0.01, end - time.monotonic()))
		        try:
		            packet, source = s.recvfrom(2000)
		        except OSError:
		            break
		        icmp = packet[(packet[0] & 15) * 4:]
		        if source[0] == sys.argv[1] and icmp[:2] == b"\0\0" and icmp[4:] == want:
		            answered += checksum(icmp) == 0
		            break
		print(answered, "answered")
		sys.exit(answered != int(sys.argv[2]))
	PY
}
check "edge a answers ARP and ping" pings $ns_b 10.66.0.1 3
check "edge b answers ARP and ping" pings $ns_a 10.66.0.2 3
silent() { ! pings "$@"; }
check "an address that is nobody's stays silent" silent $ns_b 10.66.0.77 1

spawn tcpdump ip netns exec $ns_b tcpdump -i straight -n -vv -c 400 -s 0 'udp and src host 10.66.0.1'
dumping() { grep -q 'listening on' "$LAB_DIR/log/tcpdump.err"; }
until_true 10 dumping || die "tcpdump does not listen"
lab_put straight --model straight --objects 20
lab_put odd --model odd --bytes-per-block 70001 --objects 60
cat "$LAB_DIR"/{straight,odd} >"$LAB_DIR/both"
lab_submit both
lab_wait "$ORDER" 30
check_py "an order over veth is done" 'r["state"] == "done" and r["committed"] == 80' r="$RESULT"
check "every object is the one that was made" lab_verify both
until_true 5 is_down tcpdump || true
stop tcpdump 5
dump=$LAB_DIR/log/tcpdump.out
packets=$(grep -c 'tos 0x' "$dump")
check_py "tcpdump saw $packets packets, all with DSCP 46" \
	"$packets >= 100 and $packets == $(grep -c 'tos 0xb8' "$dump")"
check_py "their UDP checksums are right" \
	"$(grep -c 'udp sum ok' "$dump") >= 100 and $(grep -c 'bad udp cksum' "$dump") == 0"

# ---- strangers ------------------------------------------------------------------------------------

before=$(edge_counters b)
ip netns exec $ns_a "$LAB_PYTHON" - <<-'PY'
	import os, socket
	s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
	s.bind(("10.66.0.8", 0))
	for length in (1, 10, 23, 24, 39, 40, 41, 500, 1472):
	    for first in (0x10, 0x11, 0x12, 0xff):
	        s.sendto(bytes([first]) + os.urandom(length - 1), ("10.66.0.2", 4790))
	s.sendto(b"", ("10.66.0.2", 4790))
	s.sendto(b"other port", ("10.66.0.2", 9))
PY
drops='sum(v for k, v in {0}.items() if k.startswith("port_drop_"))'
counted() {
	[ "$(py "${drops/\{0\}/n} - ${drops/\{0\}/o} >= 38" n="$(edge_counters b)" o="$before")" = True ]
}
until_true 5 counted || true
check "38 truncated, senseless and stray packets are all counted as drops" counted
check_py "and none came near a session" 'n["rx_auth"] == o["rx_auth"]' n="$(edge_counters b)" o="$before"

# ---- through the emulator -------------------------------------------------------------------------

stop edge-a
check_py "edge a leaves with status 0" 'rc == 0' rc="$RC"
stop edge-b
check_py "edge b leaves with status 0" 'rc == 0' rc="$RC"
edge_config a wan
edge_config b wan
spawn wan ip netns exec $ns_w "$LAB_BIN/strait-wan" --port-a net_af_packet0,iface=wan-a,qdisc_bypass=1 \
	--port-b net_af_packet1,iface=wan-b,qdisc_bypass=1 --json --stats-ms 0 --late-us 10000 \
	--rate-gbps 0.4 --rtt-ms 30 --loss 0.01 --inject-forged 200
wait_ready wan
edge_start a
edge_start b
wait_ready edge-a
wait_ready edge-b
wait_edges
lab_put lossy --model lossy --objects 30
lab_submit lossy
lab_wait "$ORDER" 30
check_py "an order through the emulator on af_packet is done" 'r["state"] == "done"' r="$RESULT"
check "every object is the one that was made" lab_verify lossy

# Fragments pass the emulator as fragments: it is a line, not a host that puts them together.
before=$(edge_counters b)
mac_b=$(ip -n $ns_b -j link show wan | "$LAB_PYTHON" -c 'import json,sys; print(json.load(sys.stdin)[0]["address"])')
ip netns exec $ns_a "$LAB_PYTHON" - "$mac_b" <<-'PY'
	import socket, struct, sys
	def checksum(data):
	    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
	    while total >> 16:
	        total = (total & 0xffff) + (total >> 16)
	    return ~total & 0xffff
	s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
	s.bind(("wan", 0))
	eth = bytes.fromhex(sys.argv[1].replace(":", "")) + bytes.fromhex("02000000beef") + b"\x08\0"
	udp = struct.pack("!HHHH", 9, 4790, 8 + 120, 0) + bytes(120)
	for n in range(20):
	    for offset, more in ((0, 0x2000), (64, 0)):
	        part = udp[offset:offset + 64]
	        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(part), 1000 + n, more | offset // 8,
	                           64, 17, 0, bytes([10, 66, 0, 8]), bytes([10, 66, 0, 2]))
	        s.send(eth + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + part)
PY
fragments() {
	[ "$(py "n['port_drop_fragment'] - o['port_drop_fragment']" n="$(edge_counters b)" o="$before")" -ge 30 ]
}
until_true 5 fragments || true
check "fragments come out of the emulator as they went in, and the edge drops them" fragments
b=$(edge_counters b)
stop edge-a
stop edge-b
stop wan
check_py "the line lost and forged packets, and the edge dropped the forged" \
	'w["ab"]["lost_random"] > 0 and w["ab"]["forged"] > 0 and b["rx_auth"] > 0' \
	w="$(wan_figures)" b="$b"
finish
