/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct pool;

/*
 * Maps the pages of pools before objects need them, from a thread of its own with a low
 * priority. Without it each page of a new pool costs a fault and the zeroing of a page when the
 * first object gets there, on the worker's time: 15 % of what both edges of a 1 Gbit/s link use.
 *
 * Only memory that the pool's file has already is mapped: none is taken.
 */

struct pool_prefault;

/** Pools must live until pool_prefault_stop(). NULL + errno. Control thread. */
struct pool_prefault *pool_prefault_start(struct pool *const *pools, uint32_t count);
/** Ends the thread; waits for the chunk it is at. NULL is ignored. Control thread. */
void pool_prefault_stop(struct pool_prefault *p);
