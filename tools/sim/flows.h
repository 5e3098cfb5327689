/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Orders given later than at once, and several pairs of edges over one line: what one does to the
 * other's rate. Each pair is a world of its own (world.h) with its sessions, its orders and the
 * same cap; the bottlenecks of both directions are those of the first. One thread; a seed gives one
 * history.
 */

#include "tools/sim/run.h"

enum { FLOWS_MAX = 4 };

struct flows {
	struct world *w[FLOWS_MAX];
	uint32_t n;
	uint64_t start_ns[FLOWS_MAX]; /* its first order */
	uint32_t ordered[FLOWS_MAX];  /* transfers given so far */
};

/*
 * The worlds beside w, which is up, has its objects and stays the caller's. 0 or a negative errno;
 * flows_fini() either way.
 */
int flows_init(struct flows *f, struct world *w, const struct plan *p);
void flows_fini(struct flows *f);

/*
 * Give all orders in their time and run to the end, at most until until_ns. Fills the figures of
 * flows; what was wrong with another world is the first one's error.
 */
void flows_play(struct flows *f, const struct plan *p, uint64_t until_ns, struct sim_result *out);
