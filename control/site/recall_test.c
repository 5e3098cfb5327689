/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/recall.h"

#include "control/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVICTED_S = 100, BROUGHT_S = 1000, NOW = 1700000000 };

static char path[64];

static int setup(void **state)
{
	int fd;

	(void)state;
	log_set_level(LOG_LEVEL_ERROR);
	strcpy(path, "/tmp/strait-recall-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	close(fd);
	return unlink(path);
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static struct digest128 digest(uint64_t n)
{
	return (struct digest128){ n * 0x9e3779b97f4a7c15u, n * 0xbf58476d1ce4e5b9u };
}

static void what_was_evicted_and_brought_outlives_a_restart(void **state)
{
	struct recall *r = recall_create(path, EVICTED_S, BROUGHT_S);

	(void)state;
	assert_non_null(r);
	recall_evicted(r, digest(1), NOW);
	recall_bringing(r, digest(2), NOW);
	recall_destroy(r);
	r = recall_create(path, EVICTED_S, BROUGHT_S);
	assert_non_null(r);
	assert_true(recall_was_evicted(r, digest(1), NOW + 1));
	assert_false(recall_was_evicted(r, digest(2), NOW + 1));
	assert_true(recall_was_brought(r, digest(2), NOW + 1));
	assert_false(recall_was_brought(r, digest(1), NOW + 1));
	assert_false(recall_was_evicted(r, digest(1), NOW + EVICTED_S + 1));
	recall_destroy(r);
}

static void bringing_ends_the_memory_of_the_eviction(void **state)
{
	struct recall *r = recall_create(NULL, EVICTED_S, BROUGHT_S);

	(void)state;
	recall_evicted(r, digest(1), NOW);
	recall_bringing(r, digest(1), NOW);
	assert_false(recall_was_evicted(r, digest(1), NOW));
	recall_destroy(r);
}

static void write_at(long offset, const void *data, size_t len)
{
	FILE *f = fopen(path, offset < 0 ? "w" : "r+");

	assert_non_null(f);
	assert_int_equal(fseek(f, offset < 0 ? 0 : offset, SEEK_SET), 0);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
}

/* It is said, kept beside, and a good file is written in its place. */
static void is_begun_anew(void)
{
	char aside[sizeof(path) + 16], before[64] = "", after[64] = "";
	struct recall *r;
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_true(fread(before, 1, sizeof(before), f) > 0);
	fclose(f);
	r = recall_create(path, EVICTED_S, BROUGHT_S);
	assert_non_null(r);
	assert_non_null(strstr(recall_trouble(r), "the file was damaged"));
	for (int i = 0; i < 10; i++)
		assert_false(recall_was_evicted(r, digest((uint64_t)i), NOW));
	recall_evicted(r, digest(1), NOW);
	recall_destroy(r);
	r = recall_create(path, EVICTED_S, BROUGHT_S);
	assert_true(recall_was_evicted(r, digest(1), NOW));
	assert_string_equal(recall_trouble(r), "");
	recall_destroy(r);
	snprintf(aside, sizeof(aside), "%s.damaged", path);
	f = fopen(aside, "r");
	assert_non_null(f);
	assert_true(fread(after, 1, sizeof(after), f) > 0);
	fclose(f);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(unlink(aside), 0);
}

static void a_file_that_is_damaged_is_put_aside_and_begun_anew(void **state)
{
	struct recall *r;
	struct stat st;

	(void)state;
	write_at(-1, "something else", 14);
	is_begun_anew();
	write_at(8 + 5000, "x", 1); /* one byte of it */
	is_begun_anew();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size / 2), 0);
	is_begun_anew();
	assert_int_equal(truncate(path, st.st_size + 1), 0);
	is_begun_anew();
	/* of before there was a digest: taken as it is */
	r = recall_create(path, EVICTED_S, BROUGHT_S);
	recall_evicted(r, digest(2), NOW);
	recall_destroy(r);
	write_at(0, "STRRCL01", 8);
	assert_int_equal(truncate(path, st.st_size - 32), 0);
	r = recall_create(path, EVICTED_S, BROUGHT_S);
	assert_true(recall_was_evicted(r, digest(2), NOW));
	assert_string_equal(recall_trouble(r), "");
	recall_destroy(r);
}

static void a_file_that_cannot_be_read_is_not_replaced(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path, 0700), 0); /* root may read any file, but no directory */
	assert_null(recall_create(path, EVICTED_S, BROUGHT_S));
	assert_int_equal(errno, EISDIR);
	assert_int_equal(rmdir(path), 0);
}

static void it_is_saved_at_intervals(void **state)
{
	struct recall *r = recall_create(path, EVICTED_S, BROUGHT_S);

	(void)state;
	recall_save(r, RECALL_SAVE_NS);
	assert_int_equal(access(path, F_OK), -1);
	recall_evicted(r, digest(1), NOW);
	recall_save(r, RECALL_SAVE_NS);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
	recall_evicted(r, digest(2), NOW);
	recall_save(r, RECALL_SAVE_NS + 1);
	assert_int_equal(access(path, F_OK), -1);
	recall_save(r, 2 * RECALL_SAVE_NS);
	assert_int_equal(access(path, F_OK), 0);
	recall_destroy(r);
}

static void what_cannot_be_saved_is_said_until_it_can(void **state)
{
	char here[sizeof(path)], dir[sizeof(path) + 8], file[sizeof(path) + 16];
	struct recall *r;

	(void)state;
	strcpy(here, path);
	snprintf(dir, sizeof(dir), "%s.d", here);
	snprintf(file, sizeof(file), "%s/recall", dir);
	r = recall_create(file, EVICTED_S, BROUGHT_S);
	assert_non_null(r);
	assert_string_equal(recall_trouble(r), "");
	recall_evicted(r, digest(1), NOW);
	recall_save(r, RECALL_SAVE_NS);
	assert_non_null(strstr(recall_trouble(r), "cannot be saved: No such file"));
	assert_int_equal(mkdir(dir, 0700), 0);
	recall_save(r, 2 * RECALL_SAVE_NS);
	assert_string_equal(recall_trouble(r), "");
	recall_destroy(r);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* The process is killed in the middle of each write: nothing of them stays for good. */
static void what_a_killed_write_left_is_removed_at_the_next_start(void **state)
{
	char dir[sizeof(path) + 8], file[sizeof(path) + 16], other[sizeof(file) + 16];
	const struct dirent *e;
	struct rlimit least;
	struct recall *r;
	DIR *d;
	int fd, n = 0;

	(void)state;
	snprintf(dir, sizeof(dir), "%s.d", path);
	snprintf(file, sizeof(file), "%s/recall", dir);
	snprintf(other, sizeof(other), "%s.backup", file); /* as long as a temporary's of old */
	assert_int_equal(mkdir(dir, 0700), 0);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			/* SIGXFSZ ends it where the file has this size */
			least = (struct rlimit){ 4096, 4096 };
			(void)setrlimit(RLIMIT_FSIZE, &least);
			(void)signal(SIGXFSZ, SIG_DFL);
			least = (struct rlimit){ 0, 0 };
			(void)setrlimit(RLIMIT_CORE, &least);
			r = recall_create(file, EVICTED_S, BROUGHT_S);
			if (r == NULL)
				_exit(1);
			recall_evicted(r, digest(1), NOW);
			recall_save(r, RECALL_SAVE_NS);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
	}
	fd = open(other, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	assert_int_equal(n, 2); /* the last one's and somebody's copy */
	r = recall_create(file, EVICTED_S, BROUGHT_S);
	assert_non_null(r);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(rmdir(dir), 0); /* there is nothing else */
	recall_destroy(r);
	closedir(d);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_was_evicted_and_brought_outlives_a_restart),
		TEST(bringing_ends_the_memory_of_the_eviction),
		TEST(a_file_that_is_damaged_is_put_aside_and_begun_anew),
		TEST(a_file_that_cannot_be_read_is_not_replaced),
		TEST(it_is_saved_at_intervals),
		TEST(what_cannot_be_saved_is_said_until_it_can),
		TEST(what_a_killed_write_left_is_removed_at_the_next_start),
	};

	return cmocka_run_group_tests_name("recall", tests, NULL, NULL);
}
