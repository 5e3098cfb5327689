/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static struct bench_options opt;
static char err[256];

static int parse(const char *const *args)
{
	char *argv[24] = { (char *)"strait-bench" };
	int argc = 1;

	while (*args)
		argv[argc++] = (char *)(uintptr_t)*args++;
	err[0] = '\0';
	return bench_options_parse(&opt, argc, argv, err, sizeof(err));
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

static void defaults_are_a_plain_ethernet_path(void **state)
{
	(void)state;
	assert_int_equal(PARSE("tx"), 0);
	assert_int_equal(opt.verb, BENCH_TX);
	assert_int_equal(opt.symbol_bytes, 1432);
	assert_int_equal(opt.runs, 5);
	assert_int_equal(opt.pool_mib, 1024);
	assert_int_equal(opt.cpu, -1);
	assert_false(opt.json);
}

static void every_option_is_read(void **state)
{
	(void)state;
	assert_int_equal(PARSE("rx", "--seconds", "0.5", "--mtu", "9000", "--loss", "0.01",
				 "--runs", "3", "--cpu", "1", "--pool-mib", "2048", "--ring-mib",
				 "8", "--json"),
		0);
	assert_int_equal(opt.verb, BENCH_RX);
	assert_true(opt.seconds == 0.5 && opt.loss == 0.01);
	assert_int_equal(opt.symbol_bytes, 8932);
	assert_int_equal(opt.runs, 3);
	assert_int_equal(opt.cpu, 1);
	assert_int_equal(opt.pool_mib, 2048);
	assert_int_equal(opt.ring_mib, 8);
	assert_true(opt.json);
	assert_int_equal(PARSE("limit", "--rows", "16"), 0);
	assert_int_equal(opt.rows, 16);
}

static void an_unknown_benchmark_lists_the_known_ones(void **state)
{
	(void)state;
	assert_int_equal(PARSE("edges"), -EINVAL);
	assert_string_equal(err,
		"\"edges\" is not a benchmark: there are limit, tx, rx, edge, exist, index, "
		"diff and control");
	assert_int_equal(PARSE("--json"), -EINVAL);
	assert_non_null(strstr(err, "limit, tx, rx, edge, exist, index, diff and control"));
	assert_int_equal(PARSE("--help"), 0);
	assert_true(opt.help);
}

static void numbers_out_of_bounds_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{ "--seconds", "0" },
		{ "--seconds", "nan" },
		{ "--rows", "17" },
		{ "--rows", "1.5" },
		{ "--rows", "-1" },
		{ "--mtu", "579" },
		{ "--mtu", "9001" },
		{ "--runs", "0" },
		{ "--cpu", "x" },
		{ "--pool-mib", "1" },
		{ "--ring-mib", "1000" },
		{ "--loss", "0.5" },
		{ "--rate", "0" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(PARSE("limit", bad[i][0], bad[i][1]), -EINVAL);
		assert_non_null(strstr(err, bad[i][0]));
	}
	assert_int_equal(PARSE("tx", "--rows"), -EINVAL);
	assert_string_equal(err, "--rows needs a value");
	assert_int_equal(PARSE("tx", "--rows", "--json"), -EINVAL);
	assert_string_equal(err, "--rows needs a value");
	assert_int_equal(PARSE("tx", "--colour"), -EINVAL);
	assert_int_equal(PARSE("tx", "more"), -EINVAL);
}

static void rows_and_loss_belong_to_their_side(void **state)
{
	(void)state;
	assert_int_equal(PARSE("tx", "--loss", "0.01"), -EINVAL);
	assert_int_equal(PARSE("rx", "--rows", "4"), -EINVAL);
	assert_int_equal(PARSE("rx", "--rows", "0"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_a_plain_ethernet_path),
		cmocka_unit_test(every_option_is_read),
		cmocka_unit_test(an_unknown_benchmark_lists_the_known_ones),
		cmocka_unit_test(numbers_out_of_bounds_are_refused),
		cmocka_unit_test(rows_and_loss_belong_to_their_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
