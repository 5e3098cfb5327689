/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process's view of a mapped pool file, shared by the shm_*.c files. Everything here is used
 * under the pool's lock (shm_lock.h) unless said otherwise.
 */

#include "dataplane/pool/shm_extent.h"
#include "dataplane/pool/shm_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shm {
	int fd;
	struct shm_geometry geo;
	struct shm_header *hdr;
	uint32_t *buckets;
	struct shm_entry *entries;
	struct shm_cold *cold;
	uint8_t *arena;
	struct shm_extents extents;

	uint32_t slot; /* this client, SHM_NONE until it joined */
	/* Per entry: this process's leases, of which only the first and last show in the file. */
	uint32_t *leases;
	volatile uint32_t *alive; /* reads 0 in a forked child */
	uint64_t next_reap_ns;
	bool stuck;              /* the last wait for the lock was in vain; atomic */
	bool cut;                /* shm_file_check(): the mapping has no file behind its end */
	struct shm_later *later; /* shm_later.h */
};

/* NULL if idx does not name an entry: the file is damaged, or idx is SHM_NONE. */
static inline struct shm_entry *shm_entry_at(struct shm *shm, uint32_t idx)
{
	return idx < shm->geo.entry_count ? &shm->entries[idx] : NULL;
}

static inline uint32_t shm_entry_index(const struct shm *shm, const struct shm_entry *e)
{
	return (uint32_t)(e - shm->entries);
}

static inline bool shm_entry_is_leased(const struct shm_entry *e)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < SHM_LEASE_WORDS; i++)
		any |= e->lease[i];
	return any != 0;
}

static inline bool shm_entry_has_lease(const struct shm_entry *e, uint32_t slot)
{
	return (e->lease[slot / 64] >> (slot % 64)) & 1;
}

static inline uint32_t shm_pages_of(uint64_t len)
{
	return (uint32_t)((len + SHM_PAGE - 1) / SHM_PAGE);
}

/* Tell those who follow the pool (shm_change.h): before it happens, so that nothing is missed. */
static inline void shm_change_note(struct shm *shm, const struct shm_entry *e, uint32_t flags)
{
	struct shm_header *hdr = shm->hdr;

	hdr->change[hdr->change_head % SHM_CHANGES] = shm_entry_index(shm, e) | flags;
	__atomic_store_n(&hdr->change_head, hdr->change_head + 1, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The commit store: the compiler may move nothing that came before it behind it. */
static inline void shm_entry_set_state(struct shm *shm, struct shm_entry *e, enum shm_state state)
{
	if ((e->state == SHM_VISIBLE) != (state == SHM_VISIBLE))
		shm_change_note(shm, e, 0);
	if (e->state < SHM_STATE_COUNT)
		shm->hdr->count[e->state]--;
	__atomic_store_n(&e->state, state, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	shm->hdr->count[state]++;
}
