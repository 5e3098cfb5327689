/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_check.h"

#include "dataplane/pool/shm_index.h"
#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_lru.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct report {
	char *text;
	size_t len;
};

__attribute__((format(printf, 2, 3))) static int broken(const struct report *r, const char *format,
	...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->text, r->len, format, args);
	va_end(args);
	return -EUCLEAN;
}

static bool is_live(const struct shm_entry *e)
{
	return e->state != SHM_FREE;
}

static bool is_listed(const struct shm_entry *e)
{
	return e->state == SHM_PARTIAL || (e->state == SHM_VISIBLE && !shm_entry_is_leased(e));
}

static int check_entry(struct shm *shm, const struct shm_entry *e, const struct report *r)
{
	uint32_t idx = shm_entry_index(shm, e);
	const struct shm_extents *x = &shm->extents;

	if (e->state >= SHM_STATE_COUNT)
		return broken(r, "entry %u: state %u", idx, e->state);
	if (!is_live(e))
		return 0;
	if (e->key_len == 0 || e->key_len > STRAIT_KEY_MAX || e->len == 0 ||
		e->len > STRAIT_OBJECT_MAX || e->npages != shm_pages_of(e->len))
		return broken(r, "entry %u: lengths", idx);
	if (e->page >= x->page_count || e->npages > x->page_count - e->page)
		return broken(r, "entry %u: extent out of the arena", idx);
	if (x->pages[e->page].tag != e->npages || x->pages[e->page].next != idx ||
		x->pages[e->page + e->npages - 1].tag != e->npages)
		return broken(r, "entry %u: page tags do not name it", idx);
	if (e->state == SHM_DOOMED) {
		if (!shm_entry_is_leased(e))
			return broken(r, "entry %u: doomed without leases", idx);
	} else if (shm_index_find(shm, shm->cold[idx].key, e->key_len, e->hash) != e ||
		e->hash != shm_hash(shm, shm->cold[idx].key, e->key_len)) {
		return broken(r, "entry %u: not found by its key", idx);
	}
	if (e->state == SHM_WRITING &&
		(e->owner >= SHM_CLIENTS || !shm->hdr->client[e->owner].used))
		return broken(r, "entry %u: written by no client", idx);
	if (e->state != SHM_VISIBLE && e->state != SHM_DOOMED && shm_entry_is_leased(e))
		return broken(r, "entry %u: state %u leased", idx, e->state);
	if (e->state == SHM_PARTIAL && !(e->flags & SHM_ENTRY_KEEP))
		return broken(r, "entry %u: partial that nobody may adopt", idx);
	for (uint32_t slot = 0; slot < SHM_CLIENTS; slot++) {
		if (shm_entry_has_lease(e, slot) && !shm->hdr->client[slot].used)
			return broken(r, "entry %u: leased by no client", idx);
	}
	return 0;
}

static int check_entries(struct shm *shm, const struct report *r)
{
	const struct shm_header *hdr = shm->hdr;
	uint32_t count[SHM_STATE_COUNT] = { 0 };
	uint32_t leased = 0, listed = 0, free = 0;

	if (hdr->entry_top > shm->geo.entry_count)
		return broken(r, "entry_top %u", hdr->entry_top);
	for (uint32_t idx = 0; idx < hdr->entry_top; idx++) {
		const struct shm_entry *e = &shm->entries[idx];
		int rc = check_entry(shm, e, r);

		if (rc != 0)
			return rc;
		count[e->state]++;
		leased += is_live(e) && shm_entry_is_leased(e);
		listed += is_listed(e);
	}
	for (unsigned int i = 0; i < SHM_STATE_COUNT; i++) {
		if (count[i] != hdr->count[i])
			return broken(r, "state %u: %u entries, count says %u", i, count[i],
				hdr->count[i]);
	}
	if (leased != hdr->leased)
		return broken(r, "%u leased, count says %u", leased, hdr->leased);
	if (listed != hdr->lru[SHM_LRU_PARTIAL].count + hdr->lru[SHM_LRU_VISIBLE].count)
		return broken(r, "%u evictable entries, the lists differ", listed);
	for (uint32_t idx = hdr->free_entry; idx != SHM_NONE; idx = shm->entries[idx].hash_next) {
		if (idx >= hdr->entry_top || is_live(&shm->entries[idx]) || free > count[SHM_FREE])
			return broken(r, "free-entry list: entry %u", idx);
		free++;
	}
	if (free != count[SHM_FREE])
		return broken(r, "%u on the free-entry list of %u", free, count[SHM_FREE]);
	return 0;
}

static int check_buckets(const struct shm *shm, const struct report *r)
{
	const uint32_t *count = shm->hdr->count;
	uint32_t indexed = count[SHM_WRITING] + count[SHM_PARTIAL] + count[SHM_VISIBLE];
	uint32_t found = 0;

	for (uint32_t b = 0; b < shm->geo.bucket_count; b++) {
		for (uint32_t idx = shm->buckets[b]; idx != SHM_NONE;
			idx = shm->entries[idx].hash_next) {
			if (idx >= shm->hdr->entry_top || ++found > indexed)
				return broken(r, "bucket %u: entry %u", b, idx);
		}
	}
	if (found != indexed)
		return broken(r, "%u in the buckets, %u entries have keys", found, indexed);
	return 0;
}

static int check_list(struct shm *shm, enum shm_lru which, const struct report *r)
{
	const struct shm_list *list = &shm->hdr->lru[which];
	enum shm_state state = which == SHM_LRU_PARTIAL ? SHM_PARTIAL : SHM_VISIBLE;
	uint32_t prev = SHM_NONE, count = 0;
	uint64_t stamp = UINT64_MAX;

	for (uint32_t idx = list->newest; idx != SHM_NONE; idx = shm->entries[idx].lru_next) {
		const struct shm_entry *e = shm_entry_at(shm, idx);

		if (e == NULL || e->state != state || !is_listed(e) || ++count > list->count)
			return broken(r, "list %u: entry %u does not belong there", which, idx);
		if (e->lru_prev != prev || e->stamp >= stamp)
			return broken(r, "list %u: entry %u out of order", which, idx);
		prev = idx;
		stamp = e->stamp;
	}
	if (list->oldest != prev || count != list->count)
		return broken(r, "list %u: ends wrong, %u of %u", which, count, list->count);
	return 0;
}

/* Runs by address: cover the arena, each used one names a live entry, no two free ones meet. */
static int check_extents(struct shm *shm, const struct report *r)
{
	const struct shm_extents *x = &shm->extents;
	uint32_t used = 0, runs = 0, listed = 0, page, len, owner;
	uint64_t free_pages = 0;
	bool after_free = false;

	for (page = 0; page < x->page_count; page += len) {
		len = shm_extent_walk(x, page, &owner);
		if (len == 0)
			return broken(r, "page %u: no run", page);
		if (owner == SHM_NONE) {
			if (after_free || x->pages[page + len - 1].tag != x->pages[page].tag)
				return broken(r, "page %u: free run not merged or not tagged",
					page);
			runs++;
			free_pages += len;
		} else {
			const struct shm_entry *e = shm_entry_at(shm, owner);

			if (e == NULL || !is_live(e) || e->page != page)
				return broken(r, "page %u: used by no entry", page);
			used++;
		}
		after_free = owner == SHM_NONE;
	}
	if (used != shm->hdr->entry_top - shm->hdr->count[SHM_FREE])
		return broken(r, "%u used runs for %u entries", used, shm->hdr->entry_top);
	if (free_pages != x->state->free_pages)
		return broken(r, "%llu free pages, count says %llu", (unsigned long long)free_pages,
			(unsigned long long)x->state->free_pages);
	for (unsigned int class = 0; class < SHM_CLASSES; class ++) {
		uint32_t head = x->state->head[class], prev = SHM_NONE;
		bool bit = (x->state->nonempty[class / 64] >> (class % 64)) & 1;

		if (bit != (head != SHM_NONE))
			return broken(r, "class %u: bit and list differ", class);
		for (page = head; page != SHM_NONE; prev = page, page = x->pages[page].next) {
			len = shm_extent_walk(x, page, &owner);
			if (len == 0 || owner != SHM_NONE || shm_extent_class(len) != class ||
				x->pages[page].prev != prev || ++listed > runs)
				return broken(r, "class %u: page %u", class, page);
		}
	}
	if (listed != runs)
		return broken(r, "%u free runs, %u listed", runs, listed);
	return 0;
}

int shm_check(struct shm *shm, char *why, size_t why_len)
{
	const struct report r = { .text = why, .len = why_len };
	int rc = shm_lock(shm);

	if (rc != 0)
		return rc;
	rc = check_entries(shm, &r);
	if (rc == 0)
		rc = check_buckets(shm, &r);
	if (rc == 0)
		rc = check_list(shm, SHM_LRU_PARTIAL, &r);
	if (rc == 0)
		rc = check_list(shm, SHM_LRU_VISIBLE, &r);
	if (rc == 0)
		rc = check_extents(shm, &r);
	shm_unlock(shm);
	return rc;
}
