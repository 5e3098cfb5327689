/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/tempdir.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void put_file(const char *dir)
{
	char name[TEMPDIR_BYTES + 8];
	FILE *f;

	snprintf(name, sizeof(name), "%s/file", dir);
	f = fopen(name, "w");
	assert_non_null(f);
	fclose(f);
}

static void directory_goes_with_its_files(void **state)
{
	char dir[TEMPDIR_BYTES];

	(void)state;
	assert_int_equal(tempdir_create(dir), 0);
	put_file(dir);
	assert_int_equal(access(dir, F_OK), 0);
	tempdir_remove();
	assert_int_not_equal(access(dir, F_OK), 0);
	tempdir_remove(); /* there is none: nothing happens */
}

/* A process with a directory, whose path it tells through the pipe, that waits to be ended. */
static pid_t holder(char *dir)
{
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (tempdir_create(dir) < 0 || write(fd[1], dir, TEMPDIR_BYTES) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(fd[0], dir, TEMPDIR_BYTES), TEMPDIR_BYTES);
	close(fd[0]);
	close(fd[1]);
	return pid;
}

static void signal_removes_it_and_still_ends_the_process(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		char dir[TEMPDIR_BYTES] = "";
		pid_t pid = holder(dir);
		int status;

		put_file(dir);
		kill(pid, signals[i]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), signals[i]);
		assert_int_not_equal(access(dir, F_OK), 0);
	}
}

static void signal_to_a_child_leaves_it(void **state)
{
	char dir[TEMPDIR_BYTES];
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(tempdir_create(dir), 0);
	pid = fork();
	if (pid == 0) {
		raise(SIGTERM);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(access(dir, F_OK), 0);
	tempdir_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directory_goes_with_its_files),
		cmocka_unit_test(signal_removes_it_and_still_ends_the_process),
		cmocka_unit_test(signal_to_a_child_leaves_it),
	};

	unsetenv("STRAIT_BENCH_KEEP");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
