/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/store.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 500, SOURCES = 5 };

static const struct digest_key secret = { { 9 } };

struct fixture {
	struct log *log;
	struct index *indexes[2]; /* of two tenants */
	struct store *store;
	char text[KEYS][16];
	uint64_t seed;
};

/* Numbers of the sources of the random test; the second one is an engine. */
static const uint32_t number[SOURCES] = { 0, 8, 15, 700, STORE_OWNERS - 1 };

/* Two engines. */
static const bool fixed[STORE_OWNERS] = { [8] = true, [9] = true };

static bool is_warmup(void *ctx, const void *key, size_t len)
{
	(void)ctx;
	return len >= 6 && memcmp(key, "warmup", 6) == 0;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct log_config log = { .epoch = 1, .keep_ns = UINT64_MAX, .max_bytes = 64 << 20 };
	struct store_config cfg = { .keys = 1 << 17,
		.max_bytes = 1 << 20,
		.fixed = fixed,
		.ignore = is_warmup };

	cfg.log = f->log = log_create(&log);
	f->indexes[0] = index_create(0);
	f->indexes[1] = index_create(0);
	cfg.indexes = f->indexes;
	f->store = store_create(&cfg);
	assert_non_null(f->store);
	for (int i = 0; i < KEYS; i++)
		snprintf(f->text[i], sizeof(f->text[i]), "k@%d", i);
	f->seed = 4;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_destroy(f->store);
	index_destroy(f->indexes[0]);
	index_destroy(f->indexes[1]);
	log_destroy(f->log);
	free(f);
	return 0;
}

static struct store_key key(struct fixture *f, uint32_t n)
{
	return (struct store_key){ &secret, 0, f->text[n], strlen(f->text[n]), 0 };
}

static int stored(struct fixture *f, uint32_t source, uint32_t n)
{
	struct store_key k = key(f, n);

	return store_stored(f->store, source, &k, 0, 1);
}

static int removed(struct fixture *f, uint32_t source, uint32_t n)
{
	struct store_key k = key(f, n);

	return store_removed(f->store, source, &k, 0, 1);
}

static int listed(struct fixture *f, uint32_t n)
{
	struct store_key k = key(f, n);

	return store_listed(f->store, &k, 0, 1);
}

static bool is_there(struct fixture *f, uint32_t n)
{
	return index_value(f->indexes[0], digest_of_key(&secret, f->text[n], strlen(f->text[n]))) !=
		0;
}

static void object_goes_with_its_last_owner(void **state)
{
	struct fixture *f = *state;
	struct store_key behind;

	assert_int_equal(stored(f, 0, 1), 1);
	assert_int_equal(stored(f, 0, 1), 0);
	assert_int_equal(stored(f, 1, 1), 0);
	assert_int_equal(removed(f, 0, 1), 0);
	assert_true(is_there(f, 1));
	assert_true(store_key_of(f->store, digest_of_key(&secret, "k@1", 3), &behind));
	assert_memory_equal(behind.data, "k@1", 3);
	assert_int_equal(removed(f, 2, 1), 0);
	assert_int_equal(removed(f, 1, 1), 1);
	assert_false(is_there(f, 1));
	assert_int_equal(removed(f, 1, 1), 0);
	assert_int_equal(log_next(f->log), 3); /* two events, no more */
	assert_int_equal(store_sums(f->store)->total.count, 0);
}

static void object_may_have_any_number_of_owners(void **state)
{
	struct fixture *f = *state;
	struct store_stats st;

	for (uint32_t o = 0; o < STORE_OWNERS; o++)
		assert_int_equal(stored(f, o, 1), o == 0);
	for (uint32_t o = 0; o < STORE_OWNERS; o += 2)
		assert_int_equal(removed(f, o, 1), 0);
	assert_int_equal(store_held(f->store, 4), 0);
	assert_int_equal(store_held(f->store, 5), 1);
	for (uint32_t o = 1; o < STORE_OWNERS; o += 2) {
		assert_true(is_there(f, 1));
		assert_int_equal(removed(f, o, 1), o == STORE_OWNERS - 1);
	}
	assert_int_equal(stored(f, STORE_OWNERS, 1), -EINVAL);
	store_stats_get(f->store, &st);
	assert_int_equal(st.objects + st.bytes, 0);
	assert_int_equal(log_next(f->log), 3);
}

/* op and flags of the n-th event of the log. */
static void check_event(struct fixture *f, uint64_t n, uint8_t op, uint8_t flags)
{
	struct log_record r;

	assert_int_equal(log_read(f->log, n, &r, 1), 1);
	assert_int_equal(r.op, op);
	assert_int_equal(r.flags, flags);
}

static void what_only_engines_have_is_told_apart(void **state)
{
	struct digest128 d = digest_of_key(&secret, "k@1", 3);
	struct fixture *f = *state;
	struct store_key sized = key(f, 1), k;

	sized.size = 5000;
	assert_int_equal(stored(f, 8, 1), 1);
	assert_int_equal(stored(f, 9, 1), 0);
	check_event(f, 1, LOG_STORED, LOG_FLAG_FIXED);
	assert_true(store_has(f->store, d) && !store_is_readable(f->store, d));
	/* a pool has it, too */
	assert_int_equal(store_stored(f->store, 0, &sized, LOG_FLAG_OURS, 1), 0);
	check_event(f, 2, LOG_REMOVED, LOG_FLAG_FIXED);
	check_event(f, 3, LOG_STORED, LOG_FLAG_OURS);
	assert_true(store_is_readable(f->store, d) && store_key_of(f->store, d, &k));
	assert_int_equal(k.size, 5000);
	/* and no more */
	assert_int_equal(removed(f, 0, 1), 0);
	check_event(f, 4, LOG_REMOVED, LOG_FLAG_FIXED);
	check_event(f, 5, LOG_STORED, LOG_FLAG_OURS | LOG_FLAG_FIXED);
	assert_true(is_there(f, 1) && !store_is_readable(f->store, d));
	assert_int_equal(removed(f, 9, 1), 0);
	assert_int_equal(removed(f, 8, 1), 1);
	check_event(f, 6, LOG_REMOVED, LOG_FLAG_FIXED);
	assert_int_equal(log_next(f->log), 7);
	assert_int_equal(store_sums(f->store)->total.count, 0);
}

static void listing_adds_takes_away_and_leaves_what_events_named(void **state)
{
	struct fixture *f = *state;

	for (uint32_t n = 0; n < 5; n++)
		(void)stored(f, 0, n);
	(void)stored(f, 1, 3);
	assert_int_equal(store_listing_begin(f->store, 0, 0), 0);
	assert_int_equal(store_listing_begin(f->store, 1, 0), -EBUSY);
	(void)stored(f, 0, 10); /* stored after the listing was made */
	(void)removed(f, 0, 1); /* removed after it */
	(void)removed(f, 1, 2); /* another source's affair */
	assert_int_equal(listed(f, 0), 0);
	assert_int_equal(listed(f, 1), 0);
	assert_int_equal(listed(f, 20), 1);
	assert_int_equal(store_listing_end(f->store, true, 1), 3); /* 2, 3, 4 */
	assert_true(is_there(f, 0) && is_there(f, 10) && is_there(f, 20));
	assert_true(is_there(f, 3)); /* the other source has it still */
	assert_false(is_there(f, 1) || is_there(f, 2) || is_there(f, 4));
}

static void listing_of_what_is_known_changes_nothing(void **state)
{
	struct fixture *f = *state;

	for (uint32_t n = 0; n < 3; n++)
		(void)stored(f, 0, n);
	(void)stored(f, 1, 7);
	for (int missing = 3; missing >= 0; missing--) {
		assert_int_equal(store_listing_begin(f->store, 0, 0), 0);
		for (uint32_t n = 0; n < 3; n++)
			for (int twice = 0; twice < 2; twice++)
				if ((int)n != missing)
					(void)listed(f, n);
		assert_int_equal(store_listing_end(f->store, true, 1), missing < 3);
		for (uint32_t n = 0; n < 3; n++)
			assert_int_equal(is_there(f, n), (int)n != missing);
	}
	assert_true(is_there(f, 7));
}

static void listing_of_one_tenant_leaves_the_others_alone(void **state)
{
	static const struct digest_key other = { { 5 } };
	struct fixture *f = *state;
	struct store_key k = { &other, 1, "k@1", 3, 0 };

	(void)stored(f, 0, 1);
	assert_int_equal(store_stored(f->store, 0, &k, 0, 1), 1);
	assert_int_equal(store_listing_begin(f->store, 0, 0), 0);
	assert_int_equal(store_listing_end(f->store, true, 1), 1);
	assert_false(is_there(f, 1));
	assert_true(index_value(f->indexes[1], digest_of_key(&other, "k@1", 3)) != 0);
	assert_int_equal(index_value(f->indexes[0], digest_of_key(&other, "k@1", 3)), 0);
}

static void listing_of_a_source_that_began_anew_tells_no_evictions(void **state)
{
	struct fixture *f = *state;

	for (uint32_t n = 0; n < 4; n++)
		(void)stored(f, 0, n);
	assert_int_equal(store_listing_begin(f->store, 0, 0), 0);
	for (uint32_t n = 0; n < 3; n++)
		(void)listed(f, n);
	assert_int_equal(store_listing_end(f->store, true, 1), 1);
	check_event(f, 5, LOG_REMOVED, LOG_FLAG_EVICTED);
	assert_int_equal(store_listing_begin(f->store, 0, 0), 0);
	(void)listed(f, 1);
	assert_int_equal(store_listing_end(f->store, true, 1), 2);
	check_event(f, 6, LOG_REMOVED, 0);
	check_event(f, 7, LOG_REMOVED, 0);
	store_clear(f->store, 0, 1);
	check_event(f, 8, LOG_REMOVED, 0);
}

/* A tenant with little beside one with much: what it lacks was evicted, too. */
static void evictions_are_told_tenant_by_tenant(void **state)
{
	static const struct digest_key other = { { 5 } };
	struct fixture *f = *state;
	struct store_key k[3] = { { &other, 1, "k@1", 3, 0 }, { &other, 1, "k@2", 3, 0 },
		{ &other, 1, "k@3", 3, 0 } };

	for (uint32_t n = 0; n < 10; n++)
		(void)stored(f, 0, n);
	for (int i = 0; i < 3; i++)
		assert_int_equal(store_stored(f->store, 0, &k[i], 0, 1), 1);
	assert_int_equal(store_listing_begin(f->store, 0, 1), 0);
	for (int i = 0; i < 2; i++)
		(void)store_listed(f->store, &k[i], 0, 1);
	assert_int_equal(store_listing_end(f->store, true, 1), 1);
	check_event(f, 14, LOG_REMOVED, LOG_FLAG_EVICTED);
	assert_int_equal(store_held(f->store, 0), 12);
}

static void failed_listing_takes_nothing_away(void **state)
{
	struct fixture *f = *state;

	(void)stored(f, 0, 1);
	assert_int_equal(store_listing_begin(f->store, 0, 0), 0);
	(void)listed(f, 2);
	assert_int_equal(store_listing_end(f->store, false, 1), 0);
	assert_true(is_there(f, 1) && is_there(f, 2));
	assert_int_equal(store_listing_end(f->store, true, 1), -EINVAL);
}

static void warmup_keys_are_left_out_and_memory_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_key warm = { &secret, 0, "warmup-1", 8, 0 };
	struct store_stats st;
	char text[16];
	int ret = 0;

	assert_int_equal(store_stored(f->store, 0, &warm, 0, 1), 0);
	for (int i = 0; i < 100000 && ret >= 0; i++) {
		struct store_key k = { &secret, 0, text,
			(size_t)snprintf(text, sizeof(text), "x%d", i), 0 };

		ret = store_stored(f->store, 0, &k, 0, 1);
	}
	assert_int_equal(ret, -ENOSPC);
	store_stats_get(f->store, &st);
	assert_int_equal(st.ignored, 1);
	assert_true(st.bytes <= 1 << 20 && st.objects > 10000);
	assert_int_equal(store_held(f->store, 0), st.objects);
	store_clear(f->store, 0, 1);
	store_stats_get(f->store, &st);
	assert_int_equal(st.objects + st.bytes + store_held(f->store, 0), 0);
	assert_int_equal(store_sums(f->store)->total.count, 0);
}

static uint64_t draw(struct fixture *f, uint64_t n)
{
	uint64_t x = f->seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % n;
}

static void count(void *ctx, const struct log_record *r)
{
	struct sum *sum = ctx;

	sum_add(sum, r->digest);
}

/* Index, log, sums and listing by buckets are all the same set. */
static void check(struct fixture *f, bool has[SOURCES][KEYS])
{
	struct sum whole = { 0 }, replayed = { 0 };
	struct log_record r;

	for (uint32_t n = 0; n < KEYS; n++)
		assert_int_equal(is_there(f, n),
			has[0][n] || has[1][n] || has[2][n] || has[3][n] || has[4][n]);
	for (uint32_t b = 0; b < DIGEST_BUCKETS; b++)
		store_list(f->store, b, count, &whole);
	assert_true(sum_equal(&whole, &store_sums(f->store)->total));
	for (uint64_t seq = 1; log_read(f->log, seq, &r, 1) == 1; seq++) {
		if (r.op == LOG_STORED)
			sum_add(&replayed, r.digest);
		else
			sum_del(&replayed, r.digest);
	}
	assert_true(sum_equal(&whole, &replayed));
}

static void views_agree_after_any_events_and_listings(void **state)
{
	struct fixture *f = *state;
	static bool has[SOURCES][KEYS], listing[KEYS], touched[KEYS];
	bool going = false;
	uint32_t lister = 0;

	memset(has, 0, sizeof(has));
	for (int step = 0; step < 60000; step++) {
		uint32_t s = (uint32_t)draw(f, SOURCES), n = (uint32_t)draw(f, KEYS);
		uint64_t what = draw(f, 400);

		if (what == 0 && !going) {
			lister = s;
			going = true;
			assert_int_equal(store_listing_begin(f->store, number[s], 0), 0);
			memset(touched, 0, sizeof(touched));
			for (uint32_t k = 0; k < KEYS; k++) /* some were lost or missed */
				listing[k] = draw(f, 10) == 0 ? draw(f, 2) : has[s][k];
		} else if (what == 1 && going) {
			bool ok = draw(f, 3) > 0;

			for (uint32_t k = 0; k < KEYS; k++)
				if (listing[k])
					(void)listed(f, k);
			assert_true(store_listing_end(f->store, ok, 1) >= 0);
			for (uint32_t k = 0; k < KEYS; k++)
				if (!touched[k] && (ok || listing[k]))
					has[lister][k] = listing[k];
			going = false;
		} else if (what == 2 && draw(f, 10) == 0 && !going) {
			store_clear(f->store, number[s], 1);
			memset(has[s], 0, sizeof(has[s]));
		} else {
			has[s][n] = draw(f, 2);
			(void)(has[s][n] ? stored(f, number[s], n) : removed(f, number[s], n));
			touched[n] |= going && s == lister;
		}
		if (step % 5000 == 0)
			check(f, has);
	}
	check(f, has);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(object_goes_with_its_last_owner),
		TEST(object_may_have_any_number_of_owners),
		TEST(what_only_engines_have_is_told_apart),
		TEST(listing_adds_takes_away_and_leaves_what_events_named),
		TEST(listing_of_what_is_known_changes_nothing),
		TEST(listing_of_one_tenant_leaves_the_others_alone),
		TEST(listing_of_a_source_that_began_anew_tells_no_evictions),
		TEST(evictions_are_told_tenant_by_tenant),
		TEST(failed_listing_takes_nothing_away),
		TEST(warmup_keys_are_left_out_and_memory_is_bounded),
		TEST(views_agree_after_any_events_and_listings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
