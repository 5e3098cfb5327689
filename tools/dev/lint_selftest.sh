#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A rule that cannot fail checks nothing: a clean sample must pass every rule of lint.py, and for
# each rule a sample that breaks it must fail that rule.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset STRAIT_STAGE
read -ra cc <<<"${CC:-cc}" # a compiler with its launcher, like "ccache gcc"
spdx='SPDX-License-Identifier: Apache-2.0'

# A fresh clean tree in $work/tree.
clean_tree() {
	rm -rf "$work/tree"
	mkdir -p "$work/tree/dataplane/transport" "$work/tree/dataplane/edge" "$work/tree/include/strait"
	cp "$here/../../.clang-format" "$here/../../.codespellrc" "$work/tree"
	# not <<-, which would strip the indentation of the sample
	cat >"$work/tree/dataplane/transport/good.c" <<END
/* $spdx */
#include "dataplane/transport/good.h"

/* see https://www.rfc-editor.org/ */
int good(int n)
{
	if (n < 0)
		goto out;
	n++;
out:
	return n;
}
END
	printf '/* %s */\n#pragma once\n\nint good(int n);\n' "$spdx" >"$work/tree/dataplane/transport/good.h"
	printf '/* %s */\n#include <rte_mbuf.h>\n' "$spdx" >"$work/tree/dataplane/edge/port.c"
	printf '/* %s */\n#pragma once\n\n#include <stdint.h>\n' "$spdx" >"$work/tree/include/strait/wire.h"
	printf '#!/bin/sh\n# %s\ntrue\n' "$spdx" >"$work/tree/run.sh"
	chmod +x "$work/tree/run.sh"
}

# c FILE: a C file of the tree with the license line and what stdin holds.
c() {
	(echo "/* $spdx */" && cat) >"$work/tree/$1"
}

# fails RULE [ARG..]: the tree as it is must fail RULE; then it is cleaned again.
proven=()
fails() {
	local rule=$1
	shift
	if "$here/lint.py" --root "$work/tree" --rule "$rule" "$@" >"$work/out" 2>&1; then
		echo "lint self-test: rule '$rule' passed a bad sample:" >&2
		(cd "$work/tree" && find . -newer "$work/mark" -type f -exec tail -n +1 {} +) >&2
		exit 1
	fi
	grep -q "^$rule: " "$work/out" || { cat "$work/out" >&2; exit 1; }
	proven+=("$rule")
	clean_tree
	touch "$work/mark"
}

clean_tree
touch "$work/mark"
printf 'int good(int n);\nint good(int n)\n{\n\treturn n;\n}\n' >"$work/good.c"
"${cc[@]}" -c -o "$work/good.o" "$work/good.c"
"$here/lint.py" --root "$work/tree" --packet-path "$work/good.o" >"$work/out" || {
	echo "lint self-test: the clean sample failed:" >&2
	cat "$work/out" >&2
	exit 1
}

c bad.c <<<'int  x;'; fails format
c bad.c <<<"/* rec"'ieve */'; fails spelling
echo 'int x;' >"$work/tree/bad.c"; fails spdx
printf '#!/bin/sh\ntrue\n' >"$work/tree/bad"; fails spdx
printf 'key: value \n' >"$work/tree/bad.md"; fails whitespace
printf 'no newline' >"$work/tree/bad.md"; fails whitespace
printf 'carriage\r\n' >"$work/tree/bad.md"; fails whitespace
c bad.c <<<$'/* \xe2\x86\x92 */'; fails ascii
c bad.c <<<'int x; // why'; fails comments
c bad.h <<<'int x;'; fails pragma
c bad.c <<<'typedef struct foo foo_t;'; fails typedef
printf 'int x;\n%.0s' {1..800} | c bad.c; fails length
{ echo 'void f(void)'; echo '{'; printf ';\n%.0s' {1..121}; echo '}'; } | c bad.c; fails length
c bad.c <<<"/* $(printf '%100s' .) */"; fails length
printf 'int f(void)\n{\nagain:\n\tgoto again;\n}\n' | c bad.c; fails goto
for h in '<rte_ring.h>' '<event2/event.h>' '<zmq.h>' '<sqlite3.h>' '"dataplane/edge/port.h"'; do
	c dataplane/transport/bad.c <<<"#include $h"; fails layers
done
for layer in dataplane/fec dataplane/crypto control/log control/index control/planner \
	control/orders; do
	mkdir -p "$work/tree/$layer"
	c $layer/bad.c <<<'#include <sqlite3.h>'; fails layers
done
mkdir -p "$work/tree/control/master"
c control/master/bad.c <<<'#include <rte_ring.h>'; fails layers
c include/strait/bad.h <<<'#include <rte_mbuf.h>'; fails layers
c include/strait/bad.h <<<'#include "dataplane/edge/port.h"'; fails layers
c dataplane/transport/bad.c <<<'int f(void) { return clock_gettime(0, 0); }'; fails clock
c dataplane/transport/bad.c <<<'int f(void) { return rand(); }'; fails clock
chmod -x "$work/tree/run.sh"; fails scripts
printf '#!/bin/bash\n# %s\nif\n' "$spdx" >"$work/tree/run.sh"; fails scripts
printf '#!/usr/bin/env python3\n# %s\nif\n' "$spdx" >"$work/tree/run.sh"; fails scripts

mkdir -p "$work/tree/tests/mutants"
printf -- '--- a/run.sh\n+++ b/run.sh\n@@ -3 +3 @@\n-false\n+true\n' >"$work/tree/tests/mutants/bad.patch"
fails patches

# One call each, through a compiled object; with and without fortification.
for call in 'malloc(1)' 'free(0)' 'printf("%d", 1)' 'pthread_mutex_lock(0)' 'write(1, "", 1)'; do
	cat >"$work/bad.c" <<-END
		#include <pthread.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		void *f(void);
		void *f(void) { return (void *)(long)$call; }
	END
	[ "$call" != 'free(0)' ] || sed -i 's/return.*free(0)/free(\&f); return 0/' "$work/bad.c"
	for opt in '-O0' '-O2 -D_FORTIFY_SOURCE=2'; do
		"${cc[@]}" $opt -w -c -o "$work/bad.o" "$work/bad.c"
		fails packet_path --packet-path "$work/bad.o"
	done
done

for rule in $("$here/lint.py" --list | awk '{print $1}'); do
	[[ " ${proven[*]} " == *" $rule "* ]] || {
		echo "lint self-test: no bad sample for rule '$rule'" >&2
		exit 1
	}
done
