/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_check.h"
#include "dataplane/pool/shm_file.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define POOL_BYTES (2u << 20)

static struct testing_dir dir;
static char err[256];

static int setup(void **state)
{
	(void)state;
	err[0] = '\0';
	return testing_dir_create(&dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	testing_dir_remove(&dir);
	return 0;
}

static struct pool *open_with(bool create, bool group, uint64_t size)
{
	const struct shm_pool_options options = {
		.create = create,
		.group = group,
		.create_size_bytes = size,
	};

	return shm_pool_open(dir.file, &options, err, sizeof(err));
}

static void create_closed(void)
{
	struct pool *pool = open_with(true, false, POOL_BYTES);

	assert_non_null(pool);
	pool_destroy(pool);
}

/* Overwrite a header field. */
static void poke(off_t at, uint32_t value)
{
	int fd = open(dir.file, O_RDWR);

	assert_int_equal(pwrite(fd, &value, sizeof(value), at), sizeof(value));
	close(fd);
}

static void assert_refused(bool group, int code, const char *reason)
{
	assert_null(open_with(true, group, POOL_BYTES));
	assert_int_equal(errno, code);
	if (strstr(err, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err, reason);
}

static void missing_file_is_refused_without_create(void **state)
{
	(void)state;
	assert_null(open_with(false, false, POOL_BYTES));
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(err, dir.file));
}

static void sizes_out_of_range_are_refused(void **state)
{
	(void)state;
	assert_null(open_with(true, false, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(open_with(true, false, SHM_SIZE_MAX + 1));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(access(dir.file, F_OK), -1);
}

static void every_size_has_a_layout_inside_the_file(void **state)
{
	struct shm_geometry geo;

	(void)state;
	for (uint64_t size = SHM_SIZE_MIN; size <= SHM_SIZE_MAX; size += size / 7 / 4096 * 4096) {
		assert_int_equal(shm_geometry_init(&geo, size), 0);
		assert_true(geo.page_count > 0);
		assert_true(geo.pages_off + (uint64_t)geo.page_count * sizeof(struct shm_page) <=
			geo.arena_off);
		assert_true(geo.arena_off + (uint64_t)geo.page_count * SHM_PAGE <= size);
		assert_int_equal(geo.arena_off % SHM_PAGE, 0);
	}
	assert_int_equal(shm_geometry_init(&geo, SHM_SIZE_MIN + 1), -EINVAL);
}

static void objects_outlive_their_clients(void **state)
{
	struct pool *pool = open_with(true, false, POOL_BYTES);
	struct pool_object object;
	struct strait_pool_stats s;

	(void)state;
	assert_non_null(pool);
	assert_int_equal(pool_reserve(pool, "k", 1, 100, 0, &object), 0);
	testing_fill(object.data, 4, 0, 100);
	assert_int_equal(pool_publish(pool, object.handle, 11), 0);
	pool_destroy(pool);
	pool = open_with(false, false, 0);
	assert_non_null(pool);
	assert_int_equal(pool_lease(pool, "k", 1, &object), 0);
	assert_int_equal(object.digest, 11);
	assert_true(testing_is_object(object.data, 4, 0, 100));
	assert_int_equal(pool_stats(pool, &s), 0);
	assert_int_equal(s.boots, 2);
	assert_int_equal(s.file_bytes, POOL_BYTES);
	pool_destroy(pool);
}

static void strange_files_are_refused_in_words(void **state)
{
	(void)state;
	create_closed();
	poke(offsetof(struct shm_header, version), 77);
	assert_refused(false, EPROTO, "format 77");
	poke(offsetof(struct shm_header, version), SHM_VERSION);
	poke(offsetof(struct shm_header, entry_count), 1);
	assert_refused(false, EUCLEAN, "made with");
	poke(offsetof(struct shm_header, magic), 1);
	assert_refused(false, EILSEQ, "not a Strait pool");
	assert_int_equal(truncate(dir.file, 4096), 0);
	assert_refused(false, EUCLEAN, "not the size of a pool");
	assert_int_equal(truncate(dir.file, 0), 0);
	assert_refused(false, EUCLEAN, "not the size of a pool");
}

static void truncated_pool_is_refused(void **state)
{
	(void)state;
	create_closed();
	assert_int_equal(truncate(dir.file, POOL_BYTES / 2), 0);
	assert_refused(false, EUCLEAN, "made with");
}

static void links_and_directories_are_refused(void **state)
{
	(void)state;
	assert_int_equal(symlink("/dev/null", dir.file), 0);
	assert_refused(false, EINVAL, "not a regular file");
	unlink(dir.file);
	assert_int_equal(mkdir(dir.file, 0700), 0);
	assert_refused(false, EINVAL, "not a regular file");
	rmdir(dir.file);
}

static void file_open_to_the_world_is_refused(void **state)
{
	(void)state;
	create_closed();
	assert_int_equal(chmod(dir.file, 0666), 0);
	assert_refused(false, EPERM, "anyone");
}

static void file_of_another_user_needs_to_be_group_shared(void **state)
{
	struct pool *pool;

	(void)state;
	if (geteuid() != 0)
		skip();
	create_closed();
	assert_int_equal(chown(dir.file, 12345, 12345), 0);
	assert_refused(false, EPERM, "belongs to user 12345");
	assert_refused(true, EPERM, "not writable by its group");
	assert_int_equal(chmod(dir.file, 0660), 0);
	pool = open_with(false, true, 0);
	assert_non_null(pool);
	pool_destroy(pool);
}

static void mode_does_not_depend_on_the_umask(void **state)
{
	mode_t old = umask(0077);
	struct pool *pool = open_with(true, true, POOL_BYTES);
	struct stat st;

	(void)state;
	umask(old);
	assert_non_null(pool);
	pool_destroy(pool);
	assert_int_equal(stat(dir.file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
}

/* A child puts its own number under its own key and leaves. */
static void racer(int go, unsigned int id)
{
	struct pool_object object;
	struct pool *pool;
	char byte, key[8];

	if (read(go, &byte, 1) != 0)
		_exit(1);
	pool = open_with(true, false, POOL_BYTES);
	snprintf(key, sizeof(key), "%u", id);
	if (pool == NULL || pool_reserve(pool, key, strlen(key), 64, 0, &object) != 0 ||
		pool_publish(pool, object.handle, id) != 0)
		_exit(1);
	_exit(0);
}

static void racing_creators_share_one_pool(void **state)
{
	enum { RACERS = 8, ROUNDS = 20 };
	struct pool_object object;
	struct pool *pool;
	int go[2], status;
	char key[8];

	(void)state;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		unlink(dir.file);
		assert_int_equal(pipe(go), 0);
		for (unsigned int id = 0; id < RACERS; id++) {
			if (fork() == 0) {
				close(go[1]);
				racer(go[0], id);
			}
		}
		close(go[0]);
		close(go[1]);
		for (unsigned int id = 0; id < RACERS; id++) {
			assert_true(wait(&status) > 0);
			assert_int_equal(status, 0);
		}
		pool = open_with(false, false, 0);
		assert_non_null(pool);
		for (unsigned int id = 0; id < RACERS; id++) {
			snprintf(key, sizeof(key), "%u", id);
			assert_int_equal(pool_lease(pool, key, strlen(key), &object), 0);
			assert_int_equal(object.digest, id);
		}
		assert_int_equal(shm_check(shm_pool_file(pool), err, sizeof(err)), 0);
		pool_destroy(pool);
	}
}

static void client_slots_are_limited_and_come_back(void **state)
{
	static struct pool *pool[SHM_CLIENTS];

	(void)state;
	for (unsigned int i = 0; i < SHM_CLIENTS; i++) {
		pool[i] = open_with(true, false, POOL_BYTES);
		assert_non_null(pool[i]);
	}
	assert_refused(false, EUSERS, "slots");
	pool_destroy(pool[7]);
	pool[7] = open_with(false, false, 0);
	assert_non_null(pool[7]);
	for (unsigned int i = 0; i < SHM_CLIENTS; i++)
		pool_destroy(pool[i]);
}

/* Whatever a client of the same tenant scribbles over the metadata, others must survive it. */
static void scribbled_metadata_harms_nobody(void **state)
{
	struct pool_object object;
	struct strait_pool_stats s;
	uint64_t random = 5;

	(void)state;
	for (unsigned int round = 0; round < 300; round++) {
		struct pool *pool = open_with(true, false, POOL_BYTES);
		struct shm *shm;
		char key[8];

		assert_non_null(pool);
		shm = shm_pool_file(pool);
		for (unsigned int i = 0; i < 60; i++) {
			uint32_t junk = (uint32_t)testing_random(&random);
			uint64_t at;

			snprintf(key, sizeof(key), "%u", i);
			if (pool_reserve(pool, key, strlen(key), 1 + junk % 90000, 0, &object) == 0)
				pool_publish(pool, object.handle, i);
			if (junk % 3 == 0 && pool_lease(pool, key, strlen(key), &object) == 0)
				pool_release(pool, object.handle);
			if (junk % 5 == 0)
				pool_remove(pool, key, strlen(key));
			/*
			 * Derived part of the header, buckets, entries and page tags; not the
			 * lock.
			 */
			at = testing_below(&random, 4);
			if (at == 0)
				at = offsetof(struct shm_header, free_entry) +
					testing_below(&random,
						sizeof(struct shm_header) -
							offsetof(struct shm_header, free_entry));
			else if (at == 1)
				at = shm->geo.buckets_off + testing_below(&random, 512);
			else if (at == 2)
				at = shm->geo.entries_off + testing_below(&random, 64 * 128);
			else
				at = shm->geo.pages_off + testing_below(&random, 400 * 12);
			((uint32_t *)shm->hdr)[at / 4] = junk % 2 ? junk : junk % 128;
		}
		pool_stats(pool, &s);
		shm_check(shm, err, sizeof(err));
		pool_destroy(pool);
		unlink(dir.file);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(missing_file_is_refused_without_create),
		TEST(sizes_out_of_range_are_refused),
		TEST(every_size_has_a_layout_inside_the_file),
		TEST(objects_outlive_their_clients),
		TEST(strange_files_are_refused_in_words),
		TEST(truncated_pool_is_refused),
		TEST(links_and_directories_are_refused),
		TEST(file_open_to_the_world_is_refused),
		TEST(file_of_another_user_needs_to_be_group_shared),
		TEST(mode_does_not_depend_on_the_umask),
		TEST(racing_creators_share_one_pool),
		TEST(client_slots_are_limited_and_come_back),
		TEST(scribbled_metadata_harms_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
