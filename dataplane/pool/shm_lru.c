/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_lru.h"

#include "dataplane/pool/shm_index.h"

/* Bounds the time the lock is held for the watermark; the next allocation goes on. */
#define WATERMARK_BATCH 256u

static struct shm_list *list_of(struct shm *shm, const struct shm_entry *e)
{
	if (e->state == SHM_PARTIAL)
		return &shm->hdr->lru[SHM_LRU_PARTIAL];
	if (e->state == SHM_VISIBLE)
		return &shm->hdr->lru[SHM_LRU_VISIBLE];
	return NULL;
}

void shm_lru_link(struct shm *shm, struct shm_entry *e)
{
	struct shm_list *list = list_of(shm, e);
	struct shm_entry *newest;
	uint32_t idx = shm_entry_index(shm, e);

	if (list == NULL || shm_entry_is_leased(e))
		return;
	e->lru_prev = SHM_NONE;
	e->lru_next = list->newest;
	newest = shm_entry_at(shm, list->newest);
	if (newest != NULL)
		newest->lru_prev = idx;
	else
		list->oldest = idx;
	list->newest = idx;
	list->count++;
}

void shm_lru_add(struct shm *shm, struct shm_entry *e)
{
	e->stamp = ++shm->hdr->tick;
	shm_lru_link(shm, e);
}

void shm_lru_del(struct shm *shm, struct shm_entry *e)
{
	struct shm_list *list = list_of(shm, e);
	uint32_t idx = shm_entry_index(shm, e);
	struct shm_entry *prev, *next;

	if (list == NULL)
		return;
	prev = shm_entry_at(shm, e->lru_prev);
	next = shm_entry_at(shm, e->lru_next);
	if (prev == NULL && list->newest != idx)
		return;
	if (prev != NULL)
		prev->lru_next = e->lru_next;
	else
		list->newest = e->lru_next;
	if (next != NULL)
		next->lru_prev = e->lru_prev;
	else
		list->oldest = e->lru_prev;
	e->lru_prev = SHM_NONE;
	e->lru_next = SHM_NONE;
	list->count--;
}

static void evict(struct shm *shm, struct shm_entry *e)
{
	struct shm_counters *counters = &shm->hdr->counters;

	if (e->state == SHM_PARTIAL)
		counters->evicted_partials++;
	else
		counters->evictions++;
	if (e->state == SHM_VISIBLE)
		shm_change_note(shm, e, SHM_CHANGE_EVICTED);
	counters->evicted_bytes += e->len;
	shm_entry_drop(shm, e);
}

static bool is_evictable(const struct shm_entry *e)
{
	return e->state == SHM_PARTIAL || (e->state == SHM_VISIBLE && !shm_entry_is_leased(e));
}

bool shm_evict_one(struct shm *shm)
{
	for (unsigned int i = 0; i < SHM_LRU_COUNT; i++) {
		struct shm_entry *e = shm_entry_at(shm, shm->hdr->lru[i].oldest);

		if (e != NULL && is_evictable(e)) {
			evict(shm, e);
			return true;
		}
	}
	return false;
}

/* A run in which only free and evictable extents lie, the cheapest of at least npages; cleared. */
static bool clear_window(struct shm *shm, uint32_t npages)
{
	const struct shm_extents *x = &shm->extents;
	uint32_t left = 0, right = 0, owner, len;
	uint32_t best = SHM_NONE, best_end = 0;
	uint64_t cost = 0, best_cost = UINT64_MAX;

	while ((len = shm_extent_walk(x, right, &owner)) != 0) {
		struct shm_entry *e = shm_entry_at(shm, owner);

		right += len;
		if (owner != SHM_NONE && (e == NULL || !is_evictable(e))) {
			left = right;
			cost = 0;
			continue;
		}
		cost += owner == SHM_NONE ? 0 : len;
		while ((len = shm_extent_walk(x, left, &owner)) != 0 &&
			right - left >= npages + len) {
			cost -= owner == SHM_NONE ? 0 : len;
			left += len;
		}
		if (right - left >= npages && cost < best_cost) {
			best_cost = cost;
			best = left;
			best_end = right;
		}
	}
	if (best == SHM_NONE)
		return false;
	/*
	 * A drop merges the free runs around it and so spoils their tags: step over the next one
	 * first.
	 */
	for (uint32_t at = best, next; at < best_end; at = next) {
		uint32_t next_owner, next_len;

		len = shm_extent_walk(x, at, &owner);
		if (len == 0)
			return false;
		next = at + len;
		if (owner == SHM_NONE)
			continue;
		next_len = shm_extent_walk(x, next, &next_owner);
		if (next_len != 0 && next_owner == SHM_NONE)
			next += next_len;
		evict(shm, &shm->entries[owner]);
	}
	return true;
}

static void watermark_enforce(struct shm *shm, uint32_t npages)
{
	struct shm_header *hdr = shm->hdr;
	uint64_t total = shm->geo.page_count;
	uint64_t high = total * SHM_HIGH_PERCENT / 100;
	uint64_t low = total * SHM_LOW_PERCENT / 100;
	uint64_t used = total - hdr->extents.free_pages + npages;

	if (used > high)
		hdr->evicting = 1;
	for (unsigned int i = 0; hdr->evicting && i < WATERMARK_BATCH; i++) {
		used = total - hdr->extents.free_pages + npages;
		if (used <= low || !shm_evict_one(shm))
			hdr->evicting = 0;
	}
}

uint32_t shm_space_alloc(struct shm *shm, uint32_t npages, uint32_t owner)
{
	uint64_t start, freed;
	uint32_t page;

	watermark_enforce(shm, npages);
	start = shm->hdr->extents.free_pages;
	for (;;) {
		page = shm_extent_alloc(&shm->extents, npages, owner);
		if (page != SHM_NONE)
			return page;
		freed = shm->hdr->extents.free_pages - start;
		if (freed >= 2ull * npages || !shm_evict_one(shm))
			break;
	}
	if (!clear_window(shm, npages))
		return SHM_NONE;
	return shm_extent_alloc(&shm->extents, npages, owner);
}
