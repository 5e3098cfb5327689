# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Two sites, a master and the WAN emulator on one machine, as real processes; sourced by the tests
# beside it and by tools/demo/demo.sh.
#
#   lab_init NAME; lab_configure; lab_up; .. lab_put, lab_submit, lab_wait, lab_verify ..; finish
#
# Everything lives in a private directory and, for the pools, a private directory on tmpfs; both go
# away at the end, or stay when a test failed (LAB_KEEP=1: always). Nothing sleeps for a fixed time
# and then hopes: every wait polls for what it waits for, up to a limit. Needs neither root nor
# hugepages.

LAB_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$LAB_ROOT" || exit 1
LAB_BIN=$(cd "${BUILD:-build}" && pwd)/bin
LAB_TEST=${LAB_BIN%/bin}/test

# What a test may set before lab_configure.
LAB_WAN=(--rate-gbps 1 --rtt-ms 60 --loss 0.01)
LAB_CAP=1Gbit
LAB_POOL_A=512M
LAB_POOL_B=512M
LAB_DRAIN=10s
LAB_EDGE_YAML=${LAB_EDGE_YAML:-} # more lines for both edges
# Multiplies limits of waits. They are for what never comes, so that a busy machine does not matter.
LAB_SLOW=${LAB_SLOW:-3}

# The system's: one that a version manager wraps takes half a second to start.
LAB_PYTHON=/usr/bin/python3
[ -x $LAB_PYTHON ] || LAB_PYTHON=python3

declare -A LAB_PID=() LAB_MARK=()
LAB_PASSED=0 LAB_FAILED=0 LAB_DIR="" LAB_SHM="" RC=0

# ---- reporting ------------------------------------------------------------------------------------

ok() {
	LAB_PASSED=$((LAB_PASSED + 1))
	printf 'ok     %s\n' "$1"
}

not_ok() {
	LAB_FAILED=$((LAB_FAILED + 1))
	printf 'FAILED %s\n' "$1"
	[ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/       /'
}

# check NAME COMMAND..: the test passes if the command does; its output is shown if not.
check() {
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then ok "$name"; else not_ok "$name" "$* (status $?) $out"; fi
}

# check_py NAME EXPRESSION [NAME=JSON ..]: Python over parsed JSON values.
check_py() {
	local name=$1 expr=$2 out
	shift 2
	if out=$(py "$expr" "$@" 2>&1) && [ "$out" = True ]; then
		ok "$name"
	else
		not_ok "$name" "$expr gives $out"
		printf '%s\n' "$@" | cut -c1-600 | sed 's/^/       /'
	fi
}

# py EXPRESSION [NAME=JSON ..]: print the value.
py() {
	"$LAB_PYTHON" - "$@" <<-'PY'
		import json, math, sys
		names = {"math": math}
		for arg in sys.argv[2:]:
		    name, _, text = arg.partition("=")
		    names[name] = json.loads(text) if text.strip() else None
		print(eval("(" + sys.argv[1] + ")", names))
	PY
}

skip() {
	lab_clean
	echo "$1"
	exit 77
}

# Something the test needs is broken: show the logs and end.
die() {
	not_ok "$1"
	lab_tails
	LAB_FAILED=$((LAB_FAILED > 0 ? LAB_FAILED : 1))
	finish
}

finish() {
	[ "$LAB_FAILED" -eq 0 ] || [ -z "$LAB_DIR" ] || LAB_KEEP=1
	[ "$LAB_FAILED" -eq 0 ] || [ -z "$LAB_DIR" ] || echo "logs: $LAB_DIR/log"
	lab_clean
	trap - EXIT
	echo "$LAB_PASSED passed, $LAB_FAILED failed"
	[ "$LAB_FAILED" -eq 0 ]
	exit
}

lab_tails() {
	local f
	for f in "$LAB_DIR"/log/*; do
		[ -s "$f" ] || continue
		echo "---- $f"
		tail -n 12 "$f" | cut -c1-400
	done
}

# ---- processes ------------------------------------------------------------------------------------

# until_true SECONDS COMMAND..
until_true() {
	local end=$((SECONDS + $1 * LAB_SLOW))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

# spawn NAME COMMAND..: in the background. log/NAME.out starts anew, log/NAME.err goes on.
spawn() {
	local name=$1
	shift
	: >"$LAB_DIR/log/$name.out"
	LAB_MARK[$name]=$(stat -c %s "$LAB_DIR/log/$name.err" 2>/dev/null || echo 0)
	"$@" >>"$LAB_DIR/log/$name.out" 2>>"$LAB_DIR/log/$name.err" </dev/null &
	LAB_PID[$name]=$!
}

is_up() { [ -n "${LAB_PID[$1]:-}" ] && kill -0 "${LAB_PID[$1]}" 2>/dev/null; }
is_down() { ! is_up "$1"; }
# Said on stdout, or by the master in its log.
is_ready() {
	grep -q '^ready' "$LAB_DIR/log/$1.out" || logged "$1" ': ready'
}
# logged NAME REGEX: since its last start.
logged() { tail -c "+$((LAB_MARK[$1] + 1))" "$LAB_DIR/log/$1.err" | grep -q -e "$2"; }
is_ready_or_down() { is_ready "$1" || is_down "$1"; }

wait_ready() {
	if ! until_true 20 is_ready_or_down "$1" || ! is_ready "$1"; then
		die "$1 does not get ready"
	fi
}

# stop NAME [SECONDS]: SIGTERM and wait; its status is in RC (137 if it had to be killed).
stop() {
	local pid=${LAB_PID[$1]:-}
	[ -n "$pid" ] || return 0
	kill -TERM "$pid" 2>/dev/null
	until_true "${2:-20}" is_down "$1" || kill -KILL "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	RC=$?
	unset "LAB_PID[$1]"
}

# murder NAME: SIGKILL and reap.
murder() {
	local pid=${LAB_PID[$1]:-}
	[ -n "$pid" ] || return 0
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	unset "LAB_PID[$1]"
}

lab_clean() {
	local name
	for name in "${!LAB_PID[@]}"; do kill -KILL "${LAB_PID[$name]}" 2>/dev/null; done
	for name in "${!LAB_PID[@]}"; do wait "${LAB_PID[$name]}" 2>/dev/null; done
	LAB_PID=()
	declare -F lab_clean_more >/dev/null && lab_clean_more
	[ -z "$LAB_SHM" ] || rm -rf "$LAB_SHM"
	[ -n "${LAB_KEEP:-}" ] || [ -z "$LAB_DIR" ] || rm -rf "$LAB_DIR"
	LAB_SHM=""
}

# N ports of 127.0.0.1 that are free and not handed out by the kernel for other connections. Each test
# draws from a range of its own, so that two at once do not draw the same before they listen.
free_ports() {
	local range
	range=$(printf '%s\n' tests/*/*_test.sh | grep -n -x -F "tests/${0##*tests/}" | cut -d : -f 1)
	# Not those drawn before: nobody listens on them yet.
	# shellcheck disable=SC2086
	"$LAB_PYTHON" - "$1" "${range:-0}" ${LAB_PORT_M:-} ${LAB_PORT_A:-} ${LAB_PORT_B:-} <<-'PY'
		import random, socket, sys
		held, ports = [], []
		first = 15000 + 300 * (int(sys.argv[2]) % 50)
		while len(ports) < int(sys.argv[1]):
		    s = socket.socket()
		    port = random.randrange(first, first + 300)
		    if str(port) in sys.argv[3:]:
		        continue
		    try:
		        s.bind(("127.0.0.1", port))
		    except OSError:
		        continue
		    held.append(s)
		    ports.append(port)
		print(*ports)
	PY
}

# ---- the lab --------------------------------------------------------------------------------------

# room_of DIR: bytes free there.
room_of() { df --output=avail -B1 "$1" 2>/dev/null | tail -n 1 || echo 0; }

# lab_init NAME: directories and the trap that removes them.
lab_init() {
	local base=/dev/shm
	LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/strait-$1-XXXXXX") || exit 1
	trap lab_clean EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	mkdir -p "$LAB_DIR"/{log,run,state-a,state-b}
	# A container's /dev/shm is often 64 MiB: then the disk, through the page cache.
	if [ ! -w $base ] || [ "$(room_of $base)" -lt $((1 << 30)) ]; then base=$LAB_DIR; fi
	LAB_SHM=$(mktemp -d "$base/strait-$1-XXXXXX") || exit 1
	LAB_A=$LAB_SHM/a.pool
	LAB_B=$LAB_SHM/b.pool
	read -r LAB_PORT_M LAB_PORT_A LAB_PORT_B <<<"$(free_ports 3)"
}

lab_pki() {
	local pki=("$LAB_BIN/straitctl" pki)
	{
		"${pki[@]}" init "$LAB_DIR/pki" &&
			"${pki[@]}" issue "$LAB_DIR/pki" --role master --name master &&
			"${pki[@]}" issue "$LAB_DIR/pki" --role operator --name operator &&
			"${pki[@]}" issue "$LAB_DIR/pki" --role edge --site a --name a1 &&
			"${pki[@]}" issue "$LAB_DIR/pki" --role edge --site b --name b1
	} >"$LAB_DIR/log/pki.out" 2>&1 || die "straitctl pki: $(tail -n 1 "$LAB_DIR/log/pki.out")"
}

memif() { echo "net_memif$1,role=$2,id=0,socket=$LAB_DIR/run/$3.sock,socket-abstract=no"; }

# edge_yaml SITE DEVICE POOL_SIZE LISTEN_PORT ADDRESS: the configuration of an edge on stdout.
edge_yaml() {
	cat <<-YAML
		site: $1
		edge: ${1}1
		state_dir: $LAB_DIR/state-$1
		pools:
		  - path: $LAB_SHM/$1.pool
		    size: $3
		    create: true
		port:
		  device: $2
		  address: $5/24
		eal:
		  memory: 192M
		control:
		  listen: 127.0.0.1:$4
		  drain_timeout: $LAB_DRAIN
		master:
		  address: 127.0.0.1:$LAB_PORT_M
		tls:
		  ca: $LAB_DIR/pki/ca.pem
		  cert: $LAB_DIR/pki/${1}1.pem
		  key: $LAB_DIR/pki/${1}1.key
		cap: $LAB_CAP
		$LAB_EDGE_YAML
	YAML
}

# master_yaml LISTEN: the configuration of the master on stdout.
master_yaml() {
	cat <<-YAML
		listen: $1
		ledger: $LAB_DIR/master.db
		report_interval: 200ms
		tls:
		  ca: $LAB_DIR/pki/ca.pem
		  cert: $LAB_DIR/pki/master.pem
		  key: $LAB_DIR/pki/master.key
		sites:
		  - name: a
		  - name: b
	YAML
}

# lab_configure: certificates and configuration files.
lab_configure() {
	lab_pki
	edge_yaml a "$(memif 0 client a)" "$LAB_POOL_A" "$LAB_PORT_A" 10.66.0.1 >"$LAB_DIR/a.yaml"
	edge_yaml b "$(memif 0 client b)" "$LAB_POOL_B" "$LAB_PORT_B" 10.66.0.2 >"$LAB_DIR/b.yaml"
	master_yaml "127.0.0.1:$LAB_PORT_M" >"$LAB_DIR/master.yaml"
}

# lab_site SITE: a site master that follows the pool of the site's edge (LAB_NO_POOL=1: not),
# $LAB_DIR/site-SITE.yaml. From stdin come more sources, and then more keys.
lab_site() {
	"$LAB_BIN/straitctl" pki issue "$LAB_DIR/pki" --role site-master --site "$1" --name "site-$1" \
		>>"$LAB_DIR/log/pki.out" 2>&1 || die "no certificate for the site master of $1"
	mkdir -p "$LAB_DIR/site-$1"
	{
		cat <<-YAML
			site: $1
			secret: $LAB_DIR/secret
			state_dir: $LAB_DIR/site-$1
			master: 127.0.0.1:$LAB_PORT_M
			tls:
			  ca: $LAB_DIR/pki/ca.pem
			  cert: $LAB_DIR/pki/site-$1.pem
			  key: $LAB_DIR/pki/site-$1.key
			tenants:
			  - { name: default, socket: $LAB_DIR/run/exist-$1.sock }
			sources:
		YAML
		[ -n "${LAB_NO_POOL:-}" ] || echo "  - { name: pool-$1, pool: $LAB_SHM/$1.pool }"
		cat
	} >"$LAB_DIR/site-$1.yaml"
}

# lab_policies: the inter-dc master has sites a (label eu) and b (us), and the policies on stdin.
lab_policies() {
	head -c 32 /dev/urandom >"$LAB_DIR/secret"
	chmod 600 "$LAB_DIR/secret"
	sed -i '/^sites:/,$d' "$LAB_DIR/master.yaml"
	{
		cat <<-YAML
			secret: $LAB_DIR/secret
			sites:
			  - { name: a, label: eu }
			  - { name: b, label: us }
			policies:
		YAML
		cat
	} >>"$LAB_DIR/master.yaml"
}

wan_start() {
	spawn wan "$LAB_BIN/strait-wan" --port-a "$(memif 0 server a),bsize=2048" \
		--port-b "$(memif 1 server b),bsize=2048" --json --stats-ms "${LAB_WAN_STATS_MS:-0}" \
		--late-us 10000 "${LAB_WAN[@]}"
}
master_start() { spawn master "$LAB_BIN/strait-master" --config "$LAB_DIR/master.yaml"; }
edge_start() { spawn "edge-$1" "$LAB_BIN/strait-edge" --config "$LAB_DIR/$1.yaml"; }

# lab_up: all four, and both edges known to the master.
lab_up() {
	wan_start
	master_start
	wait_ready wan
	wait_ready master
	edge_start a
	edge_start b
	wait_ready edge-a
	wait_ready edge-b
	wait_edges
}

wait_edges() { until_true 20 edges_up 2 || die "the edges do not reach the master"; }
edges_up() {
	[ "$(py 'sum(e["connected"] for e in r)' r="$(ctl edge list -o json)")" = "$1" ]
}

# The figures strait-wan printed last.
wan_figures() { grep '^{' "$LAB_DIR/log/wan.out" | tail -n 1; }

# lab_tell PORT COMMAND [QUERY]: have a stand-in of a Mooncake master do it (mooncake_stand_in.c).
lab_tell() {
	local answer
	exec 9<>"/dev/tcp/127.0.0.1/$1" || return 1
	printf 'GET /do/%s?%s HTTP/1.0\r\n\r\n' "$2" "${3:-}" >&9
	answer=$(head -n 1 <&9)
	exec 9<&-
	[[ $answer == *" 200 "* ]] || not_ok "stand-in: $2 $3" "$answer"
}

# ---- objects and orders ---------------------------------------------------------------------------

ctl() {
	"$LAB_BIN/straitctl" --master "127.0.0.1:$LAB_PORT_M" --tls-dir "$LAB_DIR/pki" \
		--tls-name "${LAB_OPERATOR:-operator}" "$@"
}

repl() { ctl replication status -o json; }
views_live() {
	[ "$(py 'all(s["connected"] and s["state"] == "live" and s.get("ready") for s in r["sites"])' \
		r="$(repl)")" = True ]
}
wait_views() { until_true 20 views_live || die "the views do not become live"; }
# has POOL KEY
has() { "$LAB_BIN/straitctl" exist --pool "$1" "$2" >/dev/null 2>&1; }
# site_says SITE yes|no|unknown KEY: by the socket of its site master
site_says() { [[ $("$LAB_BIN/straitctl" exist --socket "$LAB_DIR/run/exist-$1.sock" "$3") == "$2"* ]]; }
replay() { "$LAB_BIN/strait-replay" "$@"; }
pool_tool() { "$LAB_TEST/e2e/pool_tool" "$@"; }

# lab_put NAME [OPTIONS]: objects into site A's pool; their manifest is NAME.
lab_put() {
	local manifest=$LAB_DIR/$1
	shift
	replay put --pool "$LAB_A" --manifest "$manifest" "$@" >>"$LAB_DIR/log/replay.out" 2>&1 ||
		die "strait-replay put: $(tail -n 1 "$LAB_DIR/log/replay.out")"
}

lab_keys() { cut -d ' ' -f 3- "$LAB_DIR/$1"; }

# lab_submit MANIFEST [OPTIONS]: order all its objects from A to B; the order's number is in ORDER.
lab_submit() {
	local manifest=$1 reply
	shift
	reply=$(lab_keys "$manifest" | ctl order submit --from a --to b --keys-file - -o json "$@" \
		2>>"$LAB_DIR/log/ctl.err") || die "order submit: $(tail -n 1 "$LAB_DIR/log/ctl.err")"
	ORDER=$(py 'r["order"]' r="$reply") || die "order submit answered $reply"
}

order_json() { ctl order show "$@" -o json; }
# statuses ORDER: {"COMMITTED": 3, ..}
statuses() {
	py '__import__("json").dumps(__import__("collections").Counter(
		o["status"] for o in r["detail"]))' r="$(order_json "$1" --objects)"
}
order_is_final() {
	[ "$(py 'r["state"] in ("done", "failed", "canceled")' r="$(order_json "$1")")" = True ]
}
# order_passed ORDER BYTES: has it got that far (or ended)?
order_passed() {
	[ "$(py "r.get('bytes_done', 0) >= $2 or r['state'] not in ('queued', 'running')" \
		r="$(order_json "$1")")" = True ]
}

# lab_wait ORDER SECONDS: until it is final; what became of it is in RESULT (JSON).
lab_wait() {
	until_true "$2" order_is_final "$1" || not_ok "order $1 ends within $2 s"
	RESULT=$(order_json "$1")
}

# lab_verify MANIFEST [OPTIONS]: every object at B as the generator made it.
lab_verify() {
	local manifest=$LAB_DIR/$1
	shift
	replay verify --pool "$LAB_B" --manifest "$manifest" "$@"
}

# edge_counters SITE: {"name": value, ..} of the edge, all its sessions together.
edge_counters() {
	py '__import__("json").dumps(r["counters"])' r="$(ctl edge show "$1/${1}1" -o json)"
}
