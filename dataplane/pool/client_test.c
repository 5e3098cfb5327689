/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_testing.h"

#include <strait/strait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>

#define POOL_BYTES (16u << 20)

static struct testing_dir dir;
static struct strait_pool *pool;
static uint8_t buffer[1 << 20];

static int setup(void **state)
{
	(void)state;
	if (!testing_dir_create(&dir))
		return -1;
	pool = strait_pool_open(dir.file, STRAIT_POOL_CREATE, POOL_BYTES);
	return pool != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	strait_pool_close(pool);
	testing_dir_remove(&dir);
	return 0;
}

/* Bit by bit, as ECMA-182 defines it. */
static uint64_t digest_slowly(const uint8_t *p, size_t len)
{
	uint64_t crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (uint64_t)p[i] << 56;
		for (int bit = 0; bit < 8; bit++)
			crc = crc << 1 ^ (crc >> 63 ? 0x42f0e1eba9ea3693ull : 0);
	}
	return crc;
}

static void digest_is_crc64_ecma_182_with_init_0(void **state)
{
	(void)state;
	assert_int_equal(strait_digest("123456789", 9), 0x6c40df5f0b497347ull);
	assert_int_equal(strait_digest("", 0), 0);
	testing_fill(buffer, 1, 0, sizeof(buffer));
	for (size_t len = 1; len < 3000; len = len * 3 / 2 + 1)
		assert_int_equal(strait_digest(buffer, len), digest_slowly(buffer, len));
}

static void put_comes_back_with_its_digest(void **state)
{
	static const size_t sizes[] = { 1, 4095, 4096, 4097, 32768, 32769, 1 << 20 };
	struct strait_object object;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		testing_fill(buffer, i, 0, sizes[i]);
		assert_int_equal(strait_put(pool, &i, sizeof(i), buffer, sizes[i]), 0);
		assert_int_equal(strait_get(pool, &i, sizeof(i), STRAIT_GET_VERIFY, &object), 0);
		assert_int_equal(object.len, sizes[i]);
		assert_int_equal(object.digest, strait_digest(buffer, sizes[i]));
		assert_memory_equal(object.data, buffer, sizes[i]);
		strait_release(pool, &object);
		strait_release(pool, &object);
	}
}

static void zero_copy_put_shows_after_commit_only(void **state)
{
	struct strait_object object;
	struct strait_writer w, copy;

	(void)state;
	assert_int_equal(strait_put_begin(pool, "k", 1, 10000, &w), 0);
	testing_fill(w.data, 5, 0, w.len);
	assert_int_equal(strait_exist(pool, "k", 1), -ENOENT);
	assert_int_equal(strait_put(pool, "k", 1, "x", 1), -EBUSY);
	copy = w;
	assert_int_equal(strait_put_commit(pool, &w), 0);
	assert_int_equal(strait_put_commit(pool, &w), -ESTALE);
	assert_int_equal(strait_put_commit(pool, &copy), -ESTALE);
	strait_put_abort(pool, &copy);
	assert_int_equal(strait_put(pool, "k", 1, "x", 1), -EEXIST);
	assert_int_equal(strait_get(pool, "k", 1, STRAIT_GET_VERIFY, &object), 0);
	assert_true(testing_is_object(object.data, 5, 0, 10000));
	strait_release(pool, &object);
}

static void aborted_put_leaves_nothing(void **state)
{
	struct strait_pool_stats s;
	struct strait_writer w;

	(void)state;
	assert_int_equal(strait_put_begin(pool, "k", 1, 10000, &w), 0);
	strait_put_abort(pool, &w);
	strait_put_abort(pool, &w);
	assert_int_equal(strait_pool_stats(pool, &s), 0);
	assert_int_equal(s.used_bytes, 0);
	assert_int_equal(strait_put(pool, "k", 1, "x", 1), 0);
}

static void damaged_bytes_are_noticed_by_a_verifying_get(void **state)
{
	struct strait_object object;
	struct strait_pool_stats s;

	(void)state;
	assert_int_equal(strait_put(pool, "k", 1, "value", 5), 0);
	assert_int_equal(strait_get(pool, "k", 1, 0, &object), 0);
	((uint8_t *)(uintptr_t)object.data)[2] ^= 1;
	strait_release(pool, &object);
	assert_int_equal(strait_get(pool, "k", 1, STRAIT_GET_VERIFY, &object), -EBADMSG);
	assert_int_equal(strait_pool_stats(pool, &s), 0);
	assert_int_equal(s.leased, 0);
}

static void batch_answers_like_single_questions(void **state)
{
	enum { N = 500 };
	struct strait_key keys[N];
	uint32_t id[N];
	uint8_t found[N];
	int count = 0;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		id[i] = i;
		keys[i] = (struct strait_key){ .data = &id[i], .len = sizeof(id[i]) };
		if (i % 3 == 0)
			assert_int_equal(strait_put(pool, &id[i], 4, &id[i], 4), 0);
	}
	keys[3].len = 0;
	keys[6].data = NULL;
	keys[9].len = STRAIT_KEY_MAX + 1;
	count = strait_batch_exist(pool, keys, N, found);
	assert_int_equal(count, (N + 2) / 3 - 3);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(found[i], strait_exist(pool, keys[i].data, keys[i].len) == 0);
	assert_int_equal(strait_batch_exist(pool, keys, 0, found), 0);
	assert_int_equal(strait_batch_exist(pool, keys, (1u << 20) + 1, found), -EINVAL);
}

static void bad_arguments_are_errors(void **state)
{
	struct strait_object object;
	struct strait_writer w;
	uint8_t found;

	(void)state;
	assert_int_equal(strait_put(NULL, "k", 1, "x", 1), -EINVAL);
	assert_int_equal(strait_put(pool, "k", 1, NULL, 1), -EINVAL);
	assert_int_equal(strait_put(pool, "k", 1, "x", 0), -EINVAL);
	assert_int_equal(strait_put(pool, "", 0, "x", 1), -EINVAL);
	assert_int_equal(strait_put(pool, "k", 1, "x", STRAIT_OBJECT_MAX + 1ul), -EFBIG);
	assert_int_equal(strait_put_begin(pool, "k", 1, 1, NULL), -EINVAL);
	assert_int_equal(strait_put_begin(NULL, "k", 1, 1, &w), -EINVAL);
	assert_int_equal(strait_get(pool, "k", 1, 0x80, &object), -EINVAL);
	assert_int_equal(strait_get(pool, "k", 1, 0, NULL), -EINVAL);
	assert_int_equal(strait_batch_exist(pool, NULL, 1, &found), -EINVAL);
	assert_int_equal(strait_remove(NULL, "k", 1), -EINVAL);
	assert_int_equal(strait_pool_stats(pool, NULL), -EINVAL);
	strait_pool_close(NULL);
	strait_release(pool, NULL);
	assert_null(strait_pool_open(NULL, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(strait_pool_open(dir.file, 0x100, 0));
	assert_string_not_equal(strait_pool_open_error(), "");
	assert_null(strait_pool_open("/nowhere/pool", 0, 0));
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(strait_pool_open_error(), "/nowhere/pool"));
}

static void errors_have_words_of_either_sign(void **state)
{
	(void)state;
	assert_string_equal(strait_strerror(-EEXIST), strait_strerror(EEXIST));
	assert_string_not_equal(strait_strerror(-ENOSPC), strait_strerror(-EFBIG));
	assert_non_null(strait_strerror(INT32_MIN));
	assert_non_null(strait_strerror(12345));
}

/*
 * Each thread puts, reads and removes among the same few keys; cmocka's asserts are for its own
 * thread only.
 */
static void *hammer(void *arg)
{
	uint64_t random = (uint64_t)(uintptr_t)arg;
	static __thread uint8_t bytes[20000];
	uintptr_t wrong = 0;

	for (unsigned int i = 0; i < 4000; i++) {
		uint64_t id = testing_below(&random, 40);
		size_t len = 1 + (size_t)(id * 499 % sizeof(bytes));
		struct strait_object object;
		int rc;

		switch (testing_below(&random, 4)) {
		case 0:
			testing_fill(bytes, id, 0, len);
			rc = strait_put(pool, &id, sizeof(id), bytes, len);
			wrong += rc != 0 && rc != -EEXIST && rc != -EBUSY;
			break;
		case 1:
			rc = strait_remove(pool, &id, sizeof(id));
			wrong += rc != 0 && rc != -ENOENT && rc != -EBUSY;
			break;
		default:
			rc = strait_get(pool, &id, sizeof(id), STRAIT_GET_VERIFY, &object);
			wrong += rc != 0 && rc != -ENOENT;
			if (rc != 0)
				break;
			wrong += object.len != len || !testing_is_object(object.data, id, 0, len);
			strait_release(pool, &object);
		}
	}
	return (void *)wrong;
}

static void arena_holds_every_object_and_nothing_else(void **state)
{
	struct strait_pool_stats s;
	struct strait_writer writer;
	uint8_t *base = NULL;
	size_t len = 0;

	(void)state;
	assert_int_equal(strait_pool_arena(pool, (void **)&base, &len), 0);
	assert_int_equal(strait_pool_stats(pool, &s), 0);
	assert_true(len == s.arena_bytes);
	assert_int_equal(strait_put_begin(pool, "k", 1, 5000, &writer), 0);
	assert_true((uint8_t *)writer.data >= base && (uint8_t *)writer.data + 5000 <= base + len);
	strait_put_abort(pool, &writer);
	assert_int_equal(strait_pool_arena(pool, NULL, &len), -EINVAL);
}

static void threads_share_a_pool(void **state)
{
	struct strait_pool_stats s;
	pthread_t thread[4];
	void *wrong;

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, (void *)(i + 1)), 0);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	assert_int_equal(strait_pool_stats(pool, &s), 0);
	assert_int_equal(s.leased + s.writing + s.doomed, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digest_is_crc64_ecma_182_with_init_0),
		TEST(put_comes_back_with_its_digest),
		TEST(zero_copy_put_shows_after_commit_only),
		TEST(aborted_put_leaves_nothing),
		TEST(damaged_bytes_are_noticed_by_a_verifying_get),
		TEST(batch_answers_like_single_questions),
		TEST(bad_arguments_are_errors),
		TEST(errors_have_words_of_either_sign),
		TEST(arena_holds_every_object_and_nothing_else),
		TEST(threads_share_a_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
