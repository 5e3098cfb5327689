/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/link_rate.h"

#include <strait/wire.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ULL
#define S  1000000000ULL

/* A session that carries bps of goodput, with so much left. */
static uint64_t run(struct link_rate *r, struct session_stats *s, uint64_t now_ns, uint64_t ns,
	uint64_t bps, uint64_t backlog)
{
	for (uint64_t end = now_ns + ns; now_ns < end; now_ns += 50 * MS) {
		s->delivered_bytes += bps / 8 / 20;
		s->counters[STRAIT_C_tx_bytes] += bps / 8 / 20;
		s->backlog_bytes = backlog;
		link_rate_update(r, now_ns, s);
	}
	return now_ns;
}

static void an_idle_link_is_as_good_as_its_cap(void **state)
{
	struct session_stats s = { .srtt_ns = 50 * MS };
	struct link_rate r = { 0 };
	uint64_t now = run(&r, &s, 1 * S, 2 * S, 10000000, 0), bps;

	(void)state;
	bps = link_rate_goodput(&r, now, 100000000, 100000000, 1432);
	assert_in_range(bps, 90000000, 93200000);
	assert_int_equal(link_rate_goodput(&r, now, 0, 0, 1432), 0);
	assert_true(link_rate_limit(100000000, 1432) > bps);
	assert_int_equal(link_rate_limit(0, 1432), UINT64_MAX);
}

static void a_busy_link_is_as_good_as_it_was(void **state)
{
	struct session_stats s = { .srtt_ns = 50 * MS };
	struct link_rate r = { 0 };
	uint64_t now = run(&r, &s, 1 * S, 3 * S, 40000000, 1 << 30);

	(void)state;
	assert_in_range(link_rate_goodput(&r, now, 100000000, 100000000, 1432), 39000000, 41000000);
	assert_in_range(link_rate_goodput(&r, now, 0, 0, 1432), 39000000, 41000000);
	assert_in_range(r.used_bps, 39000000, 41000000);
	/* That is forgotten. */
	assert_true(link_rate_goodput(&r, now + 31 * S, 100000000, 100000000, 1432) > 90000000);
}

static void the_first_round_trips_do_not_count(void **state)
{
	struct session_stats s = { .srtt_ns = 200 * MS };
	struct link_rate r = { 0 };
	uint64_t now = run(&r, &s, 1 * S, 400 * MS, 0, 1 << 30);

	(void)state;
	assert_true(link_rate_goodput(&r, now, 100000000, 100000000, 1432) > 90000000);
	now = run(&r, &s, now, 2 * S, 90000000, 1 << 30);
	assert_true(link_rate_goodput(&r, now, 100000000, 100000000, 1432) > 90000000);
}

static void a_new_session_starts_anew(void **state)
{
	struct session_stats s = { .srtt_ns = 50 * MS };
	struct link_rate r = { 0 };
	uint64_t now = run(&r, &s, 1 * S, 2 * S, 95000000, 1 << 30);

	(void)state;
	memset(&s, 0, sizeof(s));
	s.srtt_ns = 50 * MS;
	now = run(&r, &s, now, 2 * S, 50000000, 1 << 30);
	assert_in_range(r.used_bps, 49000000, 51000000);
	assert_true(link_rate_goodput(&r, now, 100000000, 100000000, 1432) < 80000000);
}

static void a_share_of_who_does_not_send_is_no_limit(void **state)
{
	struct session_stats s = { .srtt_ns = 50 * MS, .cap_bps = 12000000 };
	struct link_rate r = { 0 };
	uint64_t now = run(&r, &s, 1 * S, 2 * S, 1000000, 0);

	(void)state;
	assert_in_range(link_rate_goodput(&r, now, 12000000, 40000000, 1432), 36000000, 40000000);
	/* It carried all of a share, which says nothing of more... */
	now = run(&r, &s, now, 2 * S, 11000000, 1 << 30);
	assert_in_range(link_rate_goodput(&r, now, 12000000, 40000000, 1432), 36000000, 40000000);
	assert_in_range(link_rate_goodput(&r, now, 40000000, 40000000, 1432), 36000000, 40000000);
	/* ... and less than that says what the path can do. */
	s.cap_bps = 40000000;
	now = run(&r, &s, now, 3 * S, 20000000, 1 << 30);
	assert_in_range(link_rate_goodput(&r, now, 40000000, 40000000, 1432), 19000000, 21000000);
	assert_in_range(link_rate_goodput(&r, now, 12000000, 40000000, 1432), 19000000, 40000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_link_is_as_good_as_its_cap),
		cmocka_unit_test(a_busy_link_is_as_good_as_it_was),
		cmocka_unit_test(the_first_round_trips_do_not_count),
		cmocka_unit_test(a_new_session_starts_anew),
		cmocka_unit_test(a_share_of_who_does_not_send_is_no_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
