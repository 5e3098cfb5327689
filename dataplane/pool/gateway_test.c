/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/gateway.h"

#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_testing.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000000)

enum { LEN = 5000, STAGE_BYTES = 3 * LEN };

struct world {
	struct testing_dir dir;
	struct pool *inner, *pool;
	struct strait_pool *gateway; /* the other process's view */
	uint8_t frame[GATEWAY_FRAME_MAX];
	size_t len;
	uint8_t data[LEN];
};

static struct pool *open_inner(const struct world *w)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = 4 << 20 };

	return shm_pool_open(w->dir.file, &options, NULL, 0);
}

static void start(struct world *w)
{
	w->inner = open_inner(w);
	assert_non_null(w->inner);
	w->pool = gateway_pool_create(w->inner, shm_pool_file(w->inner), "default", STAGE_BYTES);
	assert_non_null(w->pool);
	gateway_pool_connected(w->pool, true);
}

static void stop(struct world *w)
{
	pool_destroy(w->pool);
	pool_destroy(w->inner);
}

static int setup(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	if (!testing_dir_create(&w.dir))
		return -1;
	testing_fill(w.data, 7, 0, LEN);
	start(&w);
	w.gateway = strait_pool_open(w.dir.file, 0, 0);
	*state = &w;
	return w.gateway != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	struct world *w = *state;

	stop(w);
	strait_pool_close(w->gateway);
	testing_dir_remove(&w->dir);
	return 0;
}

/* The next frame for the gateway; its type, 0: none. */
static uint8_t next(struct world *w)
{
	w->len = gateway_pool_output(w->pool, w->frame);
	return w->len > 0 ? w->frame[0] : 0;
}

static bool is_about(const struct world *w, const char *key)
{
	return w->len == GATEWAY_HEADER_BYTES + strlen(key) &&
		memcmp(w->frame + GATEWAY_HEADER_BYTES, key, strlen(key)) == 0;
}

/* The answer to the last frame. */
static int answer(struct world *w, uint8_t type, uint8_t status)
{
	w->frame[0] = type;
	w->frame[1] = status;
	return gateway_pool_input(w->pool, w->frame, w->len, S);
}

static void stage(struct world *w, const char *key)
{
	assert_int_equal(strait_put(w->gateway, key, strlen(key), w->data, LEN), 0);
	assert_int_equal(answer(w, GATEWAY_STAGED, GATEWAY_OK), 0);
}

static int lease(struct world *w, const char *key, struct pool_object *out)
{
	return pool_lease(w->pool, key, strlen(key), out);
}

static void arrive(struct world *w, const char *key)
{
	struct pool_object space;

	assert_int_equal(pool_reserve(w->pool, key, strlen(key), LEN, 0, &space), 0);
	memcpy(space.data, w->data, LEN);
	assert_int_equal(pool_publish(w->pool, space.handle, strait_digest(w->data, LEN)), 0);
}

static void absent_object_is_asked_for_once_and_leased_when_it_came(void **state)
{
	struct world *w = *state;
	struct gateway_totals totals;
	struct pool_object a, b;

	assert_int_equal(lease(w, "k", &a), -EINPROGRESS);
	assert_int_equal(lease(w, "k", &a), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_STAGE);
	assert_true(is_about(w, "k"));
	assert_int_equal(lease(w, "k", &a), -EINPROGRESS);
	stage(w, "k");
	assert_int_equal(next(w), 0);
	assert_int_equal(lease(w, "k", &a), 0);
	assert_int_equal(lease(w, "k", &b), 0);
	assert_true(a.staged > 0);
	assert_int_equal(a.len, LEN);
	assert_memory_equal(a.data, w->data, LEN);
	assert_true(a.digest == strait_digest(w->data, LEN));
	/* It goes with the last lease, so that the next order reads the store again. */
	pool_release(w->pool, a.handle);
	assert_int_equal(strait_exist(w->gateway, "k", 1), 0);
	pool_release(w->pool, b.handle);
	assert_int_equal(strait_exist(w->gateway, "k", 1), -ENOENT);
	assert_int_equal(lease(w, "k", &a), -EINPROGRESS);
	gateway_pool_totals(w->pool, &totals);
	assert_int_equal(totals.staged, 1);
	assert_int_equal(totals.held_bytes, 0);
}

static void what_the_store_has_not_is_told_and_asked_again_by_the_next(void **state)
{
	static const struct {
		uint8_t status;
		int error;
	} cases[] = { { GATEWAY_NOT_FOUND, -ENOENT }, { GATEWAY_GONE, -ESTALE },
		{ GATEWAY_NO_ROOM, -ENOSPC }, { GATEWAY_TOO_LARGE, -EFBIG }, { 99, -EIO } };
	struct world *w = *state;
	struct pool_object o;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(lease(w, "k", &o), -EINPROGRESS);
		assert_int_equal(next(w), GATEWAY_STAGE);
		assert_int_equal(answer(w, GATEWAY_STAGED, cases[i].status), 0);
		assert_int_equal(lease(w, "k", &o), cases[i].error);
	}
}

static void staged_but_evicted_before_the_lease_is_asked_for_a_few_times(void **state)
{
	struct world *w = *state;
	struct pool_object o;

	assert_int_equal(lease(w, "k", &o), -EINPROGRESS);
	for (int i = 0; i < GATEWAY_RETRIES; i++) {
		assert_int_equal(next(w), GATEWAY_STAGE);
		assert_int_equal(answer(w, GATEWAY_STAGED, GATEWAY_OK),
			0); /* but it is not there */
	}
	assert_int_equal(next(w), 0);
	assert_int_equal(lease(w, "k", &o), -ESTALE);
}

static void only_so_much_is_staged_at_once(void **state)
{
	struct world *w = *state;
	struct pool_object o[4];
	char key[16];

	for (int i = 0; i < GATEWAY_OUTSTANDING; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(lease(w, key, &o[0]), -EINPROGRESS);
	}
	assert_int_equal(lease(w, "more", &o[0]), -EAGAIN);
	for (int i = 0; i < 3; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(next(w), GATEWAY_STAGE);
		stage(w, key);
		assert_int_equal(lease(w, key, &o[i]), 0);
	}
	assert_int_equal(lease(w, "more", &o[3]), -ENOSPC);
	pool_release(w->pool, o[1].handle);
	assert_int_equal(lease(w, "more", &o[3]), -EINPROGRESS);
}

static void arrived_object_stays_until_the_store_has_it(void **state)
{
	struct world *w = *state;
	struct gateway_totals totals;
	struct pool_object o;
	uint64_t digest;

	arrive(w, "k");
	gateway_pool_totals(w->pool, &totals);
	assert_int_equal(totals.waiting_bytes, LEN);
	assert_int_equal(next(w), GATEWAY_ARRIVED);
	assert_true(is_about(w, "k"));
	memcpy(&digest, w->frame + 16, 8);
	assert_true(le64toh(digest) == strait_digest(w->data, LEN));
	assert_int_equal(pool_reserve(w->pool, "k", 1, LEN, 0, &o), -EEXIST);
	/* Nothing may evict it: a pool that is full of such objects takes no more. */
	for (int i = 0; i < 2000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "fill%d", i);
		(void)strait_put(w->gateway, key, strlen(key), w->data, LEN);
	}
	assert_int_equal(strait_exist(w->gateway, "k", 1), 0);
	/* Meanwhile it can be shipped on. */
	assert_int_equal(lease(w, "k", &o), 0);
	assert_int_equal(o.staged, 0);
	pool_release(w->pool, o.handle);
	assert_int_equal(answer(w, GATEWAY_TAKEN, GATEWAY_OK), 0);
	assert_int_equal(strait_exist(w->gateway, "k", 1), -ENOENT);
	gateway_pool_totals(w->pool, &totals);
	assert_int_equal(totals.taken, 1);
	assert_int_equal(totals.waiting, 0);
}

static void what_is_not_answered_is_said_again_to_the_next_gateway(void **state)
{
	struct world *w = *state;
	struct pool_object o;

	arrive(w, "b");
	assert_int_equal(lease(w, "a", &o), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_ARRIVED);
	assert_int_equal(next(w), GATEWAY_STAGE);
	gateway_pool_connected(w->pool, false);
	assert_int_equal(next(w), 0);
	assert_int_equal(lease(w, "a", &o), -EINPROGRESS);
	gateway_pool_connected(w->pool, true);
	assert_int_equal(next(w) + next(w), GATEWAY_ARRIVED + GATEWAY_STAGE);
	assert_int_equal(next(w), 0);
}

static void restarted_edge_goes_on_with_what_arrived_and_drops_what_was_staged(void **state)
{
	struct world *w = *state;
	struct pool_object o;

	arrive(w, "arrived");
	assert_int_equal(strait_put(w->gateway, "staged", 6, w->data, LEN), 0);
	stop(w);
	start(w);
	assert_int_equal(strait_exist(w->gateway, "staged", 6), -ENOENT);
	assert_int_equal(next(w), GATEWAY_ARRIVED);
	assert_true(is_about(w, "arrived"));
	assert_int_equal(lease(w, "staged", &o), -EINPROGRESS);
}

static void what_was_staged_a_while_ago_is_confirmed_before_it_is_shipped(void **state)
{
	struct world *w = *state;
	struct gateway_totals totals;
	struct pool_object o;
	uint64_t later = S + GATEWAY_SURE_NS;

	assert_int_equal(lease(w, "k", &o), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_STAGE);
	stage(w, "k");
	assert_int_equal(lease(w, "k", &o), 0);
	assert_int_equal(pool_confirm(w->pool, o.handle, later - 1), 0);
	assert_int_equal(next(w), 0);
	assert_int_equal(pool_confirm(w->pool, o.handle, later), -EINPROGRESS);
	assert_int_equal(pool_confirm(w->pool, o.handle, later), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_CHECK);
	gateway_pool_connected(w->pool, false);
	gateway_pool_connected(w->pool, true);
	assert_int_equal(next(w), GATEWAY_CHECK);
	w->frame[0] = GATEWAY_CHECKED;
	assert_int_equal(gateway_pool_input(w->pool, w->frame, w->len, later), 0);
	assert_int_equal(pool_confirm(w->pool, o.handle, later + 1), 0);
	assert_int_equal(next(w), 0);
	assert_int_equal(pool_confirm(w->pool, o.handle, 2 * later), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_CHECK);
	assert_int_equal(answer(w, GATEWAY_CHECKED, GATEWAY_GONE), 0);
	assert_int_equal(pool_confirm(w->pool, o.handle, 2 * later), -ESTALE);
	/* Given up while a question is due, and while one is open. */
	pool_release(w->pool, o.handle);
	assert_int_equal(strait_exist(w->gateway, "k", 1), -ENOENT);
	gateway_pool_totals(w->pool, &totals);
	assert_int_equal(totals.stale, 1);
	assert_int_equal(lease(w, "k", &o), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_STAGE);
	stage(w, "k");
	assert_int_equal(lease(w, "k", &o), 0);
	assert_int_equal(pool_confirm(w->pool, o.handle, 9 * later), -EINPROGRESS);
	pool_release(w->pool, o.handle);
	assert_int_equal(next(w), 0);
}

static void staged_for_nobody_is_given_back(void **state)
{
	struct world *w = *state;
	struct gateway_totals totals;
	struct pool_object o;

	assert_int_equal(lease(w, "k", &o), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_STAGE);
	stage(w, "k");
	gateway_pool_tick(w->pool, 2 * S);
	assert_int_equal(strait_exist(w->gateway, "k", 1), 0);
	gateway_pool_tick(w->pool, S + GATEWAY_UNUSED_NS);
	assert_int_equal(strait_exist(w->gateway, "k", 1), -ENOENT);
	gateway_pool_totals(w->pool, &totals);
	assert_int_equal(totals.held_bytes, 0);
}

static void object_on_its_way_in_is_not_staged_and_staged_one_is_not_taken(void **state)
{
	struct world *w = *state;
	struct pool_object in, out;

	assert_int_equal(pool_reserve(w->pool, "k", 1, LEN, 0, &in), 0);
	assert_int_equal(lease(w, "k", &out), -EINPROGRESS);
	assert_int_equal(next(w), 0);
	pool_abandon(w->pool, in.handle, false);
	assert_int_equal(lease(w, "k", &out), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_STAGE);
	assert_int_equal(pool_reserve(w->pool, "k", 1, LEN, 0, &in), -EBUSY);
	stage(w, "k");
	assert_int_equal(pool_reserve(w->pool, "k", 1, LEN, 0, &in), -EEXIST);
}

static void corrupt_object_goes_and_is_counted(void **state)
{
	struct world *w = *state;
	struct gateway_totals totals;

	arrive(w, "k");
	assert_int_equal(next(w), GATEWAY_ARRIVED);
	assert_int_equal(answer(w, GATEWAY_TAKEN, GATEWAY_CORRUPT), 0);
	assert_int_equal(strait_exist(w->gateway, "k", 1), -ENOENT);
	gateway_pool_totals(w->pool, &totals);
	assert_int_equal(totals.corrupt, 1);
	assert_int_equal(totals.taken, 0);
}

static void nonsense_of_the_gateway_ends_the_connection(void **state)
{
	struct world *w = *state;
	struct pool_object o;

	assert_int_equal(lease(w, "k", &o), -EINPROGRESS);
	assert_int_equal(next(w), GATEWAY_STAGE);
	assert_int_equal(gateway_pool_input(w->pool, w->frame, 10, S), -EPROTO);
	assert_int_equal(gateway_pool_input(w->pool, w->frame, w->len - 1, S), -EPROTO);
	assert_int_equal(answer(w, GATEWAY_TAKEN, GATEWAY_OK), -EPROTO);
	assert_int_equal(answer(w, 77, GATEWAY_OK), -EPROTO);
	memset(w->frame + 4, 0xee, 4); /* another id */
	assert_int_equal(answer(w, GATEWAY_STAGED, GATEWAY_OK), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(absent_object_is_asked_for_once_and_leased_when_it_came),
		TEST(what_the_store_has_not_is_told_and_asked_again_by_the_next),
		TEST(staged_but_evicted_before_the_lease_is_asked_for_a_few_times),
		TEST(only_so_much_is_staged_at_once),
		TEST(arrived_object_stays_until_the_store_has_it),
		TEST(what_is_not_answered_is_said_again_to_the_next_gateway),
		TEST(restarted_edge_goes_on_with_what_arrived_and_drops_what_was_staged),
		TEST(what_was_staged_a_while_ago_is_confirmed_before_it_is_shipped),
		TEST(staged_for_nobody_is_given_back),
		TEST(object_on_its_way_in_is_not_staged_and_staged_one_is_not_taken),
		TEST(corrupt_object_goes_and_is_counted),
		TEST(nonsense_of_the_gateway_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
