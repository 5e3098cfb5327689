#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Edges whose packet memory lies on hugepages, as production has it. Root: reserves some for the time
# of the test and gives them back.
set -uo pipefail
if [ "$(id -u)" -ne 0 ]; then
	echo "SKIP: needs root to reserve hugepages"
	exit 77
fi
if [ -z "${LAB_HUGEPAGES:-}" ]; then
	before=$(cat /proc/sys/vm/nr_hugepages)
	trap 'echo "$before" >/proc/sys/vm/nr_hugepages' EXIT
	trap 'exit 130' INT TERM
	echo $((before + 256)) >/proc/sys/vm/nr_hugepages
	LAB_HUGEPAGES=$(cat /proc/sys/vm/nr_hugepages)
	if [ "$LAB_HUGEPAGES" -lt $((before + 256)) ]; then
		echo "SKIP: 256 hugepages of 2 MiB cannot be had"
		exit 77
	fi
	LAB_HUGEPAGES=$LAB_HUGEPAGES "$0" "$@"
	exit
fi
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init hugepages
LAB_CAP=400Mbit
LAB_WAN=(--rate-gbps 0.4 --rtt-ms 40 --loss 0.01)
lab_configure
for site in a b; do
	sed -i 's/^\( *\)memory: 192M$/\1memory: 192M\n\1hugepages: true/' "$LAB_DIR/$site.yaml"
done
lab_up
free=$(awk '/HugePages_Free/ { print $2 }' /proc/meminfo)
check_py "both edges took hugepages" 'total - free > 0' total="$LAB_HUGEPAGES" free="$free"

lab_put objects --objects 40
lab_submit objects
lab_wait "$ORDER" 40
check_py "an order of 40 objects is done, all committed" \
	'r["state"] == "done" and r["committed"] == 40' r="$RESULT"
check "every object at B is the one the generator made" lab_verify objects
stop edge-a
stop edge-b
finish
