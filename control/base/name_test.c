/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void text_is_printable_utf8_of_some_length(void **state)
{
	static const char *const good[] = { "a", "eu-west 1", "\xc3\xa9", "\xe6\xb1\x9f",
		"\xf0\x9f\x9a\x80", "~" };
	static const char *const bad[] = { "", "a\nb", "\x1b[31m", "\x7f", "\xc2\x85", "\xff",
		"\xc3", "a\xe6\xb1", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
		"\x80" };
	char err[128], text[18];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(text_check("label", good[i], 16, err, sizeof(err)), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(text_check("label", bad[i], 16, err, sizeof(err)) < 0);
		assert_non_null(strstr(err, "label"));
	}
	memset(text, 'x', 17);
	text[17] = '\0';
	assert_true(text_check("label", text, 16, err, sizeof(err)) < 0);
	assert_int_equal(text_check("label", text, 17, err, sizeof(err)), 0);
}

static void names_are_short_and_plain(void **state)
{
	char err[128];

	(void)state;
	assert_int_equal(name_check("site", "a-1.b_c", err, sizeof(err)), 0);
	assert_true(name_check("site", "A", err, sizeof(err)) < 0);
	assert_true(name_check("site", "-a", err, sizeof(err)) < 0);
	assert_true(name_check("site", "", err, sizeof(err)) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_printable_utf8_of_some_length),
		cmocka_unit_test(names_are_short_and_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
