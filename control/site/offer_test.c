/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/offer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { NOW = 1700000000, HOUR = 3600 };

static const struct digest_key secret = { { 1 } };

struct fixture {
	struct log *log;
	struct index *index;
	struct store *store;
	struct recall *recall;
};

static int setup(void **state)
{
	static struct fixture f;
	struct log_config log = { .epoch = 1, .keep_ns = UINT64_MAX / 2, .max_bytes = 1 << 20 };
	struct store_config store = { .keys = 100, .max_bytes = 1 << 20 };

	store.log = f.log = log_create(&log);
	f.index = index_create(0);
	store.indexes = &f.index;
	f.store = store_create(&store);
	f.recall = recall_create(NULL, HOUR, 7 * 24 * HOUR);
	*state = &f;
	return f.log == NULL || f.index == NULL || f.store == NULL || f.recall == NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	recall_destroy(f->recall);
	store_destroy(f->store);
	index_destroy(f->index);
	log_destroy(f->log);
	return 0;
}

static uint8_t judge(struct fixture *f, const char *key, bool asked, uint64_t now_s)
{
	struct digest128 d = digest_of_key(&secret, key, 1);
	uint8_t verdict = 255;

	(void)offer_judge(f->store, f->recall, &d, 1, asked, now_s, &verdict);
	return verdict;
}

static void what_is_here_is_not_brought(void **state)
{
	struct fixture *f = *state;
	struct store_key k = { &secret, 0, "a", 1, 0 };

	assert_int_equal(store_stored(f->store, 0, &k, 0, 1), 1);
	assert_int_equal(judge(f, "a", true, NOW), OFFER_HERE);
	assert_int_equal(judge(f, "b", false, NOW), OFFER_BRING);
}

static void what_went_lately_comes_back_only_when_asked_for(void **state)
{
	struct fixture *f = *state;

	recall_evicted(f->recall, digest_of_key(&secret, "a", 1), NOW);
	assert_int_equal(judge(f, "a", false, NOW + 1), OFFER_EVICTED);
	assert_int_equal(judge(f, "a", false, NOW + HOUR - 1), OFFER_EVICTED);
	assert_int_equal(judge(f, "a", true, NOW + 1), OFFER_BRING);
	/* from then on it is wanted again */
	assert_int_equal(judge(f, "a", false, NOW + 2), OFFER_BRING);
}

static void what_is_taken_counts_as_brought(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(judge(f, "a", false, NOW), OFFER_BRING);
	assert_true(recall_was_brought(f->recall, digest_of_key(&secret, "a", 1), NOW + 1));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_here_is_not_brought),
		TEST(what_went_lately_comes_back_only_when_asked_for),
		TEST(what_is_taken_counts_as_brought),
	};

	return cmocka_run_group_tests_name("offer", tests, NULL, NULL);
}
