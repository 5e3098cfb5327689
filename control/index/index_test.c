/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_avx2(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#else
	return false;
#endif
}

/* One way of looking up, whichever the processor would choose. */
static void lookup(const struct index *x, const struct digest128 *d, uint32_t n, uint64_t *got,
	bool wide)
{
	lookup_batch(index_view(x), d, n, got, wide && has_avx2());
}

/* splitmix64: one number a state, so that the n-th key is known without keeping it. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static struct digest128 key(uint64_t n)
{
	return (struct digest128){ mix(2 * n), mix(2 * n + 1) };
}

static void check(struct index *x, const uint64_t *model, uint32_t keys)
{
	struct digest128 d[100];
	uint64_t got[100];

	for (uint32_t at = 0; at < keys; at += 100) {
		for (uint32_t i = 0; i < 100; i++)
			d[i] = key(at + i);
		index_lookup(x, d, 100, got);
		for (uint32_t i = 0; i < 100; i++) {
			assert_int_equal(got[i], model[at + i]);
			assert_int_equal(index_value(x, d[i]), model[at + i]);
		}
		for (int wide = 0; wide < 2; wide++) {
			memset(got, 0xaa, sizeof(got));
			lookup(x, d, INDEX_BATCH, got, wide);
			assert_memory_equal(got, model + at, INDEX_BATCH * sizeof(*got));
			lookup(x, d, 3, got, wide);
			assert_memory_equal(got, model + at, 3 * sizeof(*got));
		}
	}
}

static void index_agrees_with_an_array_over_random_updates(void **state)
{
	enum { KEYS = 50000, STEPS = 300000 };
	uint64_t *model = calloc(KEYS, sizeof(*model)), seed = 1, old, now;
	struct index *x = index_create(0);
	struct index_stats st;
	uint64_t live = 0;

	(void)state;
	assert_non_null(x);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t r = seed = mix(seed);
		uint32_t k = (uint32_t)(r % KEYS);
		uint64_t keep = mix(r + 1) | mix(r + 2), set = mix(r + 3) & mix(r + 4);
		uint64_t want;

		/* As the table fills and empties: ever more sets, then ever more removals. */
		if (r >> 40 & 1 || i > STEPS / 2)
			set &= mix(r + 5) & mix(r + 6) & mix(r + 7);
		set &= (UINT64_C(1) << INDEX_VALUE_BITS) - 1;
		want = (model[k] & keep) | set;
		if ((want & INDEX_LIVE) == 0)
			want = 0;
		assert_int_equal(index_update(x, key(k), keep, set, &old, &now), 0);
		assert_int_equal(old, model[k]);
		assert_int_equal(now, want);
		model[k] = want;
		if (i % 50000 == 49999)
			check(x, model, KEYS);
	}
	for (uint32_t k = 0; k < KEYS; k++)
		live += model[k] != 0;
	index_stats_get(x, &st);
	assert_int_equal(st.keys, live);
	index_destroy(x);
	free(model);
}

static void growth_keeps_every_key_and_its_bytes_bounded(void **state)
{
	enum { KEYS = 600000 };
	struct index *x = index_create(0);
	struct index_stats st;

	(void)state;
	for (uint32_t k = 0; k < KEYS; k++) {
		assert_int_equal(index_update(x, key(k), 0, k % 65535 + 1, NULL, NULL), 0);
		if (k == 20000 || k == 100000 || k % 200000 == 199999) {
			index_stats_get(x, &st);
			assert_int_equal(st.keys, k + 1);
			assert_true((double)st.bytes / (double)st.keys < 24.0);
		}
	}
	for (uint32_t k = 0; k < KEYS; k++)
		assert_int_equal(index_value(x, key(k)), k % 65535 + 1);
	assert_true(st.grown > 10);
	index_destroy(x);
}

static void fill(struct index *x, uint32_t keys)
{
	for (uint32_t k = 0; k < keys; k++)
		assert_int_equal(index_update(x, key(k), 0, 1, NULL, NULL), 0);
}

static void sized_index_needs_no_growth(void **state)
{
	enum { KEYS = 1000000 };
	struct index *x = index_create(KEYS);
	struct index_stats st;

	(void)state;
	fill(x, KEYS);
	index_stats_get(x, &st);
	assert_int_equal(st.grown, 0);
	assert_int_equal(st.shards, 4);
	assert_true((double)st.bytes / (double)st.keys < 24.0);
	index_destroy(x);
}

static uint64_t swap_site_3(const struct index_entry *e, void *ctx)
{
	uint64_t v = e->value & ~(INDEX_PRESENT(3) | INDEX_LOADING(3));

	++*(uint64_t *)ctx;
	return e->value & INDEX_LOADING(3) ? v | INDEX_PRESENT(3) : v;
}

static void scan_swaps_a_loaded_generation_in(void **state)
{
	enum { KEYS = 30000 };
	struct index *x = index_create(KEYS);
	struct index_stats st;
	uint64_t seen = 0;

	(void)state;
	for (uint32_t k = 0; k < KEYS; k++) {
		uint64_t v = k % 2 ? INDEX_PRESENT(3) : INDEX_PRESENT(5);

		if (k % 3 == 0)
			v |= INDEX_LOADING(3);
		assert_int_equal(index_update(x, key(k), 0, v, NULL, NULL), 0);
	}
	for (uint32_t i = 0; i < index_shards(x); i++)
		index_scan(x, i, swap_site_3, &seen);
	assert_int_equal(seen, KEYS);
	for (uint32_t k = 0; k < KEYS; k++)
		assert_int_equal(index_value(x, key(k)),
			(k % 3 == 0 ? INDEX_PRESENT(3) : 0) | (k % 2 ? 0 : INDEX_PRESENT(5)));
	index_stats_get(x, &st);
	assert_int_equal(st.keys, KEYS - KEYS / 3);
	index_destroy(x);
}

static void trim_gives_memory_of_an_emptied_index_back(void **state)
{
	enum { KEYS = 300000 };
	struct index *x = index_create(0);
	struct index_stats full, trimmed;
	uint32_t version;

	(void)state;
	fill(x, KEYS);
	for (uint32_t k = 0; k < KEYS; k++)
		if (k % 10)
			assert_int_equal(index_update(x, key(k), 0, 0, NULL, NULL), 0);
	index_stats_get(x, &full);
	assert_int_equal(full.shards, 1);
	version = x->shards[0].version;
	assert_int_equal(index_trim(x), 0);
	index_stats_get(x, &trimmed);
	assert_true(trimmed.bytes < full.bytes / 5);
	/* who is still in the old array learns that it is not one any more */
	assert_int_equal(x->shards[0].version, version + 1);
	for (uint32_t k = 0; k < KEYS; k++)
		assert_int_equal(index_value(x, key(k)), k % 10 == 0);
	index_destroy(x);
}

static void every_key_that_leaves_a_slot_changes_its_shards_version(void **state)
{
	enum { KEYS = 500000, GONE = 100000 };
	struct index *x = index_create(KEYS);
	struct index_stats st;
	uint64_t versions = 0;

	(void)state;
	fill(x, KEYS);
	for (uint32_t k = 0; k < GONE; k++)
		assert_int_equal(index_update(x, key(k), 0, 0, NULL, NULL), 0);
	index_stats_get(x, &st);
	for (uint32_t i = 0; i < st.shards; i++)
		versions += x->shards[i].version;
	assert_int_equal(st.grown, 0);
	assert_true(st.moves > 1000);
	assert_int_equal(versions, st.moves + GONE);
	index_destroy(x);
}

static void digests_that_differ_only_beside_the_tag_are_told_apart(void **state)
{
	struct index *x = index_create(0);
	struct digest128 a = { UINT64_C(1) << 48, 0x7770 }, b = { UINT64_C(2) << 48, 0x7770 };
	struct digest128 zero = { 1, 0xf };

	(void)state;
	assert_int_equal(index_update(x, a, 0, 1, NULL, NULL), 0);
	assert_int_equal(index_value(x, b), 0);
	assert_int_equal(index_update(x, b, 0, 2, NULL, NULL), 0);
	assert_int_equal(index_value(x, a), 1);
	assert_int_equal(index_value(x, b), 2);
	assert_int_equal(index_update(x, zero, 0, 3, NULL, NULL), 0);
	assert_int_equal(index_value(x, zero), 3);
	assert_int_equal(index_update(x, a, 0, UINT64_C(1) << 48, NULL, NULL), -EINVAL);
	index_destroy(x);
}

static void keys_of_one_bucket_pair_fail_without_damage(void **state)
{
	struct index *x = index_create(0);
	uint32_t in = 0;

	(void)state;
	/* All tags alike: no growth separates them, so memory is what ends it. */
	for (uint64_t i = 0; i < 8; i++)
		in += index_update(x, (struct digest128){ i << 48, 0x5550 }, 0, i + 1, NULL,
			      NULL) == 0;
	assert_int_equal(in, 8);
	for (uint64_t i = 0; i < 8; i++) {
		struct digest128 d = { i << 48, 0x5550 };
		uint64_t got;

		assert_int_equal(index_value(x, d), i + 1);
		for (int wide = 0; wide < 2; wide++) {
			lookup(x, &d, 1, &got, wide);
			assert_int_equal(got, i + 1);
		}
	}
	index_destroy(x);
}

/* Buckets of keys from `first` on whose counters ask for a look into the second one. */
static double second_looks(const struct index *x, uint32_t first, uint32_t n)
{
	uint32_t looks = 0;

	for (uint32_t k = first; k < first + n; k++) {
		uint64_t tag = name_of(key(k)).tag;
		struct table t = table_of(x, &x->shards[shard_of(&x->view, key(k))]);

		looks += bucket_count(&t.b[bucket_first(tag, t.buckets)], tag) > 0;
	}
	return (double)looks / n;
}

static void few_of_what_is_not_there_need_a_second_line(void **state)
{
	enum { KEYS = 400000 };
	struct index *x = index_create(KEYS);
	struct index_stats st;

	(void)state;
	fill(x, KEYS);
	index_stats_get(x, &st);
	assert_true((double)KEYS / (double)st.slots > 0.65);
	assert_true(second_looks(x, KEYS, KEYS) < 0.1);
	/* and none when the keys went again */
	for (uint32_t k = 0; k < KEYS; k++)
		assert_int_equal(index_update(x, key(k), 0, 0, NULL, NULL), 0);
	assert_true(second_looks(x, KEYS, KEYS) == 0);
	index_destroy(x);
}

/* ---- readers beside the writer ---- */

/*
 * Keys below FIXED never change, those from it to 2 * FIXED are never there, and the others come
 * and go with a value that names them. Meanwhile shards grow and keys move.
 */
enum { FIXED = 20000, CHANGING = 200000 };

struct shared {
	struct index *x;
	_Atomic bool stop;
	_Atomic uint64_t wrong, unsure, lookups;
};

static void *reader(void *arg)
{
	struct shared *s = arg;
	uint64_t seed = (uint64_t)(uintptr_t)&seed;

	while (!atomic_load(&s->stop)) {
		struct digest128 d[64];
		uint64_t n[64], got[64];

		for (int i = 0; i < 64; i++) {
			seed = mix(seed);
			n[i] = seed % (2 * FIXED + CHANGING);
			if (seed >> 60 < 8)
				n[i] = seed % FIXED;
			d[i] = key(n[i]);
		}
		lookup(s->x, d, 64, got, seed & 1);
		for (int i = 0; i < 64; i++) {
			uint64_t want = n[i] % 60000 + 1;

			if (got[i] == INDEX_UNSURE)
				atomic_fetch_add(&s->unsure, 1);
			else if (n[i] < FIXED              ? got[i] != want
					: n[i] < 2 * FIXED ? got[i] != 0
							   : got[i] != 0 && got[i] != want)
				atomic_fetch_add(&s->wrong, 1);
		}
		atomic_fetch_add(&s->lookups, 64);
	}
	return NULL;
}

static void readers_never_see_a_moving_key_gone_or_another_keys_value(void **state)
{
	struct shared s = { .x = index_create(0) };
	struct index_stats st;
	pthread_t threads[3];
	uint64_t seed = 7;

	(void)state;
	for (uint64_t k = 0; k < FIXED; k++)
		assert_int_equal(index_update(s.x, key(k), 0, k % 60000 + 1, NULL, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, &s), 0);
	for (int round = 0; round < 3; round++) {
		for (uint64_t k = 2 * FIXED; k < 2 * FIXED + CHANGING; k++)
			assert_int_equal(index_update(s.x, key(k), 0, k % 60000 + 1, NULL, NULL),
				0);
		for (uint32_t i = 0; i < CHANGING / 2; i++) {
			uint64_t k = 2 * FIXED + (seed = mix(seed)) % CHANGING;

			assert_int_equal(index_update(s.x, key(k), 0, i % 4 ? 0 : k % 60000 + 1,
						 NULL, NULL),
				0);
		}
		for (uint64_t k = 2 * FIXED; k < 2 * FIXED + CHANGING; k++)
			assert_int_equal(index_update(s.x, key(k), 0, 0, NULL, NULL), 0);
		assert_int_equal(index_trim(s.x), 0);
	}
	atomic_store(&s.stop, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	index_stats_get(s.x, &st);
	assert_true(st.moves > 300);
	assert_true(st.grown > 15);
	assert_int_equal(s.wrong, 0);
	assert_true(s.lookups > 10000);
	assert_true(s.unsure < s.lookups / 1000 + 10);
	index_destroy(s.x);
}

/* ---- one key that moves back and forth ---- */

enum { MOVED_VALUE = 5 };

static void put(struct table *t, uint32_t bucket, struct name n)
{
	store(&t->b[bucket].value[0], n.extra | MOVED_VALUE);
	store(&t->b[bucket].tag[0], n.tag | (load(&t->b[bucket].tag[0]) & COUNT_MASK));
}

/* From its first bucket to its second and back, as table_insert() moves keys. */
static void *mover(void *arg)
{
	struct shared *s = arg;
	struct shard *shard = &s->x->shards[0];
	struct table t = table_of(s->x, shard);
	struct name n = name_of(key(1));
	uint32_t first = bucket_first(n.tag, t.buckets);
	uint32_t second = bucket_second(n.tag, t.buckets);
	_Atomic uint64_t *count = &t.b[first].tag[class_of(n.tag)];

	while (!atomic_load(&s->stop)) {
		store(count, load(count) + 1);
		put(&t, second, n);
		table_remove(&t, first, 0, &shard->version);
		put(&t, first, n);
		table_remove(&t, second, 0, &shard->version);
	}
	return NULL;
}

static void key_that_moves_all_the_time_is_never_missed(void **state)
{
	enum { ROUNDS = 30000 };
	struct shared s = { .x = index_create(0) };
	uint64_t got[INDEX_BATCH], found = 0;
	struct digest128 d[INDEX_BATCH];
	pthread_t thread;

	(void)state;
	for (uint32_t i = 0; i < INDEX_BATCH; i++)
		d[i] = key(1);
	assert_int_equal(index_update(s.x, d[0], 0, MOVED_VALUE, NULL, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, mover, &s), 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		lookup(s.x, d, INDEX_BATCH, got, round & 1);
		for (uint32_t i = 0; i < INDEX_BATCH; i++) {
			found += got[i] == MOVED_VALUE;
			s.wrong += got[i] != MOVED_VALUE && got[i] != INDEX_UNSURE;
		}
	}
	atomic_store(&s.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(s.wrong, 0);
	assert_true(found > ROUNDS);
	index_destroy(s.x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(index_agrees_with_an_array_over_random_updates),
		cmocka_unit_test(growth_keeps_every_key_and_its_bytes_bounded),
		cmocka_unit_test(sized_index_needs_no_growth),
		cmocka_unit_test(scan_swaps_a_loaded_generation_in),
		cmocka_unit_test(trim_gives_memory_of_an_emptied_index_back),
		cmocka_unit_test(every_key_that_leaves_a_slot_changes_its_shards_version),
		cmocka_unit_test(digests_that_differ_only_beside_the_tag_are_told_apart),
		cmocka_unit_test(keys_of_one_bucket_pair_fail_without_damage),
		cmocka_unit_test(few_of_what_is_not_there_need_a_second_line),
		cmocka_unit_test(readers_never_see_a_moving_key_gone_or_another_keys_value),
		cmocka_unit_test(key_that_moves_all_the_time_is_never_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
