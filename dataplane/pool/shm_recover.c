/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_recover.h"

#include "dataplane/pool/shm_index.h"
#include "dataplane/pool/shm_lru.h"

#include <string.h>

typedef uint64_t sort_key(const struct shm_entry *e);

static uint64_t by_page(const struct shm_entry *e)
{
	return e->page;
}

static uint64_t by_stamp(const struct shm_entry *e)
{
	return e->stamp;
}

/* Merge two lists linked by lru_next. */
static uint32_t list_merge(struct shm *shm, uint32_t a, uint32_t b, sort_key *key)
{
	uint32_t head = SHM_NONE;
	uint32_t *link = &head;

	while (a != SHM_NONE && b != SHM_NONE) {
		uint32_t *from = key(&shm->entries[a]) <= key(&shm->entries[b]) ? &a : &b;

		*link = *from;
		link = &shm->entries[*from].lru_next;
		*from = *link;
	}
	*link = a != SHM_NONE ? a : b;
	return head;
}

/* Bottom-up merge sort; bin i holds a sorted list of 2^i entries. */
static uint32_t list_sort(struct shm *shm, uint32_t head, sort_key *key)
{
	uint32_t bins[32], next, sorted = SHM_NONE;
	unsigned int i;

	memset(bins, 0xff, sizeof(bins));
	for (; head != SHM_NONE; head = next) {
		uint32_t list = head;

		next = shm->entries[head].lru_next;
		shm->entries[head].lru_next = SHM_NONE;
		for (i = 0; i < 31 && bins[i] != SHM_NONE; i++) {
			list = list_merge(shm, bins[i], list, key);
			bins[i] = SHM_NONE;
		}
		bins[i] = bins[i] == SHM_NONE ? list : list_merge(shm, bins[i], list, key);
	}
	for (i = 0; i < 32; i++)
		sorted = list_merge(shm, bins[i], sorted, key);
	return sorted;
}

static bool entry_is_sane(const struct shm *shm, const struct shm_entry *e)
{
	return e->state < SHM_STATE_COUNT && e->key_len > 0 && e->key_len <= STRAIT_KEY_MAX &&
		e->len > 0 && e->len <= STRAIT_OBJECT_MAX && e->npages == shm_pages_of(e->len) &&
		e->page < shm->geo.page_count && e->npages <= shm->geo.page_count - e->page;
}

/* Clear what refers to client slots that nobody holds; see to it that no state waits for nobody. */
static void entry_settle(struct shm *shm, struct shm_entry *e, const uint64_t used[SHM_LEASE_WORDS])
{
	const struct shm_client *client = shm->hdr->client;

	for (unsigned int i = 0; i < SHM_LEASE_WORDS; i++)
		e->lease[i] &= used[i];
	if (e->state == SHM_WRITING && (e->owner >= SHM_CLIENTS || !client[e->owner].used))
		e->state = e->flags & SHM_ENTRY_KEEP ? SHM_PARTIAL : SHM_FREE;
	if (e->state == SHM_DOOMED && !shm_entry_is_leased(e))
		e->state = SHM_FREE;
	if (e->state == SHM_VISIBLE || e->state == SHM_DOOMED)
		return;
	memset(e->lease, 0, sizeof(e->lease));
}

/*
 * Hash chains. Returns the live entries as a list. Two of one key cannot be; if they are, the file
 * was damaged.
 */
static uint32_t rebuild_index(struct shm *shm)
{
	uint64_t used[SHM_LEASE_WORDS] = { 0 };
	uint32_t live = SHM_NONE;

	for (uint32_t slot = 0; slot < SHM_CLIENTS; slot++)
		used[slot / 64] |= (uint64_t)(shm->hdr->client[slot].used != 0) << (slot % 64);
	memset(shm->buckets, 0xff, sizeof(*shm->buckets) * shm->geo.bucket_count);
	for (uint32_t idx = shm->hdr->entry_top; idx-- > 0;) {
		struct shm_entry *e = &shm->entries[idx];
		const uint8_t *key = shm->cold[idx].key;

		e->lru_prev = SHM_NONE;
		if (e->state != SHM_FREE && !entry_is_sane(shm, e))
			e->state = SHM_FREE;
		if (e->state != SHM_FREE)
			entry_settle(shm, e, used);
		if (e->state != SHM_FREE && e->state != SHM_DOOMED) {
			e->hash = shm_hash(shm, key, e->key_len);
			if (shm_index_find(shm, key, e->key_len, e->hash) != NULL)
				e->state = shm_entry_is_leased(e) ? SHM_DOOMED : SHM_FREE;
			else
				shm_index_add(shm, e);
		}
		if (e->state != SHM_FREE) {
			e->lru_next = live;
			live = idx;
		}
	}
	return live;
}

static uint32_t rebuild_extents(struct shm *shm, uint32_t live)
{
	uint32_t cursor, next, kept = SHM_NONE;

	live = list_sort(shm, live, by_page);
	shm_extent_rebuild_start(&shm->extents, &cursor);
	for (uint32_t idx = live; idx != SHM_NONE; idx = next) {
		struct shm_entry *e = &shm->entries[idx];

		next = e->lru_next;
		if (shm_extent_rebuild_add(&shm->extents, &cursor, e->page, e->npages, idx) != 0) {
			if (e->state != SHM_DOOMED)
				shm_index_del(shm, e);
			e->state = SHM_FREE;
			continue;
		}
		e->lru_next = kept;
		kept = idx;
	}
	shm_extent_rebuild_finish(&shm->extents, &cursor);
	return kept;
}

static void rebuild_lists(struct shm *shm, uint32_t live)
{
	struct shm_header *hdr = shm->hdr;
	uint32_t next;

	for (unsigned int i = 0; i < SHM_LRU_COUNT; i++)
		hdr->lru[i] = (struct shm_list){ .newest = SHM_NONE, .oldest = SHM_NONE };
	live = list_sort(shm, live, by_stamp);
	for (uint32_t idx = live; idx != SHM_NONE; idx = next) {
		next = shm->entries[idx].lru_next;
		shm->entries[idx].lru_next = SHM_NONE;
		shm_lru_link(shm, &shm->entries[idx]);
	}

	memset(hdr->count, 0, sizeof(hdr->count));
	hdr->leased = 0;
	hdr->free_entry = SHM_NONE;
	hdr->evicting = 0;
	for (uint32_t idx = hdr->entry_top; idx-- > 0;) {
		struct shm_entry *e = &shm->entries[idx];

		hdr->count[e->state]++;
		if (e->state == SHM_FREE)
			shm_entry_put_free(shm, e);
		else if (shm_entry_is_leased(e))
			hdr->leased++;
	}
}

void shm_recover(struct shm *shm)
{
	struct shm_header *hdr = shm->hdr;
	uint32_t live;

	if (hdr->entry_top > shm->geo.entry_count)
		hdr->entry_top = shm->geo.entry_count;
	live = rebuild_index(shm);
	live = rebuild_extents(shm, live);
	rebuild_lists(shm, live);
	/*
	 * The victim may hold more than the lock; it may not be all gone yet, so look again soon.
	 */
	shm->next_reap_ns = 0;
	/* The last change may have been told and not made, or the other way round. */
	hdr->change_head += SHM_CHANGES + 1;
}
