/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * At which rate an order's bytes arrive, when only whole objects are told: from one arrival to
 * another, over some seconds or as many as two arrivals are apart, so that large objects make
 * neither gaps nor peaks. When nothing comes for longer than that the rate goes down.
 *
 * Pure; any thread. Times are ms of any clock.
 */

#define PROGRESS_RATE_MS 5000 /* as far back as it looks when much arrives */

enum { PROGRESS_RATE_SAMPLES = 12 };

struct progress_rate {
	struct {
		uint64_t ms, bytes;
	} at[PROGRESS_RATE_SAMPLES]; /* the first, then arrivals */
	uint32_t count;
	uint64_t bps;
};

/** All bytes that arrived so far. Fewer than before, or a clock that was set back: begins anew. */
void progress_rate_add(struct progress_rate *r, uint64_t now_ms, uint64_t bytes);
