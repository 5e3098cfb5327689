#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-commits.sh BASE|RANGE: titles of the commits after BASE read `topic: imperative lowercase`,
# though words in upper case (WAN, SIGTERM) may stand anywhere; they have at most 72 columns and no
# period; a body says why; history is linear.
set -euo pipefail

if [ $# -ne 1 ] || [ -z "$1" ]; then
	echo "usage: check-commits.sh BASE, e.g. origin/main: checks the commits after BASE" >&2
	exit 2
fi
range=$1
[[ $range == *..* ]] || range=$range..HEAD
if ! commits=$(git rev-list --abbrev-commit --reverse "$range" -- 2>/dev/null); then
	echo "check-commits.sh: no commits $range here: say BASE=COMMIT" >&2
	exit 2
fi

topic='[a-z0-9][a-z0-9{}/_.-]*'
# Not a word that merely begins in upper case.
word='([^A-Z[:space:]]|[A-Z][A-Z0-9])'
bad=0
complain() {
	printf '%s: %s\n    %s\n' "$sha" "$1" "$title"
	bad=$((bad + 1))
}

for sha in $commits; do
	title=$(git show -s --format=%s "$sha")
	body=$(git show -s --format=%b "$sha")
	[[ $title =~ ^$topic(,\ ?$topic)*:\ $word ]] || complain "not 'topic: lowercase'"
	[ ${#title} -le 72 ] || complain "${#title} columns"
	[[ $title != *[.!,\ ] ]] || complain "ends in punctuation"
	[ "$(wc -w <<<"$body")" -ge 3 ] || complain "no body"
	[ "$(git show -s --format=%P "$sha" | wc -w)" -le 1 ] || complain "merge"
done
[ "$bad" -eq 0 ]
