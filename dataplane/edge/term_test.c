/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/term.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/term_test.XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/term", dir);
	unlink(path);
	return rmdir(dir);
}

static void a_lower_term_is_refused_after_a_restart(void **state)
{
	struct term t;
	char err[256];

	(void)state;
	assert_int_equal(term_init(&t, dir, err, sizeof(err)), 0);
	assert_int_equal(t.highest, 0);
	assert_int_equal(term_check(&t, 7), 0);
	assert_int_equal(term_check(&t, 6), -ESTALE);
	assert_int_equal(term_check(&t, 7), 0);

	memset(&t, 0, sizeof(t));
	assert_int_equal(term_init(&t, dir, err, sizeof(err)), 0);
	assert_int_equal(t.highest, 7);
	assert_int_equal(term_check(&t, 6), -ESTALE);
	assert_int_equal(term_check(&t, 8), 0);
}

static void write_file(const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/term", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void a_damaged_file_is_an_error_that_says_what_to_do(void **state)
{
	static const char *const damaged[] = { "", "x", "-1", "7x", "7\n8", "99999999999999999999",
		" 7" };
	struct term t;
	char err[256];

	(void)state;
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		write_file(damaged[i]);
		assert_int_equal(term_init(&t, dir, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, "remove it"));
	}
	write_file("18446744073709551615\n");
	assert_int_equal(term_init(&t, dir, err, sizeof(err)), 0);
	assert_true(t.highest == UINT64_MAX);
}

static void a_term_that_cannot_be_kept_is_not_obeyed(void **state)
{
	struct term t;
	char err[256];

	(void)state;
	assert_int_equal(term_init(&t, "/nonexistent-directory", err, sizeof(err)), 0);
	assert_true(term_check(&t, 1) < 0);
	assert_int_equal(t.highest, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lower_term_is_refused_after_a_restart, make_dir,
			remove_dir),
		cmocka_unit_test_setup_teardown(a_damaged_file_is_an_error_that_says_what_to_do,
			make_dir, remove_dir),
		cmocka_unit_test(a_term_that_cannot_be_kept_is_not_obeyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
