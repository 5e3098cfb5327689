/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/cross.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000ULL
#define S  1000000000ULL

/* A line of 100 Mbit/s, both directions. */
struct line {
	struct link links[2];
	struct cross cross;
	uint64_t now_ns;
};

static void line_init(struct line *l, const struct cross_config *flows, uint32_t n, uint64_t rtt_ns,
	double queue_bdp)
{
	struct link_config cfg;

	link_config_defaults(&cfg);
	cfg.rate_bps = 100000000;
	cfg.rtt_ns = rtt_ns;
	cfg.queue_bdp = queue_bdp;
	l->now_ns = 5 * S;
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(link_init(&l->links[i], &cfg, 1, i, l->now_ns), 0);
	assert_int_equal(cross_init(&l->cross, flows, n, l->links, l->now_ns), 0);
}

static void line_run(struct line *l, uint64_t until_ns)
{
	until_ns += 5 * S;
	while (cross_next_ns(&l->cross) <= until_ns) {
		l->now_ns = cross_next_ns(&l->cross);
		cross_step(&l->cross, l->now_ns);
	}
	assert_false(l->cross.failed);
}

static double mbps(uint64_t bytes, uint64_t ns)
{
	return (double)bytes * 8e3 / (double)ns;
}

static void one_flow_fills_the_line(void **state)
{
	const struct cross_config flow = { .kind = CROSS_CUBIC, .len_ns = 30 * S };
	struct line l;
	uint64_t at_5_s;

	(void)state;
	line_init(&l, &flow, 1, 40 * MS, 1);
	line_run(&l, 5 * S);
	at_5_s = l.cross.bytes[0];
	line_run(&l, 30 * S);
	assert_true(mbps(l.cross.bytes[0] - at_5_s, 25 * S) > 97);
	assert_true(l.cross.flows[0].tcp.reductions > 2);
	assert_int_equal(l.cross.flows[0].tcp.timeouts, 0);
	assert_true(l.cross.flows[0].lost < l.cross.flows[0].offered / 200);
	/* What was received was acknowledged: the flow goes on after losses, not around. */
	assert_true(l.cross.flows[0].tcp.delivered - l.cross.flows[0].tcp.una < 4000);
	cross_fini(&l.cross);
}

static void two_flows_share_evenly(void **state)
{
	const struct cross_config flows[] = {
		{ .kind = CROSS_CUBIC, .len_ns = 120 * S },
		{ .kind = CROSS_CUBIC, .start_ns = 5 * S, .len_ns = 115 * S },
	};
	uint64_t before[2];
	struct line l;
	double a, b;

	(void)state;
	line_init(&l, flows, 2, 40 * MS, 1);
	line_run(&l, 40 * S);
	for (int i = 0; i < 2; i++)
		before[i] = l.cross.flows[i].bytes;
	line_run(&l, 120 * S);
	a = mbps(l.cross.flows[0].bytes - before[0], 80 * S);
	b = mbps(l.cross.flows[1].bytes - before[1], 80 * S);
	assert_true(a + b > 97);
	assert_true(a > 35 && b > 35);
	cross_fini(&l.cross);
}

static void a_constant_flow_leaves_the_rest(void **state)
{
	const struct cross_config flows[] = {
		{ .kind = CROSS_CBR, .len_ns = 60 * S, .rate_bps = 30000000 },
		{ .kind = CROSS_CUBIC, .len_ns = 60 * S, .rtt_ns = 20 * MS },
	};
	struct line l;

	(void)state;
	line_init(&l, flows, 2, 40 * MS, 1);
	line_run(&l, 60 * S);
	/* The queue's loss is shared: full, it drops what comes. */
	assert_true(mbps(l.cross.flows[0].bytes, 60 * S) > 29);
	assert_true(mbps(l.cross.flows[1].bytes, 60 * S) > 66);
	cross_fini(&l.cross);
}

static void a_lossy_start_on_a_tiny_queue_does_not_stop_a_flow(void **state)
{
	const struct cross_config flow = { .kind = CROSS_CUBIC, .len_ns = 30 * S };
	struct line l;

	(void)state;
	line_init(&l, &flow, 1, 10 * MS, 0.05);
	line_run(&l, 30 * S);
	assert_true(mbps(l.cross.bytes[0], 30 * S) > 60);
	cross_fini(&l.cross);
}

static void times_and_forms_are_parsed(void **state)
{
	static const char *const bad[] = { "", "cubic", "cubic:1", "cubic:1,0", "cubic:1,2,3,4",
		"cbr:1,2", "cbr:1,2,0", "cbr:1,2,-1", "reno:1,2", "cubic:-1,5", "cubic:1,2x" };
	struct cross_config c;
	char error[200];

	(void)state;
	assert_int_equal(cross_parse(&c, "cubic:1000,2500", error, sizeof(error)), 0);
	assert_true(c.kind == CROSS_CUBIC && c.start_ns == S && c.len_ns == 2500 * MS);
	assert_int_equal(c.rtt_ns, 0);
	assert_int_equal(cross_parse(&c, "cubic:0,1,20", error, sizeof(error)), 0);
	assert_int_equal(c.rtt_ns, 20 * MS);
	assert_int_equal(cross_parse(&c, "cbr:0,1,0.5", error, sizeof(error)), 0);
	assert_true(c.kind == CROSS_CBR && c.rate_bps == 500000000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(cross_parse(&c, bad[i], error, sizeof(error)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_flow_fills_the_line),
		cmocka_unit_test(two_flows_share_evenly),
		cmocka_unit_test(a_constant_flow_leaves_the_rest),
		cmocka_unit_test(a_lossy_start_on_a_tiny_queue_does_not_stop_a_flow),
		cmocka_unit_test(times_and_forms_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
