#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Objects of many sizes from one pool to another over memif, with everything a WAN does to packets
# at once; every byte is compared. Without root where that can be had.
set -uo pipefail
if [ "$(id -u)" -eq 0 ] && [ -z "${LAB_DROPPED:-}" ] && command -v setpriv >/dev/null &&
	setpriv --reuid=nobody --regid=nogroup --clear-groups test -r "$0" -a -x "${BUILD:-build}/bin" 2>/dev/null; then
	LAB_DROPPED=1 exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0" "$@"
fi
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init memif
LAB_CAP=400Mbit
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.01 --ge 0.005,8 --reorder 0.02,5 --dup 0.01
	--corrupt 0.002 --inject-forged 200)
lab_configure
lab_up
check "DPDK does not complain at a start without errors" \
	bash -c "! grep -v -e '^2' -e '^ready' '$LAB_DIR/log/edge-a.err'"
echo "running as $(id -un), pools in $LAB_SHM"

# 2 MiB as an 8B model has them, ranks of 256 KiB, and small odd ones that share symbols.
lab_put large --objects 40
lab_put ranks --model ranks/70B --tp 8 --bytes-per-block 2M --objects 64
lab_put small --model small --bytes-per-block 70003 --objects 100
lab_put tiny --model tiny --bytes-per-block 4097 --objects 300
cat "$LAB_DIR"/{large,ranks,small,tiny} >"$LAB_DIR/all"
count=$(wc -l <"$LAB_DIR/all")

lab_submit all
lab_wait "$ORDER" 40
check_py "an order of $count objects is done, all committed" \
	'r["state"] == "done" and r["committed"] == n and r.get("failed", 0) == 0' \
	r="$RESULT" n="$count"
check "every object at B is the one the generator made" lab_verify all

lab_put again --model again --objects 8
lab_submit again --class urgent
lab_wait "$ORDER" 20
check_py "a second order on the same session is done" 'r["state"] == "done"' r="$RESULT"
check "its objects too are those that were made" lab_verify again
lab_submit again
lab_wait "$ORDER" 20
check_py "what the destination has is not shipped again" \
	'r["state"] == "done" and r["existed"] == 8' r="$RESULT"

a=$(edge_counters a) b=$(edge_counters b)
stop edge-a
check_py "the source edge drains and ends with status 0" 'rc == 0' rc="$RC"
stop edge-b
check_py "the destination edge too" 'rc == 0' rc="$RC"
stop wan
w=$(wan_figures)
check_py "lost symbols were rebuilt from rows or sent again" \
	'b["rx_decoded_blocks"] > 0 and a["tx_resend"] + a["tx_repair"] > 0' a="$a" b="$b"
check_py "forged and corrupted packets were dropped and counted" \
	'b["rx_auth"] > 0 and w["ab"]["forged"] > 0 and w["ab"]["corrupted"] > 0' b="$b" w="$w"
check_py "no object failed its digest" 'b["rx_digest"] == 0' b="$b"
finish
