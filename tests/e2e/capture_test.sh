#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# straitctl capture over memif, with the rights of an ordinary user: an edge writes a transfer's
# packets to a file that tcpdump reads, and its keys nowhere unless told. Frame by frame it is
# checked by dts.
set -uo pipefail
if [ "$(id -u)" -eq 0 ] && [ -z "${LAB_DROPPED:-}" ] && command -v setpriv >/dev/null &&
	setpriv --reuid=nobody --regid=nogroup --clear-groups test -r "$0" -a -x "${BUILD:-build}/bin" 2>/dev/null; then
	LAB_DROPPED=1 exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0" "$@"
fi
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
command -v tcpdump >/dev/null || skip "tcpdump is not installed"

lab_init capture
mkdir "$LAB_DIR/capture"
lab_configure
cat >>"$LAB_DIR/a.yaml" <<END
debug:
  socket: $LAB_DIR/a.sock
  capture_dir: $LAB_DIR/capture
  key_log: $LAB_DIR/a.keys
END
lab_up

capture() { "$LAB_BIN/straitctl" capture "$@" --socket "$LAB_DIR/a.sock" -o json; }
mode_of() { stat -c %a "$1"; }

lab_put objects --objects 4
started=$(capture start --file transfer.pcapng)
check_py "a capture starts" 'r["running"] and r["file"] == "transfer.pcapng"' r="$started"
lab_submit objects
lab_wait "$ORDER" 40
stopped=$(capture stop)
file=$LAB_DIR/capture/transfer.pcapng
packets=$(tcpdump -n -r "$file" 2>/dev/null | wc -l)
udp=$(tcpdump -n -r "$file" udp port 4790 2>/dev/null | wc -l)
check_py "tcpdump reads as many packets as the edge counted" \
	'not r["running"] and r["missed"] == 0 and r["packets"] == n and udp > 1000' \
	r="$stopped" n="$packets" udp="$udp"
check "the file is its owner's alone" test "$(mode_of "$file")" = 600
check "and so is the socket" test "$(mode_of "$LAB_DIR/a.sock")" = 600
check "the key log has the session, for its owner alone" \
	bash -c "grep -q '^STRAIT_SESSION_SECRET [0-9a-f]\{16\} [0-9a-f]\{96\}\$' '$LAB_DIR/a.keys' &&
		[ \$(stat -c %a '$LAB_DIR/a.keys') = 600 ]"
check "which the log of the edge says loudly" logged edge-a "KEYS OF ALL SESSIONS ARE WRITTEN"
check "the other edge writes no keys" bash -c "! grep -q KEYS '$LAB_DIR/log/edge-b.err'"
check "a second capture does not replace the file" \
	bash -c "! '$LAB_BIN/straitctl' capture start --file transfer.pcapng --socket '$LAB_DIR/a.sock'"
check "nor leave the directory" \
	bash -c "! '$LAB_BIN/straitctl' capture start --file ../x --socket '$LAB_DIR/a.sock'"

stop edge-a
check "an edge that ends takes its socket along" test ! -e "$LAB_DIR/a.sock"
chmod 644 "$LAB_DIR/a.keys"
edge_start a
until_true 20 is_ready_or_down edge-a
check "a key log that others may read is refused at the start" is_down edge-a
check "with what to do" logged edge-a "chmod 600"
finish
