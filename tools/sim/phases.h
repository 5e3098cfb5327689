/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Figures of a world's trace around what happened on its link: goodput after cuts, the rate beside
 * other traffic. Undefined ones are NAN. Pure.
 */

#include "tools/sim/world.h"

/* RTTs after a cut until goodput is back; the largest of several cuts. */
double phases_recovery_rtt(const struct world *w);

/** A symbol of the source went out: note the counts so far, now and then. */
void phases_mark(struct world *w);
/** An object was verified: what had left when its last symbol did is in w->verified. */
void phases_verified(struct world *w);

/* The first flow of the data direction against the source. */
struct phases_beside {
	double cross_gbps;    /* of it, while it was on and the orders ran */
	double cross_share;   /* of what it and the source sent in that time */
	double given_up;      /* share of its earlier rate the source gave up, from 1 s on */
	double given_up_ms;   /* after its start, until the rate was <= 10 % of the earlier one */
	double taken_back_ms; /* after its end, until the rate was >= 90 % of the earlier one */
};
void phases_beside(const struct world *w, struct phases_beside *out);

/* A length of bins in which the figures above are exact enough. */
uint64_t phases_bin_ns(const struct world_config *cfg);
