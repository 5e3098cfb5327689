/* SPDX-License-Identifier: Apache-2.0 */
/* Many transfers on one session: who is sent when, and what that costs. */
#include "tests/unit/scenario.h"

/* Data bytes of the source that arrived, by transfer. */
struct arrivals {
	uint64_t bytes[WORLD_TRANSFERS_MAX + 1];
};

static void count_arrival(struct world *w, enum world_side from, const uint8_t *packet, size_t len,
	void *user)
{
	struct arrivals *a = user;
	uint32_t transfer = packet_u32(packet, STRAIT_OFF_TRANSFER);

	(void)w;
	if (from == WORLD_SOURCE && packet_type(packet) == STRAIT_PACKET_DATA &&
		transfer <= WORLD_TRANSFERS_MAX)
		a->bytes[transfer] += len;
}

static uint32_t start(struct world *w, uint32_t objects, uint64_t length, struct world_rank rank)
{
	uint32_t first = world_add_objects(w, objects, length);
	int t;

	assert_int_not_equal(first, UINT32_MAX);
	t = world_order_as(w, first, objects, &rank);
	assert_true(t >= 0);
	return (uint32_t)t;
}

/* When the last object of a transfer was verified, since t0. */
static uint64_t end_ns(const struct world *w, uint32_t transfer)
{
	const struct world_transfer *t = &w->transfers[transfer];
	uint64_t at = 0;

	for (uint32_t i = t->first; i < t->first + t->count; i++)
		at = w->objects[i].verified_ns > at ? w->objects[i].verified_ns : at;
	return at - w->t0_ns;
}

/* Jain's index: 1 when all are the same, 1/n when one has it all. */
static double jain(const uint64_t *x, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += (double)x[i];
		squares += (double)x[i] * (double)x[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

static const struct world_rank normal = { .class_ = STRAIT_CLASS_NORMAL };

static void transfers_of_one_rank_share_fairly(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct world_config cfg = small_config(seed);
		struct arrivals a = { { 0 } };
		struct world_hooks hooks = { .user = &a, .on_arrive = count_arrival };
		uint32_t n = 2 + (uint32_t)seed * 3;
		struct world *w;
		double j;

		cfg.link[WORLD_SOURCE].loss = seed % 2 ? 0.02 : 0;
		w = world_open(&cfg, &hooks);
		/* Objects of different sizes: shares are of bytes, not of objects. */
		for (uint32_t i = 0; i < n; i++)
			start(w, 16 << (i % 3), (1 * MIB) >> (i % 3), normal);
		world_run_for(w, 1 * S);
		j = jain(&a.bytes[1], n);
		if (j < 0.99)
			fail_msg("seed %llu: %u transfers share with Jain's index %.4f",
				(unsigned long long)seed, n, j);
		world_destroy(w);
	}
}

static void a_small_transfer_does_not_wait_for_a_huge_one(void **state)
{
	struct world_config cfg = small_config(3);
	struct world *w;
	uint64_t began;
	uint32_t t;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.01;
	w = world_open(&cfg, NULL);
	start(w, 64, 1 * MIB, normal);
	world_run_for(w, 500 * MS);
	began = w->now_ns - w->t0_ns;
	t = start(w, 1, 256 * KIB, normal);
	finish_open(w, 20 * S);
	/* Half of the line for 256 KiB is 45 ms, the way 10 ms; the huge one needs 5 s more. */
	if (end_ns(w, t) - began > 90 * MS)
		fail_msg("256 KiB took %llu ms", (unsigned long long)(end_ns(w, t) - began) / MS);
	world_destroy(w);
}

static void a_stream_of_small_transfers_starves_nobody(void **state)
{
	struct world_config cfg = small_config(4);
	struct arrivals a = { { 0 } };
	struct world_hooks hooks = { .user = &a, .on_arrive = count_arrival };
	struct world *w = world_open(&cfg, &hooks);
	uint64_t small = 0;

	(void)state;
	start(w, 64, 1 * MIB, normal);
	/* 20 ms apart, 150 KiB each: two thirds of the line. */
	for (int i = 0; i < 100; i++) {
		start(w, 1, 150 * KIB, normal);
		world_run_for(w, 20 * MS);
	}
	for (int i = 2; i <= 101; i++)
		small += a.bytes[i];
	/* What they leave, and they too got what they asked for. */
	assert_true(a.bytes[1] > 6 * MIB);
	assert_true(small > 13 * MIB);
	finish(w, 20 * S);
}

static void a_higher_class_goes_first_and_alone(void **state)
{
	struct world_config cfg = small_config(5);
	struct arrivals a = { { 0 } };
	struct world_hooks hooks = { .user = &a, .on_arrive = count_arrival };
	struct world *w = world_open(&cfg, &hooks);
	uint64_t before;
	uint32_t t;

	(void)state;
	start(w, 16, 1 * MIB, (struct world_rank){ .class_ = STRAIT_CLASS_BULK });
	world_run_for(w, 300 * MS);
	t = start(w, 2, 1 * MIB, (struct world_rank){ .class_ = STRAIT_CLASS_URGENT });
	world_run_for(w, 40 * MS);
	before = a.bytes[1];
	world_run_for(w, 100 * MS);
	assert_true(a.bytes[1] - before < 8 * SYMBOL);
	finish_open(w, 20 * S);
	assert_true(end_ns(w, t) < end_ns(w, 0));
	world_destroy(w);
}

static void deadlines_of_a_class_end_in_their_order(void **state)
{
	static const uint64_t deadlines[] = { 0, 5000, 2000, 9000, 1000, 0 };
	uint64_t end[COUNT(deadlines)];
	struct world_config cfg = small_config(6);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = 0.01;
	w = world_open(&cfg, NULL);
	for (size_t i = 0; i < COUNT(deadlines); i++)
		start(w, 4, 1 * MIB,
			(struct world_rank){ .class_ = STRAIT_CLASS_NORMAL,
				.deadline_ms = deadlines[i] });
	finish_open(w, 20 * S);
	for (size_t i = 0; i < COUNT(deadlines); i++)
		end[i] = end_ns(w, (uint32_t)i);
	assert_true(end[4] < end[2] && end[2] < end[1] && end[1] < end[3]);
	assert_true(end[3] < end[0] && end[3] < end[5]);
	world_destroy(w);
}

static void a_flow_of_many_transfers_has_one_share(void **state)
{
	struct world_config cfg = small_config(7);
	struct arrivals a = { { 0 } };
	struct world_hooks hooks = { .user = &a, .on_arrive = count_arrival };
	struct world *w = world_open(&cfg, &hooks);
	uint64_t flow = 0;

	(void)state;
	start(w, 16, 1 * MIB, normal);
	for (int i = 0; i < 20; i++)
		start(w, 1, 512 * KIB,
			(struct world_rank){ .class_ = STRAIT_CLASS_NORMAL, .flow = 9 });
	world_run_for(w, 1 * S);
	for (int i = 2; i <= 21; i++)
		flow += a.bytes[i];
	assert_true(jain((uint64_t[]){ a.bytes[1], flow }, 2) > 0.99);
	finish_open(w, 20 * S);
	/* ... and inside of it, one after another. */
	for (uint32_t i = 2; i <= 20; i++)
		assert_true(end_ns(w, i) >= end_ns(w, i - 1));
	world_destroy(w);
}

/* Seconds and overhead of 128 MiB, 20 BDP, as n transfers that start together. */
static void tails(uint32_t n, uint64_t seed, double *seconds, double *overhead)
{
	struct world_config cfg = small_config(seed);
	struct world *w;
	double source = (double)(128 / n) * n * MIB / SYMBOL;

	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 1000000000;
		cfg.link[side].rtt_ns = 50 * MS;
		cfg.link[side].loss = 0.02;
	}
	cfg.cap_bps = 1000000000;
	world_config_size(&cfg, 1 * MIB);
	w = world_open(&cfg, NULL);
	for (uint32_t i = 0; i < n; i++)
		start(w, 128 / n, 1 * MIB, normal);
	finish_open(w, 30 * S);
	*seconds += (double)(w->verified_ns - w->t0_ns) * 1e-9 / 3;
	*overhead += ((double)w->f[WORLD_SOURCE].symbols_in - source) / source / 3;
	world_destroy(w);
}

static void many_tails_at_once_cost_little_more_than_one(void **state)
{
	double one[2] = { 0, 0 }, many[2] = { 0, 0 };

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		tails(1, seed, &one[0], &one[1]);
		tails(16, seed, &many[0], &many[1]);
	}
	print_message("1 transfer: %.3f s, overhead %.4f; 16: %.3f s, %.4f\n", one[0], one[1],
		many[0], many[1]);
	assert_true(many[0] < one[0] + 0.2 * 0.050);
	assert_true(many[1] < one[1] + 0.004);
}

static void a_hundred_thousand_objects_of_a_page_share_symbols(void **state)
{
	struct world_config cfg = small_config(8);
	const uint64_t bytes = 100000ULL * 4 * KIB;
	struct world *w;
	uint32_t first;
	double symbols;

	(void)state;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 1000000000;
		cfg.link[side].loss = 0.01;
	}
	cfg.cap_bps = 1000000000;
	cfg.credit_bytes = 256 * MIB; /* a quarter of a pool of 1 GiB */
	cfg.credit_objects = 262144;  /* the edge's default */
	w = world_open(&cfg, NULL);
	first = world_add_objects(w, 100000, 4 * KIB);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(world_order_as(w, first + i * 50000, 50000, &normal) >= 0);
	finish_open(w, 10 * S);
	/* 63 bytes of manifest an object; no symbol is sent for less than it holds. */
	symbols = (double)(bytes + 100000 * 63) / SYMBOL;
	assert_true((double)w->f[WORLD_SOURCE].symbols_in < symbols * 1.01);
	/* All of the line, less what is lost of it. */
	assert_true((double)(w->verified_ns - w->t0_ns) / S <
		symbols * (SYMBOL + 106) * 8 / 1e9 / 0.99 * 1.01 + 0.03);
	assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_blocked_credit), 0);
	world_destroy(w);
}

static void a_class_without_credit_holds_up_no_other(void **state)
{
	struct world_config cfg = small_config(9);
	struct arrivals a = { { 0 } };
	struct world_hooks hooks = { .user = &a, .on_arrive = count_arrival };
	struct world *w;
	uint32_t bulk, urgent;

	(void)state;
	cfg.credit_bytes = 1 * MIB;
	w = world_open(&cfg, &hooks);
	/* More than a window of it under way all the time. */
	bulk = start(w, 32, 1 * MIB, (struct world_rank){ .class_ = STRAIT_CLASS_BULK });
	world_run_for(w, 500 * MS);
	assert_true(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_blocked_credit) > 0);
	urgent = start(w, 1, 512 * KIB, (struct world_rank){ .class_ = STRAIT_CLASS_URGENT });
	world_run_for(w, 100 * MS);
	assert_true(w->objects[w->transfers[urgent].first].published);
	assert_false(w->transfers[bulk].closed);
	finish_open(w, 60 * S);
	assert_true(w->transfers[bulk].closed);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transfers_of_one_rank_share_fairly),
		cmocka_unit_test(a_small_transfer_does_not_wait_for_a_huge_one),
		cmocka_unit_test(a_stream_of_small_transfers_starves_nobody),
		cmocka_unit_test(a_higher_class_goes_first_and_alone),
		cmocka_unit_test(deadlines_of_a_class_end_in_their_order),
		cmocka_unit_test(a_flow_of_many_transfers_has_one_share),
		cmocka_unit_test(a_hundred_thousand_objects_of_a_page_share_symbols),
		cmocka_unit_test(a_class_without_credit_holds_up_no_other),
		cmocka_unit_test(many_tails_at_once_cost_little_more_than_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
