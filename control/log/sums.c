/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/sums.h"

#include <stdlib.h>

struct sums *sums_create(void)
{
	return calloc(1, sizeof(struct sums));
}

void sums_destroy(struct sums *s)
{
	free(s);
}

static void plus(struct sum *s, const struct sum *by)
{
	s->hi += by->hi + __builtin_add_overflow(s->lo, by->lo, &s->lo);
	s->count += by->count;
}

static void minus(struct sum *s, const struct sum *by)
{
	s->hi -= by->hi + __builtin_sub_overflow(s->lo, by->lo, &s->lo);
	s->count -= by->count;
}

void sum_add(struct sum *s, struct digest128 d)
{
	plus(s, &(struct sum){ d.lo, d.hi, 1 });
}

void sum_del(struct sum *s, struct digest128 d)
{
	minus(s, &(struct sum){ d.lo, d.hi, 1 });
}

bool sum_equal(const struct sum *a, const struct sum *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->count == b->count;
}

void sums_add(struct sums *s, struct digest128 d)
{
	sum_add(&s->bucket[digest_bucket(d)], d);
	sum_add(&s->total, d);
}

void sums_del(struct sums *s, struct digest128 d)
{
	sum_del(&s->bucket[digest_bucket(d)], d);
	sum_del(&s->total, d);
}

void sums_set(struct sums *s, uint32_t bucket, const struct sum *to)
{
	minus(&s->total, &s->bucket[bucket]);
	plus(&s->total, to);
	s->bucket[bucket] = *to;
}

size_t sums_differ(const struct sums *s, const struct sum *theirs, uint32_t first, uint32_t n,
	uint32_t *buckets)
{
	size_t found = 0;

	for (uint32_t i = 0; i < n && first + i < DIGEST_BUCKETS; i++)
		if (!sum_equal(&s->bucket[first + i], &theirs[i]))
			buckets[found++] = first + i;
	return found;
}
