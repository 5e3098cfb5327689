/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (UINT64_C(1) << 32)

static uint64_t take(struct arena *a, uint64_t bytes)
{
	uint64_t at;

	assert_int_equal(arena_take(a, bytes, &at), 0);
	assert_int_equal(at % ARENA_PAGE, 0);
	for (uint64_t i = 0; i < bytes; i += ARENA_PAGE)
		assert_int_equal(a->base[at + i], 0);
	memset(a->base + at, 0x5a, bytes);
	return at;
}

static void what_is_given_back_is_taken_again_and_is_zero(void **state)
{
	struct arena a;
	uint64_t at[8], again;

	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		assert_int_equal(arena_init(&a, LIMIT, shared), 0);
		for (int i = 0; i < 8; i++)
			at[i] = take(&a, 3 * ARENA_PAGE);
		arena_give(&a, at[2], 3 * ARENA_PAGE);
		arena_give(&a, at[6], 3 * ARENA_PAGE);
		assert_int_equal(take(&a, 2 * ARENA_PAGE), at[2]);
		/* three beside each other become one hole */
		arena_give(&a, at[5], 3 * ARENA_PAGE);
		arena_give(&a, at[4], 3 * ARENA_PAGE);
		again = a.top;
		assert_int_equal(take(&a, 9 * ARENA_PAGE), at[4]);
		assert_int_equal(a.top, again);
		arena_fini(&a);
	}
}

static void arrays_lie_beside_each_other_on_pages_that_can_be_huge(void **state)
{
	struct arena a;
	uint64_t first, large;

	(void)state;
	assert_int_equal(arena_init(&a, LIMIT, true), 0);
	assert_int_equal((uintptr_t)a.base % ARENA_HUGE, 0);
	first = take(&a, 1);
	large = take(&a, 5 << 20);
	assert_int_equal(large, first + ARENA_PAGE);
	assert_int_equal(take(&a, 1), large + (5 << 20));
	arena_fini(&a);
}

static void more_than_the_limit_is_refused_and_nothing_is_lost(void **state)
{
	struct arena a;
	uint64_t at;

	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		assert_int_equal(arena_init(&a, 8 << 20, shared), 0);
		assert_int_equal(arena_take(&a, 9 << 20, &at), -ENOMEM);
		assert_int_equal(take(&a, 8 << 20), 0);
		assert_int_equal(arena_take(&a, 1, &at), -ENOMEM);
		arena_fini(&a);
	}
}

static int reopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Whoever has a descriptor, and be it root: only who was there before the seals writes. */
static void memory_that_is_lent_cannot_be_written_or_taken_away(void **state)
{
	struct arena a;
	uint64_t at;
	const uint8_t *lent;
	int fds[2];

	(void)state;
	assert_int_equal(arena_init(&a, LIMIT, true), 0);
	at = take(&a, ARENA_PAGE);
	fds[0] = reopen(a.fd);
	fds[1] = fcntl(a.fd, F_DUPFD_CLOEXEC, 0); /* one that may write, as root can open */
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	for (int i = 0; i < 2; i++) {
		assert_ptr_equal(mmap(NULL, ARENA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i],
					 (off_t)at),
			MAP_FAILED);
		assert_int_equal(pwrite(fds[i], "x", 1, (off_t)at), -1);
		assert_int_equal(ftruncate(fds[i], 0), -1);
		assert_int_equal(fallocate(fds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 (off_t)at, ARENA_PAGE),
			-1);
	}
	lent = arena_map(fds[0], a.limit);
	assert_non_null(lent);
	assert_int_equal(mprotect((void *)(uintptr_t)(lent + at), ARENA_PAGE,
				 PROT_READ | PROT_WRITE),
		-1);
	/* what is taken later can be read, too, without mapping anything anew */
	at = take(&a, 4 << 20);
	assert_int_equal(lent[at], 0x5a);
	arena_unmap(lent, a.limit);
	assert_null(arena_map(fds[0], 0));
	assert_null(arena_map(fds[0], a.limit - 1));
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_given_back_is_taken_again_and_is_zero),
		cmocka_unit_test(arrays_lie_beside_each_other_on_pages_that_can_be_huge),
		cmocka_unit_test(more_than_the_limit_is_refused_and_nothing_is_lost),
		cmocka_unit_test(memory_that_is_lent_cannot_be_written_or_taken_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
