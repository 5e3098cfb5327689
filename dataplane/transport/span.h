/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Objects in a stream: offsets[i] is where object i starts, offsets[n] the stream's length.
 */

/** Object that holds byte `at` < offsets[n]. *hint is tried first and updated. */
static inline uint32_t span_find(const uint64_t *offsets, uint32_t n, uint64_t at, uint32_t *hint)
{
	uint32_t i = *hint < n ? *hint : 0, low, high;

	if (offsets[i] <= at && at < offsets[i + 1])
		return i;
	if (i + 1 < n && offsets[i + 1] <= at && at < offsets[i + 2])
		return *hint = i + 1;
	for (low = 0, high = n; high - low > 1;) {
		uint32_t mid = low + (high - low) / 2;

		if (offsets[mid] <= at)
			low = mid;
		else
			high = mid;
	}
	return *hint = low;
}
