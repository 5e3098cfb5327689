/* SPDX-License-Identifier: Apache-2.0 */
/* Orders with deadlines: those that were admitted are in time, whatever is offered. */
#include "tests/unit/scenario.h"

#include "control/orders/feasible.h"
#include "tools/link/prng.h"

#define RATE_BPS    100000000ULL
#define ORDERS      150
#define ORDER_BYTES (256 * KIB)

struct tally {
	unsigned int admitted, refused, late;
	double worst_ms; /* least time left at an end */
};

static uint64_t now_ms(const struct world *w)
{
	return (w->now_ns - w->t0_ns) / MS;
}

/* As the source edge knows it: objects without a final status count in full. */
static uint64_t bytes_left(const struct world *w, uint32_t transfer)
{
	const struct world_transfer *t = &w->transfers[transfer];
	uint64_t left = 0;

	for (uint32_t i = t->first; i < t->first + t->count; i++)
		if (w->objects[i].tx_status == STRAIT_STATUS_PENDING)
			left += w->objects[i].length;
	return left;
}

static bool is_feasible(const struct world *w, const struct feasible_order *own)
{
	struct feasible_link link = { .now_ms = now_ms(w),
		/* link_rate.h: symbols' part of the line, less loss and 2 %. */
		.rate_bps = (uint64_t)((double)RATE_BPS * SYMBOL / (SYMBOL + 106) * 0.99 * 0.98),
		.latency_ms = 2 * 20 + 60,
		.tail_bytes = RATE_BPS / 8 / 50 * 9 / 8 };
	uint32_t sorted[WORLD_TRANSFERS_MAX], n = 0;
	struct feasible f;
	char why[200];

	for (uint32_t i = 0; i < w->ntransfers; i++) {
		uint32_t at = n;

		if (bytes_left(w, i) == 0)
			continue;
		for (; at > 0 &&
			w->transfers[sorted[at - 1]].deadline_ms > w->transfers[i].deadline_ms;
			at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = i;
		n++;
	}
	feasible_begin(&f, &link, own);
	for (uint32_t i = 0; i < n; i++) {
		struct feasible_order other = { .id = sorted[i] + 1,
			.bytes = bytes_left(w, sorted[i]),
			.deadline_ms = w->transfers[sorted[i]].deadline_ms,
			.class = STRAIT_CLASS_NORMAL };

		feasible_add(&f, &other);
	}
	return feasible_end(&f, why, sizeof(why));
}

static void count_late(const struct world *w, struct tally *t)
{
	for (uint32_t i = 0; i < w->ntransfers; i++) {
		const struct world_transfer *tr = &w->transfers[i];
		double end_ms = 0, left_ms;

		for (uint32_t k = tr->first; k < tr->first + tr->count; k++)
			if ((double)(w->objects[k].verified_ns - w->t0_ns) / MS > end_ms)
				end_ms = (double)(w->objects[k].verified_ns - w->t0_ns) / MS;
		left_ms = (double)tr->deadline_ms - end_ms;
		t->late += left_ms < 0;
		if (left_ms < t->worst_ms)
			t->worst_ms = left_ms;
	}
}

/* Orders of 1 to 8 objects at random times, at `load` of what the line carries. */
static void offer(uint64_t seed, double load, bool admission, struct tally *t)
{
	struct world_config cfg = small_config(seed);
	double mean_ns = 4.5 * ORDER_BYTES * 8 / (RATE_BPS * 0.931) * 1e9 / load;
	struct prng rnd;
	struct world *w;

	prng_init(&rnd, seed, 1);
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.01;
	w = world_open(&cfg, NULL);
	for (int i = 0; i < ORDERS; i++) {
		uint32_t count = 1 + (uint32_t)(prng_next(&rnd) % 8);
		struct feasible_order own = { .id = 1000,
			.bytes = count * ORDER_BYTES,
			.class = STRAIT_CLASS_NORMAL };
		struct world_rank rank = { .class_ = STRAIT_CLASS_NORMAL };
		uint32_t first;

		world_run_for(w, (uint64_t)(2 * mean_ns * prng_unit(&rnd)));
		own.deadline_ms = now_ms(w) + 120 + count * 24 + prng_next(&rnd) % 1500;
		rank.deadline_ms = own.deadline_ms;
		if (admission && !is_feasible(w, &own)) {
			t->refused++;
			continue;
		}
		t->admitted++;
		first = world_add_objects(w, count, ORDER_BYTES);
		assert_int_not_equal(first, UINT32_MAX);
		assert_true(world_order_as(w, first, count, &rank) >= 0);
	}
	finish_open(w, 60 * S);
	count_late(w, t);
	world_destroy(w);
}

static void every_admitted_order_is_in_time(void **state)
{
	static const double loads[] = { 0.5, 0.8, 0.95, 1.5, 3 };

	(void)state;
	for (size_t l = 0; l < COUNT(loads); l++) {
		struct tally t = { .worst_ms = 1e9 };

		for (uint64_t seed = 1; seed <= 8; seed++)
			offer(seed, loads[l], true, &t);
		print_message("load %.2f: %u admitted, %u refused, %u late, %.1f ms left\n",
			loads[l], t.admitted, t.refused, t.late, t.worst_ms);
		assert_int_equal(t.late, 0);
		/* Refusing all of them would be no art. */
		if (loads[l] <= 0.5)
			assert_true(t.refused * 10 < t.admitted);
		if (loads[l] <= 0.95)
			assert_true(t.refused * 3 < t.admitted);
	}
}

static void without_admission_they_are_not(void **state)
{
	struct tally t = { .worst_ms = 1e9 };

	(void)state;
	offer(1, 1.5, false, &t);
	assert_true(t.late > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_admitted_order_is_in_time),
		cmocka_unit_test(without_admission_they_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
