/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/args.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The first option of a line, split at blanks, whose value is an option; 0: none. */
static int first_bad(const char *line)
{
	static const struct option longs[] = {
		{ "file", required_argument, NULL, 'f' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	static char copy[200];
	char *argv[20] = { "program" };
	int argc = 1, opt;

	strncpy(copy, line, sizeof(copy) - 1);
	for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
		argv[argc++] = p;
	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "f:j", longs, NULL)) != -1)
		if (args_has_option_as_value(argv))
			return opt;
	return 0;
}

static void words_that_only_options_begin_with(void **state)
{
	(void)state;
	assert_true(args_is_option("--json"));
	assert_true(args_is_option("--"));
	assert_true(args_is_option("-h"));
	assert_true(args_is_option("-Verbose"));
	assert_false(args_is_option("-"));
	assert_false(args_is_option("-5"));
	assert_false(args_is_option("-.5"));
	assert_false(args_is_option("./--json"));
	assert_false(args_is_option(""));
	assert_false(args_is_option("a-b"));
}

static void the_next_option_is_no_value(void **state)
{
	(void)state;
	assert_int_equal(first_bad("--file --json"), 'f');
	assert_int_equal(first_bad("--json --file -j"), 'f');
	assert_int_equal(first_bad("-f --json"), 'f');
	assert_int_equal(first_bad("word --file --"), 'f');
	assert_int_equal(first_bad("--file x --json -f y"), 0);
	assert_int_equal(first_bad("--file - --file -5"), 0);
	/* Where it is plain that it is meant. */
	assert_int_equal(first_bad("--file=--json"), 0);
	assert_int_equal(first_bad("-f./--json"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_that_only_options_begin_with),
		cmocka_unit_test(the_next_option_is_no_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
