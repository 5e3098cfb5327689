/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <errno.h>

enum {
	HUGE_FROM_BYTES = 8 << 20, /* smaller arrays would round up by too much */
	BUCKETS_MIN = 16,
	PATHS = 256, /* buckets looked at for a free slot */
};

#define LOAD_AFTER 0.715

uint32_t table_buckets_for(uint64_t keys)
{
	uint64_t buckets = (uint64_t)((double)keys / (SLOTS * LOAD_AFTER)) + 1;
	uint64_t bytes = buckets * sizeof(struct bucket);

	/* Arrays of whole huge pages; the last one is used, too. */
	if (bytes >= HUGE_FROM_BYTES)
		buckets =
			(bytes + ARENA_HUGE / 2) / ARENA_HUGE * ARENA_HUGE / sizeof(struct bucket);
	if (buckets < BUCKETS_MIN)
		buckets = BUCKETS_MIN;
	return buckets > UINT32_MAX ? UINT32_MAX : (uint32_t)buckets;
}

static inline uint64_t tag_at(const struct bucket *b, int slot)
{
	return load(&b->tag[slot]) & TAG_MASK;
}

static void tag_set(struct bucket *b, int slot, uint64_t tag)
{
	store(&b->tag[slot], tag | (load(&b->tag[slot]) & COUNT_MASK));
}

static void count_add(struct bucket *b, uint64_t tag, int by)
{
	_Atomic uint64_t *at = &b->tag[class_of(tag)];
	uint64_t word = load(at), count = word & COUNT_MASK;

	if (count != COUNT_STUCK)
		store(at, word + (uint64_t)(int64_t)by);
}

static int free_slot(const struct bucket *b)
{
	for (int i = 0; i < SLOTS; i++)
		if (tag_at(b, i) == 0)
			return i;
	return -1;
}

void version_bump(_Atomic uint32_t *version)
{
	atomic_store_explicit(version, atomic_load_explicit(version, memory_order_relaxed) + 1,
		memory_order_release);
}

static void place(const struct table *t, uint32_t bucket, int slot, uint64_t tag, uint64_t word)
{
	uint32_t first = bucket_first(tag, t->buckets);

	if (bucket != first)
		count_add(&t->b[first], tag, 1);
	store(&t->b[bucket].value[slot], word);
	tag_set(&t->b[bucket], slot, tag);
}

void table_remove(const struct table *t, uint32_t bucket, int slot, _Atomic uint32_t *version)
{
	uint64_t tag = tag_at(&t->b[bucket], slot);
	uint32_t first = bucket_first(tag, t->buckets);

	version_bump(version);
	tag_set(&t->b[bucket], slot, 0);
	if (bucket != first)
		count_add(&t->b[first], tag, -1);
}

/* A bucket of the search: the key in `slot` of `parent`'s bucket has its other place here. */
struct path {
	uint32_t bucket;
	int16_t parent;
	int8_t slot;
};

static uint32_t other_bucket(uint64_t tag, uint32_t bucket, uint32_t buckets)
{
	uint32_t first = bucket_first(tag, buckets);

	return bucket == first ? bucket_second(tag, buckets) : first;
}

/* Move the keys of a chain from its end, so that every key is always in one of its places. */
static int shift(const struct table *t, struct path *paths, int at, int slot,
	_Atomic uint32_t *version, uint64_t *moves)
{
	while (paths[at].parent >= 0) {
		const struct path *to = &paths[at], *from = &paths[to->parent];
		struct bucket *src = &t->b[from->bucket];
		uint64_t tag = tag_at(src, to->slot);

		/* A chain may come by a bucket twice: then what it meant to move is elsewhere. */
		if (tag == 0 || other_bucket(tag, from->bucket, t->buckets) != to->bucket ||
			tag_at(&t->b[to->bucket], slot) != 0)
			return -ENOSPC;
		place(t, to->bucket, slot, tag, load(&src->value[to->slot]));
		table_remove(t, from->bucket, to->slot, version);
		(*moves)++;
		slot = to->slot;
		at = to->parent;
	}
	return slot;
}

int table_insert(const struct table *t, uint64_t tag, uint64_t word, _Atomic uint32_t *version,
	uint64_t *moves)
{
	struct path paths[PATHS];
	int n = 2, slot;

	paths[0] = (struct path){ bucket_first(tag, t->buckets), -1, 0 };
	paths[1] = (struct path){ bucket_second(tag, t->buckets), -1, 0 };
	for (int at = 0; at < n; at++) {
		slot = free_slot(&t->b[paths[at].bucket]);
		if (slot >= 0) {
			int root = at;

			while (paths[root].parent >= 0)
				root = paths[root].parent;
			slot = shift(t, paths, at, slot, version, moves);
			if (slot < 0)
				return slot;
			place(t, paths[root].bucket, slot, tag, word);
			return 0;
		}
		for (int8_t i = 0; i < SLOTS && n < PATHS; i++)
			paths[n++] = (struct path){
				other_bucket(tag_at(&t->b[paths[at].bucket], i), paths[at].bucket,
					t->buckets),
				(int16_t)at,
				i,
			};
	}
	return -ENOSPC;
}
