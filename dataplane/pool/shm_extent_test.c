/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_extent.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>

#define PAGES 2000u
#define RUNS  300u

struct fixture {
	struct shm_page pages[PAGES];
	struct shm_extent_state state;
	struct shm_extents x;
	uint8_t used[PAGES]; /* the oracle */
	struct {
		uint32_t page;
		uint32_t npages; /* 0: none */
	} run[RUNS];
};

static struct fixture f;

static int reset(void **state)
{
	uint32_t cursor;

	(void)state;
	memset(&f, 0, sizeof(f));
	f.x = (struct shm_extents){ .pages = f.pages, .state = &f.state, .page_count = PAGES };
	shm_extent_rebuild_start(&f.x, &cursor);
	shm_extent_rebuild_finish(&f.x, &cursor);
	return 0;
}

static uint32_t oracle_longest(void)
{
	uint32_t best = 0, len = 0;

	for (uint32_t i = 0; i < PAGES; i++) {
		len = f.used[i] ? 0 : len + 1;
		best = len > best ? len : best;
	}
	return best;
}

static void oracle_compare(void)
{
	uint32_t len, owner, used = 0;
	bool after_free = false;

	for (uint32_t page = 0; page < PAGES; page += len) {
		len = shm_extent_walk(&f.x, page, &owner);
		assert_int_not_equal(len, 0);
		for (uint32_t i = 0; i < len; i++)
			assert_int_equal(f.used[page + i], owner != SHM_NONE);
		if (owner != SHM_NONE) {
			assert_int_equal(f.run[owner].page, page);
			assert_int_equal(f.run[owner].npages, len);
			used += len;
		} else {
			assert_false(after_free);
		}
		after_free = owner == SHM_NONE;
	}
	assert_int_equal(f.state.free_pages, PAGES - used);
	assert_int_equal(shm_extent_longest(&f.x), oracle_longest());
}

static void random_step(uint64_t *seed)
{
	uint32_t i = (uint32_t)testing_below(seed, RUNS);
	uint32_t want, longest, page;

	if (f.run[i].npages != 0) {
		shm_extent_free(&f.x, f.run[i].page);
		memset(f.used + f.run[i].page, 0, f.run[i].npages);
		f.run[i].npages = 0;
		return;
	}
	want = 1 + (uint32_t)testing_below(seed, testing_below(seed, 8) == 0 ? 200 : 12);
	longest = oracle_longest();
	page = shm_extent_alloc(&f.x, want, i);
	if (page == SHM_NONE) {
		assert_true(want > longest);
		return;
	}
	assert_true(want <= longest);
	for (uint32_t k = 0; k < want; k++) {
		assert_int_equal(f.used[page + k], 0);
		f.used[page + k] = 1;
	}
	f.run[i].page = page;
	f.run[i].npages = want;
}

static void random_use_agrees_with_a_page_map(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		uint64_t random = seed;

		reset(NULL);
		for (unsigned int step = 0; step < 4000; step++) {
			random_step(&random);
			if (step % 16 == 0)
				oracle_compare();
		}
	}
}

static void rebuild_finds_the_same_runs(void **state)
{
	uint64_t random = 7;
	uint32_t cursor, owner, len;
	uint64_t free_pages;

	(void)state;
	for (unsigned int step = 0; step < 1500; step++)
		random_step(&random);
	free_pages = f.state.free_pages;
	memset(f.pages, 0xa5, sizeof(f.pages));
	shm_extent_rebuild_start(&f.x, &cursor);
	for (uint32_t page = 0; page < PAGES; page++) {
		for (uint32_t i = 0; f.used[page] && i < RUNS; i++) {
			if (f.run[i].npages != 0 && f.run[i].page == page)
				assert_int_equal(shm_extent_rebuild_add(&f.x, &cursor, page,
							 f.run[i].npages, i),
					0);
		}
	}
	shm_extent_rebuild_finish(&f.x, &cursor);
	assert_int_equal(f.state.free_pages, free_pages);
	oracle_compare();
	len = shm_extent_walk(&f.x, PAGES, &owner);
	assert_int_equal(len, 0);
}

static void overlapping_runs_are_refused_in_a_rebuild(void **state)
{
	uint32_t cursor;

	(void)state;
	shm_extent_rebuild_start(&f.x, &cursor);
	assert_int_equal(shm_extent_rebuild_add(&f.x, &cursor, 10, 5, 0), 0);
	assert_int_equal(shm_extent_rebuild_add(&f.x, &cursor, 14, 5, 1), -EINVAL);
	assert_int_equal(shm_extent_rebuild_add(&f.x, &cursor, PAGES - 1, 2, 1), -EINVAL);
	assert_int_equal(shm_extent_rebuild_add(&f.x, &cursor, PAGES, 1, 1), -EINVAL);
	assert_int_equal(shm_extent_rebuild_add(&f.x, &cursor, 15, 5, 1), 0);
	shm_extent_rebuild_finish(&f.x, &cursor);
	assert_int_equal(f.state.free_pages, PAGES - 10);
}

static void classes_grow_with_size_and_fit_the_table(void **state)
{
	unsigned int last = 0;

	(void)state;
	for (uint32_t npages = 1; npages < 100000; npages++) {
		unsigned int class = shm_extent_class(npages);

		assert_true(class == last || class == last + 1);
		last = class;
	}
	assert_true(shm_extent_class(0x7fffffff) < SHM_CLASSES);
}

static void wild_frees_and_sizes_are_ignored(void **state)
{
	(void)state;
	assert_int_equal(shm_extent_alloc(&f.x, 0, 0), SHM_NONE);
	assert_int_equal(shm_extent_alloc(&f.x, PAGES + 1, 0), SHM_NONE);
	shm_extent_free(&f.x, PAGES);
	shm_extent_free(&f.x, SHM_NONE);
	shm_extent_free(&f.x, 0);
	assert_int_equal(f.state.free_pages, PAGES);
	assert_int_equal(shm_extent_alloc(&f.x, PAGES, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(random_use_agrees_with_a_page_map, reset),
		cmocka_unit_test_setup(rebuild_finds_the_same_runs, reset),
		cmocka_unit_test_setup(overlapping_runs_are_refused_in_a_rebuild, reset),
		cmocka_unit_test_setup(classes_grow_with_size_and_fit_the_table, reset),
		cmocka_unit_test_setup(wild_frees_and_sizes_are_ignored, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
