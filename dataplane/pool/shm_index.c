/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_index.h"

#include "dataplane/pool/shm_lru.h"

#include <string.h>

static inline uint64_t rotl(uint64_t x, unsigned int b)
{
	return (x << b) | (x >> (64 - b));
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] = rotl(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] = rotl(v[2], 32);
}

/* SipHash-1-3; never leaves the host, so byte order is the host's. */
uint64_t shm_hash(const struct shm *shm, const void *key, size_t key_len)
{
	const uint64_t *k = shm->hdr->hash_key;
	const uint8_t *p = key;
	uint64_t v[4] = { k[0] ^ 0x736f6d6570736575ull, k[1] ^ 0x646f72616e646f6dull,
		k[0] ^ 0x6c7967656e657261ull, k[1] ^ 0x7465646279746573ull };
	uint64_t m;
	size_t left;

	for (left = key_len; left >= 8; left -= 8, p += 8) {
		memcpy(&m, p, 8);
		v[3] ^= m;
		sip_round(v);
		v[0] ^= m;
	}
	m = 0;
	memcpy(&m, p, left);
	m |= (uint64_t)key_len << 56;
	v[3] ^= m;
	sip_round(v);
	v[0] ^= m;
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint32_t *bucket_of(const struct shm *shm, uint64_t hash)
{
	return &shm->buckets[hash & (shm->geo.bucket_count - 1)];
}

void shm_index_prefetch_bucket(const struct shm *shm, uint64_t hash)
{
	__builtin_prefetch(bucket_of(shm, hash));
}

void shm_index_prefetch_entry(const struct shm *shm, uint64_t hash)
{
	uint32_t idx = __atomic_load_n(bucket_of(shm, hash), __ATOMIC_RELAXED);

	if (idx < shm->geo.entry_count)
		__builtin_prefetch(&shm->entries[idx]);
}

void shm_index_prefetch_key(const struct shm *shm, uint64_t hash)
{
	uint32_t idx = __atomic_load_n(bucket_of(shm, hash), __ATOMIC_RELAXED);

	if (idx < shm->geo.entry_count &&
		__atomic_load_n(&shm->entries[idx].hash, __ATOMIC_RELAXED) == hash)
		__builtin_prefetch(&shm->cold[idx]);
}

struct shm_entry *shm_index_find(struct shm *shm, const void *key, size_t key_len, uint64_t hash)
{
	struct shm_entry *e = shm_entry_at(shm, *bucket_of(shm, hash));

	/* The bound ends a chain that a damaged file has closed to a ring. */
	for (uint32_t i = 0; e != NULL && i < shm->geo.entry_count; i++) {
		if (e->hash == hash && e->key_len == key_len &&
			memcmp(shm->cold[shm_entry_index(shm, e)].key, key, key_len) == 0)
			return e;
		e = shm_entry_at(shm, e->hash_next);
	}
	return NULL;
}

void shm_index_add(struct shm *shm, struct shm_entry *e)
{
	uint32_t *bucket = bucket_of(shm, e->hash);

	e->hash_next = *bucket;
	*bucket = shm_entry_index(shm, e);
}

void shm_index_del(struct shm *shm, struct shm_entry *e)
{
	uint32_t *link = bucket_of(shm, e->hash);
	uint32_t idx = shm_entry_index(shm, e);
	struct shm_entry *at;

	for (uint32_t i = 0; i < shm->geo.entry_count; i++) {
		if (*link == idx) {
			*link = e->hash_next;
			return;
		}
		at = shm_entry_at(shm, *link);
		if (at == NULL)
			return;
		link = &at->hash_next;
	}
}

struct shm_entry *shm_entry_alloc(struct shm *shm)
{
	struct shm_header *hdr = shm->hdr;
	struct shm_entry *e = shm_entry_at(shm, hdr->free_entry);

	if (e != NULL) {
		hdr->free_entry = e->hash_next;
	} else {
		if (hdr->entry_top >= shm->geo.entry_count)
			return NULL;
		e = &shm->entries[hdr->entry_top];
		memset(e, 0, sizeof(*e));
		__atomic_store_n(&hdr->entry_top, hdr->entry_top + 1, __ATOMIC_RELEASE);
		hdr->count[SHM_FREE]++;
	}
	e->gen++;
	return e;
}

void shm_entry_put_free(struct shm *shm, struct shm_entry *e)
{
	e->hash_next = shm->hdr->free_entry;
	shm->hdr->free_entry = shm_entry_index(shm, e);
}

void shm_entry_drop(struct shm *shm, struct shm_entry *e)
{
	uint32_t was = e->state;

	shm_lru_del(shm, e);
	shm_entry_set_state(shm, e, SHM_FREE);
	if (was != SHM_DOOMED)
		shm_index_del(shm, e);
	shm_extent_free(&shm->extents, e->page);
	shm_entry_put_free(shm, e);
}
