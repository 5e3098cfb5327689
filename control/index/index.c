/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <urcu.h>

#include <errno.h>
#include <stdlib.h>

enum {
	KEYS_PER_SHARD = 400000,
	RETIRED_BYTES_MAX = 32 << 20, /* waiting for a grace period */
};

#define LOAD_MAX    0.86
#define LOAD_TRIM   0.35
#define LOAD_CREATE 1.03 /* shards differ by chance */

void index_reader_register(void)
{
	rcu_register_thread();
}

void index_reader_unregister(void)
{
	rcu_unregister_thread();
}

static struct table *table_of(const struct shard *s)
{
	return atomic_load_explicit(&s->table, memory_order_relaxed);
}

struct index *index_create(uint64_t expected_keys)
{
	struct index *x = calloc(1, sizeof(*x));
	uint32_t buckets;

	if (x == NULL)
		return NULL;
	while (((uint64_t)KEYS_PER_SHARD << x->shard_bits) < expected_keys &&
		(1u << x->shard_bits) < INDEX_SHARDS_MAX)
		x->shard_bits++;
	x->stats.shards = 1u << x->shard_bits;
	x->shards = aligned_alloc(64, x->stats.shards * sizeof(*x->shards));
	if (x->shards == NULL)
		goto err;
	for (uint32_t i = 0; i < x->stats.shards; i++)
		x->shards[i] = (struct shard){ 0 };
	buckets = table_buckets_for(
		(uint64_t)((double)(expected_keys >> x->shard_bits) * LOAD_CREATE));
	for (uint32_t i = 0; i < x->stats.shards; i++) {
		struct table *t = table_create(buckets);

		if (t == NULL)
			goto err;
		atomic_init(&x->shards[i].table, t);
		x->stats.slots += (uint64_t)t->buckets * SLOTS;
		x->stats.bytes += t->bytes + sizeof(*t) + sizeof(struct shard);
	}
	return x;
err:
	index_destroy(x);
	errno = ENOMEM;
	return NULL;
}

static void retired_free(struct index *x)
{
	struct table *t;

	while ((t = x->retired) != NULL) {
		x->retired = t->next_retired;
		table_destroy(t);
	}
	x->retired_bytes = 0;
}

void index_destroy(struct index *x)
{
	if (x == NULL)
		return;
	for (uint32_t i = 0; x->shards != NULL && i < x->stats.shards; i++)
		table_destroy(table_of(&x->shards[i]));
	retired_free(x);
	free(x->shards);
	free(x);
}

void index_prefetch(const struct index *x, struct digest128 d)
{
	const struct table *t = table_of(&x->shards[shard_of(x, d)]);
	uint64_t tag = name_of(d).tag;

	__builtin_prefetch(&t->b[bucket_first(tag, t->buckets)], 1);
	__builtin_prefetch(&t->b[bucket_second(tag, t->buckets)], 1);
}

/* Bucket and slot of a name, for the writer. */
static bool find(const struct table *t, struct name n, uint32_t *bucket, int *slot, uint64_t *word)
{
	*bucket = bucket_first(n.tag, t->buckets);
	*slot = bucket_find(&t->b[*bucket], n, word);
	if (*slot >= 0)
		return true;
	if (bucket_count(&t->b[*bucket], n.tag) == 0)
		return false;
	*bucket = bucket_second(n.tag, t->buckets);
	*slot = bucket_find(&t->b[*bucket], n, word);
	return *slot >= 0;
}

uint64_t index_value(const struct index *x, struct digest128 d)
{
	uint32_t bucket;
	uint64_t word;
	int slot;

	if (!find(table_of(&x->shards[shard_of(x, d)]), name_of(d), &bucket, &slot, &word))
		return 0;
	return word & VALUE_MASK;
}

static int copy(const struct table *from, struct table *to, uint64_t *moves)
{
	_Atomic uint32_t unseen = 0; /* nobody reads the new array yet */

	for (uint32_t i = 0; i < from->buckets; i++) {
		for (int j = 0; j < SLOTS; j++) {
			uint64_t tag = load(&from->b[i].tag[j]) & TAG_MASK;

			if (tag != 0 &&
				table_insert(to, tag, load(&from->b[i].value[j]), &unseen, moves) <
					0)
				return -ENOSPC;
		}
	}
	return 0;
}

/* Copy a shard into an array of so many buckets, or more if that does not do. */
static int rebuild(struct index *x, struct shard *s, uint32_t buckets)
{
	struct table *from = table_of(s), *to = table_create(buckets);

	while (to != NULL && copy(from, to, &x->stats.moves) < 0) {
		table_destroy(to);
		if (buckets > UINT32_MAX - buckets / 8 - 1)
			return -ENOMEM;
		buckets += buckets / 8 + 1;
		to = table_create(buckets);
	}
	if (to == NULL)
		return -ENOMEM;
	atomic_store_explicit(&s->table, to, memory_order_release);
	x->stats.slots += ((uint64_t)to->buckets - from->buckets) * SLOTS;
	x->stats.bytes += to->bytes - from->bytes;
	x->stats.grown++;
	from->next_retired = x->retired;
	x->retired = from;
	x->retired_bytes += from->bytes;
	if (x->retired_bytes > RETIRED_BYTES_MAX) {
		synchronize_rcu();
		retired_free(x);
	}
	return 0;
}

static int insert(struct index *x, struct shard *s, struct name n, uint64_t value)
{
	struct table *t = table_of(s);
	uint64_t word = n.extra | value;
	int ret;

	if (s->keys == UINT32_MAX)
		return -ENOMEM;
	if ((double)s->keys >= LOAD_MAX * SLOTS * t->buckets) {
		/* Without memory it goes on as long as there are free slots. */
		ret = rebuild(x, s, table_buckets_for((uint64_t)s->keys + 1));
		t = table_of(s);
	}
	ret = table_insert(t, n.tag, word, &s->version, &x->stats.moves);
	if (ret == -ENOSPC) {
		ret = rebuild(x, s, t->buckets + t->buckets / 8 + 1);
		if (ret < 0)
			return ret;
		ret = table_insert(table_of(s), n.tag, word, &s->version, &x->stats.moves);
	}
	if (ret < 0)
		return -ENOMEM;
	s->keys++;
	x->stats.keys++;
	return 0;
}

int index_update(struct index *x, struct digest128 d, uint64_t keep, uint64_t set, uint64_t *old,
	uint64_t *now)
{
	struct shard *s = &x->shards[shard_of(x, d)];
	struct table *t = table_of(s);
	struct name n = name_of(d);
	uint64_t word = 0, before, after;
	uint32_t bucket;
	int slot = -1, ret = 0;

	if ((set & ~VALUE_MASK) != 0)
		return -EINVAL;
	before = find(t, n, &bucket, &slot, &word) ? word & VALUE_MASK : 0;
	after = (before & keep) | set;
	if ((after & INDEX_LIVE) == 0)
		after = 0;
	if (slot < 0 && after != 0) {
		ret = insert(x, s, n, after);
		if (ret < 0)
			after = 0;
	} else if (slot >= 0 && after == 0) {
		table_remove(t, bucket, slot, &s->version);
		s->keys--;
		x->stats.keys--;
	} else if (after != before) {
		store(&t->b[bucket].value[slot], n.extra | after);
	}
	if (old != NULL)
		*old = before;
	if (now != NULL)
		*now = after;
	return ret;
}

uint32_t index_shards(const struct index *x)
{
	return x->stats.shards;
}

uint32_t index_shard_of_bucket(const struct index *x, uint32_t bucket)
{
	return bucket >> (16 - x->shard_bits);
}

void index_scan(struct index *x, uint32_t shard,
	uint64_t (*fn)(const struct index_entry *e, void *ctx), void *ctx)
{
	struct shard *s = &x->shards[shard];
	struct table *t = table_of(s);

	for (uint32_t i = 0; i < t->buckets; i++) {
		for (int j = 0; j < SLOTS; j++) {
			struct index_entry e;
			uint64_t word, after;

			e.tag = load(&t->b[i].tag[j]) & TAG_MASK;
			if (e.tag == 0)
				continue;
			word = load(&t->b[i].value[j]);
			e.value = word & VALUE_MASK;
			e.bucket = (uint32_t)(word >> EXTRA_SHIFT);
			after = fn(&e, ctx) & VALUE_MASK;
			if ((after & INDEX_LIVE) == 0) {
				table_remove(t, i, j, &s->version);
				s->keys--;
				x->stats.keys--;
			} else if (after != e.value) {
				store(&t->b[i].value[j], (word & ~VALUE_MASK) | after);
			}
		}
	}
}

int index_trim(struct index *x)
{
	int ret = 0;

	for (uint32_t i = 0; i < x->stats.shards; i++) {
		struct shard *s = &x->shards[i];
		uint32_t want = table_buckets_for(s->keys);

		if ((double)s->keys >= LOAD_TRIM * SLOTS * table_of(s)->buckets ||
			want >= table_of(s)->buckets)
			continue;
		if (rebuild(x, s, want) < 0)
			ret = -ENOMEM;
	}
	return ret;
}

void index_stats_get(const struct index *x, struct index_stats *out)
{
	*out = x->stats;
}
