#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kill -9 of the source edge, then of the destination edge, each in mid-transfer.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/kill_lib.sh
. "$(dirname "$0")/kill_lib.sh"

kill_begin kill-edge

kill_order source
murder edge-a
check "while the source is dead, what is visible at B is whole" lab_verify source --allow-missing
edge_start a
wait_ready edge-a
kill_end source

kill_order destination
murder edge-b
check "right after the kill, what is visible at B is whole" lab_verify destination --allow-missing
edge_start b
wait_ready edge-b
kill_end destination
finish
