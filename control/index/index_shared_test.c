/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A writer and its readers in processes of their own. Keys below FIXED never change, those from it
 * to 2 * FIXED are never there, and the others come and go with a value that names them.
 */
enum { FIXED = 20000, CHANGING = 200000, USER = 100 };

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

static uint64_t value_of(uint64_t n)
{
	return n % 60000 + 1;
}

static struct index *index_begin(void)
{
	struct index *x = index_create_shared(0, 0, USER);

	assert_non_null(x);
	for (uint64_t k = 0; k < FIXED; k++)
		assert_int_equal(index_update(x, key(k), 0, value_of(k), NULL, NULL), 0);
	return x;
}

static void view_open(const struct index *x, struct index_view *v)
{
	const void *user;
	uint64_t limit;
	int fd = index_share(x, &limit);

	assert_true(fd >= 0);
	assert_int_equal(index_view_open(fd, limit, v, &user, USER), 0);
	close(fd);
}

/* Grows from nothing and empties again, for ever. */
static void write_on(struct index *x)
{
	for (uint64_t seed = 7;; seed = mix(seed)) {
		for (uint64_t k = 2 * FIXED; k < 2 * FIXED + CHANGING; k++)
			(void)index_update(x, key(k), 0, value_of(k), NULL, NULL);
		for (uint64_t k = 2 * FIXED; k < 2 * FIXED + CHANGING; k++)
			if (mix(seed + k) % 8)
				(void)index_update(x, key(k), 0, 0, NULL, NULL);
		(void)index_trim(x);
	}
}

struct tally {
	uint64_t wrong, unsure, lookups;
	uint64_t there, away; /* of those that come and go */
};

static void read_some(const struct index_view *v, uint64_t *seed, struct tally *t)
{
	uint64_t n[INDEX_BATCH], got[INDEX_BATCH];
	struct digest128 d[INDEX_BATCH];

	for (int i = 0; i < INDEX_BATCH; i++) {
		*seed = mix(*seed);
		n[i] = *seed % (*seed >> 60 < 8 ? 2 * FIXED : 2 * FIXED + CHANGING);
		d[i] = key(n[i]);
	}
	index_view_lookup(v, d, INDEX_BATCH, got);
	for (int i = 0; i < INDEX_BATCH; i++) {
		uint64_t want = value_of(n[i]);

		if (got[i] == INDEX_UNSURE)
			t->unsure++;
		else if (n[i] < FIXED              ? got[i] != want
				: n[i] < 2 * FIXED ? got[i] != 0
						   : got[i] != 0 && got[i] != want)
			t->wrong++;
		else if (n[i] >= 2 * FIXED)
			*(got[i] != 0 ? &t->there : &t->away) += 1;
	}
	t->lookups += INDEX_BATCH;
}

static void process_that_maps_an_index_reads_what_its_writer_writes(void **state)
{
	struct index *x = index_begin();
	struct index_view v;
	const void *user;
	uint64_t limit, got;
	struct digest128 d = key(FIXED);
	int fd;

	(void)state;
	strcpy(index_user(x), "beside it");
	fd = index_share(x, &limit);
	assert_int_equal(index_view_open(fd, limit, &v, &user, USER + 1), -EPROTO);
	assert_int_equal(index_view_open(fd, limit, &v, &user, USER), 0);
	close(fd);
	assert_string_equal(user, "beside it");
	index_view_lookup(&v, &d, 1, &got);
	assert_int_equal(got, 0);
	assert_int_equal(index_update(x, d, 0, 9, NULL, NULL), 0);
	index_view_lookup(&v, &d, 1, &got);
	assert_int_equal(got, 9);
	/* what the writer gave up stays with who has it */
	index_destroy(x);
	index_view_lookup(&v, &d, 1, &got);
	assert_int_equal(got, 9);
	index_view_close(&v);
	x = index_create(0);
	assert_int_equal(index_share(x, &limit), -EOPNOTSUPP);
	assert_null(index_user(x));
	index_destroy(x);
}

/*
 * The writer is killed at any instant, also while it grows a shard into memory that was another
 * array, over which readers still are.
 */
static void reader_is_right_beside_a_writer_that_grows_and_after_it_was_killed(void **state)
{
	enum { ROUNDS = 12 };
	struct tally t = { 0 };
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct index *x = index_begin();
		struct index_view v;
		struct timespec now, end;
		pid_t writer;

		view_open(x, &v);
		writer = fork();
		assert_true(writer >= 0);
		if (writer == 0)
			write_on(x);
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_nsec += 30000000 + (long)(mix(seed) % 40000000);
		do {
			for (int i = 0; i < 50; i++)
				read_some(&v, &seed, &t);
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while ((now.tv_sec - end.tv_sec) * 1000000000 + now.tv_nsec < end.tv_nsec);
		kill(writer, SIGKILL);
		waitpid(writer, NULL, 0);
		index_destroy(x);
		for (int i = 0; i < 1000; i++)
			read_some(&v, &seed, &t);
		index_view_close(&v);
		assert_int_equal(t.wrong, 0);
	}
	assert_true(t.there > 0 && t.away > 0);
	assert_true(t.unsure < t.lookups / 1000 + 10);
}

/* What growing leaves behind is taken again. */
static void shared_index_that_grew_and_shrank_does_not_grow_for_ever(void **state)
{
	enum { KEYS = 400000 };
	struct index *x = index_create_shared(0, 0, USER);
	struct index_stats st;
	uint64_t second = 0;

	(void)state;
	for (int round = 0; round < 6; round++) {
		for (uint64_t k = 0; k < KEYS; k++)
			assert_int_equal(index_update(x, key(k), 0, 1, NULL, NULL), 0);
		index_stats_get(x, &st);
		if (round == 1)
			second = st.reserved_bytes;
		for (uint64_t k = 0; k < KEYS; k++)
			assert_int_equal(index_update(x, key(k), 0, 0, NULL, NULL), 0);
		assert_int_equal(index_trim(x), 0);
	}
	index_stats_get(x, &st);
	assert_int_equal(st.reserved_bytes, second);
	/* one shard is the worst: old and new array are there at once */
	assert_true(second < 4 * UINT64_C(24) * KEYS);
	index_destroy(x);
}

static void shards_for_what_may_come_take_no_memory_before_it_does(void **state)
{
	struct index *x = index_create_shared(0, 50000000, USER);
	struct index_stats st;

	(void)state;
	index_stats_get(x, &st);
	assert_int_equal(st.shards, 128);
	assert_true(st.reserved_bytes < 1 << 20);
	index_destroy(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_that_maps_an_index_reads_what_its_writer_writes),
		cmocka_unit_test(
			reader_is_right_beside_a_writer_that_grows_and_after_it_was_killed),
		cmocka_unit_test(shared_index_that_grew_and_shrank_does_not_grow_for_ever),
		cmocka_unit_test(shards_for_what_may_come_take_no_memory_before_it_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
