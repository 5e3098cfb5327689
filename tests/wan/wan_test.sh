#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# strait-wan between two memif peers: delay, loss and the other impairments as asked, the same for
# the same seed, peers and emulator killed and restarted, bad options refused. Needs no root.
set -u
cd "$(dirname "$0")/../.." || exit 1

dir=$(mktemp -d)
wan=${WAN:-${BUILD:-build}/bin/strait-wan}
wan_peer=${WAN_PEER:-${BUILD:-build}/test/wan/wan_peer}
pids=()
failed=0

cleanup() {
	for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null; done
	wait 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '%-6s %s\n' "$1" "$2"; }

# check NAME EXPRESSION: EXPRESSION is Python over p (peer), w (emulator), each parsed JSON.
check() {
	if PEER=$dir/peer.json WANOUT=$dir/wan.json python3 - "$2" <<-'PY'
		import json, os, sys
		def load(path):
		    try:
		        return json.loads(open(path).read().splitlines()[-1])
		    except (OSError, ValueError, IndexError):
		        return None
		p, w = load(os.environ["PEER"]), load(os.environ["WANOUT"])
		try:
		    ok = bool(eval(sys.argv[1]))
		except TypeError:
		    ok = False
		if not ok:
		    print("peer", p, "wan", w, sep="\n", file=sys.stderr)
		sys.exit(not ok)
	PY
	then
		say ok "$1"
	else
		say FAILED "$1"
		failed=1
	fi
}

memif() { echo "net_memif$1,role=$2,id=0,socket=$dir/$3.sock,socket-abstract=no,bsize=2048"; }

wan_start() {
	rm -f "$dir/wan.json"
	"$wan" --port-a "$(memif 0 server a)" --port-b "$(memif 1 server b)" --stats-ms 0 --json \
		--rate-gbps 1 --rtt-ms 60 "$@" >"$dir/wan.json" 2>"$dir/wan.err" &
	wan_pid=$!
	pids+=("$wan_pid")
	for _ in $(seq 400); do
		grep -q '^ready' "$dir/wan.json" 2>/dev/null && return 0
		kill -0 "$wan_pid" 2>/dev/null || break
		sleep 0.05
	done
	say FAILED "strait-wan $* is not ready"
	cat "$dir/wan.err" >&2
	exit 1
}

wan_stop() {
	kill -TERM "$wan_pid"
	wait "$wan_pid"
	rc=$?
	[ $rc -eq 0 ] || { say FAILED "strait-wan exits with $rc"; failed=1; }
}

peer() { timeout 60 "$wan_peer" "$(memif 0 client a)" "$(memif 1 client b)" "$@" >"$dir/peer.json"; }

# A busy machine delays both ends: bounds from below are exact, those from above are wide.
wan_start
peer 5000 10000 1514 200
wan_stop
check "a clean line delivers every frame unchanged, both ways" \
	"all(p[d]['got'] == 5000 and p[d]['bad'] == 0 and p[d]['again'] == 0 for d in ('ab', 'ba'))"
check "the order is kept" "p['ab']['out_of_order'] == 0 and p['ba']['out_of_order'] == 0"
check "one-way delay is half the round trip plus 12.3 us of serialization" \
	"all(30012 <= p[d]['delay_min_us'] <= 31000 for d in ('ab', 'ba'))"
check "the emulator counts frame + 24 bytes" "w['ab']['offered_bytes'] == 5000 * 1538"

wan_start --loss 0.02 --ba-loss 0.1 --seed 7
peer 10000 20000 400 200
wan_stop
check "loss is as asked, each direction apart" \
	"9720 <= p['ab']['got'] <= 9880 and 8850 <= p['ba']['got'] <= 9150"
check "the emulator's counters agree with what arrived" \
	"all(p[d]['got'] == 10000 - w[d]['lost_random'] == w[d]['tx'] for d in ('ab', 'ba'))"
first=$(grep -o '"lost_random": [0-9]*' "$dir/wan.json")
wan_start --loss 0.02 --ba-loss 0.1 --seed 7
peer 10000 20000 400 200
wan_stop
[ "$first" = "$(grep -o '"lost_random": [0-9]*' "$dir/wan.json")" ]
check "the same seed loses the same packets" "$([ $? -eq 0 ] && echo True || echo False)"

wan_start --reorder 0.2,5 --dup 0.05 --ab-corrupt 0.05 --inject-forged 200
peer 10000 20000 400 200
wan_stop
check "late packets are overtaken" "p['ab']['out_of_order'] > 500"
check "duplicates arrive" "400 <= p['ba']['again'] <= 600"
check "every corrupt and forged frame is seen, and no other" \
	"all(p[d]['bad'] == w[d]['corrupted'] + w[d]['forged'] > 0 for d in ('ab', 'ba'))"
check "only the direction asked corrupts" \
	"w['ab']['corrupted'] > 350 and w['ba']['corrupted'] == 0"

wan_start --rate-gbps 0.1 --queue-bytes 150000
peer 20000 20000 1514 300
wan_stop
check "a line of 100 Mbit/s carries 8127 frames a second and drops the rest" \
	"all(w[d]['lost_queue'] > 4000 and w[d]['queue_high_bytes'] <= 150000 and
	     6500 < p[d]['pps'] < 9500 for d in ('ab', 'ba'))"

# Peers that die in mid-stream, with their half of the shared memory mapped and in use.
wan_start --rtt-ms 20
for _ in 1 2 3; do
	"$wan_peer" "$(memif 0 client a)" "$(memif 1 client b)" 1000000 50000 1514 100 \
		>/dev/null 2>&1 &
	victim=$!
	pids+=("$victim")
	sleep 0.7
	kill -9 "$victim"
	wait "$victim" 2>/dev/null
done
sleep 0.3
peer 3000 20000 1514 200
check "peers killed three times in mid-stream reconnect" \
	"p['ab']['got'] == 3000 and p['ba']['got'] == 3000"
kill -9 "$wan_pid"
wait "$wan_pid" 2>/dev/null
wan_start --rtt-ms 20
peer 3000 20000 1514 200
wan_stop
check "the emulator killed and started again takes over its sockets" \
	"p['ab']['got'] == 3000 and p['ba']['got'] == 3000"

for bad in "--loss 2" "--bogus" "--ab-ge 0.5" "--seconds" "--rate-gbps 100 --rtt-ms 500" "stray"; do
	# shellcheck disable=SC2086
	"$wan" --port-a net_null0 --port-b net_null1 $bad >/dev/null 2>"$dir/err"
	rc=$?
	if [ $rc -eq 2 ] && [ "$(wc -l <"$dir/err")" -eq 1 ]; then
		say ok "'$bad' is refused: $(cut -c13-100 "$dir/err")"
	else
		say FAILED "'$bad' gives status $rc"
		failed=1
	fi
done
exit $failed
