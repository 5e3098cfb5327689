/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char err[160];

static void sizes_are_powers_of_1024(void **state)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = { { "0", 0 }, { "4096", 4096 }, { "64K", 65536 }, { "1.5G", 3ull << 29 },
		{ "512 MiB", 512ull << 20 }, { "1t", 1ull << 40 },
		{ "16777215T", 16777215ull << 40 }, { "0.5k", 512 } };
	static const char *const bad[] = { "", "G", "-1", "1X", "1.G", "1..5G", "0x10", "1e9", " 1",
		"1G ", "1 G G", "nan" };
	uint64_t out = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(units_parse_bytes(good[i].text, &out, err, sizeof(err)), 0);
		assert_int_equal(out, good[i].want);
	}
	out = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(units_parse_bytes(bad[i], &out, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, "write it like"));
		assert_int_equal(out, 7);
	}
	assert_int_equal(units_parse_bytes("16777216T", &out, err, sizeof(err)), -ERANGE);
	assert_int_equal(units_parse_bytes("99999999999999999999", &out, err, sizeof(err)),
		-ERANGE);
}

static void rates_are_powers_of_1000(void **state)
{
	uint64_t out;

	(void)state;
	assert_int_equal(units_parse_rate("1.5Gbit", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 1500000000);
	assert_int_equal(units_parse_rate("500M", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 500000000);
	assert_int_equal(units_parse_rate("10Gbit/s", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 10000000000);
	assert_int_equal(units_parse_rate("9600bps", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 9600);
	assert_int_equal(units_parse_rate("1GiB", &out, err, sizeof(err)), -EINVAL);
	assert_int_equal(units_parse_rate("bit", &out, err, sizeof(err)), -EINVAL);
}

static void durations_need_a_unit(void **state)
{
	uint64_t out;

	(void)state;
	assert_int_equal(units_parse_duration("10ms", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 10000000);
	assert_int_equal(units_parse_duration("1.5s", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 1500000000);
	assert_int_equal(units_parse_duration("7d", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 604800000000000);
	assert_int_equal(units_parse_duration("0", &out, err, sizeof(err)), 0);
	assert_int_equal(out, 0);
	assert_int_equal(units_parse_duration("60", &out, err, sizeof(err)), -EINVAL);
	assert_int_equal(units_parse_duration("300000d", &out, err, sizeof(err)), -ERANGE);
}

static void texts_have_three_digits(void **state)
{
	char buf[UNITS_TEXT_MAX];

	(void)state;
	assert_string_equal(units_format_bytes(0, buf), "0 B");
	assert_string_equal(units_format_bytes(1023, buf), "1023 B");
	assert_string_equal(units_format_bytes(3ull << 29, buf), "1.50 GiB");
	assert_string_equal(units_format_rate(12300000, buf), "12.3 Mbit/s");
	assert_string_equal(units_format_rate(500000000, buf), "500 Mbit/s");
	assert_string_equal(units_format_duration(1200000, buf), "1.20 ms");
	assert_string_equal(units_format_duration(UINT64_MAX, buf), "213504 d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_powers_of_1024),
		cmocka_unit_test(rates_are_powers_of_1000),
		cmocka_unit_test(durations_need_a_unit),
		cmocka_unit_test(texts_have_three_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
