/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[100];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/port_memif_test.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/memif.sock", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static int listen_at(const char *where)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", where);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static bool is_there(void)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void the_socket_of_a_killed_server_is_removed(void **state)
{
	(void)state;
	close(listen_at(path));
	assert_true(is_there());
	port_memif_remove_stale_socket(path);
	assert_false(is_there());
	close(listen_at(path));
}

static void the_socket_of_a_running_server_stays(void **state)
{
	int fd;

	(void)state;
	fd = listen_at(path);
	port_memif_remove_stale_socket(path);
	assert_true(is_there());
	close(fd);
}

static void what_is_no_socket_stays(void **state)
{
	FILE *f;

	(void)state;
	port_memif_remove_stale_socket(path);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	port_memif_remove_stale_socket(path);
	assert_true(is_there());
	unlink(path);
	assert_int_equal(symlink("/nowhere", path), 0);
	port_memif_remove_stale_socket(path);
	assert_true(is_there());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_socket_of_a_killed_server_is_removed),
		TEST(the_socket_of_a_running_server_stays),
		TEST(what_is_no_socket_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
