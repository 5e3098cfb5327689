#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Do the tests notice when a guard is gone? Each *.patch here disables one guard of the protocol core
# or the control plane in a copy of the tree; the commands it names must pass without it and every
# one must fail with it.
#
#   Guard: what the patch takes away
#   Caught-by: unit PATH            a unit test, build/test/PATH
#   Caught-by: sim ARGS             strait-sim ARGS
#
# usage: tests/mutants/run.sh [WORD]      only patches whose name has the word
# Closing line: `N passed, M failed`. A patch that does not apply or build is a failure.
set -uo pipefail
cd "$(dirname "$0")/../.."

word=${1:-}
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT
passed=0 failed=0
make=(make --no-print-directory "-j$(nproc)" BUILD=build SAN= V=)
unset MAKEFLAGS MFLAGS MAKELEVEL

told() {
	sed -n "s/^$1: //p" "$2"
}

# Files a command needs built.
target() {
	case $1 in
	unit\ *) echo "build/test/${1#unit }" ;;
	*) echo build/bin/strait-sim ;;
	esac
}

# 0 when the command passes; a command that does not end counts as failed.
try() {
	case $1 in
	unit\ *) timeout 120 "build/test/${1#unit }" ;;
	# shellcheck disable=SC2086
	*) timeout 120 build/bin/strait-sim ${1#sim } --json ;;
	esac >"$work/out" 2>&1 </dev/null
}

fail() {
	failed=$((failed + 1))
	echo "FAIL  $1: $2"
}

mutate() {
	local patch=$1 name line targets=()
	name=$(basename "$patch" .patch)
	if ! patch -s -p1 --no-backup-if-mismatch -r - <"$patch" >"$work/out" 2>&1; then
		fail "$name" "the patch does not apply any more"
		sed 's/^/      /' "$work/out"
		return
	fi
	mapfile -t lines < <(told Caught-by "$patch")
	for line in "${lines[@]}"; do
		targets+=("$(target "$line")")
	done
	if ! "${make[@]}" "${targets[@]}" >"$work/out" 2>&1; then
		fail "$name" "does not build"
		tail -5 "$work/out" | sed 's/^/      /'
	else
		for line in "${lines[@]}"; do
			if try "$line"; then
				fail "$name" "not noticed by $line: $(told Guard "$patch")"
				continue
			fi
			passed=$((passed + 1))
			echo "ok    $name: caught by $line"
			# What the simulator said; a unit test names the case itself.
			[ "${line#sim}" = "$line" ] ||
				sed -n 's/.*"error": "\([^"]*\)".*/      \1/p' "$work/out" | head -1
		done
	fi
	patch -s -R -p1 --no-backup-if-mismatch -r - <"$patch" >/dev/null 2>&1 ||
		fail "$name" "could not be taken back"
}

mapfile -t patches < <(find "$here/tests/mutants" -name "*$word*.patch" | sort)
if [ "${#patches[@]}" -eq 0 ]; then
	echo "no patch has '$word'"
	echo "0 passed, 1 failed"
	exit 1
fi
mkdir "$work/tree"
if [ -e .git ]; then
	git ls-files -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null
else
	tar --exclude './build*' -cf - .
fi | tar -xf - -C "$work/tree"
cd "$work/tree" || exit 1

mapfile -t commands < <(for p in "${patches[@]}"; do told Caught-by "$p"; done | sort -u)
mapfile -t needed < <(for c in "${commands[@]}"; do target "$c"; done | sort -u)
if ! "${make[@]}" "${needed[@]}" >"$work/out" 2>&1; then
	tail -20 "$work/out"
	echo "the tree does not build"
	echo "0 passed, 1 failed"
	exit 1
fi
for c in "${commands[@]}"; do
	try "$c" || fail unchanged "$c fails without any patch"
done
[ "$failed" -gt 0 ] || for p in "${patches[@]}"; do
	mutate "$p"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
