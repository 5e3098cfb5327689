/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/pool_fault.h"

#include "dataplane/pool/shm_pool.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[100];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/pool_fault_test.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/cut.pool", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

/* Never returns. */
static void fault(bool by_signal)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = 2 << 20 };
	struct edge_config cfg = { .pool_count = 1, .pools = { { .path = path } } };
	struct pool *pool = shm_pool_open(path, &options, NULL, 0);
	const struct rlimit none = { 0, 0 };
	struct pool_object object;

	setrlimit(RLIMIT_CORE, &none);
	if (pool == NULL || pool_fault_init(&cfg, &pool) < 0 ||
		pool_reserve(pool, "k", 1, 1 << 20, 0, &object) < 0)
		_exit(1);
	if (by_signal)
		raise(SIGBUS);
	if (truncate(path, 4096) == 0)
		memset(object.data, 1, object.len);
	_exit(2);
}

/* How a child ends that does this, and what it says. */
static int status_of(bool by_signal, char *said, size_t len)
{
	int fds[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		fault(by_signal);
	}
	close(fds[1]);
	while (n + 1 < len && (got = read(fds[0], said + n, len - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void a_cut_pool_is_named_before_the_process_ends(void **state)
{
	char said[1024];
	int status;

	(void)state;
	status = status_of(false, said, sizeof(said));
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
	if (strstr(said, path) == NULL || strstr(said, "was cut") == NULL)
		fail_msg("%s", said);
}

static void another_bus_error_blames_no_pool(void **state)
{
	char said[1024];
	int status;

	(void)state;
	status = status_of(true, said, sizeof(said));
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
	assert_string_equal(said, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_cut_pool_is_named_before_the_process_ends),
		TEST(another_bus_error_blames_no_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
