/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>

/*
 * The keys that events named while a listing was fetched: for those the listing has nothing to say.
 * A set that grows to a bound and is emptied at once. Pure, one thread.
 */

struct touched {
	struct digest128 *slots; /* all zero: free */
	uint32_t mask, count, max;
	bool zero; /* the digest that marks a free slot */
};

/** max: keys it may hold. */
void touched_init(struct touched *t, uint32_t max);
void touched_fini(struct touched *t);
/** -ENOSPC: full; -ENOMEM. The listing must be repeated then. */
int touched_add(struct touched *t, struct digest128 d);
bool touched_has(const struct touched *t, struct digest128 d);
/** Empty, and the memory given back. */
void touched_clear(struct touched *t);
