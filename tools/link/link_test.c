/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/link/link.h"
#include "tools/link/link_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define MS  1000000ULL
#define SEC 1000000000ULL

/* 1514 + 24 bytes at 1 Gbit/s. */
#define FRAME  1514
#define SER_NS 12304ULL

static struct link_config config(const char *const *opts)
{
	struct link_config cfg;
	char err[160];

	link_config_defaults(&cfg);
	for (; *opts; opts += 2)
		assert_int_equal(link_config_parse_option(opts[0], opts[1], &cfg, err, sizeof(err)),
			0);
	return cfg;
}

#define CONFIG(...) config((const char *const[]){ __VA_ARGS__, NULL })

static struct link *link_new(const struct link_config *cfg, uint64_t seed, uint64_t start_ns)
{
	struct link *l = malloc(sizeof(*l));

	assert_non_null(l);
	assert_int_equal(link_init(l, cfg, seed, 0, start_ns), 0);
	return l;
}

static void generator_matches_published_values(void **state)
{
	struct prng p = { { 1, 2, 3, 4 } };
	uint64_t x = 1234567;

	(void)state;
	assert_true(prng_next(&p) == 11520);
	assert_true(prng_next(&p) == 0);
	assert_true(prng_next(&p) == 1509978240);
	assert_true(prng_next(&p) == 1215971899390074240);
	assert_true(prng_splitmix(&x) == 6457827717110365317ULL);
	assert_true(prng_splitmix(&x) == 3203168211198807973ULL);
}

static void rate_is_exact_over_a_second(void **state)
{
	/* 3 Gbit/s does not divide a nanosecond evenly: the carried remainder must not drift. */
	struct link_config cfg =
		CONFIG("rate-gbps", "3", "rtt-ms", "0", "queue-bytes", "1000000000");
	struct link *l = link_new(&cfg, 1, 0);
	struct link_verdict v = { 0 };
	uint64_t n = 243823;

	(void)state;
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(link_send(l, 0, FRAME, &v), 1);
	assert_true(v.a[0].at_ns == n * 1538 * 8 * SEC / (3 * SEC));
	free(l);
}

static void back_to_back_arrivals_on_an_idle_link_keep_the_rate(void **state)
{
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "60");
	struct link *l = link_new(&cfg, 1, 5 * SEC);
	struct link_verdict v;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t now = 5 * SEC + i * 20000;

		assert_int_equal(link_send(l, now, FRAME, &v), 1);
		assert_true(v.depart_ns == now + SER_NS);
		assert_true(v.a[0].at_ns == now + SER_NS + 30 * MS);
	}
	/* Short frames are padded to 60 bytes: 84 on the wire. */
	assert_int_equal(link_send(l, 6 * SEC, 42, &v), 1);
	assert_true(v.depart_ns == 6 * SEC + 672);
	free(l);
}

static void queue_is_bounded_and_drops_the_tail(void **state)
{
	/* 15380 bytes: ten packets. */
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "10", "queue-bytes", "15380");
	struct link *l = link_new(&cfg, 1, 0);
	struct link_verdict v;
	int taken = 0;

	(void)state;
	for (int i = 0; i < 50; i++)
		taken += link_send(l, 0, FRAME, &v);
	assert_int_equal(taken, 10);
	assert_int_equal(l->c.lost_queue, 40);
	assert_int_equal(l->c.queue_high_bytes, 15380);
	assert_int_equal(link_backlog_bytes(l, 0), 15380);
	/* Once one packet has left, one more fits. */
	assert_int_equal(link_send(l, SER_NS, FRAME, &v), 1);
	assert_int_equal(link_send(l, SER_NS, FRAME, &v), 0);
	assert_int_equal(v.depart_ns, 0);
	assert_int_equal(l->c.offered, 52);
	assert_int_equal(l->c.delivered, 11);
	free(l);
}

static void queue_bdp_scales_with_rate_and_rtt(void **state)
{
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "60", "queue-bdp", "0.5");

	(void)state;
	assert_int_equal(link_config_queue_bytes(&cfg), 3750000);
	/* 30 ms one way + 30 ms of queue + one longest frame. */
	assert_in_range(link_config_max_delay_ns(&cfg), 60 * MS, 61 * MS);
}

static void independent_loss_is_as_asked_and_costs_capacity(void **state)
{
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "0", "loss", "0.01");
	struct link *l = link_new(&cfg, 7, 0);
	struct link_verdict v;
	uint64_t n = 1000000;

	(void)state;
	for (uint64_t i = 0; i < n; i++)
		link_send(l, i * SER_NS, FRAME, &v);
	/* 5 sigma of a binomial with n = 1e6, p = 0.01 is 500. */
	assert_in_range(l->c.lost_random, 9500, 10500);
	assert_int_equal(l->c.delivered + l->c.lost_random, n);
	assert_int_equal(l->c.carried_bytes, n * 1538);
	assert_true(l->busy_until_ns == n * SER_NS);
	free(l);
}

static void check_bursts(const char *option, double loss, double burst)
{
	struct link_config cfg = CONFIG("rate-gbps", "0", "rtt-ms", "0", "ge", option);
	struct link *l = link_new(&cfg, 99, 0);
	struct link_verdict v;
	uint64_t n = 8000000;
	uint64_t lost = 0;
	uint64_t runs = 0;
	bool prev = false;

	for (uint64_t i = 0; i < n; i++) {
		bool gone = link_send(l, i, FRAME, &v) == 0;

		lost += gone;
		runs += gone && !prev;
		prev = gone;
	}
	assert_int_equal(lost, l->c.lost_burst);
	assert_true(fabs((double)lost / (double)n / loss - 1) < 0.15);
	assert_true(fabs((double)lost / (double)runs / burst - 1) < 0.1);
	free(l);
}

static void burst_loss_has_the_mean_and_the_length_asked(void **state)
{
	(void)state;
	check_bursts("0.001,8", 0.001, 8);
	check_bursts("0.01,64", 0.01, 64);
	check_bursts("0.02,16", 0.02, 16);
	check_bursts("0.5,1", 0.5, 1);
}

/* Mean length in packets, at one packet every gap_ns, of bursts of 64 at 1 Gbit/s. */
static double burst_at(uint64_t gap_ns, double *loss)
{
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "0", "ge", "0.02,64");
	struct link *l = link_new(&cfg, 5, 0);
	struct link_verdict v;
	uint64_t n = 4000000, lost = 0, runs = 0;
	bool prev = false;
	double burst;

	for (uint64_t i = 0; i < n; i++) {
		bool gone = link_send(l, i * gap_ns, FRAME, &v) == 0;

		lost += gone;
		runs += gone && !prev;
		prev = gone;
	}
	*loss = (double)lost / (double)n;
	burst = (double)lost / (double)runs;
	free(l);
	return burst;
}

/* 64 packets of a full line last 0.79 ms: one in 0.4 ms meets few of them. */
static void bursts_last_in_time_not_in_packets(void **state)
{
	double loss, full = burst_at(SER_NS, &loss), sparse;

	(void)state;
	assert_true(fabs(loss / 0.02 - 1) < 0.1);
	assert_true(fabs(full / 64 - 1) < 0.1);
	sparse = burst_at(400000, &loss);
	assert_true(fabs(loss / 0.02 - 1) < 0.1);
	assert_true(sparse > 2 && sparse < 3);
	sparse = burst_at(100 * 1000000, &loss);
	assert_true(fabs(loss / 0.02 - 1) < 0.1);
	assert_true(sparse < 1.1);
}

static void cut_drops_everything_and_only_inside_it(void **state)
{
	struct link_config cfg =
		CONFIG("rate-gbps", "0", "rtt-ms", "10", "cut", "100,50", "cut", "300,1");
	struct link *l = link_new(&cfg, 1, 2 * SEC);
	struct link_verdict v;

	(void)state;
	for (uint64_t t = 0; t < 400; t++) {
		bool cut = (t >= 100 && t < 150) || t == 300;

		assert_int_equal(link_send(l, 2 * SEC + t * MS, FRAME, &v), cut ? 0 : 1);
	}
	assert_int_equal(l->c.lost_cut, 51);
	free(l);
}

static void delay_steps_apply_in_order_of_time(void **state)
{
	struct link_config cfg = CONFIG("rate-gbps", "0", "rtt-ms", "100", "rtt-step", "200,70",
		"rtt-step", "100,130");
	struct link *l = link_new(&cfg, 1, 0);
	struct link_verdict v;

	(void)state;
	for (uint64_t t = 0; t < 300; t++) {
		uint64_t owd = t < 100 ? 50 : t < 200 ? 65 : 35;

		assert_int_equal(link_send(l, t * MS, FRAME, &v), 1);
		assert_true(v.a[0].at_ns == (t + owd) * MS);
	}
	assert_in_range(link_config_max_delay_ns(&cfg), 65 * MS, 66 * MS);
	free(l);
}

static void reordering_lets_later_packets_overtake(void **state)
{
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "60", "reorder", "0.25,5");
	struct link *l = link_new(&cfg, 3, 0);
	struct link_verdict v;
	uint64_t newest = 0;
	uint64_t prev_late = 0;
	unsigned int overtaken = 0;
	uint64_t n = 100000;

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t base;

		assert_int_equal(link_send(l, i * SER_NS, FRAME, &v), 1);
		base = v.depart_ns + 30 * MS;
		if (v.a[0].late)
			assert_in_range(v.a[0].at_ns, base + 1, base + 5 * MS);
		else
			assert_true(v.a[0].at_ns == base);
		if (i > 0 && v.a[0].at_ns < prev_late)
			overtaken++;
		prev_late = v.a[0].at_ns;
		if (v.a[0].at_ns > newest)
			newest = v.a[0].at_ns;
	}
	assert_in_range(l->c.reordered, 24300, 25700);
	assert_true(overtaken > 15000);
	free(l);
}

static void duplicates_and_corruption_come_as_often_as_asked(void **state)
{
	struct link_config cfg =
		CONFIG("rate-gbps", "0", "rtt-ms", "0", "dup", "0.02", "corrupt", "0.03,4");
	struct link *l = link_new(&cfg, 5, 0);
	struct link_verdict v;
	uint64_t corrupt = 0;
	uint64_t copies = 0;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		int n = link_send(l, i, FRAME, &v);

		for (int j = 0; j < n; j++) {
			corrupt += v.a[j].corrupt_seed != 0;
			copies += v.a[j].copy;
		}
	}
	assert_int_equal(copies, l->c.duplicated);
	assert_int_equal(corrupt, l->c.corrupted);
	assert_in_range(l->c.duplicated, 1800, 2200);
	assert_in_range(l->c.corrupted, 2800, 3300);
	assert_int_equal(l->c.delivered, 100000 + l->c.duplicated);
	free(l);
}

static void corruption_spares_headers_and_always_changes_something(void **state)
{
	uint8_t frame[100];
	uint8_t same[100] = { 0 };

	(void)state;
	for (uint64_t seed = 1; seed < 2000; seed++) {
		unsigned int flipped = 0;
		unsigned int n;

		memset(frame, 0, sizeof(frame));
		n = link_corrupt(seed, 16, frame, sizeof(frame), 42);
		assert_in_range(n, 1, 16);
		for (size_t i = 0; i < sizeof(frame); i++)
			flipped += (unsigned int)__builtin_popcount(frame[i]);
		assert_int_equal(flipped, n);
		assert_memory_equal(frame, same, 42);
	}
	assert_int_equal(link_corrupt(1, 8, frame, 42, 42), 0);
	assert_int_equal(link_corrupt(1, 8, frame, 0, 0), 0);
	assert_in_range(link_corrupt(9, 16, frame, 43, 42), 1, 4);
}

struct trace {
	uint64_t digest;
	struct link_counters c;
};

static struct trace run(uint64_t seed, uint64_t stream)
{
	struct link_config cfg = CONFIG("rate-gbps", "1", "rtt-ms", "60", "loss", "0.01", "ge",
		"0.01,8", "reorder", "0.1,5", "dup", "0.01", "corrupt", "0.01", "cut", "50,10",
		"rtt-step", "80,40", "queue-bdp", "0.05");
	struct link *l = malloc(sizeof(*l));
	struct link_verdict v;
	struct trace t = { 0 };

	assert_non_null(l);
	assert_int_equal(link_init(l, &cfg, seed, stream, 0), 0);
	for (uint64_t i = 0; i < 20000; i++) {
		int n = link_send(l, i * 11000, FRAME, &v);

		for (int j = 0; j < n; j++)
			t.digest =
				(t.digest ^ v.a[j].at_ns ^ v.a[j].corrupt_seed) * 0x100000001b3ULL;
		t.digest = t.digest * 31 + (uint64_t)n;
	}
	t.c = l->c;
	free(l);
	return t;
}

static void same_seed_repeats_bit_for_bit(void **state)
{
	struct trace a = run(42, 0);
	struct trace b = run(42, 0);

	(void)state;
	assert_true(a.digest == b.digest);
	assert_memory_equal(&a.c, &b.c, sizeof(a.c));
	assert_true(a.c.lost_queue && a.c.lost_burst && a.c.lost_random && a.c.lost_cut);
	assert_true(a.c.offered ==
		a.c.delivered - a.c.duplicated + a.c.lost_queue + a.c.lost_burst + a.c.lost_random +
			a.c.lost_cut);
	assert_false(run(43, 0).digest == a.digest);
	assert_false(run(42, 1).digest == a.digest);
}

static void one_impairment_leaves_the_others_draws_alone(void **state)
{
	struct link_config plain = CONFIG("rate-gbps", "0", "rtt-ms", "0", "loss", "0.05");
	struct link_config more = CONFIG("rate-gbps", "0", "rtt-ms", "0", "loss", "0.05", "reorder",
		"0.5,1", "dup", "0.5");
	struct link *a = link_new(&plain, 11, 0);
	struct link *b = link_new(&more, 11, 0);
	struct link_verdict va, vb;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++) {
		link_send(a, i, FRAME, &va);
		link_send(b, i, FRAME, &vb);
		assert_int_equal(va.n == 0, vb.n == 0);
	}
	free(a);
	free(b);
}

static void other_traffic_shares_the_queue_and_nothing_else(void **state)
{
	struct link_config cfg =
		CONFIG("rate-gbps", "1", "rtt-ms", "10", "queue-bytes", "15380", "loss", "0.5");
	struct link *with = link_new(&cfg, 1, SEC), *without = link_new(&cfg, 1, SEC);
	struct link_verdict v, u;
	uint64_t depart_ns;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t now_ns = SEC + i * 10 * SER_NS;

		assert_true(link_share(with, now_ns, FRAME, &depart_ns));
		assert_true(depart_ns == now_ns + SER_NS);
		link_send(with, now_ns, FRAME, &v);
		link_send(without, now_ns, FRAME, &u);
		assert_int_equal(v.n, u.n);
		assert_true(v.depart_ns == u.depart_ns + SER_NS);
	}
	/* 10 frames fill it. */
	for (int i = 0; i < 10; i++)
		assert_true(link_share(with, 2 * SEC, FRAME, &depart_ns));
	assert_false(link_share(with, 2 * SEC, FRAME, &depart_ns));
	assert_int_equal(link_send(with, 2 * SEC, FRAME, &v), 0);
	assert_int_equal(with->c.lost_queue, 1);
	assert_int_equal(with->c.offered, 1001);
	free(with);
	free(without);
}

static void impossible_configurations_are_refused(void **state)
{
	struct link_config cfg;
	struct link l;

	(void)state;
	link_config_defaults(&cfg);
	cfg.loss = 1.5;
	assert_int_equal(link_init(&l, &cfg, 1, 0, 0), -EINVAL);
	link_config_defaults(&cfg);
	cfg.dup = NAN;
	assert_int_equal(link_init(&l, &cfg, 1, 0, 0), -EINVAL);
	link_config_defaults(&cfg);
	cfg.ge_loss = 0.9;
	cfg.ge_burst = 2;
	assert_int_equal(link_init(&l, &cfg, 1, 0, 0), -EINVAL);
	link_config_defaults(&cfg);
	cfg.ncuts = LINK_CUTS_MAX + 1;
	assert_int_equal(link_init(&l, &cfg, 1, 0, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(generator_matches_published_values),
		cmocka_unit_test(rate_is_exact_over_a_second),
		cmocka_unit_test(back_to_back_arrivals_on_an_idle_link_keep_the_rate),
		cmocka_unit_test(queue_is_bounded_and_drops_the_tail),
		cmocka_unit_test(queue_bdp_scales_with_rate_and_rtt),
		cmocka_unit_test(independent_loss_is_as_asked_and_costs_capacity),
		cmocka_unit_test(burst_loss_has_the_mean_and_the_length_asked),
		cmocka_unit_test(bursts_last_in_time_not_in_packets),
		cmocka_unit_test(cut_drops_everything_and_only_inside_it),
		cmocka_unit_test(delay_steps_apply_in_order_of_time),
		cmocka_unit_test(reordering_lets_later_packets_overtake),
		cmocka_unit_test(duplicates_and_corruption_come_as_often_as_asked),
		cmocka_unit_test(corruption_spares_headers_and_always_changes_something),
		cmocka_unit_test(same_seed_repeats_bit_for_bit),
		cmocka_unit_test(one_impairment_leaves_the_others_draws_alone),
		cmocka_unit_test(other_traffic_shares_the_queue_and_nothing_else),
		cmocka_unit_test(impossible_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
