#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The stages of `make check`, each timed, and one closing line over all of them:
# `N passed, M failed[, K skipped]`. Every stage runs even if one before it failed, except that
# nothing can run when the build fails. Non-zero exit if anything failed.
set -uo pipefail

# Not left in the environment, where a make below would take it for its own.
make=(${MAKE:-make} --no-print-directory)
unset MAKE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
# All cores, unless the caller said how many.
[[ ${MAKEFLAGS:-} == *-j* ]] || make+=("-j$(nproc)")

# stage NAME COMMAND..: a stage that writes no counts is one test itself.
stage() {
	local name=$1 start=$SECONDS rc=0 counts
	shift
	echo "== $name"
	STRAIT_STAGE=$name STRAIT_COUNTS=$work/$name "$@" || rc=$?
	if [ -s "$work/$name" ]; then
		counts=$(tr -c '0-9\n' ' ' <"$work/$name")
	else
		counts="$((rc == 0)) $((rc != 0)) 0"
	fi
	read -r p f s <<<"$counts"
	# A stage that failed without naming a test, e.g. in its build.
	[ "$rc" -eq 0 ] || [ "$f" -gt 0 ] || f=1
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
	echo "== $name: $([ "$f" -eq 0 ] && echo ok || echo FAILED) in $((SECONDS - start)) s"
	return "$rc"
}

finish() {
	echo "== check: $((SECONDS / 60)) min $((SECONDS % 60)) s"
	if [ "$skipped" -gt 0 ]; then
		echo "$passed passed, $failed failed, $skipped skipped"
	else
		echo "$passed passed, $failed failed"
	fi
	[ "$failed" -eq 0 ]
	exit
}

make_stage() {
	stage "$1" "${make[@]}" "${2:-$1}"
}

make_stage build all || finish
for target in lint unit sim-check fuzz e2e check-mooncake; do
	make_stage "$target" || true
done
if [ "$(id -u)" -eq 0 ]; then
	make_stage dts || true
else
	echo "== dts: skipped: network namespaces need root (sudo make dts)"
	skipped=$((skipped + 1))
fi
finish
