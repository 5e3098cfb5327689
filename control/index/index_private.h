/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/arena.h"
#include "control/index/index.h"

#include <stdatomic.h>

/*
 * Memory order. Every store that readers may see is a release, every load of a reader an acquire
 * (plain moves on x86). Before a slot is emptied its shard's version is bumped; so a reader that
 * saw the emptied slot, or whatever came into it later, also sees a version other than the one it
 * began with. A moving key is copied first. A reader whose version did not change saw no key leave.
 *
 * A shard that grew bumps its version, too, after its new array was put in the old one's place and
 * before the old one becomes anything else's memory. So whoever read in an array that was given
 * back finds another version, and no reader has to be waited for, of whatever process it is.
 */

enum {
	SLOTS = 4,
	COUNT_MASK = 15,  /* of tag[c]: keys of class c that stand in their second bucket */
	COUNT_STUCK = 15, /* too many to count: never lowered */
	EXTRA_SHIFT = INDEX_VALUE_BITS,
};

#define TAG_MASK   (~UINT64_C(15))
#define VALUE_MASK ((UINT64_C(1) << INDEX_VALUE_BITS) - 1)

struct bucket {
	_Atomic uint64_t tag[SLOTS];   /* 60 bits; 0: free. The low bits count */
	_Atomic uint64_t value[SLOTS]; /* digest_bucket(), 48 bits of value */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");

struct table {
	struct bucket *b;
	uint32_t buckets;
};

/* In memory that readers share; only version and table are for them. */
struct shard {
	_Atomic uint64_t table; /* where it begins, in pages: 32 bits; its buckets: 32 bits */
	_Atomic uint32_t version;
	uint32_t keys;
} __attribute__((aligned(64)));

/* At the begin of a shared arena, then a page of its own for what index_user() gives out. */
struct index_head {
	uint32_t magic, layout;
	uint32_t shard_bits, user_bytes;
	uint64_t shards_at, user_at;
};

enum { INDEX_MAGIC = 0x78646e49, INDEX_LAYOUT = 1 };

struct index {
	struct index_view view; /* of what follows */
	struct shard *shards;
	struct arena arena;
	void *user;
	struct index_stats stats;
};

static inline struct table table_at(const struct index_view *v, uint64_t word)
{
	return (struct table){ (struct bucket *)(uintptr_t)(v->base +
				       (word >> 32) * (uint64_t)ARENA_PAGE),
		(uint32_t)word };
}

/* The writer's. */
static inline struct table table_of(const struct index *x, const struct shard *s)
{
	return table_at(&x->view, atomic_load_explicit(&s->table, memory_order_relaxed));
}

static inline uint64_t table_bytes(uint32_t buckets)
{
	return arena_round((uint64_t)buckets * sizeof(struct bucket));
}

/* What is kept of a digest. */
struct name {
	uint64_t tag, extra; /* extra in its place in a value word */
};

static inline uint32_t shard_of(const struct index_view *v, struct digest128 d)
{
	return v->shard_bits == 0 ? 0 : (uint32_t)(d.hi >> (64 - v->shard_bits));
}

static inline struct name name_of(struct digest128 d)
{
	struct name n = { d.lo & TAG_MASK, (uint64_t)digest_bucket(d) << EXTRA_SHIFT };

	if (n.tag == 0)
		n.tag = UINT64_C(1) << 63;
	return n;
}

static inline uint32_t scale(uint32_t hash, uint32_t buckets)
{
	return (uint32_t)((uint64_t)hash * buckets >> 32);
}

/* Both follow from the tag alone, so that a slot can be moved without its digest. */
static inline uint32_t bucket_first(uint64_t tag, uint32_t buckets)
{
	return scale((uint32_t)(tag >> 32), buckets);
}

static inline uint32_t bucket_second(uint64_t tag, uint32_t buckets)
{
	uint32_t first = bucket_first(tag, buckets);
	uint32_t b = scale((uint32_t)(tag * UINT64_C(0x9e3779b97f4a7c15) >> 32), buckets);

	if (b == first)
		b = b + 1 == buckets ? 0 : b + 1;
	return b;
}

static inline uint64_t load(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_acquire);
}

static inline void store(_Atomic uint64_t *p, uint64_t v)
{
	atomic_store_explicit(p, v, memory_order_release);
}

/*
 * Keys are of four classes, each counted on its own: of those that are not there one in sixteen
 * needs a look into its second bucket, with one counter for all it would be one in five.
 */
static inline unsigned int class_of(uint64_t tag)
{
	return (unsigned int)(tag >> 4) & (SLOTS - 1);
}

/* How many keys of the tag's class stand in their second bucket. */
static inline uint32_t bucket_count(const struct bucket *b, uint64_t tag)
{
	return (uint32_t)(load(&b->tag[class_of(tag)]) & COUNT_MASK);
}

/* A bit for each slot with the name: one or none. Without branches on what is found. */
static inline uint32_t bucket_match(const struct bucket *b, struct name n)
{
	uint32_t hits = 0;

	for (unsigned int i = 0; i < SLOTS; i++) {
		bool tag = (load(&b->tag[i]) & TAG_MASK) == n.tag;

		hits |= (uint32_t)(tag & (((load(&b->value[i]) ^ n.extra) >> EXTRA_SHIFT) == 0))
			<< i;
	}
	return hits;
}

/* Slot of a name or -1; *word is its value word. */
static inline int bucket_find(const struct bucket *b, struct name n, uint64_t *word)
{
	uint32_t hits = bucket_match(b, n);

	if (hits == 0)
		return -1;
	*word = load(&b->value[__builtin_ctz(hits)]);
	return __builtin_ctz(hits);
}

/* lookup.c */
/** Values of n <= INDEX_BATCH digests. wide: the processor has AVX2. */
void lookup_batch(const struct index_view *v, const struct digest128 *d, uint32_t n,
	uint64_t *values, bool wide);

/* table.c */
/** Buckets for so many keys after growing, and so few that they need no growth soon. */
uint32_t table_buckets_for(uint64_t keys);
/**
 * Put a name that is not there. Moves bump version before a key leaves a slot. -ENOSPC: no short
 * chain of moves frees a slot.
 */
int table_insert(const struct table *t, uint64_t tag, uint64_t word, _Atomic uint32_t *version,
	uint64_t *moves);
void table_remove(const struct table *t, uint32_t bucket, int slot, _Atomic uint32_t *version);
void version_bump(_Atomic uint32_t *version);
