/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/plot.h"
#include "tools/sim/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ULL

static void bins_follow_time_and_keep_the_state_seen_last(void **state)
{
	struct trace t;
	struct trace_bin *b;

	(void)state;
	trace_init(&t, 500 * MS, MS);
	assert_null(trace_at(&t, 499 * MS));
	b = trace_at(&t, 500 * MS);
	assert_non_null(b);
	b->offered_bytes = 5;
	b->rtt_ns = 7;
	assert_ptr_equal(trace_at(&t, 501 * MS - 1), &t.bins[0]);
	b = trace_at(&t, 510 * MS);
	assert_int_equal(t.n, 11);
	assert_int_equal(b->offered_bytes, 0);
	assert_int_equal(b->rtt_ns, 7);
	trace_fini(&t);
}

static void without_a_length_nothing_is_kept(void **state)
{
	struct trace t;

	(void)state;
	trace_init(&t, 0, 0);
	assert_null(trace_at(&t, 5));
	trace_fini(&t);
}

static void merging_keeps_sums_and_maxima(void **state)
{
	struct trace t;

	(void)state;
	trace_init(&t, 0, MS);
	for (uint64_t i = 0; i < 10; i++) {
		struct trace_bin *b = trace_at(&t, i * MS);

		b->good_bytes = i;
		b->queue_bytes = 10 - i;
		b->outstanding_bytes = i;
	}
	trace_merge(&t, 4 * MS);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.bin_ns, 4 * MS);
	assert_int_equal(t.bins[0].good_bytes, 6);
	assert_int_equal(t.bins[0].queue_bytes, 10);
	assert_int_equal(t.bins[0].outstanding_bytes, 3);
	assert_int_equal(t.bins[2].good_bytes, 17);
	assert_ptr_equal(trace_at(&t, 13 * MS), &t.bins[3]);
	trace_fini(&t);
}

/* Written to memory: the file, which the caller frees. */
static char *written(const struct trace *t, const struct plot *p)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	if (p)
		plot_svg(p, f);
	else
		trace_csv(t, f);
	fclose(f);
	return text;
}

static void csv_has_a_line_a_bin(void **state)
{
	struct trace t;
	char *csv;

	(void)state;
	trace_init(&t, 0, MS);
	trace_at(&t, 0)->offered_bytes = 125000;
	trace_at(&t, MS)->lost = 3;
	csv = written(&t, NULL);
	assert_non_null(strstr(csv, "\n0.000,1.000000,0.000000,0.000000,0,0,0,0,0.0000\n"));
	assert_non_null(strstr(csv, "\n1.000,0.000000,0.000000,0.000000,0,0,0,3,0.0000\n"));
	free(csv);
	trace_fini(&t);
}

static void a_picture_is_drawn_of_anything(void **state)
{
	struct plot p = { .title = "a < b & c", .subtitle = "", .rate_gbps = 1 };
	struct trace t;

	(void)state;
	trace_init(&t, 0, MS);
	p.trace = &t;
	for (int i = 0; i < 3; i++) {
		char *svg;

		if (i > 0)
			trace_at(&t, (uint64_t)i * MS)->offered_bytes = i > 1 ? 100000 : 0;
		svg = written(NULL, &p);
		assert_non_null(strstr(svg, "a &lt; b &amp; c"));
		assert_non_null(strstr(svg, "</svg>"));
		assert_null(strstr(svg, "nan"));
		assert_null(strstr(svg, "inf"));
		free(svg);
	}
	trace_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bins_follow_time_and_keep_the_state_seen_last),
		cmocka_unit_test(without_a_length_nothing_is_kept),
		cmocka_unit_test(merging_keeps_sums_and_maxima),
		cmocka_unit_test(csv_has_a_line_a_bin),
		cmocka_unit_test(a_picture_is_drawn_of_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
