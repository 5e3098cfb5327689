/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/pool_prefault.h"

#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { POOL_BYTES = 32 << 20, OBJECT_BYTES = 24 << 20, PAGES = OBJECT_BYTES / 4096 };

static struct testing_dir dir;

static struct pool *make(bool sparse)
{
	const struct shm_pool_options options = { .create = true,
		.create_size_bytes = POOL_BYTES,
		.sparse = sparse };
	struct pool *pool;

	assert_true(testing_dir_create(&dir));
	pool = shm_pool_open(dir.file, &options, NULL, 0);
	assert_non_null(pool);
	return pool;
}

static void unmake(struct pool *pool)
{
	pool_destroy(pool);
	testing_dir_remove(&dir);
}

static long faults(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return r.ru_minflt + r.ru_majflt;
}

/* Page faults that filling an object costs. */
static long faults_of_an_object(struct pool *pool)
{
	struct pool_object o;
	long before;

	assert_int_equal(pool_reserve(pool, "k", 1, OBJECT_BYTES, 0, &o), 0);
	before = faults();
	memset(o.data, 7, o.len);
	before = faults() - before;
	pool_abandon(pool, o.handle, false);
	return before;
}

static void an_object_in_mapped_pages_costs_no_faults(void **state)
{
	struct pool *pool = make(false);
	uint64_t at = 0;
	int calls = 0;

	(void)state;
	while (shm_pool_prefault(pool, &at, 4 << 20) > 0)
		calls++;
	assert_in_range(calls, 7, 8);
	assert_true(at >= POOL_BYTES);
	assert_true(faults_of_an_object(pool) < PAGES / 100);
	unmake(pool);
	/* What would fail above if nothing were mapped. */
	pool = make(false);
	assert_true(faults_of_an_object(pool) > PAGES / 10);
	unmake(pool);
}

static void no_memory_is_taken_that_was_not_reserved(void **state)
{
	struct pool *pool = make(true);
	struct stat before, after;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(stat(dir.file, &before), 0);
	assert_true(before.st_blocks * 512 < POOL_BYTES / 2);
	assert_int_equal(shm_pool_prefault(pool, &at, POOL_BYTES), 0);
	assert_int_equal(stat(dir.file, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
	unmake(pool);
}

static void the_thread_may_be_stopped_at_any_time(void **state)
{
	struct pool *pool = make(false);
	struct pool_prefault *p;

	(void)state;
	for (int i = 0; i < 3; i++) {
		p = pool_prefault_start(&pool, 1);
		assert_non_null(p);
		pool_prefault_stop(p);
	}
	pool_prefault_stop(NULL);
	unmake(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_in_mapped_pages_costs_no_faults),
		cmocka_unit_test(no_memory_is_taken_that_was_not_reserved),
		cmocka_unit_test(the_thread_may_be_stopped_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
