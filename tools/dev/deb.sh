#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Debian packages of what is committed, in a copy, and leaves them in $BUILD/deb. An
# unpacked release without .git is copied as it is.
set -euo pipefail

cd "$(dirname "$0")/../.."
mkdir -p "${BUILD:-build}/deb"
out=$(realpath "${BUILD:-build}/deb")
copy=$(mktemp -d "$out/tree.XXXXXX")
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/strait"

if [ -e .git ]; then
	git diff --quiet HEAD || echo "deb: changes that are not committed are left out" >&2
	git archive HEAD | tar -x -C "$copy/strait"
else
	tar -c --exclude='./build*' . | tar -x -C "$copy/strait"
fi
# The caller's make and its variables do not reach the build in the copy.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL BUILD
(cd "$copy/strait" && dpkg-buildpackage -us -uc -b) >"$out/log" 2>&1 || {
	tail -n 40 "$out/log" >&2
	echo "deb: failed; all of it is in $out/log" >&2
	exit 1
}
rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
mv "$copy"/*.deb "$copy"/*.buildinfo "$copy"/*.changes "$out"
printf '%s\n' "$out"/*.deb
