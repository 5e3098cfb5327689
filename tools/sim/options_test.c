/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct sim_options o;
static char error[200];

/* A command line, split at blanks. */
static int parse(const char *line)
{
	static char copy[400];
	char *argv[40] = { "strait-sim" };
	int argc = 1;

	strncpy(copy, line, sizeof(copy) - 1);
	for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
		argv[argc++] = p;
	error[0] = 0;
	return sim_options_parse(&o, argc, argv, error, sizeof(error));
}

static void defaults_are_those_of_the_contract(void **state)
{
	(void)state;
	assert_int_equal(parse(""), 0);
	assert_int_equal(o.plan.world.link[0].rate_bps, 10000000000);
	assert_int_equal(o.plan.world.link[1].rtt_ns, 100000000);
	assert_int_equal(o.plan.world.cap_bps, 10000000000);
	assert_int_equal(o.plan.world.symbol_bytes, STRAIT_SYMBOL_BYTES_IPV4);
	assert_int_equal(o.plan.total_bytes, 64 << 20);
	assert_int_equal(o.plan.class_, STRAIT_CLASS_NORMAL);
	assert_int_equal(o.seeds, 1);
}

static void flows_and_their_class_are_given_or_as_the_first(void **state)
{
	(void)state;
	assert_int_equal(parse("--class bulk --flows 3 --flow-start-ms 20 --wait-ms 5"), 0);
	assert_int_equal(o.plan.flows, 3);
	assert_int_equal(o.plan.flow_start_ns, 20000000);
	assert_int_equal(o.plan.wait_ns, 5000000);
	assert_int_equal(o.plan.flow_class, STRAIT_CLASS_BULK);
	assert_int_equal(parse("--flows 2 --flow-class urgent --every-ms 3"), 0);
	assert_int_equal(o.plan.flow_class, STRAIT_CLASS_URGENT);
	assert_int_equal(o.plan.every_ns, 3000000);
	assert_int_equal(parse("--flows 5"), -EINVAL);
	assert_int_equal(parse("--flow-class slow"), -EINVAL);
	assert_int_equal(parse("--flows 2 --cold"), -EINVAL);
	assert_int_equal(parse("--every-ms 3 --restart-sink 5"), -EINVAL);
}

static void cap_follows_the_link_unless_given(void **state)
{
	(void)state;
	assert_int_equal(parse("--rate-gbps 1"), 0);
	assert_int_equal(o.plan.world.cap_bps, 1000000000);
	assert_int_equal(parse("--cap-gbps 1.5 --rate-gbps 1"), 0);
	assert_int_equal(o.plan.world.cap_bps, 1500000000);
	assert_int_equal(plan_rate_bps(&o.plan), 1000000000);
	assert_int_equal(parse("--cap-gbps 0"), 0);
	assert_int_equal(o.plan.world.cap_bps, 0);
}

static void feedback_is_like_the_data_direction_unless_given(void **state)
{
	(void)state;
	assert_int_equal(parse("--fb-loss 0.5 --loss 0.01 --cut 100,50 --cut 300,5"), 0);
	assert_true(o.plan.world.link[0].loss == 0.01 && o.plan.world.link[1].loss == 0.5);
	assert_int_equal(o.plan.world.link[1].ncuts, 2);
	assert_int_equal(parse("--cut 100,50 --fb-cut 7,1 --fb-cut 9,1 --cut 300,5"), 0);
	assert_int_equal(o.plan.world.link[0].ncuts, 2);
	assert_int_equal(o.plan.world.link[0].cuts[1].at_ns, 300000000);
	assert_int_equal(o.plan.world.link[1].ncuts, 2);
	assert_int_equal(o.plan.world.link[1].cuts[0].at_ns, 7000000);
}

static void bad_input_is_named(void **state)
{
	static const char *const bad[] = { "--loss 2", "--mib 0", "--mib", "--mib x",
		"--class slow", "--profile none", "--objects 1.5", "--nonsense 1", "--fb-mib 1",
		"mib 1", "--mib 1 --objects 2", "--objects 2 --transfers 3", "--mtu 100",
		"--seeds 0", "--objects 100000 --object-kib 1" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse(bad[i]), -EINVAL);
		assert_true(strlen(error) > 10);
	}
	assert_int_equal(parse("--bogus"), -EINVAL);
	assert_string_equal(error, "unknown option --bogus; see --help");
	assert_int_equal(parse("--fb-bogus"), -EINVAL);
	assert_string_equal(error, "unknown option --fb-bogus; see --help");
	assert_int_equal(parse("--mib"), -EINVAL);
	assert_string_equal(error, "--mib needs a value");
}

static void random_plans_differ_by_seed_only(void **state)
{
	static struct plan a, b;

	(void)state;
	assert_int_equal(parse("--profile random --seed 3"), 0);
	sim_options_plan(&o, 3, &a);
	sim_options_plan(&o, 3, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	sim_options_plan(&o, 4, &b);
	assert_memory_not_equal(&a, &b, sizeof(a));
}

static void what_the_random_profile_draws_is_not_given(void **state)
{
	static const char *const drawn[] = { "--loss 0.1", "--fb-loss 0.5", "--fb-cut 1,1",
		"--cross cubic:1,1", "--mib 1", "--cap-gbps 1", "--class bulk", "--ipv6", "--cold",
		"--lan", "--attack 0.1", "--flows 2", "--limit-s 1", "--wait-ms 1" };
	char line[100];

	(void)state;
	for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
		snprintf(line, sizeof(line), "%s --profile random", drawn[i]);
		assert_int_equal(parse(line), -EINVAL);
		assert_non_null(strstr(error, "--profile random draws that"));
		snprintf(line, sizeof(line), "--profile random %s", drawn[i]);
		assert_int_equal(parse(line), -EINVAL);
		assert_int_equal(parse(drawn[i]), 0);
	}
	assert_int_equal(parse("--profile random --seed 3 --seeds 2 --jobs 1 --json --counters "
			       "--light --with-oracle --csv a --plot b"),
		0);
	assert_int_equal(parse("--profile random --oracle --describe"), 0);
}

static void a_value_is_never_an_option(void **state)
{
	static const char *const names[] = { "csv", "plot", "loss", "mib", "seed", "class",
		"profile", "cross", "fb-loss" };
	char line[100], says[100];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(line, sizeof(line), "--%s --light", names[i]);
		snprintf(says, sizeof(says), "--%s needs a value", names[i]);
		assert_int_equal(parse(line), -EINVAL);
		assert_string_equal(error, says);
	}
	assert_int_equal(parse("--csv ./--light --plot -"), 0);
	assert_string_equal(o.csv, "./--light");
}

static void a_seed_has_64_bits(void **state)
{
	(void)state;
	assert_int_equal(parse("--seed 9007199254740993"), 0);
	assert_true(o.seed == UINT64_C(9007199254740993));
	assert_int_equal(parse("--seed 18446744073709551615"), 0);
	assert_true(o.seed == UINT64_MAX);
	assert_int_equal(parse("--seed 18446744073709551614 --seeds 2"), 0);
	assert_int_equal(parse("--seed 18446744073709551615 --seeds 2"), -EINVAL);
	assert_int_equal(parse("--seed 18446744073709551616"), -EINVAL);
	assert_int_equal(parse("--seed 1.5"), -EINVAL);
	assert_int_equal(parse("--seed -1"), -EINVAL);
	assert_int_equal(parse("--seed 0x10"), -EINVAL);
}

static void the_oracle_has_no_course_to_show(void **state)
{
	(void)state;
	assert_int_equal(parse("--oracle --csv a"), -EINVAL);
	assert_non_null(strstr(error, "--csv"));
	assert_int_equal(parse("--plot a --oracle"), -EINVAL);
	assert_int_equal(parse("--with-oracle --csv a --plot b"), 0);
}

static void restarts_are_kept_in_order(void **state)
{
	(void)state;
	assert_int_equal(parse("--restart-sink 50 --restart-source 20"), 0);
	assert_int_equal(o.plan.nrestarts, 2);
	assert_int_equal(o.plan.restarts[0].side, WORLD_SOURCE);
	assert_int_equal(o.plan.restarts[1].at_ns, 50000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_contract),
		cmocka_unit_test(flows_and_their_class_are_given_or_as_the_first),
		cmocka_unit_test(cap_follows_the_link_unless_given),
		cmocka_unit_test(feedback_is_like_the_data_direction_unless_given),
		cmocka_unit_test(bad_input_is_named),
		cmocka_unit_test(random_plans_differ_by_seed_only),
		cmocka_unit_test(what_the_random_profile_draws_is_not_given),
		cmocka_unit_test(a_value_is_never_an_option),
		cmocka_unit_test(a_seed_has_64_bits),
		cmocka_unit_test(the_oracle_has_no_course_to_show),
		cmocka_unit_test(restarts_are_kept_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
