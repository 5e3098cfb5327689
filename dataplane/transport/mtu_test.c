/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/mtu.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum { RTT_MS = 50, WAY_MAX = 4096 };

/* A path of 50 ms or rtt_ms, a packet number for each packet, and data of `data` bytes each ms. */
struct path {
	struct mtu m;
	struct prng rnd;
	uint64_t now, pn, probes, lows;
	uint32_t rtt_ms;
	uint32_t carries;
	uint16_t data; /* 0: none */
	double loss;   /* independent */
	double burst;  /* chance to enter the bad state */
	double leave;
	bool bad, cut;
	struct {
		uint64_t at, pn, sent;
		uint16_t bytes;
		bool probe;
	} way[WAY_MAX];
	uint32_t head, len;
	uint64_t held;
};

static struct mtu_times times(const struct path *p)
{
	return (struct mtu_times){ .now = p->now,
		.rtt = p->rtt_ms * MS,
		.rto = (p->rtt_ms * 3 / 2 + 15) * MS,
		.pto = (p->rtt_ms + 25) * MS };
}

static bool is_lost(struct path *p, uint16_t bytes)
{
	if (p->burst > 0 && prng_chance(&p->rnd, p->bad ? p->leave : p->burst))
		p->bad = !p->bad;
	return p->cut || p->bad || prng_chance(&p->rnd, p->loss) || bytes > p->carries;
}

static void send(struct path *p, uint16_t bytes, bool probe)
{
	if (!is_lost(p, bytes)) {
		uint32_t i = (p->head + p->len++) % WAY_MAX;

		assert_true(p->len <= WAY_MAX);
		p->way[i].at = p->now + p->rtt_ms * MS;
		p->way[i].pn = p->pn;
		p->way[i].sent = p->now;
		p->way[i].bytes = bytes;
		p->way[i].probe = probe;
	}
	p->pn++;
}

static void arrivals(struct path *p)
{
	struct mtu_times t = times(p);

	while (p->len > 0 && p->way[p->head].at <= p->now) {
		mtu_acked(&p->m, p->way[p->head].pn, p->way[p->head].pn, &t);
		if (!p->way[p->head].probe)
			mtu_data_acked(&p->m, p->way[p->head].bytes, p->way[p->head].sent);
		p->head = (p->head + 1) % WAY_MAX;
		p->len--;
	}
}

static void run(struct path *p, uint64_t ns)
{
	for (uint64_t end = p->now + ns; p->now < end; p->now += MS) {
		struct mtu_times t = times(p);
		uint16_t bytes, before = p->m.current;

		arrivals(p);
		for (int i = 0; (bytes = mtu_probe(&p->m, &t)) != 0; i++) {
			assert_true(i < 200);
			mtu_probe_sent(&p->m, p->pn, p->now);
			send(p, bytes, true);
			p->probes++;
		}
		assert_true(mtu_next_ns(&p->m, &t) > p->now);
		p->lows += p->m.current < before;
		/* As the session does: data never is larger than what is known. */
		if (p->data > p->m.current)
			p->data = p->m.current;
		if (p->data != 0 && mtu_holds(&p->m)) {
			p->held++;
		} else if (p->data != 0) {
			mtu_data_sent(&p->m, p->data, p->now);
			send(p, p->data, false);
		}
	}
}

static void open_path(struct path *p, uint16_t most, uint32_t carries, uint16_t data, uint64_t seed)
{
	memset(p, 0, sizeof(*p));
	prng_init(&p->rnd, seed, 0);
	p->rtt_ms = RTT_MS;
	p->now = S;
	p->carries = carries;
	p->data = data;
	mtu_init(&p->m, most, 28);
	mtu_start(&p->m, p->now);
}

static void a_path_as_configured_costs_one_round_of_probes(void **state)
{
	static struct path p;

	(void)state;
	open_path(&p, 1432, 1432, 1432, 1);
	assert_int_equal(p.m.state, MTU_BASE);
	assert_int_equal(p.m.current, 1432); /* data does not wait */
	run(&p, 3600 * S);
	assert_int_equal(p.m.state, MTU_SEARCH_COMPLETE);
	assert_int_equal(p.m.current, 1432);
	assert_int_equal(p.probes, 3);
	assert_false(mtu_poll(&p.m));
}

static void a_smaller_path_is_found_in_a_few_round_trips(void **state)
{
	static const uint16_t mtus[] = { 9000, 4352, 1500, 1492, 1450, 1420, 1400, 1280, 1006 };
	static struct path p;

	(void)state;
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		for (int with_data = 0; with_data < 2; with_data++) {
			open_path(&p, 8932, mtus[i] - 68u, with_data ? 8932 : 0, i + 1);
			run(&p, 12 * RTT_MS * MS);
			assert_int_equal(p.m.current, mtus[i] - 68);
			assert_int_equal(mtu_poll(&p.m), mtus[i] < 9000);
			assert_true(p.lows == (mtus[i] < 9000));
			run(&p, 10 * S);
			assert_int_equal(p.m.state,
				p.m.current < MTU_BASE_BYTES ? MTU_ERROR : MTU_SEARCH_COMPLETE);
		}
	}
}

static void an_uncommon_size_is_found_by_search(void **state)
{
	static struct path p;

	(void)state;
	open_path(&p, 1432, 1377, 1432, 1);
	run(&p, 5 * S);
	assert_int_equal(p.m.state, MTU_SEARCH_COMPLETE);
	assert_in_range(p.m.current, 1377 - MTU_STEP, 1377);
	assert_int_equal(p.lows, 1);
}

static void a_path_that_falls_under_load_is_noticed_and_data_held_back(void **state)
{
	static struct path p;

	(void)state;
	open_path(&p, 8932, 8932, 8932, 1);
	run(&p, 60 * S);
	p.carries = 1432;
	run(&p, 8 * RTT_MS * MS);
	assert_int_equal(p.m.current, 1432);
	assert_true(p.held > RTT_MS / 2);
	/* Falls again, below what IPv6 promises. */
	p.carries = 600;
	run(&p, 10 * RTT_MS * MS);
	assert_int_equal(p.m.current, 512);
	assert_true(p.lows == 2);
	run(&p, 20 * S);
	assert_int_equal(p.m.state, MTU_ERROR);
	p.carries = 1432;
	run(&p, 40 * S);
	assert_in_range(p.m.current, 1432 - MTU_STEP, 1432);
}

static void a_path_that_rises_again_is_noticed_by_the_raise_timer(void **state)
{
	static struct path p;

	(void)state;
	open_path(&p, 1432, 1212, 1432, 1);
	run(&p, 10 * S);
	assert_int_equal(p.m.current, 1212);
	assert_true(mtu_poll(&p.m));
	p.carries = 1432;
	run(&p, 580 * S);
	assert_int_equal(p.m.current, 1212);
	run(&p, 25 * S);
	assert_int_equal(p.m.current, 1432);
	assert_true(mtu_poll(&p.m));
	assert_int_equal(p.lows, 1);
}

static void random_and_burst_loss_never_lower_the_size(void **state)
{
	static struct path p;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		open_path(&p, 1432, 1432, 1432, seed);
		p.loss = 0.05;
		p.leave = 1.0 / 64;
		p.burst = p.leave * 0.05;
		run(&p, 20 * S);
		if (p.lows != 0 || p.m.current != 1432)
			fail_msg("seed %llu: %u", (unsigned long long)seed, p.m.current);
	}
}

static void a_fifth_lost_does_not_lower_an_idle_session(void **state)
{
	static struct path p;

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		open_path(&p, 1432, 1432, 0, seed);
		p.loss = 0.2;
		run(&p, 2 * S);
		assert_int_equal(p.m.current, 1432);
	}
}

static void a_blackout_does_not_lower_the_size(void **state)
{
	static struct path p;

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		open_path(&p, 8932, 8932, 8932, seed);
		p.loss = 0.02;
		run(&p, S + seed * 7 * MS);
		p.cut = true;
		run(&p, 30 * S);
		p.cut = false;
		run(&p, 3 * S);
		assert_int_equal(p.m.current, 8932);
		assert_int_equal(p.lows, 0);
		assert_false(mtu_holds(&p.m));
	}
}

/* More rounds are under way than the verdict takes before the first of them is answered. */
static void what_passes_is_found_at_any_round_trip_time_and_after_a_cut(void **state)
{
	static const uint16_t rtts_ms[] = { 1, 3, 10, 20, 25, 30, 35, 40, 60, 100, 200, 600 };
	static const uint16_t sizes[] = { 4284, 1432, 1212, 1200 };
	static struct path p;

	(void)state;
	for (size_t i = 0; i < sizeof(rtts_ms) / sizeof(rtts_ms[0]); i++) {
		for (uint64_t seed = 1; seed <= 400; seed++) {
			uint32_t cut_ms = seed % 2 == 0 ? 0 : (uint32_t)seed * 5;

			open_path(&p, 8932, 8932, 8932, seed);
			p.rtt_ms = rtts_ms[i];
			p.loss = 0.01;
			run(&p, 2 * S + seed * MS);
			p.cut = true;
			run(&p, cut_ms * MS);
			p.cut = false;
			p.carries = sizes[seed / 2 % 4];
			run(&p, (cut_ms + 250 + rtts_ms[i] * 10) * MS);
			run(&p, (500 + rtts_ms[i] * 25u) * MS); /* searched to the end */
			if (p.m.current > p.carries || p.m.current < p.carries - MTU_STEP ||
				p.lows != 1)
				fail_msg("%u ms, seed %llu: %u of %u, lowered %llu times",
					rtts_ms[i], (unsigned long long)seed, p.m.current,
					p.carries, (unsigned long long)p.lows);
		}
	}
}

static void a_cut_does_not_end_a_search_below_what_passes(void **state)
{
	static struct path p;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		/* Idle, so that nothing but probes tells a cut from a size that does not pass. */
		open_path(&p, 8932, 8000, 0, seed);
		run(&p, (300 + seed * 5) * MS);
		assert_int_equal(p.m.state, MTU_SEARCHING);
		p.cut = true;
		run(&p, 3 * S);
		p.cut = false;
		run(&p, 12 * S);
		assert_int_equal(p.m.state, MTU_SEARCH_COMPLETE);
		assert_in_range(p.m.current, 8000 - MTU_STEP, 8000);
	}
}

static void loss_beside_a_black_hole_only_delays_the_verdict(void **state)
{
	static struct path p;
	uint32_t short_of = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		open_path(&p, 8932, 8932, 8932, seed);
		p.loss = 0.05;
		p.leave = 1.0 / 64;
		p.burst = p.leave * 0.02;
		run(&p, S);
		p.carries = 1432;
		run(&p, 3 * S);
		/* Where a burst took the ladder, the next raise mends it. */
		short_of += p.m.current < 1432 - MTU_STEP;
		if (p.m.current < MTU_BASE_BYTES || p.m.current > 1432 || p.lows != 1)
			fail_msg("seed %llu: %u, lowered %llu times", (unsigned long long)seed,
				p.m.current, (unsigned long long)p.lows);
	}
	assert_in_range(short_of, 0, 4);
}

static void unacknowledged_probes_are_told_from_lost_data(void **state)
{
	static struct path p;

	(void)state;
	open_path(&p, 1432, 1200, 0, 1);
	run(&p, (RTT_MS + 15) * MS); /* numbers 0, 1, 2: small, large, small */
	assert_int_equal(mtu_missing(&p.m, 0, 2), 1);
	assert_int_equal(mtu_missing(&p.m, 1, 1), 1);
	assert_int_equal(mtu_missing(&p.m, 2, 2), 0);
}

static void acknowledgments_of_what_was_never_sent_change_nothing(void **state)
{
	static struct path p;
	struct mtu_times t;

	(void)state;
	open_path(&p, 1432, 1432, 0, 1);
	t = times(&p);
	mtu_acked(&p.m, 0, UINT64_MAX - 1, &t);
	assert_int_equal(p.m.state, MTU_BASE);
	open_path(&p, 512, 512, 512, 1); /* nothing smaller exists */
	run(&p, S);
	assert_int_equal(p.m.state, MTU_DISABLED);
	assert_int_equal(p.probes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_as_configured_costs_one_round_of_probes),
		cmocka_unit_test(a_smaller_path_is_found_in_a_few_round_trips),
		cmocka_unit_test(an_uncommon_size_is_found_by_search),
		cmocka_unit_test(a_path_that_falls_under_load_is_noticed_and_data_held_back),
		cmocka_unit_test(a_path_that_rises_again_is_noticed_by_the_raise_timer),
		cmocka_unit_test(random_and_burst_loss_never_lower_the_size),
		cmocka_unit_test(a_fifth_lost_does_not_lower_an_idle_session),
		cmocka_unit_test(a_blackout_does_not_lower_the_size),
		cmocka_unit_test(what_passes_is_found_at_any_round_trip_time_and_after_a_cut),
		cmocka_unit_test(a_cut_does_not_end_a_search_below_what_passes),
		cmocka_unit_test(loss_beside_a_black_hole_only_delays_the_verdict),
		cmocka_unit_test(unacknowledged_probes_are_told_from_lost_data),
		cmocka_unit_test(acknowledgments_of_what_was_never_sent_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
