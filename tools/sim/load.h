/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The objects of a plan, one after the other: sizes and what befalls them are drawn from the seed,
 * the same for every sender. Pure.
 */

#include "tools/sim/plan.h"

struct load {
	const struct plan *plan;
	struct prng rnd;
	uint64_t left; /* of total_bytes */
	uint32_t n;    /* objects so far */
};

void load_init(struct load *l, const struct plan *p);

/* Set length, key_len, gone, refuse, with_digest and lie of the next object. false: no more. */
bool load_next(struct load *l, struct world_object *o);

/* First object after transfer i when n objects are dealt to the plan's transfers. */
uint32_t load_deal(const struct plan *p, uint32_t n, uint32_t i);

/* Bytes of an object's manifest entry. */
uint64_t load_manifest_bytes(const struct world_object *o);
