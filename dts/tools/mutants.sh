#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Does the packet harness notice when the edge is wrong? Each dts/mutants/*.patch puts one fault into
# a copy of the tree, mostly the same one into both directions, so that two such edges agree with
# each other. The case it names must pass without and fail with it.
#
#   Guard: what the patch breaks
#   Caught-by: SUITE CASE
#
# usage: dts/tools/mutants.sh [WORD]      only patches whose name has the word; as root
# Closing line: `N passed, M failed`. A patch that does not apply or build is a failure.
set -uo pipefail
cd "$(dirname "$0")/../.."

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

fail() {
	failed=$((failed + 1))
	echo "FAIL  $1: $2"
}

# The case's result in results.json, and why; nothing when it did not get as far.
try() {
	timeout 300 /usr/bin/python3 -B dts/main.py --build-dir build --output-dir "$work/results" \
		--jobs 1 --seed 1 --test-suite "$1" >"$work/out" 2>&1 </dev/null
	/usr/bin/python3 - "$work/results/results.json" "$1" <<-'EOF'
		import json, sys
		suite, case = sys.argv[2].split()
		found = json.load(open(sys.argv[1]))["test_suites"].get(suite, {}).get(case, {})
		print(found.get("result", "nothing"), found.get("reason", ""))
	EOF
	rm -rf "$work/results"
}

mutate() {
	local name result case_
	name=$(basename "$1" .patch)
	case_=$(told Caught-by "$1")
	if ! patch -s -p1 --no-backup-if-mismatch -r - <"$1" >"$work/out" 2>&1; then
		fail "$name" "the patch does not apply any more"
		return
	fi
	if ! "${make[@]}" build/bin/strait-edge >"$work/out" 2>&1; then
		fail "$name" "does not build"
		tail -5 "$work/out" | sed 's/^/      /'
	else
		result=$(try "$case_")
		case $result in
		FAIL\ *)
			passed=$((passed + 1))
			echo "ok    $name: caught by $case_: ${result#FAIL }"
			;;
		*) fail "$name" "survived $case_ ($result): $(told Guard "$1")" ;;
		esac
	fi
	patch -s -R -p1 --no-backup-if-mismatch -r - <"$1" >/dev/null 2>&1 ||
		fail "$name" "could not be taken back"
}

mapfile -t patches < <(find "$here/dts/mutants" -name "*${1:-}*.patch" | sort)
if [ "${#patches[@]}" -eq 0 ]; then
	echo "no patch has '${1:-}'"
	echo "0 passed, 1 failed"
	exit 1
fi
mkdir "$work/tree"
if [ -e .git ]; then
	git ls-files -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null
else
	tar --exclude './build*' -cf - .
fi | tar -xf - -C "$work/tree"
# What the caller has built need not be built again: times of the files are kept. Built elsewhere
# it is of no use, as lists of headers name files by their path.
if [ "${BUILD:-build}" = build ] && [ -d build/obj ]; then
	mkdir "$work/tree/build"
	cp -a build/{bin,gen,lib,obj,flags} "$work/tree/build"
fi
cd "$work/tree" || exit 1
programs=(build/bin/{strait-edge,strait-master,straitctl,strait-replay,strait-wan})
if ! "${make[@]}" "${programs[@]}" >"$work/out" 2>&1; then
	tail -20 "$work/out"
	echo "the tree does not build"
	echo "0 passed, 1 failed"
	exit 1
fi
mapfile -t cases < <(for p in "${patches[@]}"; do told Caught-by "$p"; done | sort -u)
for c in "${cases[@]}"; do
	result=$(try "$c")
	[[ $result == PASS* ]] || fail unchanged "$c without any patch: $result"
done
[ "$failed" -gt 0 ] || for p in "${patches[@]}"; do
	mutate "$p"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
