/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who goes first when space is short. Two lists, newest to oldest by entry.stamp: PARTIAL entries,
 * evicted first, and VISIBLE entries without leases. A leased, WRITING or DOOMED entry is on
 * neither, so whatever is on a list may be dropped at once.
 *
 * Above 95 % of the arena, allocation evicts until 90 %. A long object may still find no
 * contiguous run; then the run whose eviction costs the fewest bytes is cleared, so that
 * fragmentation never keeps out what would fit.
 *
 * All under the pool's lock.
 */

#include "dataplane/pool/shm.h"

#define SHM_HIGH_PERCENT 95u
#define SHM_LOW_PERCENT  90u

/* Append as the newest of the list its state belongs to, if any. It must be on none. */
void shm_lru_add(struct shm *shm, struct shm_entry *e);
/* The same, keeping its age: for a rebuild, which goes from old to new. */
void shm_lru_link(struct shm *shm, struct shm_entry *e);
/* Take off its list. Ignored if it is on none. */
void shm_lru_del(struct shm *shm, struct shm_entry *e);

/* Drop the one that should go first. False if nothing may go. */
bool shm_evict_one(struct shm *shm);

/*
 * A run of npages for owner, evicting as needed. SHM_NONE if what may not be evicted leaves no
 * room.
 */
uint32_t shm_space_alloc(struct shm *shm, uint32_t npages, uint32_t owner);
