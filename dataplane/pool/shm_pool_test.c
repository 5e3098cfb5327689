/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_check.h"
#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define POOL_BYTES (8u << 20)

static struct testing_dir dir;
static struct pool *pool;

static struct pool *open_pool(void)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = POOL_BYTES };
	char err[256] = "";
	struct pool *p = shm_pool_open(dir.file, &options, err, sizeof(err));

	if (p == NULL)
		print_error("%s\n", err);
	return p;
}

static int setup(void **state)
{
	(void)state;
	if (!testing_dir_create(&dir))
		return -1;
	pool = open_pool();
	return pool != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	char why[128] = "";
	int rc = shm_check(shm_pool_file(pool), why, sizeof(why));

	(void)state;
	if (rc != 0)
		print_error("check: %d %s\n", rc, why);
	pool_destroy(pool);
	testing_dir_remove(&dir);
	return rc;
}

static int put(struct pool *p, const char *key, uint64_t id, uint64_t len)
{
	struct pool_object object;
	int rc = pool_reserve(p, key, strlen(key), len, 0, &object);

	if (rc != 0)
		return rc;
	testing_fill(object.data, id, 0, len);
	return pool_publish(p, object.handle, strait_digest(object.data, len));
}

static struct strait_pool_stats stats(void)
{
	struct strait_pool_stats s;

	assert_int_equal(pool_stats(pool, &s), 0);
	return s;
}

static void object_is_invisible_until_published(void **state)
{
	struct pool_object w, r;

	(void)state;
	assert_int_equal(pool_reserve(pool, "k", 1, 5000, 7, &w), 0);
	assert_false(w.resumed);
	assert_true(w.resume_len >= 256);
	assert_int_equal(pool_exist(pool, "k", 1), -ENOENT);
	assert_int_equal(pool_lease(pool, "k", 1, &r), -ENOENT);
	testing_fill(w.data, 1, 0, 5000);
	assert_int_equal(pool_publish(pool, w.handle, 99), 0);
	assert_int_equal(pool_exist(pool, "k", 1), 0);
	assert_int_equal(pool_lease(pool, "k", 1, &r), 0);
	assert_ptr_equal(r.data, w.data);
	assert_int_equal(r.len, 5000);
	assert_int_equal(r.digest, 99);
	assert_true(testing_is_object(r.data, 1, 0, 5000));
	pool_release(pool, r.handle);
}

static void key_is_held_by_one_writer_and_first_value_stays(void **state)
{
	struct pool_object w, other;

	(void)state;
	assert_int_equal(pool_reserve(pool, "k", 1, 100, 7, &w), 0);
	assert_int_equal(pool_reserve(pool, "k", 1, 100, 7, &other), -EBUSY);
	assert_int_equal(pool_remove(pool, "k", 1), -EBUSY);
	assert_int_equal(pool_publish(pool, w.handle, 7), 0);
	assert_int_equal(pool_publish(pool, w.handle, 7), -ESTALE);
	assert_int_equal(pool_reserve(pool, "k", 1, 100, 7, &other), -EEXIST);
}

static void bad_sizes_and_keys_are_refused(void **state)
{
	static char key[STRAIT_KEY_MAX + 1];
	struct pool_object w;

	(void)state;
	assert_int_equal(pool_reserve(pool, "k", 1, 0, 0, &w), -EINVAL);
	assert_int_equal(pool_reserve(pool, "k", 0, 1, 0, &w), -EINVAL);
	assert_int_equal(pool_reserve(pool, NULL, 1, 1, 0, &w), -EINVAL);
	assert_int_equal(pool_reserve(pool, key, sizeof(key), 1, 0, &w), -EINVAL);
	assert_int_equal(pool_reserve(pool, "k", 1, POOL_BYTES, 0, &w), -EFBIG);
	assert_int_equal(pool_reserve(pool, "k", 1, STRAIT_OBJECT_MAX + 1ull, 0, &w), -EFBIG);
	assert_int_equal(pool_reserve(pool, "k", 1, UINT64_MAX, 0, &w), -EFBIG);
	assert_int_equal(pool_reserve(pool, key, STRAIT_KEY_MAX, 1, 0, &w), 0);
	assert_int_equal(pool_publish(pool, w.handle, 0), 0);
	assert_int_equal(pool_exist(pool, key, STRAIT_KEY_MAX), 0);
	assert_int_equal(pool_exist(pool, key, STRAIT_KEY_MAX - 1), -ENOENT);
}

static void abandoned_object_is_adopted_with_bytes_and_resume_area(void **state)
{
	struct pool_object w, again;

	(void)state;
	assert_int_equal(pool_reserve(pool, "k", 1, 9000, 7, &w), 0);
	testing_fill(w.data, 3, 0, 6000);
	memset(w.resume, 0x5a, w.resume_len);
	pool_abandon(pool, w.handle, true);
	assert_int_equal(pool_exist(pool, "k", 1), -ENOENT);
	assert_int_equal(stats().partials, 1);
	assert_int_equal(pool_reserve(pool, "k", 1, 9000, 7, &again), 0);
	assert_true(again.resumed);
	assert_true(testing_is_object(again.data, 3, 0, 6000));
	assert_int_equal(((uint8_t *)again.resume)[again.resume_len - 1], 0x5a);
	assert_int_equal(stats().partials_adopted, 1);
	pool_abandon(pool, again.handle, false);
	assert_int_equal(stats().used_bytes, 0);
}

static void partial_of_other_length_or_digest_is_begun_anew(void **state)
{
	struct pool_object w;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(pool_reserve(pool, "k", 1, 9000, 7, &w), 0);
		assert_false(w.resumed);
		memset(w.resume, 0x5a, w.resume_len);
		pool_abandon(pool, w.handle, true);
		assert_int_equal(pool_reserve(pool, "k", 1, 9000 + i, 8, &w), 0);
		assert_false(w.resumed);
		assert_int_equal(((uint8_t *)w.resume)[0], 0);
		pool_abandon(pool, w.handle, true);
	}
	assert_int_equal(pool_remove(pool, "k", 1), 0);
	assert_int_equal(stats().used_bytes, 0);
}

static void removed_object_keeps_its_bytes_while_leased(void **state)
{
	struct pool_object r, again;

	(void)state;
	assert_int_equal(put(pool, "k", 1, 100000), 0);
	assert_int_equal(pool_lease(pool, "k", 1, &r), 0);
	assert_int_equal(pool_lease(pool, "k", 1, &again), 0);
	assert_int_equal(pool_remove(pool, "k", 1), 0);
	assert_int_equal(pool_remove(pool, "k", 1), -ENOENT);
	assert_int_equal(put(pool, "k", 2, 100000), 0);
	pool_release(pool, again.handle);
	assert_true(testing_is_object(r.data, 1, 0, r.len));
	assert_int_equal(stats().doomed, 1);
	pool_release(pool, r.handle);
	assert_int_equal(stats().doomed, 0);
	pool_release(pool, r.handle);
	assert_int_equal(stats().objects, 1);
}

static void oldest_goes_first_and_leased_never(void **state)
{
	struct strait_pool_stats s;
	struct pool_object r;
	char key[16];
	unsigned int left = 0;

	(void)state;
	for (unsigned int i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "%u", i);
		assert_int_equal(put(pool, key, i, 500000), 0);
		if (i == 0)
			assert_int_equal(pool_lease(pool, "0", 1, &r), 0);
	}
	s = stats();
	assert_true(s.used_bytes <= s.arena_bytes * 95 / 100);
	for (unsigned int i = 1; i < 40; i++) {
		snprintf(key, sizeof(key), "%u", i);
		if (pool_exist(pool, key, strlen(key)) == 0)
			left++;
		else
			assert_int_equal(left, 0);
	}
	assert_int_equal(s.evictions + 1 + left, 40);
	assert_true(left > 10);
	assert_true(testing_is_object(r.data, 0, 0, r.len));
	pool_release(pool, r.handle);
}

static void partials_go_before_visible_objects(void **state)
{
	struct pool_object w;
	char key[16];

	(void)state;
	assert_int_equal(put(pool, "old", 1, 500000), 0);
	assert_int_equal(pool_reserve(pool, "part", 4, 500000, 7, &w), 0);
	pool_abandon(pool, w.handle, true);
	for (unsigned int i = 0; stats().evictions + stats().evicted_partials == 0; i++) {
		snprintf(key, sizeof(key), "%u", i);
		assert_int_equal(put(pool, key, i, 400000), 0);
	}
	assert_int_equal(stats().evicted_partials, 1);
	assert_int_equal(stats().partials, 0);
}

static void leased_pool_is_full(void **state)
{
	struct pool_object r[64], w;
	unsigned int n = 0;
	char key[16];

	(void)state;
	for (;; n++) {
		snprintf(key, sizeof(key), "%u", n);
		if (put(pool, key, n, 300000) != 0)
			break;
		assert_int_equal(pool_lease(pool, key, strlen(key), &r[n]), 0);
	}
	assert_int_equal(pool_reserve(pool, "x", 1, 300000, 0, &w), -ENOSPC);
	assert_int_equal(stats().evictions, 0);
	for (unsigned int i = 0; i < n; i++) {
		assert_true(testing_is_object(r[i].data, i, 0, r[i].len));
		pool_release(pool, r[i].handle);
	}
	assert_int_equal(put(pool, "x", 1, 300000), 0);
}

static void fragments_never_keep_out_what_would_fit(void **state)
{
	struct pool_object r[512], w;
	unsigned int held = 0;
	char key[16];

	(void)state;
	for (unsigned int i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "%u", i);
		assert_int_equal(put(pool, key, i, 20000), 0);
		if (i % 8 == 0 && i < 100)
			assert_int_equal(pool_lease(pool, key, strlen(key), &r[held++]), 0);
	}
	/*
	 * Half the arena is free of leases, but what is oldest lies scattered among the leased
	 * ones.
	 */
	assert_int_equal(pool_reserve(pool, "big", 3, stats().arena_bytes / 2, 0, &w), 0);
	pool_abandon(pool, w.handle, false);
	while (held-- > 0) {
		assert_true(testing_is_object(r[held].data, held * 8, 0, r[held].len));
		pool_release(pool, r[held].handle);
	}
}

static void full_index_evicts(void **state)
{
	uint64_t max = stats().max_objects;
	char key[16];

	(void)state;
	for (unsigned int i = 0; i < max + 5; i++) {
		snprintf(key, sizeof(key), "%u", i);
		assert_int_equal(put(pool, key, i, 10), 0);
	}
	assert_int_equal(stats().objects, max);
	assert_int_equal(pool_exist(pool, "4", 1), -ENOENT);
	assert_int_equal(pool_exist(pool, "5", 1), 0);
}

static void clients_see_each_other_and_leave_nothing_behind(void **state)
{
	struct pool *other = open_pool();
	struct pool_object r, w;

	(void)state;
	assert_non_null(other);
	assert_int_equal(put(pool, "k", 1, 5000), 0);
	assert_int_equal(pool_lease(other, "k", 1, &r), 0);
	assert_true(testing_is_object(r.data, 1, 0, 5000));
	pool_release(pool, r.handle);
	assert_int_equal(stats().leased, 1);
	assert_int_equal(pool_reserve(other, "part", 4, 5000, 7, &w), 0);
	assert_int_equal(pool_publish(pool, w.handle, 7), -ESTALE);
	pool_abandon(pool, w.handle, false);
	assert_int_equal(stats().clients, 2);
	pool_destroy(other);
	assert_int_equal(stats().clients, 1);
	assert_int_equal(stats().leased, 0);
	assert_int_equal(pool_reserve(pool, "part", 4, 5000, 7, &w), 0);
	assert_true(w.resumed);
	pool_abandon(pool, w.handle, false);
}

static void dead_writer_leaves_a_partial_and_its_leases_end(void **state)
{
	struct pool_object w;
	pid_t pid;

	(void)state;
	assert_int_equal(put(pool, "k", 1, 5000), 0);
	pid = fork();
	if (pid == 0) {
		struct pool *mine = open_pool();
		struct pool_object r;

		if (mine == NULL || pool_lease(mine, "k", 1, &r) != 0 ||
			pool_remove(mine, "k", 1) != 0 ||
			pool_reserve(mine, "part", 4, 5000, 7, &w) != 0)
			_exit(1);
		testing_fill(w.data, 9, 0, 2000);
		memcpy(w.resume, "2000", 4);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(stats().doomed, 1);
	assert_int_equal(pool_reserve(pool, "part", 4, 5000, 7, &w), 0);
	assert_true(w.resumed);
	assert_memory_equal(w.resume, "2000", 4);
	assert_true(testing_is_object(w.data, 9, 0, 2000));
	pool_abandon(pool, w.handle, false);
	assert_int_equal(stats().doomed, 0);
	assert_int_equal(stats().reclaimed_leases, 1);
	assert_int_equal(stats().reclaimed_writes, 1);
	assert_int_equal(stats().reclaimed_clients, 1);
}

static void forked_child_is_refused(void **state)
{
	struct pool_object r;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(put(pool, "k", 1, 5000), 0);
	assert_int_equal(pool_lease(pool, "k", 1, &r), 0);
	pid = fork();
	if (pid == 0) {
		int rc = pool_exist(pool, "k", 1);

		pool_release(pool, r.handle);
		pool_destroy(pool);
		_exit(rc == -ECHILD ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pool_renew(pool), 0);
	assert_int_equal(stats().leased, 1);
	pool_release(pool, r.handle);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A process stopped while it holds the lock, as SIGSTOP or a frozen container can do. */
static pid_t stopped_holder(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct pool *p = open_pool();

		if (p != NULL && shm_lock(shm_pool_file(p)) == 0)
			raise(SIGSTOP);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void what_is_given_back_while_the_lock_is_stuck_is_given_back_later(void **state)
{
	enum { N = 200 };
	struct pool_object read[N], kept, dropped;
	struct strait_pool_stats stats;
	uint64_t start;
	pid_t pid;

	(void)state;
	assert_int_equal(put(pool, "read", 1, 5000), 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(pool_lease(pool, "read", 4, &read[i]), 0);
	assert_int_equal(pool_reserve(pool, "kept", 4, 5000, 7, &kept), 0);
	assert_int_equal(pool_reserve(pool, "dropped", 7, 5000, 7, &dropped), 0);

	pid = stopped_holder();
	start = now_ns();
	for (int i = 0; i < N; i++)
		pool_release(pool, read[i].handle);
	pool_abandon(pool, kept.handle, true);
	pool_abandon(pool, dropped.handle, false);
	assert_int_equal(pool_renew(pool), -ETIMEDOUT);
	/* Once 100 ms, then 1 ms each: the caller is not held up by every object. */
	assert_true(now_ns() - start < 3000000000u);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);

	assert_int_equal(pool_renew(pool), 0);
	assert_int_equal(pool_stats(pool, &stats), 0);
	assert_int_equal(stats.leased, 0);
	assert_int_equal(stats.writing, 0);
	assert_int_equal(stats.partials, 1);
	assert_int_equal(pool_reserve(pool, "dropped", 7, 5000, 7, &dropped), 0);
	assert_false(dropped.resumed);
	pool_abandon(pool, dropped.handle, false);
	assert_int_equal(pool_reserve(pool, "kept", 4, 5000, 7, &kept), 0);
	assert_true(kept.resumed);
	pool_abandon(pool, kept.handle, false);
}

static void the_room_of_a_file_is_known_before_it_is_opened(void **state)
{
	struct strait_pool_stats stats;

	(void)state;
	assert_int_equal(pool_stats(pool, &stats), 0);
	assert_int_equal(shm_pool_arena_bytes(stats.file_bytes), stats.arena_bytes);
	assert_int_equal(shm_pool_arena_bytes(12345), 0);
}

static void assert_lost(const char *says)
{
	struct pool_object object;
	char why[256] = "";

	assert_int_equal(pool_check(pool, why, sizeof(why)), -ENXIO);
	if (strstr(why, says) == NULL || strstr(why, dir.file) == NULL)
		fail_msg("%s", why);
	assert_int_equal(pool_lease(pool, "a", 1, &object), -ENXIO);
	assert_int_equal(pool_reserve(pool, "b", 1, 100, 0, &object), -ENXIO);
}

static void a_deleted_pool_is_noticed_and_takes_nothing_new(void **state)
{
	struct pool_object reading, writing;
	char why[256];

	(void)state;
	assert_int_equal(put(pool, "a", 1, 5000), 0);
	assert_int_equal(pool_check(pool, why, sizeof(why)), 0);
	assert_int_equal(pool_lease(pool, "a", 1, &reading), 0);
	assert_int_equal(pool_reserve(pool, "c", 1, 100, 0, &writing), 0);
	assert_int_equal(unlink(dir.file), 0);
	assert_lost("deleted");
	/* What runs may end. */
	assert_int_equal(pool_publish(pool, writing.handle, 0), 0);
	pool_release(pool, reading.handle);
	assert_int_equal(pool_renew(pool), 0);
}

static void a_replaced_pool_is_noticed(void **state)
{
	struct pool *other;
	char moved[128];

	(void)state;
	snprintf(moved, sizeof(moved), "%s.old", dir.file);
	assert_int_equal(rename(dir.file, moved), 0);
	assert_lost("moved");
	other = open_pool();
	assert_non_null(other);
	pool->lost = false;
	assert_lost("replaced");
	assert_true(shm_pool_has_address(pool, shm_pool_file(pool)->hdr));
	assert_false(shm_pool_has_address(pool, shm_pool_file(other)->hdr));
	pool_destroy(other);
	assert_int_equal(unlink(moved), 0);
}

static void a_cut_pool_is_noticed_and_not_touched(void **state)
{
	struct strait_pool_stats stats;
	struct pool_object reading;

	(void)state;
	assert_int_equal(put(pool, "a", 1, 5000), 0);
	assert_int_equal(pool_lease(pool, "a", 1, &reading), 0);
	assert_int_equal(truncate(dir.file, 0), 0);
	assert_lost("cut from");
	pool_release(pool, reading.handle);
	assert_int_equal(pool_renew(pool), -ENXIO);
	assert_int_equal(pool_stats(pool, &stats), -ENXIO);
	pool_destroy(pool);
	unlink(dir.file);
	pool = open_pool(); /* for the teardown */
	assert_non_null(pool);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(object_is_invisible_until_published),
		TEST(key_is_held_by_one_writer_and_first_value_stays),
		TEST(bad_sizes_and_keys_are_refused),
		TEST(abandoned_object_is_adopted_with_bytes_and_resume_area),
		TEST(partial_of_other_length_or_digest_is_begun_anew),
		TEST(removed_object_keeps_its_bytes_while_leased),
		TEST(oldest_goes_first_and_leased_never),
		TEST(partials_go_before_visible_objects),
		TEST(leased_pool_is_full),
		TEST(fragments_never_keep_out_what_would_fit),
		TEST(full_index_evicts),
		TEST(clients_see_each_other_and_leave_nothing_behind),
		TEST(dead_writer_leaves_a_partial_and_its_leases_end),
		TEST(forked_child_is_refused),
		TEST(the_room_of_a_file_is_known_before_it_is_opened),
		TEST(a_deleted_pool_is_noticed_and_takes_nothing_new),
		TEST(a_replaced_pool_is_noticed),
		TEST(a_cut_pool_is_noticed_and_not_touched),
		TEST(what_is_given_back_while_the_lock_is_stuck_is_given_back_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
