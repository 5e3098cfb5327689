#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages of the named groups (build, test, package) that are missing; touches
# nothing when none is. Needs only bash and dpkg, so it can be the first thing run on a fresh
# machine.
set -euo pipefail

list=$(dirname "$0")/packages.txt
[ $# -gt 0 ] || set -- build test

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; install the equivalents of $list yourself" >&2
	exit 0
fi

missing=()
while read -r group package; do
	[[ " $* " == *" $group "* ]] || continue
	state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$state" = installed ] || missing+=("$package")
done <"$list"
[ ${#missing[@]} -gt 0 ] || exit 0

echo "deps: missing: ${missing[*]}"
as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps: neither root nor sudo; ask an administrator to run:" >&2
		echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo "${as_root[@]}")
fi
install=("${as_root[@]}" apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}")

# A simulated run tells whether the package lists at hand are good enough.
if ! apt-get -s install --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
	"${as_root[@]}" apt-get -q update
fi
# The lists may be older than what the mirror still keeps; refresh them once before giving up.
"${install[@]}" || { "${as_root[@]}" apt-get -q update && "${install[@]}"; }
