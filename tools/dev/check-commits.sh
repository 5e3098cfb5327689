#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-commits.sh [RANGE]: titles read `topic: imperative lowercase`, at most 72 columns, without
# a period; a body says why; history is linear. Default range: everything reachable.
set -euo pipefail

bad=0
complain() {
	printf '%s: %s\n    %s\n' "$1" "$2" "$title"
	bad=$((bad + 1))
}

while read -r sha; do
	title=$(git show -s --format=%s "$sha")
	body=$(git show -s --format=%b "$sha")
	[[ $title =~ ^[a-z0-9][a-z0-9,{}/_.-]*:\ [^A-Z] ]] || complain "$sha" "not 'topic: lowercase'"
	[ ${#title} -le 72 ] || complain "$sha" "${#title} columns"
	[[ $title != *[.!,\ ] ]] || complain "$sha" "ends in punctuation"
	[ "$(wc -w <<<"$body")" -ge 3 ] || complain "$sha" "no body"
	[ "$(git show -s --format=%P "$sha" | wc -w)" -le 1 ] || complain "$sha" "merge"
done < <(git rev-list --abbrev-commit --reverse "${1:-HEAD}")
[ "$bad" -eq 0 ]
