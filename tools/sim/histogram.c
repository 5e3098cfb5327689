/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/histogram.h"

#include <math.h>
#include <stddef.h>

enum { SUB = 1 << HISTOGRAM_SHIFT };

static size_t bucket_of(uint64_t v)
{
	int shift;

	if (v < SUB)
		return (size_t)v;
	shift = 63 - __builtin_clzll(v) - HISTOGRAM_SHIFT;
	return ((size_t)(shift + 1) << HISTOGRAM_SHIFT) + (size_t)(v >> shift) - SUB;
}

static uint64_t bucket_low(size_t i)
{
	size_t shift = i >> HISTOGRAM_SHIFT;

	if (shift == 0)
		return i;
	return (uint64_t)(SUB + (i & (SUB - 1))) << (shift - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	h->n++;
	h->buckets[bucket_of(value)]++;
	if (value > h->max)
		h->max = value;
}

void histogram_merge(struct histogram *h, const struct histogram *from)
{
	h->n += from->n;
	h->max = from->max > h->max ? from->max : h->max;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		h->buckets[i] += from->buckets[i];
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)h->n);

	if (rank >= h->n)
		return h->max;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (rank <= h->buckets[i])
			return bucket_low(i);
		rank -= h->buckets[i];
	}
	return h->max;
}
