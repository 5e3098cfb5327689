/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Whether an object that failed is tried again, and when. Pure.
 *
 *   UNREACHABLE, RESET   2 s, 4 s, 8 s .. 30 s apart: networks and processes come back
 *   BUSY                 1 s, 2 s, 4 s .. 30 s: another writer finishes or dies
 *   FULL                 1 s, 2 s: the pool may evict; without a deadline the third is the last
 *   anything else        never: it would end the same way
 *
 * With a deadline attempts go on while the next one would still begin before it; without one
 * there are RETRY_ATTEMPTS_MAX (FULL: RETRY_FULL_ATTEMPTS_MAX).
 */

enum { RETRY_ATTEMPTS_MAX = 5, RETRY_FULL_ATTEMPTS_MAX = 3, RETRY_DELAY_MAX_MS = 30000 };

/**
 * When to try again after `attempts` attempts of which the last ended with status. 0: never.
 * Times are Unix ms, deadline_ms 0 is none.
 */
uint64_t retry_at(unsigned int status, unsigned int attempts, uint64_t now_ms,
	uint64_t deadline_ms);
