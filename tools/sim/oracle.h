/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A sender that knows in advance what the link will lose: the bound to compare with. It sends the
 * source symbols of a plan over the same link model with the same seed, each again at once until it
 * gets through, as fast as cap and line allow with the real pacer; it needs no feedback, opens
 * nothing and sends no symbol twice without need. Objects that are gone or refused are not sent.
 * Other traffic and restarts are left out. Pure.
 */

#include "tools/sim/run.h"

/* Fills the figures a sender without feedback has; ok is false when limit_ns passed. */
void oracle_run(const struct plan *p, uint64_t limit_ns, struct sim_result *out);
