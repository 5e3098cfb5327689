#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Simulator suite of `make sim-check`: seeds of the random profile, the acceptance run, other traffic,
# the oracle, repeatability. Every failure prints the command that repeats it. Closing line:
# `N passed, M failed`.
#   BUILD=dir   the build directory   SIM_SEEDS=n   random seeds (2000)   SIM_SEED=s   the first (1)
#   SIM_ONLY=random   nothing but the random seeds (make soak)
set -uo pipefail
cd "$(dirname "$0")/../.."

sim=${BUILD:-build}/bin/strait-sim
seeds=${SIM_SEEDS:-2000}
first=${SIM_SEED:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT
passed=0 failed=0

pass() {
	passed=$((passed + 1))
	echo "ok    $1"
}

fail() {
	failed=$((failed + 1))
	echo "FAIL  $1"
}

# check NAME PYTHON-EXPRESSION FILE: over `runs` (list of dicts) and `summary`.
check() {
	local out
	out=$(python3 - "$2" "$3" 2>&1 <<-'END'
		import json, sys
		rows = [json.loads(line) for line in open(sys.argv[2])]
		runs, summary = rows[:-1], rows[-1]["summary"]
		ok, told = eval(sys.argv[1])
		print(told)
		sys.exit(not ok)
	END
	) && pass "$1: $out" || fail "$1: $out"
}

# One test a seed of a run's output.
count_seeds() {
	local good bad
	good=$(grep -c '"ok": true, ' "$1")
	bad=$(grep -c '"ok": false, ' "$1")
	passed=$((passed + good)) failed=$((failed + bad))
	echo "$([ "$bad" -eq 0 ] && echo "ok   " || echo FAIL)  $2: $good of $((good + bad)) seeds"
	[ "$bad" -eq 0 ] || sed 's/^/      /' "$work/err"
}

if [ ! -x "$sim" ]; then
	echo "no $sim: run make"
	echo "0 passed, 1 failed"
	exit 1
fi

"$sim" --profile random --seed "$first" --seeds "$seeds" --json >"$work/random" 2>"$work/err"
count_seeds "$work/random" "random impairments"
check "random: all seeds ran" "(len(runs) == $seeds, '%d runs' % len(runs))" "$work/random"
check "random: no nonce repeats" \
	"(all(r['nonce_repeats'] == 0 for r in runs), 'max %g' % summary['nonce_repeats']['max'])" "$work/random"
if [ "${SIM_ONLY:-}" = random ]; then
	# Worlds with a lying peer: a unit test, here with more seeds.
	if HOSTILE_SEEDS=$((seeds / 10)) "${BUILD:-build}/test/tests/unit/transport_hostile_random_test" \
		>"$work/hostile" 2>&1; then
		pass "$((seeds / 10)) seeds of lies beside honest orders"
	else
		fail "lies beside honest orders: HOSTILE_SEEDS=$((seeds / 10)) transport_hostile_random_test"
		tail -5 "$work/hostile"
	fi
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
fi

acceptance=(--rate-gbps 1 --rtt-ms 60 --loss 0.01 --mib 512 --seeds 20 --json)
"$sim" "${acceptance[@]}" >"$work/accept" 2>"$work/err"
count_seeds "$work/accept" "${acceptance[*]}"
check "median efficiency >= 0.95" \
	"(summary['efficiency']['p50'] >= 0.95, '%.4f' % summary['efficiency']['p50'])" "$work/accept"

short=(--rate-gbps 0.5 --rtt-ms 20 --loss 0.01 --mib 64 --seeds 3 --with-oracle --json)
"$sim" "${short[@]}" >"$work/oracle" 2>"$work/err"
count_seeds "$work/oracle" "${short[*]}"
check "the oracle is ideal and we are within 1.1 of it" \
	"(all(r['oracle_efficiency'] > 0.999 and 1 <= r['oracle_ratio'] <= 1.1 for r in runs), \
	'%.4f, ratio %.4f' % (summary['oracle_efficiency']['min'], summary['oracle_ratio']['max']))" "$work/oracle"

tampered=(--rate-gbps 0.2 --rtt-ms 10 --mib 8 --transfers 4 --object-kib 100 --loss 0.02 --corrupt 0.001
	--dup 0.05 --attack 0.05 --lie 0.1 --seeds 20 --json)
"$sim" "${tampered[@]}" >"$work/tampered" 2>"$work/err"
count_seeds "$work/tampered" "${tampered[*]}"
check "replayed, forged and tampered packets were tried and changed nothing" \
	"(all(r['attacks'] > 300 for r in runs), 'at least %d a seed' % summary['attacks']['min'])" "$work/tampered"

# hard NAME EXPRESSION OPTION..: 100 seeds over a path that misbehaves in one way.
hard() {
	local name=$1 expr=$2
	local args=(--rate-gbps 0.2 --rtt-ms 20 --mib 4 --light --seeds 100 "${@:3}" --json)
	"$sim" "${args[@]}" --counters >"$work/hard" 2>"$work/err"
	count_seeds "$work/hard" "${args[*]}"
	check "$name" "$expr" "$work/hard"
}

# Round trips beyond the ideal and beyond the time without any path; nothing is said on seeds that failed.
within='(summary["extra_rtt"]["max"] <= %s, "%.2f RTT, spurious %.4f" % (summary["extra_rtt"]["max"], summary["spurious_repair"]["max"]))'
hard "half of the feedback lost costs at most 3 RTT" "${within//%s/3}" --loss 0.01 --fb-loss 0.5
hard "feedback lost in bursts of 64 costs at most 3 RTT" "${within//%s/3}" --loss 0.01 --fb-ge 0.3,64
back='(summary["recovery_rtt"]["max"] <= 3 and summary["extra_rtt"]["max"] <= %s + 3, "back in %.2f RTT" % summary["recovery_rtt"]["max"])'
hard "a silence of 1 s, both ways" "${back//%s/50}" --loss 0.005 --cut 60,1000
hard "a silence of 30 s, both ways" "${back//%s/1500}" --loss 0.005 --cut 60,30000
hard "a silence of 30 s over 70 ms that lose 5 %" "${back//%s/500}" --rate-gbps 0.1 --rtt-ms 70 --mib 8 --loss 0.05 --cut 210,30000
hard "a silence of 30 s of a path that reorders" "${within//%s/1505}" --loss 0.005 --cut 60,30000 --reorder 0.25,5
hard "a silence of 1 s of the data" "${back//%s/50}" --loss 0.005 --cut 60,1000 --fb-cut 1e6,1
hard "a silence of 30 s of the data" "${back//%s/1500}" --loss 0.005 --cut 60,30000 --fb-cut 1e6,1
hard "a silence of 1 s of the feedback" "${within//%s/53}" --loss 0.005 --fb-cut 60,1000
hard "a silence of 30 s of the feedback" "${within//%s/1503}" --loss 0.005 --fb-cut 60,30000
hard "a path three times as long: no packet is taken for lost that was not" \
	'(summary["spurious_repair"]["max"] == 0 and summary["extra_rtt"]["max"] <= 4, "%.2f RTT" % summary["extra_rtt"]["max"])' \
	--loss 0.005 --rtt-step 60,60
hard "a path a quarter as long overtakes what is under way" \
	'(summary["spurious_repair"]["max"] <= 0.04 and summary["extra_rtt"]["max"] <= 2, "spurious %.4f" % summary["spurious_repair"]["max"])' \
	--loss 0.005 --rtt-step 60,5
hard "other paths again and again, and reordering" \
	'(summary["spurious_repair"]["max"] <= 0.02 and summary["extra_rtt"]["max"] <= 3, "spurious %.4f" % summary["spurious_repair"]["max"])' \
	--rtt-step 60,10 --rtt-step 90,20 --rtt-step 120,10 --reorder 0.25,5
hard "copies of a tenth of the packets: nothing is repaired" \
	'(summary["repair_rounds"]["max"] == 0 and summary["spurious_repair"]["max"] == 0, "%d repairs" % summary["repair_rounds"]["max"])' \
	--dup 0.1
hard "a hundredth corrupted is a hundredth lost" \
	'(summary["extra_rtt"]["max"] <= 1.1 and all(r["sink"]["rx_auth"] > 5 for r in runs), "%.2f RTT" % summary["extra_rtt"]["max"])' \
	--corrupt 0.01

# shallow NAME EXPRESSION OPTION..: queues of which no delay tells.
shallow() {
	local name=$1 expr=$2
	local args=(--rate-gbps 0.5 --rtt-ms 20 --mib 64 --light --seeds 5 "${@:3}" --json)
	"$sim" "${args[@]}" >"$work/shallow" 2>"$work/err"
	count_seeds "$work/shallow" "${args[*]}"
	check "$name" "$expr" "$work/shallow"
}

for queue in 0.02 0.05; do
	for loss in 0.001 0.05; do
		shallow "no cap and a queue of $queue BDP: the line is not flooded" \
			"(summary['queue_loss']['max'] <= 0.3 and summary['efficiency']['min'] >= 0.75, \
			'%.3f lost in it, efficiency %.3f' % (summary['queue_loss']['max'], summary['efficiency']['min']))" \
			--cap-gbps 0 --queue-bdp "$queue" --loss "$loss"
	done
done
for queue in 0.05 0.2; do
	for class in normal urgent; do
		# Rows are 0.1 and 2.1 % with a cap at the line; what a queue takes asks for no more of them.
		shallow "a cap above the line buys no redundancy, $class, queue of $queue BDP" \
			"(summary['overhead']['max'] <= {'normal': 0.002, 'urgent': 0.034}['$class'], \
			'%.4f' % summary['overhead']['max'])" \
			--rate-gbps 0.2 --cap-gbps 0.3 --mib 24 --class "$class" --queue-bdp "$queue" --loss 0.01
	done
done

cross=(--rate-gbps 0.2 --rtt-ms 20 --cap-gbps 0.1 --mib 100 --cross cubic:2000,4000 --json)
"$sim" "${cross[@]}" --csv "$work/csv" --plot "$work/svg" >"$work/cross" 2>"$work/err"
count_seeds "$work/cross" "${cross[*]}"
check "a CUBIC flow takes what the cap leaves" \
	"(0.085 < runs[0]['cross_gbps'] < 0.2, '%.4f Gbit/s' % runs[0]['cross_gbps'])" "$work/cross"
if python3 - "$work/csv" "$work/svg" <<-'END'
	import csv, sys, xml.dom.minidom
	rows = list(csv.DictReader(open(sys.argv[1])))
	sent = max(float(r["offered_gbps"]) for r in rows[5:])
	assert len(rows) > 1000 and 0.09 < sent < 0.12, (len(rows), sent)
	assert any(float(r["cross_gbps"]) > 0.05 for r in rows)
	xml.dom.minidom.parse(sys.argv[2])
END
then
	pass "--csv and --plot tell the same run"
else
	fail "--csv and --plot tell the same run: strait-sim ${cross[*]} --csv FILE --plot FILE"
fi

beside=(--rate-gbps 0.2 --rtt-ms 20 --mib 150 --cross cubic:2000,4000 --light --seeds 2 --json)
"$sim" "${beside[@]}" >"$work/beside" 2>"$work/err"
count_seeds "$work/beside" "${beside[*]}"
check "normal keeps a third of the line beside a CUBIC flow and leaves it a quarter" \
	"(all(0.25 <= r['cross_share'] <= 0.67 for r in runs), 'it has %.3f' % summary['cross_share']['max'])" "$work/beside"

# flows NAME EXPRESSION OPTION..: sessions that share 40 Mbit/s.
flows() {
	local args=(--rate-gbps 0.04 --light "${@:3}" --json)
	"$sim" "${args[@]}" >"$work/flows" 2>"$work/err"
	count_seeds "$work/flows" "${args[*]}"
	check "$1" "$2" "$work/flows"
}

fair='(all(r["jain"] >= 0.9 and r["flows_used"] >= 0.95 and r["flows_queue_loss"] < 0.01 for r in runs),
	"Jain %.4f, used %.4f" % (summary["jain"]["min"], summary["flows_used"]["min"]))'
flows "two sessions whose caps are the whole line share it" "$fair" \
	--rtt-ms 10 --mib 40 --flows 2 --flow-start-ms 700 --seeds 3
flows "two of bulk, which take each other's queue for that of others, share it in turns" \
	'(all(r["jain"] >= 0.9 and r["flows_used"] >= 0.6 for r in runs), "Jain %.4f, used %.4f" % (summary["jain"]["min"], summary["flows_used"]["min"]))' \
	--rate-gbps 0.2 --rtt-ms 10 --mib 120 --class bulk --flows 2 --flow-start-ms 700 --seeds 2
# Their shares are not equal there, but nobody starves.
flows "over a very short path with a long queue each gets some" \
	'(all(r["least_share"] >= 0.3 and r["flows_used"] >= 0.95 for r in runs), "least share %.2f" % summary["least_share"]["min"])' \
	--rtt-ms 0.2 --queue-bytes 100000 --mib 40 --flows 2 --flow-start-ms 700
flows "bulk gives way to a session that comes later" \
	'(all(r["flow1_gbps"] < 0.15 * r["flow2_gbps"] for r in runs), "%.4f" % runs[0]["flow1_gbps"])' \
	--rtt-ms 20 --mib 30 --flows 2 --flow-start-ms 1000 --class bulk --flow-class normal
for class in bulk normal urgent; do
	flows "$class: a path that grew longer in between is no queue" \
		'(all(r["slowest_seconds"] < 1.2 * 40 * 2**20 * 8 * 1.074 / 0.2e9 for r in runs), "%.2f s" % runs[0]["slowest_seconds"])' \
		--rate-gbps 0.2 --rtt-ms 0.2 --rtt-step 3000,20 --queue-bytes 500000 --mib 80 --transfers 2 --every-ms 6000 --class "$class"
done

flows "a path that grew is no queue for a cap far above the line either" \
	'(all(r["slowest_seconds"] < 1 for r in runs), "%.2f s" % runs[0]["slowest_seconds"])' \
	--rate-gbps 0.05 --cap-gbps 0.4 --loss 0.01 --rtt-ms 0.2 --rtt-step 3000,20 --queue-bytes 250000 --mib 4 \
	--transfers 2 --every-ms 6000

for args in "--profile random --seed 11 --seeds 12" \
	"--rate-gbps 0.2 --rtt-ms 20 --mib 16 --cross cubic:100,300 --cross cbr:0,500,0.05 --with-oracle" \
	"--rate-gbps 0.1 --rtt-ms 20 --mib 20 --flows 3 --flow-start-ms 300 --seeds 2" \
	"--rate-gbps 1 --rtt-ms 60 --loss 0.01 --ge 0.01,8 --reorder 0.1,3 --mib 16 --seeds 3"; do
	# shellcheck disable=SC2086
	"$sim" $args --json --counters --jobs 1 >"$work/a" 2>/dev/null
	# shellcheck disable=SC2086
	"$sim" $args --json --counters >"$work/b" 2>/dev/null
	if [ -s "$work/a" ] && cmp -s "$work/a" "$work/b"; then
		pass "the same bytes twice: strait-sim $args --json --counters"
	else
		fail "output differs between runs: strait-sim $args --json --counters"
	fi
done

# way_back NAME OPTION..: the order outlives what befalls its reports.
way_back() {
	local args=(--rate-gbps 1 --rtt-ms 10 --mib 60 --loss 0.01 --light --seeds 10 "${@:2}" --json)
	"$sim" "${args[@]}" >"$work/return" 2>"$work/err"
	count_seeds "$work/return" "${args[*]}"
	check "$1" "(summary['efficiency']['p50'] >= 0.985 and summary['efficiency']['min'] >= 0.96 and
		summary['overhead']['max'] <= 0.01, 'efficiency %.4f, min %.4f, overhead %.4f' % (
		summary['efficiency']['p50'], summary['efficiency']['min'], summary['overhead']['max']))" "$work/return"
}

way_back "half of the feedback lost, 50 BDP" --fb-loss 0.5
way_back "feedback lost in bursts of 6 ms, 50 BDP" --fb-loss 0 --fb-ge 0.3,500

tiny=(--rate-gbps 1 --rtt-ms 10 --mib 30 --object-kib 4 --loss 0.01 --light --seeds 3 --json)
"$sim" "${tiny[@]}" >"$work/tiny" 2>"$work/err"
count_seeds "$work/tiny" "${tiny[*]}"
check "statuses of 4 KiB objects: the feedback is 0.25 % of the data on average" \
	"(summary['feedback_ratio']['mean'] <= 0.0025, '%.4f' % summary['feedback_ratio']['mean'])" "$work/tiny"

# The path became narrow when all data was through: the statuses must get smaller.
narrow=(--rate-gbps 0.1 --rtt-ms 200 --objects 1000 --object-kib 0.05 --path-mtu 80,1065 --limit-s 100 --seeds 5 --json)
"$sim" "${narrow[@]}" >"$work/narrow" 2>"$work/err"
count_seeds "$work/narrow" "${narrow[*]}"

bursts=(--rate-gbps 1 --rtt-ms 10 --mib 1 --ge 0.02,64 --light --seeds 100 --json)
"$sim" "${bursts[@]}" >"$work/bursts" 2>"$work/err"
count_seeds "$work/bursts" "${bursts[*]}"
check "nothing is better than ideal" \
	"(summary['efficiency']['max'] <= 1.001, '%.4f' % summary['efficiency']['max'])" "$work/bursts"

options() { grep -o -- '[-][-][a-z][a-z0-9-]*' | grep -v -- '--fb-' | sort -u; }
if diff <("$sim" --help | sed '/^Fields/,$d' | options) \
	<(sed -n 's/^\.It //p' doc/man/strait-sim.1 | sed 's/Fl -/--/g; s/Fl //g' | options) >"$work/err"; then
	pass "the manual page has every option of --help"
else
	fail "the manual page and --help differ: $(grep '^[<>]' "$work/err" | tr '\n' ' ')"
fi

"$sim" --loss 7 >/dev/null 2>"$work/err"
if [ $? -eq 2 ] && [ -s "$work/err" ]; then
	pass "bad options are refused"
else
	fail "bad options are refused: strait-sim --loss 7"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
