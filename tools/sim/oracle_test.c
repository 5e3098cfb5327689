/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/run_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct sim_result r;

static void run(const char *line, uint64_t seed)
{
	run_line("--oracle", line, seed, &r);
}

static void it_is_ideal_at_any_loss(void **state)
{
	static const char *const lines[] = {
		"--rate-gbps 1 --rtt-ms 10 --mib 64",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --loss 0.0001",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --loss 0.05",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --ge 0.02,64",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --loss 0.01 --corrupt 0.01",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --cap-gbps 0.5 --loss 0.01",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --cap-gbps 1.5 --loss 0.01",
		"--rate-gbps 1 --rtt-ms 10 --mib 64 --mtu 9000 --loss 0.01",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		for (uint64_t seed = 1; seed < 4; seed++) {
			run(lines[i], seed);
			assert_true(r.ok);
			assert_true(r.figures[SIM_efficiency] >= 0.999);
			assert_true(r.figures[SIM_efficiency] <= 1.0005);
			assert_true(fabs(r.figures[SIM_extra_rtt]) < 0.1);
			assert_true(r.figures[SIM_queue_loss] == 0);
			assert_int_equal(r.bytes, 64 << 20);
		}
}

static void it_meets_the_losses_of_the_link(void **state)
{
	(void)state;
	run("--rate-gbps 1 --rtt-ms 10 --mib 64 --loss 0.05", 1);
	assert_true(fabs(r.figures[SIM_loss] - 0.05) < 0.005);
	run("--rate-gbps 1 --rtt-ms 10 --mib 64", 1);
	assert_true(r.figures[SIM_loss] == 0);
}

static void a_cut_costs_its_length(void **state)
{
	double without;

	(void)state;
	run("--rate-gbps 1 --rtt-ms 10 --mib 64", 1);
	without = r.figures[SIM_seconds];
	run("--rate-gbps 1 --rtt-ms 10 --mib 64 --cut 100,2000", 1);
	assert_true(fabs(r.figures[SIM_seconds] - without - 2) < 0.001);
}

static void a_link_that_loses_all_is_given_up(void **state)
{
	(void)state;
	run("--rate-gbps 1 --rtt-ms 10 --mib 1 --loss 1 --limit-s 0.5", 1);
	assert_false(r.ok);
	assert_true(strlen(r.error) > 0);
}

static void random_plans_are_possible(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 50; seed++) {
		run("--profile random", seed);
		assert_true(r.ok);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_ideal_at_any_loss),
		cmocka_unit_test(it_meets_the_losses_of_the_link),
		cmocka_unit_test(a_cut_costs_its_length),
		cmocka_unit_test(a_link_that_loses_all_is_given_up),
		cmocka_unit_test(random_plans_are_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
