/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	KEYS_PER_SHARD = 400000,
	KEY_BYTES = 24,
};

/* Addresses for so many times what is expected, and then some. */
#define LIMIT_TIMES 16
#define LIMIT_LEAST (UINT64_C(64) << 30)

#define LOAD_MAX    0.86
#define LOAD_TRIM   0.35
#define LOAD_CREATE 1.03 /* shards differ by chance */

/* An array of so many buckets: its word, or 0. */
static uint64_t table_take(struct index *x, uint32_t buckets)
{
	uint64_t at;

	if (arena_take(&x->arena, table_bytes(buckets), &at) < 0 || at / ARENA_PAGE > UINT32_MAX)
		return 0;
	return at / ARENA_PAGE << 32 | buckets;
}

static void table_give(struct index *x, uint64_t word)
{
	arena_give(&x->arena, (word >> 32) * ARENA_PAGE, table_bytes((uint32_t)word));
}

/* The head, the caller's part and the shards, before all arrays. */
static int lay_out(struct index *x, size_t user_bytes)
{
	struct index_head *h;
	uint64_t head, user, shards;
	int ret = arena_take(&x->arena, sizeof(*h), &head);

	if (ret == 0)
		ret = arena_take(&x->arena, user_bytes + 1, &user);
	if (ret == 0)
		ret = arena_take(&x->arena, x->stats.shards * sizeof(struct shard), &shards);
	if (ret < 0)
		return ret;
	h = (struct index_head *)(x->arena.base + head);
	*h = (struct index_head){ .magic = INDEX_MAGIC,
		.layout = INDEX_LAYOUT,
		.shard_bits = x->view.shard_bits,
		.user_bytes = (uint32_t)user_bytes,
		.shards_at = shards,
		.user_at = user };
	x->shards = (struct shard *)(x->arena.base + shards);
	x->user = x->arena.fd >= 0 ? x->arena.base + user : NULL;
	x->view.base = x->arena.base;
	x->view.shards = x->shards;
	x->view.limit = x->arena.limit;
	x->stats.bytes = x->arena.top;
	return 0;
}

static struct index *create(uint64_t expected_keys, uint64_t most_keys, bool shared,
	size_t user_bytes)
{
	struct index *x = calloc(1, sizeof(*x));
	uint32_t buckets;
	int ret;

	if (x == NULL)
		return NULL;
	x->arena.fd = -1;
	while (((uint64_t)KEYS_PER_SHARD << x->view.shard_bits) < most_keys &&
		(1u << x->view.shard_bits) < INDEX_SHARDS_MAX)
		x->view.shard_bits++;
	x->stats.shards = 1u << x->view.shard_bits;
	ret = arena_init(&x->arena, LIMIT_LEAST + most_keys * KEY_BYTES * LIMIT_TIMES, shared);
	if (ret == 0)
		ret = lay_out(x, user_bytes);
	if (ret < 0)
		goto err;
	buckets = table_buckets_for(
		(uint64_t)((double)(expected_keys >> x->view.shard_bits) * LOAD_CREATE));
	for (uint32_t i = 0; i < x->stats.shards; i++) {
		uint64_t word = table_take(x, buckets);

		ret = -ENOMEM;
		if (word == 0)
			goto err;
		atomic_init(&x->shards[i].table, word);
		x->stats.slots += (uint64_t)buckets * SLOTS;
		x->stats.bytes += table_bytes(buckets);
	}
	return x;
err:
	index_destroy(x);
	errno = -ret;
	return NULL;
}

struct index *index_create(uint64_t expected_keys)
{
	return create(expected_keys, expected_keys, false, 0);
}

struct index *index_create_shared(uint64_t expected_keys, uint64_t most_keys, size_t user_bytes)
{
	return create(expected_keys, most_keys > expected_keys ? most_keys : expected_keys, true,
		user_bytes);
}

void index_destroy(struct index *x)
{
	if (x == NULL)
		return;
	arena_fini(&x->arena);
	free(x);
}

void *index_user(const struct index *x)
{
	return x->user;
}

const struct index_view *index_view(const struct index *x)
{
	return &x->view;
}

int index_share(const struct index *x, uint64_t *limit)
{
	char path[32];
	int fd;

	if (x->arena.fd < 0)
		return -EOPNOTSUPP;
	/* Another description than ours, one that cannot even make the file longer. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", x->arena.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*limit = x->arena.limit;
	return fd < 0 ? -errno : fd;
}

void index_prefetch(const struct index *x, struct digest128 d)
{
	struct table t = table_of(x, &x->shards[shard_of(&x->view, d)]);
	uint64_t tag = name_of(d).tag;

	__builtin_prefetch(&t.b[bucket_first(tag, t.buckets)], 1);
	__builtin_prefetch(&t.b[bucket_second(tag, t.buckets)], 1);
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
	struct table t = table_of(x, &x->shards[shard_of(&x->view, d)]);
	uint32_t bucket;
	uint64_t word;
	int slot;

	if (!find(&t, name_of(d), &bucket, &slot, &word))
		return 0;
	return word & VALUE_MASK;
}

static int copy(const struct table *from, const struct table *to, uint64_t *moves)
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
	uint64_t old = atomic_load_explicit(&s->table, memory_order_relaxed), word;
	struct table from = table_at(&x->view, old), to;

	for (;;) {
		word = table_take(x, buckets);
		if (word == 0)
			return -ENOMEM;
		to = table_at(&x->view, word);
		if (copy(&from, &to, &x->stats.moves) == 0)
			break;
		table_give(x, word);
		if (buckets > UINT32_MAX - buckets / 8 - 1)
			return -ENOMEM;
		buckets += buckets / 8 + 1;
	}
	atomic_store_explicit(&s->table, word, memory_order_release);
	version_bump(&s->version);
	/* Nothing is written over the old array before all see that. */
	atomic_thread_fence(memory_order_seq_cst);
	x->stats.slots += ((uint64_t)to.buckets - from.buckets) * SLOTS;
	x->stats.bytes += table_bytes(to.buckets) - table_bytes(from.buckets);
	x->stats.grown++;
	table_give(x, old);
	return 0;
}

static int insert(struct index *x, struct shard *s, struct name n, uint64_t value)
{
	struct table t = table_of(x, s);
	uint64_t word = n.extra | value;
	int ret;

	if (s->keys == UINT32_MAX)
		return -ENOMEM;
	if ((double)s->keys >= LOAD_MAX * SLOTS * t.buckets) {
		/* Without memory it goes on as long as there are free slots. */
		(void)rebuild(x, s, table_buckets_for((uint64_t)s->keys + 1));
		t = table_of(x, s);
	}
	ret = table_insert(&t, n.tag, word, &s->version, &x->stats.moves);
	if (ret == -ENOSPC) {
		ret = rebuild(x, s, t.buckets + t.buckets / 8 + 1);
		if (ret < 0)
			return ret;
		t = table_of(x, s);
		ret = table_insert(&t, n.tag, word, &s->version, &x->stats.moves);
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
	struct shard *s = &x->shards[shard_of(&x->view, d)];
	struct table t = table_of(x, s);
	struct name n = name_of(d);
	uint64_t word = 0, before, after;
	uint32_t bucket;
	int slot = -1, ret = 0;

	if ((set & ~VALUE_MASK) != 0)
		return -EINVAL;
	before = find(&t, n, &bucket, &slot, &word) ? word & VALUE_MASK : 0;
	after = (before & keep) | set;
	if ((after & INDEX_LIVE) == 0)
		after = 0;
	if (slot < 0 && after != 0) {
		ret = insert(x, s, n, after);
		if (ret < 0)
			after = 0;
	} else if (slot >= 0 && after == 0) {
		table_remove(&t, bucket, slot, &s->version);
		s->keys--;
		x->stats.keys--;
	} else if (after != before) {
		store(&t.b[bucket].value[slot], n.extra | after);
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
	return bucket >> (16 - x->view.shard_bits);
}

void index_scan(struct index *x, uint32_t shard,
	uint64_t (*fn)(const struct index_entry *e, void *ctx), void *ctx)
{
	struct shard *s = &x->shards[shard];
	struct table t = table_of(x, s);

	for (uint32_t i = 0; i < t.buckets; i++) {
		for (int j = 0; j < SLOTS; j++) {
			struct index_entry e;
			uint64_t word, after;

			e.tag = load(&t.b[i].tag[j]) & TAG_MASK;
			if (e.tag == 0)
				continue;
			word = load(&t.b[i].value[j]);
			e.value = word & VALUE_MASK;
			e.bucket = (uint32_t)(word >> EXTRA_SHIFT);
			after = fn(&e, ctx) & VALUE_MASK;
			if ((after & INDEX_LIVE) == 0) {
				table_remove(&t, i, j, &s->version);
				s->keys--;
				x->stats.keys--;
			} else if (after != e.value) {
				store(&t.b[i].value[j], (word & ~VALUE_MASK) | after);
			}
		}
	}
}

int index_trim(struct index *x)
{
	int ret = 0;

	for (uint32_t i = 0; i < x->stats.shards; i++) {
		struct shard *s = &x->shards[i];
		uint32_t want = table_buckets_for(s->keys), has = table_of(x, s).buckets;

		if ((double)s->keys >= LOAD_TRIM * SLOTS * has || want >= has)
			continue;
		if (rebuild(x, s, want) < 0)
			ret = -ENOMEM;
	}
	return ret;
}

void index_stats_get(const struct index *x, struct index_stats *out)
{
	*out = x->stats;
	out->reserved_bytes = x->arena.top;
}
