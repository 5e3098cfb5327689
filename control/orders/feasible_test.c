/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/feasible.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why[256];

/* 8 Mbit/s is 1 byte a microsecond: 1 MB a second. */
static const struct feasible_link link_8m = { .now_ms = 1000,
	.rate_bps = 8000000,
	.latency_ms = 100 };

static bool fits(const struct feasible_link *l, struct feasible_order own,
	const struct feasible_order *others, size_t n)
{
	struct feasible f;

	feasible_begin(&f, l, &own);
	for (size_t i = 0; i < n; i++)
		feasible_add(&f, &others[i]);
	return feasible_end(&f, why, sizeof(why));
}

static void an_order_alone_needs_its_own_time_and_a_way(void **state)
{
	struct feasible_order o = { .id = 1, .bytes = 1000000, .deadline_ms = 2100, .class = 1 };

	(void)state;
	assert_true(fits(&link_8m, o, NULL, 0));
	o.deadline_ms = 2099;
	assert_false(fits(&link_8m, o, NULL, 0));
	assert_string_equal(why,
		"0.0 MB go before it and it has 1.0 MB: at 8.0 Mbit/s it ends in 1.10 s at the "
		"earliest, its deadline is in 1.10 s");
	o.deadline_ms = 0;
	assert_true(fits(&link_8m, o, NULL, 0));
}

static void the_rows_of_a_tail_count(void **state)
{
	struct feasible_link l = link_8m;
	struct feasible_order o = { .id = 1, .bytes = 800000, .deadline_ms = 1949, .class = 1 };

	(void)state;
	assert_true(fits(&l, o, NULL, 0));
	l.tail_bytes = 1000000;
	assert_false(fits(&l, o, NULL, 0));
	o.deadline_ms = 1950; /* 800 kB, 50 kB of rows, 100 ms */
	assert_true(fits(&l, o, NULL, 0));
}

static void only_what_goes_before_counts(void **state)
{
	struct feasible_order others[] = {
		{ .id = 1, .bytes = 1000000, .class = 0 },                      /* before */
		{ .id = 2, .bytes = 500000, .deadline_ms = 3000, .class = 1 },  /* before */
		{ .id = 3, .bytes = 500000, .deadline_ms = 4100, .class = 1 },  /* same deadline */
		{ .id = 4, .bytes = 90000000, .deadline_ms = 0, .class = 1 },   /* after */
		{ .id = 5, .bytes = 90000000, .deadline_ms = 1500, .class = 2 } /* after */
	};
	struct feasible_order o = { .id = 9, .bytes = 1000000, .deadline_ms = 4100, .class = 1 };

	(void)state;
	assert_true(fits(&link_8m, o, others, 5));
	o.bytes++;
	assert_false(fits(&link_8m, o, others, 5));
	assert_non_null(strstr(why, "2.0 MB go before it"));
}

static void nobody_of_the_class_is_made_late(void **state)
{
	struct feasible_order others[] = {
		{ .id = 4, .bytes = 2000000, .deadline_ms = 4000, .class = 1 },
		{ .id = 5, .bytes = 2000000, .deadline_ms = 5500, .class = 1 },
		{ .id = 6, .bytes = 1000000, .deadline_ms = 6200, .class = 2 },
	};
	struct feasible_order o = { .id = 9, .bytes = 400000, .deadline_ms = 2000, .class = 1 };

	(void)state;
	assert_true(fits(&link_8m, o, others, 3)); /* that of a lower class does not matter */
	o.bytes = 500000;
	assert_false(fits(&link_8m, o, others, 3));
	assert_non_null(strstr(why, "order 5 end in 4.60 s"));
	/* Who is late already stays so; who is late by the margin only may still do it. */
	others[1].deadline_ms = 4500;
	assert_true(fits(&link_8m, o, others, 3));
	others[1].deadline_ms = 5050;
	assert_false(fits(&link_8m, o, others, 3));
}

static void without_a_rate_nothing_is_refused(void **state)
{
	struct feasible_link unknown = { .now_ms = 1000 };
	struct feasible_order o = { .id = 1, .bytes = 1 << 30, .deadline_ms = 1001, .class = 1 };

	(void)state;
	assert_true(fits(&unknown, o, &o, 1));
}

static int by_rank(const void *a, const void *b)
{
	const struct feasible_order *x = a, *y = b;

	return x->deadline_ms < y->deadline_ms ? -1 : x->deadline_ms > y->deadline_ms;
}

/* Whoever was admitted ends in time when bytes are carried in the order of deadlines. */
static void admitted_orders_of_a_random_arrival_end_in_time(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 200; seed++) {
		struct feasible_order live[64];
		struct feasible_link l = { .rate_bps = 8000000 };
		unsigned int refused = 0, admitted = 0;
		size_t n = 0;

		srandom(seed);
		for (l.now_ms = 1000; l.now_ms < 60000; l.now_ms += 10) {
			uint64_t room = 10000; /* bytes in 10 ms */

			if (random() % 20 == 0 && n < 64) {
				struct feasible_order o = { .id = l.now_ms,
					.bytes = (uint64_t)(random() % 400000),
					.class = 1 };

				o.deadline_ms = l.now_ms + 50 + (uint64_t)(random() % 3000);
				if (fits(&l, o, live, n)) {
					live[n++] = o;
					admitted++;
					qsort(live, n, sizeof(live[0]), by_rank);
				} else {
					refused++;
				}
			}
			while (n > 0 && room > 0) {
				uint64_t take = live[0].bytes < room ? live[0].bytes : room;

				live[0].bytes -= take;
				room -= take;
				if (live[0].bytes > 0)
					break;
				if (l.now_ms + 10 > live[0].deadline_ms + 10)
					fail_msg("seed %u: order %llu is late", seed,
						(unsigned long long)live[0].id);
				memmove(live, live + 1, --n * sizeof(live[0]));
			}
			if (n > 0 && live[0].deadline_ms < l.now_ms)
				fail_msg("seed %u: order %llu is late", seed,
					(unsigned long long)live[0].id);
		}
		assert_true(admitted > 100 && refused > 0);
	}
}

static void a_share_that_is_low_while_idle_is_not_the_rate(void **state)
{
	(void)state;
	assert_int_equal(feasible_rate(37000000, 12200000, 12400000), 37000000);
	assert_int_equal(feasible_rate(37000000, 36500000, 12400000), 36500000);
	assert_int_equal(feasible_rate(37000000, 45000000, 12400000), 37000000);
	/* The path was seen to do less than its share. */
	assert_int_equal(feasible_rate(37000000, 5000000, 12400000), 5000000);
	assert_int_equal(feasible_rate(37000000, 0, 12400000), 37000000);
	assert_int_equal(feasible_rate(0, 12200000, 0), 12200000);
	assert_int_equal(feasible_rate(0, 0, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_order_alone_needs_its_own_time_and_a_way),
		cmocka_unit_test(the_rows_of_a_tail_count),
		cmocka_unit_test(only_what_goes_before_counts),
		cmocka_unit_test(nobody_of_the_class_is_made_late),
		cmocka_unit_test(a_share_that_is_low_while_idle_is_not_the_rate),
		cmocka_unit_test(without_a_rate_nothing_is_refused),
		cmocka_unit_test(admitted_orders_of_a_random_arrival_end_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
