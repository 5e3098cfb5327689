/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * What two replicas of a set of digests compare: per anti-entropy bucket a count and the sum of its
 * digests mod 2^128. Kept up to date by each event (a few ns), so that comparing costs no scan. A
 * sum, not an exclusive or: a key counted twice must not cancel. 24 bytes a bucket, 1.5 MiB. The
 * peer is authenticated and digests are keyed, so nobody can aim for equal sums. Pure.
 */

struct sum {
	uint64_t lo, hi;
	uint64_t count;
};

struct sums {
	struct sum total;
	struct sum bucket[DIGEST_BUCKETS];
};

/** All zero. NULL + errno. */
struct sums *sums_create(void);
void sums_destroy(struct sums *s);

void sum_add(struct sum *s, struct digest128 d);
void sum_del(struct sum *s, struct digest128 d);
bool sum_equal(const struct sum *a, const struct sum *b);

void sums_add(struct sums *s, struct digest128 d);
void sums_del(struct sums *s, struct digest128 d);
/** One bucket becomes what it should be, and the total with it. */
void sums_set(struct sums *s, uint32_t bucket, const struct sum *to);

/**
 * Buckets from first on that differ from theirs (n sums, of buckets first ..). Returns how
 * many.
 */
size_t sums_differ(const struct sums *s, const struct sum *theirs, uint32_t first, uint32_t n,
	uint32_t *buckets);
