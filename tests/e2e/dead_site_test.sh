#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A destination that takes orders and never a packet: it blocks nobody else, neither in the master
# nor at the source edge, and leaves its share of the edge's cap to others.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init dead-site
LAB_CAP=200Mbit LAB_POOL_A=256M LAB_POOL_B=256M
LAB_EDGE_YAML="total_cap: 200Mbit"
LAB_WAN=(--rate-gbps 1 --rtt-ms 40 --loss 0.005)
lab_configure
"$LAB_BIN/straitctl" pki issue "$LAB_DIR/pki" --role edge --site c --name c1 >"$LAB_DIR/log/pki.out" ||
	die "straitctl pki"
read -r port_c <<<"$(free_ports 1)"
mkdir -p "$LAB_DIR/state-c"
# Its port is connected to nothing.
edge_yaml c "$(memif 0 server c)" 64M "$port_c" 10.66.0.3 >"$LAB_DIR/c.yaml"
echo "  - name: c" >>"$LAB_DIR/master.yaml"
lab_up
edge_start c
wait_ready edge-c
until_true 20 edges_up 3 || die "the third edge does not reach the master"

lab_put good --model good --objects 32
lab_put lost --model lost --objects 4
for i in $(seq 100); do
	lab_keys lost | ctl order submit --from a --to c --keys-file - >/dev/null ||
		die "order $i to c"
done
# Time for the dead link to be seen not to use its share.
until_true 10 test "$(py 'sum(o["state"] == "running" for o in r)' r="$(ctl order list -o json)")" -gt 0
lab_submit good
lab_wait "$ORDER" 30
check_py "an order to another site is done meanwhile" 'r["state"] == "done"' r="$RESULT"
# 64 MiB at 200 Mbit/s are 2.9 s.
check_py "at more than half of the edge's cap" \
	'r["bytes_done"] * 8000 / (r["finished_ms"] - r["created_ms"]) > 1e8' r="$RESULT"
check "and is right" lab_verify good
check_py "the dead site's orders wait and say why" \
	'sum(o["state"] in ("running", "queued") for o in r) >= 90 and
	 all(o["text"] for o in r if o["state"] == "queued")' r="$(ctl order list -o json)"
check_py "the shares of the edge's cap add up to it" \
	'sum(l["cap_bps"] for l in r["links"] if l["peer_site"] != "a") <= 2.1e8' \
	r="$(ctl edge show a/a1 -o json)"
finish
