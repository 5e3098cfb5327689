/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allocator of contiguous page runs. Good fit from segregated lists, coalescing at once, boundary
 * tags: both in constant time but for a walk of one size class. All its state is derived and can
 * be rebuilt by listing the used runs in address order.
 *
 * Pure: works on any memory, takes no lock. Units are pages.
 */

#include "dataplane/pool/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

#define SHM_TAG_FREE 0x80000000u

struct shm_extents {
	struct shm_page *pages;
	struct shm_extent_state *state;
	uint32_t page_count;
};

unsigned int shm_extent_class(uint32_t npages);

/* First page, or SHM_NONE if no run is long enough. owner is found again by a walk. */
uint32_t shm_extent_alloc(struct shm_extents *x, uint32_t npages, uint32_t owner);

/* Give back the used run that starts at page. Anything else is ignored. */
void shm_extent_free(struct shm_extents *x, uint32_t page);

/*
 * Rebuild: start, then every used run in address order, then finish. cursor is the caller's. add
 * returns -EINVAL, changing nothing, for a run that overlaps the one before or leaves the arena.
 */
void shm_extent_rebuild_start(struct shm_extents *x, uint32_t *cursor);
int shm_extent_rebuild_add(struct shm_extents *x, uint32_t *cursor, uint32_t page, uint32_t npages,
	uint32_t owner);
void shm_extent_rebuild_finish(struct shm_extents *x, uint32_t *cursor);

/*
 * Walk all runs by address: start with page 0, ends when it returns 0, else returns the run's
 * length. owner is SHM_NONE for a free run.
 */
uint32_t shm_extent_walk(const struct shm_extents *x, uint32_t page, uint32_t *owner);

/* Length of the longest free run. */
uint32_t shm_extent_longest(const struct shm_extents *x);
