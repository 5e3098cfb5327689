/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts of 64-bit values in buckets of 1/64 of their power of two, so a quantile is within 1.6 %.
 * 30 KiB, never allocates. One thread.
 */

#include <stdint.h>

enum { HISTOGRAM_SHIFT = 6, HISTOGRAM_BUCKETS = (65 - HISTOGRAM_SHIFT) << HISTOGRAM_SHIFT };

struct histogram {
	uint64_t n, max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);

/* As if the values of `from` had been added too. */
void histogram_merge(struct histogram *h, const struct histogram *from);

/* Nearest rank, rounded down to its bucket but for the largest; 0 when empty. q in 0..1. */
uint64_t histogram_quantile(const struct histogram *h, double q);
