/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/pool_source.h"

#include "control/base/clock.h"
#include "control/base/log.h"

#include <strait/strait.h>

#include <event2/event.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 64, WAIT_S = 20 };

struct fixture {
	struct event_base *base;
	struct pool_source *source;
	struct strait_pool *pool;
	char dir[64], path[96], away[96];
	bool held[KEYS], refuse;
	unsigned int cleared, evicted, count;
};

static int on_stored(const void *key, size_t len, uint64_t size, bool ours,
	struct digest128 *digest, void *ctx)
{
	struct fixture *f = ctx;
	char text[16] = "";
	int n;

	assert_true(len < sizeof(text));
	memcpy(text, key, len);
	n = atoi(text + 1);
	assert_true(n >= 0 && n < KEYS);
	assert_true(size > 0);
	assert_false(ours);
	if (f->refuse)
		return -ENOSPC;
	assert_false(f->held[n]);
	f->held[n] = true;
	f->count++;
	*digest = (struct digest128){ (uint64_t)n, 1 };
	return 0;
}

static void on_removed(struct digest128 digest, bool evicted, void *ctx)
{
	struct fixture *f = ctx;

	assert_true(f->held[digest.hi]);
	f->held[digest.hi] = false;
	f->count--;
	f->evicted += evicted;
}

static void on_clear(void *ctx)
{
	struct fixture *f = ctx;

	memset(f->held, 0, sizeof(f->held));
	f->cleared++;
	f->count = 0;
}

static void on_walk(void *ctx)
{
	(void)ctx;
}

static const struct pool_source_handler handler = { on_stored, on_removed, on_clear, on_walk,
	on_walk };

static struct strait_pool *pool_open(struct fixture *f)
{
	return strait_pool_open(f->path, STRAIT_POOL_CREATE, 2 << 20);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	log_set_level(LOG_LEVEL_ERROR);
	strcpy(f->dir, "/tmp/strait-poolsrc-XXXXXX");
	if (mkdtemp(f->dir) == NULL)
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/pool", f->dir);
	snprintf(f->away, sizeof(f->away), "%s/away", f->dir);
	f->base = event_base_new();
	f->pool = pool_open(f);
	f->source = pool_source_create(f->base, f->path, &handler, f);
	*state = f;
	return f->pool == NULL || f->source == NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	pool_source_destroy(f->source);
	strait_pool_close(f->pool);
	event_base_free(f->base);
	unlink(f->path);
	unlink(f->away);
	rmdir(f->dir);
	free(f);
	return 0;
}

static void put(struct fixture *f, int n)
{
	char key[16];
	int len = snprintf(key, sizeof(key), "k%d", n);

	assert_int_equal(strait_put(f->pool, key, (size_t)len, key, (size_t)len), 0);
}

/* Until so many are held and the source says it is (not) complete. */
static void wait_for(struct fixture *f, unsigned int count, bool complete)
{
	uint64_t end_ns = clock_now_ns() + WAIT_S * UINT64_C(1000000000);

	while (f->count != count || pool_source_is_complete(f->source) != complete) {
		assert_true(clock_now_ns() < end_ns);
		event_base_loop(f->base, EVLOOP_ONCE);
	}
}

static void a_pool_is_walked_and_then_followed(void **state)
{
	struct fixture *f = *state;

	put(f, 1);
	put(f, 2);
	wait_for(f, 2, true);
	put(f, 3);
	wait_for(f, 3, true);
	assert_int_equal(strait_remove(f->pool, "k1", 2), 0);
	wait_for(f, 2, true);
	assert_false(f->held[1]);
	assert_int_equal(f->evicted, 0);
}

static void a_pool_that_goes_makes_it_incomplete_and_takes_nothing(void **state)
{
	struct pool_source_stats st;
	struct fixture *f = *state;

	put(f, 1);
	wait_for(f, 1, true);
	assert_int_equal(rename(f->path, f->away), 0);
	wait_for(f, 1, false);
	pool_source_stats_get(f->source, &st);
	assert_string_equal(st.state, "down");
	assert_true(st.trouble[0] != '\0');
	put(f, 2); /* whoever has it open goes on */
	assert_int_equal(rename(f->away, f->path), 0);
	wait_for(f, 2, true);
	assert_int_equal(f->cleared, 0);
}

static void another_pool_in_its_place_begins_from_nothing(void **state)
{
	struct fixture *f = *state;

	put(f, 1);
	wait_for(f, 1, true);
	strait_pool_close(f->pool);
	assert_int_equal(unlink(f->path), 0);
	f->pool = pool_open(f);
	assert_non_null(f->pool);
	put(f, 2);
	while (f->cleared == 0)
		event_base_loop(f->base, EVLOOP_ONCE);
	wait_for(f, 1, true);
	assert_true(f->held[2]);
}

static void what_was_refused_makes_it_incomplete(void **state)
{
	struct fixture *f = *state;

	f->refuse = true;
	put(f, 1);
	wait_for(f, 0, false);
	for (int i = 0; i < 20; i++)
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_false(pool_source_is_complete(f->source));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_pool_is_walked_and_then_followed),
		TEST(a_pool_that_goes_makes_it_incomplete_and_takes_nothing),
		TEST(another_pool_in_its_place_begins_from_nothing),
		TEST(what_was_refused_makes_it_incomplete),
	};

	return cmocka_run_group_tests_name("pool_source", tests, NULL, NULL);
}
