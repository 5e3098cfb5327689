#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The data path over IPv6. Two edges in network namespaces of their own, on veth through af_packet:
# straight to each other under the eyes of the kernel and tcpdump, then through strait-wan in a third
# one, over jumbo frames, and over a path that carries less than was configured. A fourth namespace
# is the management network, which is IPv4.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/netns_lib.sh
. "$(dirname "$0")/netns_lib.sh"
command -v tcpdump >/dev/null || skip "tcpdump is not installed"

lab_init ipv6
id=$$
ns_a=s6a-$id ns_b=s6b-$id ns_w=s6w-$id ns_m=s6m-$id
netns_add $ns_a $ns_b $ns_w $ns_m
netns_sysctl net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
ip netns exec $ns_a test -d /proc/sys/net/ipv6 || skip "the kernel has no IPv6"

veth $ns_a mgmt $ns_m to-a
veth $ns_b mgmt $ns_m to-b
veth $ns_a straight $ns_b straight
veth $ns_a wan $ns_w wan-a 9000
veth $ns_b wan $ns_w wan-b 9000
ip -n $ns_m addr add 10.99.1.1/24 dev to-a
ip -n $ns_m addr add 10.99.2.1/24 dev to-b
ip -n $ns_a addr add 10.99.1.2/24 dev mgmt
ip -n $ns_b addr add 10.99.2.2/24 dev mgmt
ip -n $ns_a route add default via 10.99.1.1
ip -n $ns_b route add default via 10.99.2.1
ip netns exec $ns_m sysctl -q -w net.ipv4.ip_forward=1
# The kernel's own addresses on the data wire, to ping and probe the edges from.
ip -n $ns_a addr add fd66::8/64 dev straight nodad ||
	skip "no IPv6 address can be set: $(cat "$LAB_DIR/log/ip.err")"
ip -n $ns_b addr add fd66::9/64 dev straight nodad

LAB_CAP=400Mbit LAB_POOL_A=256M LAB_POOL_B=256M
lab_pki
# edge_config SITE INTERFACE MTU
edge_config() {
	local n=1
	[ "$1" = a ] || n=2
	edge_yaml "$1" "net_af_packet0,iface=$2" 256M 7401 "fd66::$n" |
		sed -e "s/listen: 127.0.0.1/listen: 10.99.$n.2/" \
			-e "s/address: 127.0.0.1:.*/address: 10.99.$n.1:7400/" \
			-e "s,address: \\(fd66::.\\)/24,address: \\1/64\\n  dscp: 46\\n  mtu: $3," \
			>"$LAB_DIR/$1.yaml"
}
master_yaml 0.0.0.0:7400 >"$LAB_DIR/master.yaml"
master_start() { spawn master ip netns exec $ns_m "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"; }
edge_start() {
	spawn "edge-$1" ip netns exec "s6$1-$id" "$LAB_BIN/strait-edge" --config "$LAB_DIR/$1.yaml"
}
edges_restart() {
	stop edge-a
	stop edge-b
	edge_start a
	edge_start b
	wait_ready edge-a
	wait_ready edge-b
	wait_edges
}
ctl() {
	ip netns exec $ns_m "$LAB_BIN/straitctl" --master 10.99.1.1:7400 --tls-dir "$LAB_DIR/pki" "$@"
}

# ---- configuration --------------------------------------------------------------------------------

edge_config a straight 9000
refused() {
	local text=$1
	shift
	! ip netns exec $ns_a "$LAB_BIN/strait-edge" --config "$LAB_DIR/a.yaml" --check-config \
		>"$LAB_DIR/log/refused" 2>&1 && grep -q -e "$text" "$LAB_DIR/log/refused"
}
check "an MTU the interface does not have is refused, with what to do" \
	refused 'interface straight has 1500: raise it (ip link set straight mtu 9000) or lower mtu'
edge_config a straight 1000
check "less than 1280 over IPv6 is refused" refused 'over IPv6 it is 1280 to 9000'
edge_config a straight 1500
sed -i 's,^  mtu:,  gateway: 10.0.0.1\n  mtu:,' "$LAB_DIR/a.yaml"
check "an IPv4 gateway of an IPv6 port is refused" refused 'both be IPv4 or both IPv6'

# ---- straight -------------------------------------------------------------------------------------

edge_config a straight 1500
edge_config b straight 1500
master_start
wait_ready master
edge_start a
edge_start b
wait_ready edge-a
wait_ready edge-b
wait_edges

# pings NS ADDRESS COUNT: that many echo requests, whose answers must be the same bytes. The kernel
# finds the edge by neighbor discovery.
pings() {
	ip netns exec "$1" "$LAB_PYTHON" - "$2" "$3" <<-'PY'
		import os, socket, struct, sys, time
		s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
		answered = 0
		for seq in range(int(sys.argv[2])):
		    body = os.urandom(56)
		    want = struct.pack("!HH", 0x5354, seq) + body
		    s.sendto(struct.pack("!BBH", 128, 0, 0) + want, (sys.argv[1], 0))
		    end = time.monotonic() + 2
		    while time.monotonic() < end:
		        s.settimeout(max(0.01, end - time.monotonic()))
		        try:
		            packet, source = s.recvfrom(2000)
		        except OSError:
		            break
		        if packet[:2] == b"\x81\0" and packet[4:] == want:
		            answered += 1
		            break
		print(answered, "answered")
		sys.exit(answered != int(sys.argv[2]))
	PY
}
check "edge a answers neighbor discovery and ping" pings $ns_b fd66::1 3
check "edge b answers neighbor discovery and ping" pings $ns_a fd66::2 3
silent() { ! pings "$@"; }
check "an address that is nobody's stays silent" silent $ns_b fd66::77 1

spawn tcpdump ip netns exec $ns_b tcpdump -i straight -n -vv -c 400 -s 0 'udp and src host fd66::1'
dumping() { grep -q 'listening on' "$LAB_DIR/log/tcpdump.err"; }
until_true 10 dumping || die "tcpdump does not listen"
lab_put straight --model straight --objects 20
lab_submit straight
lab_wait "$ORDER" 30
check_py "an order over veth is done" 'r["state"] == "done" and r["committed"] == 20' r="$RESULT"
check "every object is the one that was made" lab_verify straight
until_true 5 is_down tcpdump || true
stop tcpdump 5
dump=$LAB_DIR/log/tcpdump.out
packets=$(grep -c '^[0-9:.]* IP6 ' "$dump")
check_py "tcpdump saw $packets packets, all with DSCP 46 and one flow label" \
	"$packets >= 100 and $packets == $(grep -c 'class 0xb8, flowlabel 0x' "$dump") and
	1 == $(grep -o 'flowlabel 0x[0-9a-f]*' "$dump" | sort -u | wc -l)"
check_py "their UDP checksums are right" \
	"$(grep -c 'udp sum ok' "$dump") >= 100 and $(grep -c 'bad udp cksum' "$dump") == 0"
check "full symbols have 1412 bytes" grep -q 'payload length: 1460)' "$dump"

# ---- strangers ------------------------------------------------------------------------------------

before=$(edge_counters b)
mac_b=$(ip -n $ns_b -j link show straight | "$LAB_PYTHON" -c 'import json,sys; print(json.load(sys.stdin)[0]["address"])')
ip netns exec $ns_a "$LAB_PYTHON" - "$mac_b" <<-'PY'
	import socket, struct, sys
	def checksum(src, dst, nxt, data):
	    data = src + dst + struct.pack("!II", len(data), nxt) + data
	    data += b"\0" * (len(data) % 2)
	    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
	    while total >> 16:
	        total = (total & 0xffff) + (total >> 16)
	    return ~total & 0xffff or 0xffff
	ip = lambda a: socket.inet_pton(socket.AF_INET6, a)
	us, edge, peer = ip("fd66::8"), ip("fd66::2"), ip("fd66::1")
	mac = bytes.fromhex(sys.argv[1].replace(":", ""))
	evil = bytes.fromhex("02000000beef")
	s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
	s.bind(("straight", 0))
	def frame(nxt, body, hops=255, src=us, dst=edge):
	    head = struct.pack("!IHBB", 6 << 28, len(body), nxt, hops) + src + dst
	    s.send((mac + evil + b"\x86\xdd" + head + body).ljust(60, b"\0"))
	def icmp(kind, rest, **kw):
	    src, dst = kw.get("src", us), kw.get("dst", edge)
	    body = struct.pack("!BBH", kind, 0, 0) + rest
	    frame(58, body[:2] + struct.pack("!H", checksum(src, dst, 58, body)) + body[4:], **kw)
	option = lambda kind: bytes([kind, 1]) + evil
	for _ in range(10):
	    # An advertisement that says the peer is here: from beyond a router, with an option of length
	    # 0, one that runs past the end, a group address, "solicited" to a group.
	    icmp(136, struct.pack("!I", 0x60000000) + peer + option(2), hops=254)
	    icmp(136, struct.pack("!I", 0x60000000) + peer + b"\2\0" + evil)
	    icmp(136, struct.pack("!I", 0x60000000) + peer + b"\2\7" + evil)
	    icmp(136, struct.pack("!I", 0x60000000) + peer + b"\2\1\x33\x33" + evil[2:])
	    icmp(136, struct.pack("!I", 0x60000000) + peer + option(2), dst=ip("ff02::1"))
	    # Solicitations that may not be.
	    icmp(135, struct.pack("!I", 0) + edge + option(1), hops=1)
	    icmp(135, struct.pack("!I", 0) + edge + option(1), src=bytes(16))
	    icmp(135, struct.pack("!I", 0) + ip("ff02::2"))
	    # Router advertisement, redirect, too big with a tiny MTU: not listened to.
	    icmp(134, struct.pack("!BBHII", 64, 0, 1800, 0, 0) + option(1))
	    icmp(137, struct.pack("!I", 0) + us + peer)
	    icmp(2, struct.pack("!I", 68) + bytes(40))
	    # Extension headers, a fragment, UDP without and with a wrong checksum, a lying length.
	    frame(0, bytes([17, 0, 1, 4, 0, 0, 0, 0]) + bytes(16))
	    frame(44, bytes([17, 0, 0, 1, 0, 0, 0, 1]) + bytes(16))
	    frame(17, struct.pack("!HHHH", 9, 4790, 8 + 48, 0) + bytes(48))
	    frame(17, struct.pack("!HHHH", 9, 4790, 8 + 48, 1) + bytes(48))
	    frame(17, struct.pack("!HHHH", 9, 4790, 4000, 7) + bytes(48))
PY
drop() { py "n['port_drop_$1'] - o['port_drop_$1']" n="$(edge_counters b)" o="$before"; }
counted() {
	[ "$(drop nd)" -ge 80 ] && [ "$(drop protocol)" -ge 40 ] && [ "$(drop fragment)" -ge 10 ] &&
		[ "$(drop checksum)" -ge 20 ] && [ "$(drop malformed)" -ge 10 ]
}
until_true 5 counted || true
check "each is dropped under its name: nd $(drop nd), protocol $(drop protocol), fragment $(drop fragment), checksum $(drop checksum), malformed $(drop malformed)" \
	counted
lab_put after --model after --objects 8
lab_submit after
lab_wait "$ORDER" 20
check_py "and the session goes on, its peer where it was" 'r["state"] == "done"' r="$RESULT"
check "its objects are those that were made" lab_verify after

# ---- jumbo frames through the emulator ------------------------------------------------------------

# wan_up OPTIONS..
wan_up() {
	spawn wan ip netns exec $ns_w "$LAB_BIN/strait-wan" --port-a net_af_packet0,iface=wan-a \
		--port-b net_af_packet1,iface=wan-b --json --stats-ms 0 --late-us 10000 --mtu 9000 \
		--rate-gbps 0.4 --rtt-ms 30 --loss 0.01 "$@"
	wait_ready wan
}
wan_up --inject-forged 100
edge_config a wan 9000
edge_config b wan 9000
edges_restart
lab_put jumbo --model jumbo --objects 40
lab_submit jumbo
lab_wait "$ORDER" 40
check_py "an order in jumbo frames at 1 % loss is done" \
	'r["state"] == "done" and r["committed"] == 40' r="$RESULT"
check "every object is the one that was made" lab_verify jumbo
a=$(edge_counters a) b=$(edge_counters b)
check_py "in packets of 8912 bytes of data" \
	'a["tx_bytes"] / a["tx_packets"] > 7000 and a["tx_mtu_falls"] == 0' a="$a"
check_py "forged packets were dropped by the AEAD" 'b["rx_auth"] > 0' b="$b"
stop wan

# ---- a path that carries less ---------------------------------------------------------------------

wan_up --path-mtu 0,1500
edges_restart
lab_put small --model small --objects 20
lab_submit small
lab_wait "$ORDER" 40
check_py "an order over a path of 1500 bytes, configured as 9000, is done" \
	'r["state"] == "done" and r["committed"] == 20' r="$RESULT"
check "every object is the one that was made" lab_verify small
a=$(edge_counters a)
check_py "after the path was found to be smaller" 'a["tx_mtu_falls"] == 1' a="$a"
stop edge-a
check_py "edge a leaves with status 0" 'rc == 0' rc="$RC"
stop edge-b
check_py "edge b leaves with status 0" 'rc == 0' rc="$RC"
stop wan
check_py "the line saw it" 'w["ab"]["lost_mtu"] > 8' w="$(wan_figures)"
finish
