/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/link/link_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static int parse(struct link_config *cfg, const char *name, const char *value)
{
	char err[160] = "";
	int rc = link_config_parse_option(name, value, cfg, err, sizeof(err));

	/* An error is explained, names its option and leaves the terminal's line to the caller. */
	if (rc < 0) {
		assert_non_null(strstr(err, name));
		assert_null(strchr(err, '\n'));
	}
	return rc;
}

static void every_option_sets_its_field(void **state)
{
	struct link_config c;

	(void)state;
	link_config_defaults(&c);
	assert_int_equal(parse(&c, "rate-gbps", "2.5"), 0);
	assert_int_equal(parse(&c, "rtt-ms", "60"), 0);
	assert_int_equal(parse(&c, "queue-bdp", "0.5"), 0);
	assert_int_equal(parse(&c, "loss", "1e-3"), 0);
	assert_int_equal(parse(&c, "ge", "0.01,8"), 0);
	assert_int_equal(parse(&c, "reorder", "0.25,5"), 0);
	assert_int_equal(parse(&c, "dup", "0.001"), 0);
	assert_int_equal(parse(&c, "corrupt", "0.0001"), 0);
	assert_int_equal(parse(&c, "cut", "1000,50"), 0);
	assert_int_equal(parse(&c, "cut", "2000,0.5"), 0);
	assert_int_equal(parse(&c, "rtt-step", "500,80"), 0);
	assert_true(c.rate_bps == 2500000000 && c.rtt_ns == 60000000);
	assert_true(c.queue_bdp == 0.5 && c.queue_bytes == 0 && c.loss == 0.001);
	assert_true(c.ge_loss == 0.01 && c.ge_burst == 8);
	assert_true(c.reorder == 0.25 && c.reorder_ns == 5000000);
	assert_true(c.dup == 0.001 && c.corrupt == 0.0001 && c.corrupt_bits == 8);
	assert_true(c.ncuts == 2 && c.cuts[1].at_ns == 2000000000 && c.cuts[1].len_ns == 500000);
	assert_true(c.nsteps == 1 && c.steps[0].at_ns == 500000000);
	assert_true(c.steps[0].rtt_ns == 80000000);
	assert_int_equal(parse(&c, "corrupt", "0.1,3"), 0);
	assert_int_equal(c.corrupt_bits, 3);
	assert_int_equal(parse(&c, "queue-bytes", "100000"), 0);
	assert_int_equal(link_config_queue_bytes(&c), 100000);
	assert_int_equal(parse(&c, "queue-bdp", "1"), 0);
	assert_int_equal(link_config_queue_bytes(&c), 18750000);
}

static void bad_values_are_refused_and_change_nothing(void **state)
{
	static const char *const bad[][2] = {
		{ "loss", "" },
		{ "loss", "1.5" },
		{ "loss", "-0.1" },
		{ "loss", "x" },
		{ "loss", "0.1x" },
		{ "loss", "0.1,2" },
		{ "loss", "nan" },
		{ "loss", "inf" },
		{ "loss", "0x1" },
		{ "loss", " 0.1" },
		{ "loss", NULL },
		{ "ge", "0.1" },
		{ "ge", "0.1," },
		{ "ge", "0.1,0.5" },
		{ "ge", "0.9,2" },
		{ "ge", "1,8" },
		{ "ge", "0.1,8,1" },
		{ "reorder", "0.1" },
		{ "reorder", "0.1,999999" },
		{ "cut", "1" },
		{ "cut", "1,-1" },
		{ "rtt-step", ",1" },
		{ "rate-gbps", "1e9" },
		{ "rate-gbps", "1e999" },
		{ "corrupt", "0.1,17" },
		{ "queue-bytes", "0" },
		{ "rtt-ms", "1e30" },
		{ "queue-bdp", "0.1.2" },
		{ "corrupt", "0.1,0.5" },
	};
	struct link_config c, before;

	(void)state;
	link_config_defaults(&c);
	before = c;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse(&c, bad[i][0], bad[i][1]), -EINVAL);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void unknown_options_and_full_lists_are_told_apart(void **state)
{
	struct link_config c;

	(void)state;
	link_config_defaults(&c);
	assert_int_equal(parse(&c, "seed", "1"), -ENOENT);
	assert_true(link_config_is_option("rtt-step"));
	assert_false(link_config_is_option("seed"));
	for (int i = 0; i < LINK_CUTS_MAX; i++)
		assert_int_equal(parse(&c, "cut", "1,1"), 0);
	assert_int_equal(parse(&c, "cut", "1,1"), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_option_sets_its_field),
		cmocka_unit_test(bad_values_are_refused_and_change_nothing),
		cmocka_unit_test(unknown_options_and_full_lists_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
