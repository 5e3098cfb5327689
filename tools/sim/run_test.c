/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/run_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct sim_result r;

static double figure(enum sim_figure f, const char *line)
{
	run_line("--light", line, 0, &r);
	assert_string_equal(r.error, "");
	return r.figures[f];
}

static double counted(enum strait_counter c)
{
	return (double)r.counters[WORLD_SOURCE][c];
}

/* What a report still speaks of the source learns; after many round trips it does not. */
static void a_repair_of_what_was_only_late_is_spurious_however_late(void **state)
{
	double late =
		figure(SIM_spurious_repair, "--rate-gbps 1 --rtt-ms 1 --mib 8 --reorder 0.25,5");

	(void)state;
	/* Hardly anything is lost there: nearly all that was declared lost was only late. */
	assert_true(r.figures[SIM_overhead] > 0.05);
	assert_true(late > 0.8 * counted(STRAIT_C_tx_lost) / counted(STRAIT_C_tx_packets));
	/* Losses are not. */
	assert_true(
		figure(SIM_spurious_repair, "--rate-gbps 1 --rtt-ms 20 --mib 8 --loss 0.05") == 0);
	assert_true(counted(STRAIT_C_tx_lost) > 100);
	/* Copies are no second arrival. */
	assert_true(
		figure(SIM_spurious_repair, "--rate-gbps 1 --rtt-ms 20 --mib 8 --dup 0.3") == 0);
	/* Late, but within what reports reach: no less than the source itself has counted. */
	late = figure(SIM_spurious_repair, "--rate-gbps 1 --rtt-ms 20 --mib 8 --reorder 0.25,5");
	assert_true(late > 0 && late < 0.005);
	assert_true(late > 0.9 * counted(STRAIT_C_tx_spurious) / counted(STRAIT_C_tx_packets));
}

/* What a report does not have yet is not lost: the rate stays at the cap. */
static void reordering_does_not_slow_the_sender(void **state)
{
	double sum = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		run_line("--light", "--rate-gbps 1 --rtt-ms 100 --mib 64 --reorder 0.5,10", seed,
			&r);
		assert_string_equal(r.error, "");
		sum += r.figures[SIM_efficiency];
	}
	assert_true(sum / 4 > 0.97);
}

static void overhead_means_bytes_where_symbols_become_smaller(void **state)
{
	double falls =
		figure(SIM_overhead, "--rate-gbps 0.2 --rtt-ms 20 --mib 20 --path-mtu 300,700");

	(void)state;
	/* Two thirds of the order went out in symbols of less than half the size. */
	assert_true(counted(STRAIT_C_tx_source) > 1.5 * 20 * 1048576 / 1432);
	assert_true(falls > 0 && falls < 0.1);
	/* A path that carries all: the same, but for the short symbols at the ends of streams. */
	falls = figure(SIM_overhead, "--rate-gbps 0.2 --rtt-ms 20 --mib 20 --path-mtu 0,1500");
	assert_true(
		fabs(falls - figure(SIM_overhead, "--rate-gbps 0.2 --rtt-ms 20 --mib 20")) < 0.001);
}

static void the_lan_profile_sends_no_rows(void **state)
{
	(void)state;
	figure(SIM_seconds, "--rate-gbps 1 --rtt-ms 0.2 --mib 4 --class urgent --lan");
	assert_true(counted(STRAIT_C_tx_repair) == 0);
	figure(SIM_seconds, "--rate-gbps 1 --rtt-ms 0.2 --mib 4 --class urgent");
	assert_true(counted(STRAIT_C_tx_repair) > 0);
}

/* A symbol of the wrong length that waits for its transfer takes the place of the right one. */
static void who_tampers_costs_a_round_trip_at_most(void **state)
{
	static const char *const lines[] = { "--rate-gbps 0.2 --rtt-ms 100 --mib 8 --loss 0.01",
		"--rate-gbps 0.02 --rtt-ms 20 --mib 2 --object-kib 500 --transfers 3" };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		double alone = figure(SIM_extra_rtt, lines[i]);
		char attacked[200];

		snprintf(attacked, sizeof(attacked), "%s --attack 0.1", lines[i]);
		assert_true(figure(SIM_extra_rtt, attacked) <= alone + 1.25);
		assert_true(r.figures[SIM_attacks] > 100);
		assert_true(r.figures[SIM_spurious_repair] == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repair_of_what_was_only_late_is_spurious_however_late),
		cmocka_unit_test(reordering_does_not_slow_the_sender),
		cmocka_unit_test(overhead_means_bytes_where_symbols_become_smaller),
		cmocka_unit_test(the_lan_profile_sends_no_rows),
		cmocka_unit_test(who_tampers_costs_a_round_trip_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
