/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_change.h"

#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_recover.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { BYTES = 2 << 20, ENTRIES = 128 };

static struct testing_dir dir;
static struct pool *pool;
static struct shm *shm;

/* What a follower believes, and the truth to hold it against. */
struct view {
	bool visible[ENTRIES], ours[ENTRIES];
	uint32_t gen[ENTRIES];
	char key[ENTRIES][16];
	uint64_t pos;
	unsigned int evicted;
};

static int setup(void **state)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = BYTES };
	char err[200];

	(void)state;
	if (!testing_dir_create(&dir))
		return -1;
	pool = shm_pool_open(dir.file, &options, err, sizeof(err));
	if (pool == NULL)
		return -1;
	shm = shm_pool_file(pool);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pool_destroy(pool);
	testing_dir_remove(&dir);
	return 0;
}

static int put(const char *key, uint64_t len)
{
	struct pool_object o;
	int rc = pool_reserve(pool, key, strlen(key), len, 0, &o);

	return rc == 0 ? pool_publish(pool, o.handle, 0) : rc;
}

static void on_change(const struct shm_change *c, void *ctx)
{
	struct view *v = ctx;

	assert_true(c->entry < ENTRIES);
	v->evicted += c->evicted && v->visible[c->entry];
	v->visible[c->entry] = c->visible;
	v->gen[c->entry] = c->gen;
	v->ours[c->entry] = c->ours;
	if (c->visible) {
		memcpy(v->key[c->entry], c->key, c->key_len);
		v->key[c->entry][c->key_len] = '\0';
	}
}

static int follow(struct view *v)
{
	int n, total = 0;

	while ((n = shm_change_read(shm, &v->pos, on_change, v)) > 0)
		total += n;
	return n < 0 ? n : total;
}

static void walk(struct view *v)
{
	uint32_t entry = 0;

	v->pos = shm_change_head(shm);
	while (shm_change_scan(shm, &entry, on_change, v) > 0)
		;
}

static void assert_true_view(const struct view *v)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (!v->visible[i])
			continue;
		n++;
		assert_int_equal(pool_exist(pool, v->key[i], strlen(v->key[i])), 0);
	}
	assert_int_equal(n, shm->hdr->count[SHM_VISIBLE]);
}

static void a_put_and_a_removal_are_told(void **state)
{
	struct view v = { .pos = shm_change_head(shm) };

	(void)state;
	assert_int_equal(put("one", 5000), 0);
	assert_int_equal(follow(&v), 1);
	assert_true_view(&v);
	assert_string_equal(v.key[0], "one");
	assert_true(v.ours[0]);
	assert_int_equal(pool_remove(pool, "one", 3), 0);
	assert_true(follow(&v) > 0);
	assert_true_view(&v);
	assert_int_equal(v.evicted, 0);
	assert_int_equal(follow(&v), 0);
}

static void what_a_client_put_is_native(void **state)
{
	struct strait_pool *p = strait_pool_open(dir.file, 0, 0);
	struct view v = { .pos = shm_change_head(shm) };

	(void)state;
	assert_non_null(p);
	assert_int_equal(strait_put(p, "k", 1, "value", 5), 0);
	assert_int_equal(follow(&v), 1);
	assert_false(v.ours[0]);
	strait_pool_close(p);
}

static void evictions_are_told_as_such(void **state)
{
	struct view v = { .pos = shm_change_head(shm) };
	char key[16];

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(put(key, 100000), 0);
		assert_true(follow(&v) > 0);
		assert_true_view(&v);
	}
	assert_true(v.evicted > 50);
}

static void who_falls_behind_walks(void **state)
{
	struct view v = { .pos = shm_change_head(shm) };

	(void)state;
	assert_int_equal(put("kept", 1), 0);
	for (unsigned int i = 0; i <= SHM_CHANGES / 2; i++) {
		assert_int_equal(put("x", 1), 0);
		assert_int_equal(pool_remove(pool, "x", 1), 0);
	}
	assert_int_equal(follow(&v), -ESTALE);
	walk(&v);
	assert_true_view(&v);
	assert_int_equal(follow(&v), 0);
}

static void a_recovery_makes_followers_walk(void **state)
{
	struct view v = { .pos = shm_change_head(shm) };

	(void)state;
	assert_int_equal(put("a", 1), 0);
	assert_int_equal(follow(&v), 1);
	assert_int_equal(shm_lock(shm), 0);
	shm_recover(shm);
	shm_unlock(shm);
	assert_int_equal(follow(&v), -ESTALE);
	walk(&v);
	assert_true_view(&v);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_put_and_a_removal_are_told),
		TEST(what_a_client_put_is_native),
		TEST(evictions_are_told_as_such),
		TEST(who_falls_behind_walks),
		TEST(a_recovery_makes_followers_walk),
	};

	return cmocka_run_group_tests_name("shm_change", tests, NULL, NULL);
}
