/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A queue by time: the earliest first, equal times in the order they came. Pure, one thread.
 */

struct timeline_entry {
	uint64_t at_ns, order;
	int kind;
	void *what;
};

struct timeline {
	struct timeline_entry *heap;
	size_t count, room;
	uint64_t order;
};

void timeline_fini(struct timeline *t);
/** 0 or -ENOMEM. */
int timeline_add(struct timeline *t, uint64_t at_ns, int kind, void *what);
/** NULL: empty. Valid until the next call. */
const struct timeline_entry *timeline_first(const struct timeline *t);
/** false: empty. */
bool timeline_take(struct timeline *t, struct timeline_entry *out);
