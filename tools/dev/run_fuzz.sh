#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_fuzz.sh BUILD: runs every fuzzer built there for FUZZ_SECONDS, starting from its seeds in
# tests/fuzz/corpus/<name>/ where there are some. What a fuzzer finds is left in
# BUILD/findings/<name>/; new inputs stay in BUILD/corpus/ for the next run.
set -euo pipefail

build=$1
seconds=${FUZZ_SECONDS:-10}
# One launcher per fuzzer, so that the common runner times and counts them.
mkdir -p "$build/run"
launchers=()
for src in tests/fuzz/*_fuzz.c; do
	[ -e "$src" ] || continue
	name=$(basename "$src" .c)
	corpus=$build/corpus/$name findings=$build/findings/$name seeds=tests/fuzz/corpus/$name
	mkdir -p "$corpus" "$findings"
	[ -d "$seeds" ] || seeds=
	cat >"$build/run/$name" <<-END
		#!/bin/sh
		exec $build/test/tests/fuzz/$name -max_total_time=$seconds -timeout=5 -rss_limit_mb=2048 \
			-print_final_stats=1 -artifact_prefix=$findings/ $corpus $seeds
	END
	chmod +x "$build/run/$name"
	launchers+=("$build/run/$name")
done
exec tools/dev/run_tests.py -j "${J:-2}" -t $((seconds + 60)) -- "${launchers[@]}"
