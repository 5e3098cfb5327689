/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/keylog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[128], err[256];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/keylog_test.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/keys", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void each_session_is_a_line_in_a_private_file(void **state)
{
	uint8_t secret[STRAIT_SECRET_BYTES];
	char text[512];
	struct keylog *k;
	struct stat st;
	FILE *f;

	(void)state;
	for (int i = 0; i < STRAIT_SECRET_BYTES; i++)
		secret[i] = (uint8_t)(i * 5);
	for (int i = 0; i < 2; i++) {
		k = keylog_open(path, err, sizeof(err));
		assert_non_null(k);
		keylog_session(k, 0x0000abcd, 0x12345678 + (uint32_t)i, secret);
		keylog_close(k);
	}
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	f = fopen(path, "r");
	assert_non_null(f);
	for (int i = 0; i < 2; i++) {
		assert_non_null(fgets(text, sizeof(text), f));
		assert_int_equal(strlen(text), 22 + 16 + 1 + 96 + 1);
		assert_memory_equal(text, "STRAIT_SESSION_SECRET 0000abcd1234567", 37);
		assert_int_equal(text[37], '8' + i);
		assert_memory_equal(text + 38, " 00050a0f", 9);
	}
	assert_null(fgets(text, sizeof(text), f));
	fclose(f);
}

static void files_that_others_may_read_are_refused(void **state)
{
	(void)state;
	keylog_close(keylog_open(path, err, sizeof(err)));
	assert_int_equal(chmod(path, 0640), 0);
	assert_null(keylog_open(path, err, sizeof(err)));
	assert_non_null(strstr(err, "chmod 600"));
}

static void only_regular_files_are_written(void **state)
{
	(void)state;
	assert_int_equal(symlink("/tmp/keylog_test_elsewhere", path), 0);
	assert_null(keylog_open(path, err, sizeof(err)));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_null(keylog_open(path, err, sizeof(err)));
	assert_null(keylog_open("/dev/null", err, sizeof(err)));
	assert_null(keylog_open(dir, err, sizeof(err)));
}

static void without_a_log_nothing_is_written(void **state)
{
	const uint8_t secret[STRAIT_SECRET_BYTES] = { 0 };

	(void)state;
	keylog_session(NULL, 1, 2, secret);
	keylog_close(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(each_session_is_a_line_in_a_private_file),
		TEST(files_that_others_may_read_are_refused),
		TEST(only_regular_files_are_written),
		TEST(without_a_log_nothing_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
