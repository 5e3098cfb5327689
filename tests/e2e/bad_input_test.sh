#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Wrong configuration, names, sizes, certificates and terms: a clear error that says where, and the
# running system takes no notice.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

lab_init bad
LAB_POOL_A=48M LAB_POOL_B=48M
LAB_WAN=(--rate-gbps 1 --rtt-ms 20)
lab_configure
lab_up

# refuses NAME STATUS REGEX COMMAND..: it fails with that status and one line that says it.
refuses() {
	local name=$1 want=$2 says=$3 out rc
	shift 3
	out=$("$@" 2>&1 </dev/null)
	rc=$?
	if [[ $rc == $want ]] && grep -q -E -e "$says" <<<"$out"; then
		ok "$name: $(grep -E -m 1 -e "$says" <<<"$out" | sed 's/^20[^ ]* //' | cut -c1-110)"
	else
		not_ok "$name" "status $rc, wanted $want and /$says/ in: $out"
	fi
}

# ---- configuration --------------------------------------------------------------------------------

edge() { "$LAB_BIN/strait-edge" --config "$LAB_DIR/bad.yaml" --check-config; }
master() { "$LAB_BIN/strait-master" --config "$LAB_DIR/bad.yaml" --check-config; }
# bad_edge NAME SED REGEX
bad_edge() {
	sed "$2" "$LAB_DIR/a.yaml" >"$LAB_DIR/bad.yaml"
	refuses "$1" 2 "bad.yaml:$3" edge
}
bad_master() {
	sed "$2" "$LAB_DIR/master.yaml" >"$LAB_DIR/bad.yaml"
	refuses "$1" 2 "bad.yaml:$3" master
}
bad_edge "a misspelled key" 's/^edge:/hedge:/' 2:
bad_edge "a site's name" 's/^site: a/site: "A b"/' 1:
bad_edge "a wrong unit" 's/^cap: .*/cap: 1parsec/' '[0-9]+:.*parsec'
bad_edge "a cap of nothing" 's/^cap: .*/cap: 0/' '[0-9]+:.*leave it out'
bad_edge "a pool's path that depends on where it is started" 's,path: .*/,path: ,' '5:.*begin with /'
bad_edge "a pool without a size" '/^    size:/d' '[4-6]:.*size'
bad_edge "an address without prefix" 's,10.66.0.1/24,10.66.0.1,' '10:.*prefix'
bad_edge "a misspelled boolean" 's/create: true/create: tru/' '[5-7]:.*create'
bad_edge "a boolean that would turn TLS off" '$a insecure_loopback: fals' '[0-9]+:.*insecure_loopback'
bad_edge "broken YAML" 's/^port:/port: {/' '[0-9]+:'
bad_master "a misspelled key of the master" 's/^ledger:/pledger:/' 2:
bad_master "a misspelled boolean of the master" '$a insecure_loopback: fals' '[0-9]+:.*insecure_loopback'
bad_master "a site listed twice" 's/- name: b/- name: a/' '[0-9]+:.*twice'
bad_master "a report interval without unit" 's/200ms/200/' '3:'
sed -e 's/net_memif0,/net_bogus0,/' -e 's,/a.pool,/none.pool,' "$LAB_DIR/a.yaml" >"$LAB_DIR/bad.yaml"
refuses "a device nobody knows" 1 'net_bogus0' "$LAB_BIN/strait-edge" --config "$LAB_DIR/bad.yaml"
sed '$a worker: { realtime: 1 }' "$LAB_DIR/a.yaml" >"$LAB_DIR/bad.yaml"
refuses "a real-time priority for who never sleeps" 2 'poll-mode and worker.realtime' \
	"$LAB_BIN/strait-edge" --config "$LAB_DIR/bad.yaml" --poll-mode --check-config
refuses "a missing file" 2 'nonexistent' "$LAB_BIN/strait-edge" --config /nonexistent.yaml
refuses "an option nobody knows" 2 'bogus' "$LAB_BIN/strait-edge" --bogus
refuses "an option where the edge's file belongs" 2 'config FILE is needed' "$LAB_BIN/strait-edge" --config --check-config
refuses "an option where the master's file belongs" 2 'value of an option is missing' \
	"$LAB_BIN/strait-master" -c --check-config
refuses "an option where straitctl wants a value" 2 'master needs a value' "$LAB_BIN/straitctl" --master --json status

# ---- orders ---------------------------------------------------------------------------------------

submit() { printf '%s\n' "${KEY:-k}" | ctl order submit --keys-file - -o json "$@"; }
refuses "an unknown destination" 4 'unknown site.*nowhere' submit --from a --to nowhere
refuses "an unknown source" 4 'unknown site.*nowhere' submit --from nowhere --to b
refuses "an order to itself" 4 'site' submit --from a --to a
KEY=$(head -c 1025 /dev/zero | tr '\0' k) refuses "a key of 1025 bytes" 4 '1024' submit --from a --to b
KEY=$'k\nk' refuses "a key twice" 4 'same key' submit --from a --to b
refuses "no keys at all" 2 'key' ctl order submit --from a --to b --keys-file /dev/null
refuses "an order nobody submitted" 4 'no order 4711' ctl order show 4711
refuses "canceling it" 4 'no order 4711' ctl order cancel 4711
refuses "an edge nobody knows" 4 'no edge' ctl edge show z/z1
KEY=never-put submit --from a --to b >"$LAB_DIR/reply" 2>&1 || die "submit: $(cat "$LAB_DIR/reply")"
ORDER=$(py 'r["order"]' r="$(cat "$LAB_DIR/reply")")
lab_wait "$ORDER" 20
check_py "a key that is not in the source's pool ends NOT_FOUND" \
	's == {"NOT_FOUND": 1}' s="$(statuses "$ORDER")"

# ---- objects --------------------------------------------------------------------------------------

: >"$LAB_DIR/empty"
head -c $(((64 << 20) + 1)) /dev/zero >"$LAB_DIR/oversized"
refuses "an empty object" 1 'empty' "$LAB_BIN/straitctl" put --pool "$LAB_A" empty "$LAB_DIR/empty"
refuses "an oversized one" 1 '64 MiB|large' "$LAB_BIN/straitctl" put --pool "$LAB_A" oversized \
	"$LAB_DIR/oversized"
refuses "a pool that is none" 1 'master.yaml' "$LAB_BIN/straitctl" exist \
	--pool "$LAB_DIR/master.yaml" k

# ---- certificates ---------------------------------------------------------------------------------

pki() { "$LAB_BIN/straitctl" pki "$@" >>"$LAB_DIR/log/pki.out" 2>&1 || die "straitctl pki $*"; }
pki init "$LAB_DIR/other"
pki issue "$LAB_DIR/other" --role operator --name operator
refuses "an operator of another CA" '[34]' 'certificate|TLS|refused|CA' \
	"$LAB_BIN/straitctl" --master "127.0.0.1:$LAB_PORT_M" --ca "$LAB_DIR/pki/ca.pem" \
	--cert "$LAB_DIR/other/operator.pem" --key "$LAB_DIR/other/operator.key" status
refuses "a master of another CA" 4 'certificate|TLS' \
	"$LAB_BIN/straitctl" --master "127.0.0.1:$LAB_PORT_M" --ca "$LAB_DIR/other/ca.pem" \
	--cert "$LAB_DIR/other/operator.pem" --key "$LAB_DIR/other/operator.key" status
LAB_OPERATOR=a1 refuses "an edge's certificate for an operator's work" [34] '.' ctl status
sed 's/a1\.\(pem\|key\)/b1.\1/' "$LAB_DIR/a.yaml" >"$LAB_DIR/bad.yaml"
refuses "another site's certificate" 2 'certificate.*b' edge
sed 's/a1\.\(pem\|key\)/operator.\1/' "$LAB_DIR/a.yaml" >"$LAB_DIR/bad.yaml"
refuses "a certificate of another role" 2 'certificate.*operator' edge
chmod 644 "$LAB_DIR/pki/operator.key"
refuses "a key that others can read" 1 'operator.key' ctl status
chmod 600 "$LAB_DIR/pki/operator.key"
# An edge that nobody vouches for, at its own address, must not get in.
pki issue "$LAB_DIR/other" --role edge --site a --name a2
read -r port <<<"$(free_ports 1)"
mkdir -p "$LAB_DIR/state-stranger"
sed -e 's/^edge: .*/edge: a2/' -e "s,/pki/a1,/other/a2," -e "s/$LAB_PORT_A/$port/" \
	-e "s,$LAB_A,$LAB_SHM/s.pool," -e 's/size: .*/size: 8M/' \
	-e 's,/state-a,/state-stranger,' -e 's,/a.sock,/stranger.sock,' \
	"$LAB_DIR/a.yaml" >"$LAB_DIR/stranger.yaml"
spawn stranger "$LAB_BIN/strait-edge" --config "$LAB_DIR/stranger.yaml"
refused() { logged stranger 'certificate\|alert\|tls\|TLS'; }
until_true 15 refused || true
check "an edge of another CA is refused by the master and says why" refused
check_py "and is not listed" 'all(e["edge"] != "a2" for e in r)' r="$(ctl edge list -o json)"
stop stranger

# ---- terms ----------------------------------------------------------------------------------------

stop edge-a
echo 1000 >"$LAB_DIR/state-a/term"
edge_start a
wait_ready edge-a
stale() { logged edge-a 'term 1000' && logged master 'edge refused'; }
until_true 10 stale || true
check "an edge that has seen a higher term refuses this master, and both say so" stale
stop edge-a
rm -f "$LAB_DIR/state-a/term"
edge_start a
wait_ready edge-a
wait_edges
ok "without that term it obeys again"

# ---- names and pools ------------------------------------------------------------------------------

sed -e "s/$LAB_PORT_A/$port/" -e "s,$LAB_A,$LAB_SHM/s.pool," -e 's/size: .*/size: 8M/' \
	-e 's,/state-a,/state-stranger,' -e 's,/a.sock,/stranger.sock,' \
	"$LAB_DIR/a.yaml" >"$LAB_DIR/double.yaml"
spawn double "$LAB_BIN/strait-edge" --config "$LAB_DIR/double.yaml"
taken() { logged double 'error: master: .*another process'; }
until_true 10 taken || true
check "a second edge of one name is told so" taken
check_py "and the first one stays" "$(logged edge-a 'connection lost' && echo False || echo True)"
stop double

rm "$LAB_A"
lost() { logged edge-a 'error: control: pool .*deleted.*restart the edge'; }
until_true 10 lost || true
check "an edge whose pool was deleted says so" lost
submit_k() { printf 'k\n' | ctl order submit --from a --to b --keys-file - -o json; }
in_trouble() { [ "$(ctl edge list | grep -c "^TROUBLE a/.*$LAB_A .*restart the edge")" = 1 ]; }
check "also to the master" until_true 10 in_trouble
check_py "and to programs" 'any("restart the edge" in e.get("trouble", "") for e in r)' \
	r="$(ctl edge list -o json)"
ORDER=$(py 'r["order"]' r="$(submit_k)")
lab_wait "$ORDER" 20
check_py "and refuses orders" 's == {"REFUSED": 1}' s="$(statuses "$ORDER")"
says_why() { logged edge-a 'order refused.*restart the edge'; }
check "with a reason" says_why
stop edge-a
edge_start a
wait_ready edge-a
truncate -s 4096 "$LAB_A"
cut_short() { logged edge-a 'error: .*cut .*'; }
until_true 10 cut_short || true
check "an edge whose pool was cut says so" cut_short
stop edge-a
rm "$LAB_A"
edge_start a
wait_ready edge-a
wait_edges

# ---- the control protocol -------------------------------------------------------------------------

# hostile PORT NAME CASE: what the other side does about it.
hostile() {
	"$LAB_PYTHON" tests/e2e/hostile_peer.py "127.0.0.1:$1" "$LAB_DIR/pki" "$2" "$3" 2>&1
}
# answers NAME REGEX PORT NAME CASE
answers() {
	local name=$1 says=$2 out
	shift 2
	out=$(hostile "$@")
	if grep -q -E -e "$says" <<<"$out"; then ok "$name: $out"; else not_ok "$name" "$out"; fi
}
# A certificate of site a that no running edge uses.
pki issue "$LAB_DIR/pki" --role edge --site a --name a9
answers "the master: an edge of another protocol version" 'error .*version 99' "$LAB_PORT_M" a9 register-version
answers "the master: an edge that says it is another" 'error .*' "$LAB_PORT_M" a9 register-other-site
answers "the master: a senseless registration" 'error|closed' "$LAB_PORT_M" a9 garbage
answers "the master: a request by an edge" 'error|closed' "$LAB_PORT_M" a9 request
answers "the master: an edge's message by an operator" 'error|closed' "$LAB_PORT_M" operator register-version
answers "the master: a senseless request" 'error|closed' "$LAB_PORT_M" operator garbage-request
answers "the master: a message of 4 GiB" 'error|closed' "$LAB_PORT_M" operator oversized
answers "the master: half a message" 'cut' "$LAB_PORT_M" operator cut
answers "the master: noise" 'error|closed' "$LAB_PORT_M" operator noise
answers "the edge: a peer of another wire version" 'error .*version' "$LAB_PORT_B" a9 hello-version
answers "the edge: a senseless greeting" 'error|closed' "$LAB_PORT_B" a9 garbage-hello
answers "the edge: an order by somebody who is not its master" 'error|closed|silent' "$LAB_PORT_B" a9 order-start
started() { logged edge-b 'order: start'; }
check_py "and it does not start" "$(started && echo False || echo True)"
answers "the edge: an operator" 'error|closed' "$LAB_PORT_B" operator noise
answers "the edge: a message nobody knows" 'error|closed|silent' "$LAB_PORT_B" a9 unknown-type
answers "the edge: half a message" 'cut' "$LAB_PORT_B" a9 cut
for name in master edge-a edge-b; do check "$name is still up" is_up $name; done

# ---- and all the while ----------------------------------------------------------------------------

lab_put after --objects 4
lab_submit after
lab_wait "$ORDER" 20
check_py "after all that, an order is done" 'r["state"] == "done"' r="$RESULT"
check "and right" lab_verify after
finish
