/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_object.h"

#include "dataplane/pool/shm_client.h"
#include "dataplane/pool/shm_index.h"
#include "dataplane/pool/shm_later.h"
#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_lru.h"

#include <errno.h>
#include <string.h>

#define BATCH 64u

static bool key_is_bad(const void *key, size_t key_len)
{
	return key == NULL || key_len == 0 || key_len > STRAIT_KEY_MAX;
}

static uint64_t handle_of(const struct shm *shm, const struct shm_entry *e)
{
	return ((uint64_t)e->gen << 32) | (shm_entry_index(shm, e) + 1);
}

static struct shm_entry *entry_of(struct shm *shm, uint64_t handle)
{
	struct shm_entry *e = shm_entry_at(shm, (uint32_t)handle - 1);

	return e != NULL && e->gen == handle >> 32 ? e : NULL;
}

/* The entry being written under handle by this process, or NULL. */
static struct shm_entry *writing_of(struct shm *shm, uint64_t handle)
{
	struct shm_entry *e = entry_of(shm, handle);

	return e != NULL && e->state == SHM_WRITING && e->owner == shm->slot ? e : NULL;
}

/* False if the extent does not lie in the arena: the file is damaged. */
static bool object_fill(struct shm *shm, const struct shm_entry *e, struct pool_object *out)
{
	uint32_t page = e->page, npages = e->npages;
	uint64_t len = e->len;

	if (page >= shm->geo.page_count || npages > shm->geo.page_count - page ||
		len > (uint64_t)npages * SHM_PAGE)
		return false;
	memset(out, 0, sizeof(*out));
	out->handle = handle_of(shm, e);
	out->data = shm->arena + (uint64_t)page * SHM_PAGE;
	out->len = len;
	out->digest = e->digest;
	return true;
}

static void release_locked(struct shm *shm, uint64_t handle)
{
	struct shm_entry *e = entry_of(shm, handle);

	if (e != NULL)
		shm_lease_del(shm, e);
}

static void abandon_locked(struct shm *shm, uint64_t handle, bool keep)
{
	struct shm_entry *e = writing_of(shm, handle);

	if (e != NULL && keep && (e->flags & SHM_ENTRY_KEEP)) {
		shm_entry_set_state(shm, e, SHM_PARTIAL);
		shm_lru_add(shm, e);
		shm->hdr->counters.partials_kept++;
	} else if (e != NULL) {
		shm_entry_drop(shm, e);
	}
}

/* Do what had to wait for the lock, now that we have it. */
static void catch_up(struct shm *shm)
{
	enum shm_later_type type;
	uint64_t handle;

	while (shm_later_pop(shm->later, &type, &handle)) {
		if (type == SHM_LATER_RELEASE)
			release_locked(shm, handle);
		else
			abandon_locked(shm, handle, type == SHM_LATER_ABANDON_KEEP);
	}
}

static int object_lock(struct shm *shm)
{
	int rc = shm_lock(shm);

	if (rc == 0)
		catch_up(shm);
	return rc;
}

/*
 * For calls that cannot fail: false if handle needs nothing more, because it waits for its turn
 * (or the pool is lost). Without memory to wait in, wait here.
 */
static bool object_lock_or_later(struct shm *shm, enum shm_later_type type, uint64_t handle)
{
	int rc = shm_lock_briefly(shm);

	while (rc == -ETIMEDOUT) {
		if (shm_later_push(shm->later, type, handle) == 0)
			return false;
		rc = shm_lock_briefly(shm);
	}
	if (rc == 0)
		catch_up(shm);
	return rc == 0;
}

int shm_lease(struct shm *shm, const void *key, size_t key_len, struct pool_object *out)
{
	struct shm_entry *e;
	uint64_t hash;
	int rc;

	if (key_is_bad(key, key_len))
		return -EINVAL;
	hash = shm_hash(shm, key, key_len);
	rc = object_lock(shm);
	if (rc != 0)
		return rc;
	shm->hdr->counters.gets++;
	e = shm_index_find(shm, key, key_len, hash);
	if (e == NULL || e->state != SHM_VISIBLE || !object_fill(shm, e, out)) {
		shm->hdr->counters.misses++;
		rc = -ENOENT;
	} else {
		shm->hdr->counters.hits++;
		shm_lease_add(shm, e);
	}
	shm_unlock(shm);
	return rc;
}

void shm_release(struct shm *shm, uint64_t handle)
{
	if (!object_lock_or_later(shm, SHM_LATER_RELEASE, handle))
		return;
	release_locked(shm, handle);
	shm_unlock(shm);
}

int shm_renew(struct shm *shm)
{
	int rc = object_lock(shm);

	if (rc != 0)
		return rc;
	shm_client_reap_sometimes(shm);
	shm_unlock(shm);
	return 0;
}

/* 0: the key is free to be reserved. 1: *found was adopted. */
static int key_claim(struct shm *shm, enum shm_reserve mode, const void *key, size_t key_len,
	uint64_t hash, uint64_t len, uint64_t digest, struct shm_entry **found)
{
	struct shm_entry *e = shm_index_find(shm, key, key_len, hash);

	if (e != NULL && e->state == SHM_WRITING && !shm_client_is_alive(shm, e->owner)) {
		shm_client_reap(shm);
		e = shm_index_find(shm, key, key_len, hash);
	}
	if (e == NULL)
		return 0;
	if (e->state == SHM_VISIBLE)
		return -EEXIST;
	if (e->state != SHM_PARTIAL)
		return -EBUSY;
	if (mode == SHM_RESERVE_FRESH || e->len != len || e->digest != digest) {
		shm_entry_drop(shm, e);
		return 0;
	}
	shm_lru_del(shm, e);
	e->owner = shm->slot;
	shm_entry_set_state(shm, e, SHM_WRITING);
	shm->hdr->counters.partials_adopted++;
	*found = e;
	return 1;
}

static struct shm_entry *entry_make(struct shm *shm, uint32_t npages)
{
	struct shm_entry *e = shm_entry_alloc(shm);
	uint32_t page;

	while (e == NULL && shm_evict_one(shm))
		e = shm_entry_alloc(shm);
	if (e == NULL)
		return NULL;
	page = shm_space_alloc(shm, npages, shm_entry_index(shm, e));
	if (page == SHM_NONE) {
		shm_entry_put_free(shm, e);
		return NULL;
	}
	e->page = page;
	e->npages = npages;
	return e;
}

static int reserve_locked(struct shm *shm, enum shm_reserve mode, const void *key, size_t key_len,
	uint64_t hash, uint64_t len, uint64_t digest, struct pool_object *out)
{
	struct shm_entry *e = NULL;
	struct shm_cold *cold;
	int rc;

	shm_client_reap_sometimes(shm);
	rc = key_claim(shm, mode, key, key_len, hash, len, digest, &e);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		e = entry_make(shm, shm_pages_of(len));
		if (e == NULL && shm_client_reap(shm) > 0)
			e = entry_make(shm, shm_pages_of(len));
		if (e == NULL)
			return -ENOSPC;
		cold = &shm->cold[shm_entry_index(shm, e)];
		memcpy(cold->key, key, key_len);
		memset(cold->resume, 0, sizeof(cold->resume));
		memset(e->lease, 0, sizeof(e->lease));
		e->hash = hash;
		e->key_len = (uint16_t)key_len;
		e->flags = mode == SHM_RESERVE_KEEP ? SHM_ENTRY_KEEP : 0;
		e->len = len;
		e->digest = digest;
		e->owner = shm->slot;
		e->lru_prev = SHM_NONE;
		e->lru_next = SHM_NONE;
		shm_entry_set_state(shm, e, SHM_WRITING);
		shm_index_add(shm, e);
	}
	if (!object_fill(shm, e, out))
		return -ENOTRECOVERABLE;
	out->resumed = rc == 1;
	if (mode == SHM_RESERVE_KEEP) {
		out->resume = shm->cold[shm_entry_index(shm, e)].resume;
		out->resume_len = SHM_RESUME_LEN;
	}
	return 0;
}

int shm_reserve(struct shm *shm, enum shm_reserve mode, const void *key, size_t key_len,
	uint64_t len, uint64_t digest, struct pool_object *out)
{
	uint64_t hash;
	int rc;

	if (key_is_bad(key, key_len) || len == 0)
		return -EINVAL;
	if (len > STRAIT_OBJECT_MAX || shm_pages_of(len) > shm->geo.page_count)
		return -EFBIG;
	hash = shm_hash(shm, key, key_len);
	rc = object_lock(shm);
	if (rc != 0)
		return rc;
	rc = reserve_locked(shm, mode, key, key_len, hash, len, digest, out);
	shm_unlock(shm);
	return rc;
}

int shm_publish(struct shm *shm, uint64_t handle, uint64_t digest)
{
	struct shm_entry *e;
	int rc = object_lock(shm);

	if (rc != 0)
		return rc;
	e = writing_of(shm, handle);
	if (e == NULL) {
		rc = -ESTALE;
	} else {
		e->digest = digest;
		shm_entry_set_state(shm, e, SHM_VISIBLE);
		shm_lru_add(shm, e);
		shm->hdr->counters.puts++;
	}
	shm_unlock(shm);
	return rc;
}

void shm_abandon(struct shm *shm, uint64_t handle, bool keep)
{
	if (!object_lock_or_later(shm, keep ? SHM_LATER_ABANDON_KEEP : SHM_LATER_ABANDON, handle))
		return;
	abandon_locked(shm, handle, keep);
	shm_unlock(shm);
}

int shm_exist(struct shm *shm, const void *key, size_t key_len)
{
	struct shm_entry *e;
	uint64_t hash;
	int rc;

	if (key_is_bad(key, key_len))
		return -EINVAL;
	hash = shm_hash(shm, key, key_len);
	rc = object_lock(shm);
	if (rc != 0)
		return rc;
	e = shm_index_find(shm, key, key_len, hash);
	rc = e != NULL && e->state == SHM_VISIBLE ? 0 : -ENOENT;
	shm_unlock(shm);
	return rc;
}

int shm_exist_batch(struct shm *shm, const struct strait_key *keys, size_t n, uint8_t *found)
{
	uint64_t hash[BATCH];
	size_t count = 0;
	int rc;

	memset(found, 0, n);
	for (size_t base = 0; base < n; base += BATCH) {
		size_t m = n - base < BATCH ? n - base : BATCH;

		for (size_t i = 0; i < m; i++) {
			const struct strait_key *key = &keys[base + i];

			hash[i] = 0;
			if (key_is_bad(key->data, key->len))
				continue;
			hash[i] = shm_hash(shm, key->data, key->len);
			shm_index_prefetch_bucket(shm, hash[i]);
		}
		for (size_t i = 0; i < m; i++)
			shm_index_prefetch_entry(shm, hash[i]);
		for (size_t i = 0; i < m; i++)
			shm_index_prefetch_key(shm, hash[i]);
		rc = object_lock(shm);
		if (rc != 0) {
			memset(found, 0, n);
			return rc;
		}
		for (size_t i = 0; i < m; i++) {
			const struct strait_key *key = &keys[base + i];
			const struct shm_entry *e;

			if (key_is_bad(key->data, key->len))
				continue;
			e = shm_index_find(shm, key->data, key->len, hash[i]);
			found[base + i] = e != NULL && e->state == SHM_VISIBLE;
			count += found[base + i];
		}
		shm_unlock(shm);
	}
	return (int)count;
}

int shm_remove(struct shm *shm, const void *key, size_t key_len)
{
	struct shm_entry *e;
	uint64_t hash;
	int rc;

	if (key_is_bad(key, key_len))
		return -EINVAL;
	hash = shm_hash(shm, key, key_len);
	rc = object_lock(shm);
	if (rc != 0)
		return rc;
	e = shm_index_find(shm, key, key_len, hash);
	if (e != NULL && e->state == SHM_WRITING && !shm_client_is_alive(shm, e->owner)) {
		shm_client_reap(shm);
		e = shm_index_find(shm, key, key_len, hash);
	}
	if (e == NULL) {
		rc = -ENOENT;
	} else if (e->state == SHM_WRITING) {
		rc = -EBUSY;
	} else {
		shm->hdr->counters.removes++;
		if (shm_entry_is_leased(e)) {
			shm_entry_set_state(shm, e, SHM_DOOMED);
			shm_index_del(shm, e);
		} else {
			shm_entry_drop(shm, e);
		}
	}
	shm_unlock(shm);
	return rc;
}

int shm_stats(struct shm *shm, struct strait_pool_stats *out)
{
	const struct shm_header *hdr = shm->hdr;
	const struct shm_counters *c = &hdr->counters;
	uint64_t arena = (uint64_t)shm->geo.page_count * SHM_PAGE;
	int rc = object_lock(shm);

	if (rc != 0)
		return rc;
	*out = (struct strait_pool_stats){
		.file_bytes = shm->geo.file_size,
		.arena_bytes = arena,
		.used_bytes = arena - hdr->extents.free_pages * SHM_PAGE,
		.largest_free_bytes = (uint64_t)shm_extent_longest(&shm->extents) * SHM_PAGE,
		.max_objects = shm->geo.entry_count,
		.objects = hdr->count[SHM_VISIBLE],
		.writing = hdr->count[SHM_WRITING],
		.partials = hdr->count[SHM_PARTIAL],
		.doomed = hdr->count[SHM_DOOMED],
		.leased = hdr->leased,
		.boots = hdr->boots,
		.puts = c->puts,
		.gets = c->gets,
		.hits = c->hits,
		.misses = c->misses,
		.evictions = c->evictions,
		.evicted_bytes = c->evicted_bytes,
		.evicted_partials = c->evicted_partials,
		.removes = c->removes,
		.partials_kept = c->partials_kept,
		.partials_adopted = c->partials_adopted,
		.reclaimed_clients = c->reclaimed_clients,
		.reclaimed_leases = c->reclaimed_leases,
		.reclaimed_writes = c->reclaimed_writes,
		.recoveries = c->recoveries,
	};
	for (uint32_t slot = 0; slot < SHM_CLIENTS; slot++)
		out->clients += hdr->client[slot].used != 0;
	shm_unlock(shm);
	return 0;
}
