#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Jumbo frames over memif, end to end: edges with an MTU of 9000, a line of 9000 whose path falls to
# 1500 and on to 1280 under a running order, and a line that never carried more than 1500. Without
# root where that can be had.
set -uo pipefail
if [ "$(id -u)" -eq 0 ] && [ -z "${LAB_DROPPED:-}" ] && command -v setpriv >/dev/null &&
	setpriv --reuid=nobody --regid=nogroup --clear-groups test -r "$0" -a -x "${BUILD:-build}/bin" 2>/dev/null; then
	LAB_DROPPED=1 exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0" "$@"
fi
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init jumbo
LAB_CAP=200Mbit
LAB_WAN=(--mtu 9000 --rate-gbps 0.4 --rtt-ms 30 --loss 0.01)
# One side over IPv6's longer header would be refused: both are.
lab_pki
for site in a b; do
	n=1 port=$LAB_PORT_A
	[ $site = a ] || n=2 port=$LAB_PORT_B
	edge_yaml $site "$(memif 0 client $site)" 256M "$port" "fd66::$n" |
		sed "s,address: \\(fd66::.\\)/24,address: \\1/64\\n  mtu: 9000," >"$LAB_DIR/$site.yaml"
done
master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
wan_start() {
	spawn wan "$LAB_BIN/strait-wan" --port-a "$(memif 0 server a)" --port-b "$(memif 1 server b)" \
		--json --stats-ms 0 --late-us 10000 "${LAB_WAN[@]}"
}
wan_again() {
	stop wan
	LAB_WAN=(--mtu 9000 --rate-gbps 0.4 --rtt-ms 30 --loss 0.01 "$@")
	wan_start
	wait_ready wan
}

small() {
	! "$LAB_BIN/strait-edge" --config "$LAB_DIR/small.yaml" --check-config >"$LAB_DIR/log/small" 2>&1 &&
		grep -q 'bsize must hold a whole frame: 9022' "$LAB_DIR/log/small"
}
sed 's,\(device: .*\),\1\,bsize=2048,' "$LAB_DIR/a.yaml" >"$LAB_DIR/small.yaml"
check "buffers that do not hold a frame are refused, with the size that does" small

lab_up
lab_put first --model first --objects 40
lab_put odd --model odd --bytes-per-block 70001 --objects 60
cat "$LAB_DIR"/{first,odd} >"$LAB_DIR/both"
lab_submit both
lab_wait "$ORDER" 40
check_py "an order in jumbo frames over IPv6 on memif is done" \
	'r["state"] == "done" and r["committed"] == 100' r="$RESULT"
check "every object is the one that was made" lab_verify both
a=$(edge_counters a)
check_py "in packets of 8912 bytes of data" \
	'a["tx_bytes"] / a["tx_packets"] > 7000 and a["tx_mtu_falls"] == 0' a="$a"

# Under the running order the line is replaced by one that carries 1500, then by one of 1280.
lab_put falling --model falling --objects 60
lab_submit falling
until_true 20 order_passed "$ORDER" $((30 << 20)) || not_ok "the order gets to 30 MiB"
wan_again --path-mtu 0,1500
until_true 20 order_passed "$ORDER" $((70 << 20)) || not_ok "the order gets to 70 MiB"
wan_again --path-mtu 0,1280
lab_wait "$ORDER" 60
check_py "an order under which the path falls to 1500 and to 1280 is done" \
	'r["state"] == "done" and r["committed"] == 60' r="$RESULT"
check "every object is the one that was made" lab_verify falling
lab_put later --model later --objects 4
lab_submit later
lab_wait "$ORDER" 20
check_py "an order after that is done" 'r["state"] == "done"' r="$RESULT"
check "its objects are those that were made" lab_verify later
a=$(edge_counters a) b=$(edge_counters b)
check_py "the path was followed down twice" 'a["tx_mtu_falls"] == 2' a="$a"
check_py "and what had arrived was kept" 'b["ingest_adopted_bytes"] > 0' b="$b"
stop edge-a
check_py "the source edge ends with status 0" 'rc == 0' rc="$RC"
stop edge-b
check_py "the destination edge too" 'rc == 0' rc="$RC"
stop wan
w=$(wan_figures)
check_py "lost: $(py 'w["ab"]["lost_mtu"]' w="$w") packets too large" '0 < w["ab"]["lost_mtu"] < 4000' w="$w"
finish
