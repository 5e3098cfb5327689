/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counters on stdout: a table for people, or with --json one object a line
 * { "seconds", "final", "overruns", "ab": {..}, "ba": {..} }. Called by the forward loop's thread.
 */

#include "tools/wan/forward.h"

void wan_stats_print(const struct wan *w, uint64_t now_ns, bool final);
