/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/pacer.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS    1000000ULL
#define START 12345678901234ULL /* some hours of uptime */

enum { PACKET = 1538 };

static const uint64_t rates[] = { 1000000, 20000000, 1000000000, 10000000000, 100000000000,
	400000000000 };

/* Bytes a sender that always has packets lets go in [from, from + span). */
static uint64_t run(struct pacer *p, uint64_t from, uint64_t span, uint64_t *last)
{
	uint64_t bytes = 0, now = from;

	for (;;) {
		uint64_t next = pacer_next_ns(p);

		if (next > now)
			now = next;
		if (now >= from + span)
			return bytes;
		pacer_take(p, now, PACKET);
		bytes += PACKET;
		*last = now;
	}
}

static void backlogged_rate_is_exact_over_windows(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		uint64_t window = rates[i] < 100000000 ? 10000 * MS : 10 * MS, last;
		struct pacer p;

		pacer_init(&p, rates[i], PACKET, 0);
		run(&p, START, window, &last); /* burst spent */
		for (uint64_t w = 1; w < 10; w++) {
			double want = (double)rates[i] / 8 * (double)window / 1e9;
			double got = (double)run(&p, START + w * window, window, &last);

			assert_true(got < want * 1.001 + PACKET);
			assert_true(got > want * 0.999 - PACKET);
		}
	}
}

static void there_is_no_drift(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct pacer p;
		double want = 0;

		/* 10^9 packets' worth, in takes of 10^6 packets each. */
		pacer_init(&p, rates[i], PACKET, 0);
		pacer_take(&p, START, 0);
		want = (double)p.next_ns;
		for (int n = 0; n < 1000; n++)
			pacer_take(&p, pacer_next_ns(&p), 1000000U * PACKET);
		want += 1e9 * PACKET * 8e9 / (double)rates[i];
		assert_true((double)p.next_ns > want * (1 - 1e-9) - 1000);
		assert_true((double)p.next_ns < want * (1 + 1e-6) + 1000);
	}
}

/* Whatever happens, no window may carry more than rate * d + burst (and a ns). */
static void no_interval_exceeds_rate_and_burst(void **state)
{
	struct prng r;

	(void)state;
	prng_init(&r, 1, 0);
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		double packet_ns = PACKET * 8e9 / (double)rates[i];
		double burst = 16 * packet_ns > 2e6 ? 2e6 / packet_ns : 16;
		double lowest = 0, sent = 0;
		uint64_t now = START;
		struct pacer p;

		if (burst < 2)
			burst = 2;
		pacer_init(&p, rates[i], PACKET, 0);
		for (int n = 0; n < 20000; n++) {
			double at;

			if (prng_below(&r, 50) == 0)
				now += prng_below(&r, (uint64_t)(100 * packet_ns));
			if (pacer_next_ns(&p) > now)
				now = pacer_next_ns(&p) + prng_below(&r, (uint64_t)packet_ns);
			pacer_take(&p, now, PACKET);
			/*
			 * sent - rate * t may rise by at most `burst` packets above its lowest
			 * value.
			 */
			at = sent - (double)(now - START) / packet_ns;
			if (n == 0 || at < lowest)
				lowest = at;
			sent += 1;
			assert_true(at + 1 - lowest <= burst + 1 / packet_ns + 0.001);
		}
	}
}

static uint64_t burst_at(struct pacer *p, uint64_t now)
{
	uint64_t n = 0;

	while (pacer_next_ns(p) <= now) {
		pacer_take(p, now, PACKET);
		n++;
	}
	return n;
}

static void idle_time_earns_one_burst_only(void **state)
{
	struct pacer p;

	(void)state;
	pacer_init(&p, 10000000000, PACKET, 0);
	assert_int_equal(burst_at(&p, START), 16);
	assert_int_equal(burst_at(&p, START + 3600000 * MS), 16);
	/*
	 * 1 Gbit/s: 16 packets last 197 us. 20 Mbit/s: 2 ms hold 3 packets. 1 Mbit/s: two at least.
	 */
	pacer_init(&p, 1000000000, PACKET, 0);
	assert_int_equal(burst_at(&p, START), 16);
	pacer_init(&p, 20000000, PACKET, 0);
	assert_in_range(burst_at(&p, START), 3, 4);
	pacer_init(&p, 1000000, PACKET, 0);
	assert_int_equal(burst_at(&p, START), 2);
}

/* A worker that comes 0.5 ms late now and then: what a burst holds is not lost. */
static uint64_t sent_by_a_late_worker(uint32_t burst_packets)
{
	struct pacer p;
	uint64_t n = 0;

	pacer_init(&p, 1000000000, PACKET, burst_packets);
	burst_at(&p, START);
	for (uint64_t now = START; now < START + 100 * MS;
		now += now % MS < MS / 2 ? MS / 50 : MS / 2)
		n += burst_at(&p, now);
	return n * PACKET * 8;
}

static void a_larger_burst_makes_up_for_coming_late(void **state)
{
	struct pacer p;

	(void)state;
	assert_in_range(sent_by_a_late_worker(64), 99000000, 100000000);
	assert_true(sent_by_a_late_worker(16) < 75000000);
	/* By time it is bounded all the same, and by number. */
	pacer_init(&p, 100000000, PACKET, 64);
	assert_in_range(burst_at(&p, START), 16, 18);
	pacer_init(&p, UINT64_C(400000000000), PACKET, UINT32_MAX);
	assert_int_equal(burst_at(&p, START), PACER_BURST_MAX);
}

static void small_packets_cost_less(void **state)
{
	struct pacer p;

	(void)state;
	pacer_init(&p, 8000000000, PACKET, 0); /* 1 ns a byte */
	burst_at(&p, START);
	pacer_take(&p, pacer_next_ns(&p), 100);
	for (int i = 0; i < 10; i++) {
		uint64_t before = pacer_next_ns(&p);

		pacer_take(&p, before, 100);
		assert_int_equal(pacer_next_ns(&p) - before, 100);
	}
}

static void zero_means_unlimited(void **state)
{
	struct pacer p;

	(void)state;
	pacer_init(&p, 0, PACKET, 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(pacer_next_ns(&p), 0);
		pacer_take(&p, START, PACKET);
	}
	pacer_set_rate(&p, START, 1000000000, PACKET);
	assert_int_equal(burst_at(&p, START), 1);
	pacer_set_rate(&p, START, 0, PACKET);
	assert_int_equal(pacer_next_ns(&p), 0);
}

static void debt_and_credit_are_kept_in_bytes(void **state)
{
	struct pacer p;

	(void)state;
	/* Debt: 1,000,000 bytes at 1 ns each, then at 10 ns each. */
	pacer_init(&p, 8000000000, PACKET, 0);
	burst_at(&p, START);
	pacer_take(&p, pacer_next_ns(&p), 1000000);
	assert_in_range(pacer_next_ns(&p) - START, 1000000, 1000000 + 2 * PACKET);
	pacer_set_rate(&p, START, 800000000, PACKET);
	assert_in_range(pacer_next_ns(&p) - START, 10000000, 10000000 + 20 * PACKET);
	/* Credit of four packets stays four packets. */
	pacer_init(&p, 8000000000, PACKET, 0);
	burst_at(&p, START);
	pacer_set_rate(&p, START + 4 * PACKET, 4000000000, PACKET);
	assert_in_range(burst_at(&p, START + 4 * PACKET), 4, 5);
	/* A full bucket is clipped to the new burst. */
	pacer_init(&p, 10000000000, PACKET, 0);
	pacer_set_rate(&p, START, 1000000, PACKET);
	assert_in_range(burst_at(&p, START), 1, 2);
}

static void frequent_rate_changes_do_not_add_bytes(void **state)
{
	uint64_t now = START, bytes = 0;
	struct pacer p;
	double allowed = 0;
	struct prng r;

	(void)state;
	prng_init(&r, 2, 0);
	pacer_init(&p, 1000000000, PACKET, 0);
	for (int i = 0; i < 20000; i++) {
		uint64_t rate = 100000000 + prng_below(&r, 9900000000), step = prng_below(&r, MS);

		pacer_set_rate(&p, now, rate, PACKET);
		allowed += (double)step * (double)rate / 8e9;
		for (uint64_t next; (next = pacer_next_ns(&p)) <= now + step;) {
			pacer_take(&p, next > now ? next : now, PACKET);
			bytes += PACKET;
		}
		now += step;
	}
	assert_true((double)bytes <= allowed + 16 * PACKET);
	assert_true((double)bytes >= allowed * 0.98);
}

static void extreme_rates_and_times_are_harmless(void **state)
{
	struct pacer p;

	(void)state;
	pacer_init(&p, 1, 9000, 0);
	pacer_take(&p, 0, 9000);
	pacer_take(&p, 10, 9000);
	assert_true(pacer_next_ns(&p) > MS);
	pacer_set_rate(&p, 20, UINT64_MAX, 9000);
	pacer_take(&p, 30, 9000);
	pacer_set_rate(&p, 40, 1, 9000);
	pacer_take(&p, 50, UINT32_MAX);
	/* A virtual clock that starts at 0. */
	pacer_init(&p, 1000000000, PACKET, 0);
	assert_true(burst_at(&p, 0) >= 1);
	/* A machine that has been up for ten years. */
	pacer_init(&p, 1000000000, PACKET, 0);
	assert_int_equal(burst_at(&p, 3650ULL * 86400 * 1000 * MS), 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backlogged_rate_is_exact_over_windows),
		cmocka_unit_test(there_is_no_drift),
		cmocka_unit_test(no_interval_exceeds_rate_and_burst),
		cmocka_unit_test(idle_time_earns_one_burst_only),
		cmocka_unit_test(a_larger_burst_makes_up_for_coming_late),
		cmocka_unit_test(small_packets_cost_less),
		cmocka_unit_test(zero_means_unlimited),
		cmocka_unit_test(debt_and_credit_are_kept_in_bytes),
		cmocka_unit_test(frequent_rate_changes_do_not_add_bytes),
		cmocka_unit_test(extreme_rates_and_times_are_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
