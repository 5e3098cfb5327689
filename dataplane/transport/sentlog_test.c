/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/sentlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ORACLE_MAX = 20000 };

/* The simplest thing that could be right: every packet ever sent, in order. */
struct oracle {
	struct {
		uint64_t pn, time_ns;
		enum { OUT, LOST, ACKED, UNTRACKED } state;
	} p[ORACLE_MAX];
	uint32_t n;
	uint64_t expected; /* packets that must come for the call being made */
	uint64_t got, runs;
};

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

/* The entry's block field holds its index in the oracle. */
static void on_ack(void *ctx, const struct sent_packet *p, uint32_t n, bool was_lost)
{
	struct oracle *o = ctx;

	assert_in_range(n, 1, 64);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(p[i].block < o->n);
		assert_int_equal(p[i].block, p[0].block + i);
		assert_int_equal(o->p[p[i].block].state, was_lost ? LOST : OUT);
		o->p[p[i].block].state = ACKED;
		o->got++;
	}
	o->runs++;
}

static void on_loss(void *ctx, const struct sent_packet *p, bool was_lost)
{
	struct oracle *o = ctx;

	assert_true(was_lost);
	assert_int_equal(o->p[p->block].state, OUT);
	o->p[p->block].state = LOST;
	o->got++;
}

static void send_one(struct sentlog *l, struct oracle *o, uint64_t pn, uint64_t now, bool tracked)
{
	struct sent_packet *p;

	sentlog_make_room(l, on_loss, o);
	p = sentlog_add(l, pn, tracked);
	memset(p, 0, sizeof(*p));
	p->time_ns = now;
	p->block = o->n;
	o->p[o->n].pn = pn;
	o->p[o->n].time_ns = now;
	o->p[o->n++].state = tracked ? OUT : UNTRACKED;
}

static uint64_t oracle_out(const struct oracle *o)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < o->n; i++)
		n += o->p[i].state == OUT;
	return n;
}

static void random_operations_agree_with_a_plain_list(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct sentlog l;
		uint64_t pn = 0, now = 1000, oldest;
		uint32_t size = 1024;

		rng_state = seed * 77;
		memset(o, 0, sizeof(*o));
		assert_int_equal(sentlog_init(&l, size), 0);
		while (o->n < 6000) {
			uint64_t op = rng() % 10;
			uint32_t base = o->n > size ? o->n - size : 0;

			now += rng() % 50;
			if (op < 7 && !sentlog_full(&l)) {
				if (rng() % 500 == 0)
					pn = (pn / 100000 + 1) * 100000; /* re-key */
				send_one(&l, o, pn++, now, rng() % 8 != 0);
			} else if (op < 9 && o->n > 0) {
				uint32_t a = base + (uint32_t)(rng() % (o->n - base));
				uint32_t b = a + (uint32_t)(rng() % 200);

				b = b < o->n ? b : o->n - 1;
				o->got = o->expected = 0;
				for (uint32_t i = a; i <= b; i++)
					o->expected +=
						o->p[i].state == OUT || o->p[i].state == LOST;
				/* Only packets of the last jumps are still known by number. */
				if (o->p[o->n - 1].pn / 100000 - o->p[a].pn / 100000 >=
					SENTLOG_JUMPS)
					continue;
				sentlog_ack(&l, o->p[a].pn, o->p[b].pn, on_ack, o);
				assert_int_equal(o->got, o->expected);
			} else if (o->n > 0) {
				uint64_t before = now > 2000 ? now - 2000 : 0;

				o->got = o->expected = 0;
				for (uint32_t i = 0; i < o->n; i++)
					o->expected +=
						o->p[i].state == OUT && o->p[i].time_ns <= before;
				sentlog_detect(&l, before, on_loss, o);
				assert_int_equal(o->got, o->expected);
			}
			assert_int_equal(l.n_out, oracle_out(o));
		}
		oldest = UINT64_MAX;
		for (uint32_t i = 0; i < o->n && oldest == UINT64_MAX; i++)
			if (o->p[i].state == OUT)
				oldest = o->p[i].time_ns;
		assert_int_equal(sentlog_oldest_ns(&l), oldest);
		sentlog_fini(&l);
	}
	free(o);
}

static void acknowledging_what_was_never_sent_changes_nothing(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct sentlog l;

	(void)state;
	assert_int_equal(sentlog_init(&l, 64), 0);
	for (uint64_t i = 0; i < 10; i++)
		send_one(&l, o, i, i, true);
	assert_int_equal(sentlog_ack(&l, 10, UINT64_MAX, on_ack, o), 0);
	assert_int_equal(sentlog_ack(&l, 5, 4, on_ack, o), 0);
	assert_int_equal(l.n_out, 10);
	assert_int_equal(sentlog_ack(&l, 0, UINT64_MAX, on_ack, o), 10);
	assert_int_equal(sentlog_ack(&l, 0, UINT64_MAX, on_ack, o), 0);
	assert_int_equal(l.n_out, 0);
	sentlog_fini(&l);
	free(o);
}

/* The places of packets that are forgotten are those of newer ones. */
static void acknowledging_what_is_forgotten_leaves_newer_packets_alone(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct sentlog l;

	(void)state;
	assert_int_equal(sentlog_init(&l, 256), 0);
	for (uint64_t pn = 0; pn < 400; pn++)
		send_one(&l, o, pn, 1000 + pn, true);
	o->got = 0;
	assert_int_equal(sentlog_ack(&l, 0, 143, on_ack, o), 0);
	assert_int_equal(l.n_out, 256);
	assert_int_equal(sentlog_ack(&l, 0, 150, on_ack, o), 7); /* 144 is the oldest held */
	assert_int_equal(o->got, 7);
	assert_int_equal(l.n_out, 249);
	assert_null(sentlog_find(&l, 143));
	assert_int_equal(sentlog_find(&l, 144)->block, 144);
	sentlog_fini(&l);
	free(o);
}

static void numbers_skipped_by_a_rekey_are_nobody(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct sentlog l;

	(void)state;
	assert_int_equal(sentlog_init(&l, 64), 0);
	send_one(&l, o, 0, 1, true);
	send_one(&l, o, 1 << 23, 2, true);
	assert_null(sentlog_find(&l, 1));
	assert_null(sentlog_find(&l, (1 << 23) - 1));
	assert_int_equal(sentlog_find(&l, 1 << 23)->time_ns, 2);
	assert_int_equal(sentlog_ack(&l, 1, (1 << 23) - 1, on_ack, o), 0);
	assert_int_equal(sentlog_ack(&l, 0, 1 << 23, on_ack, o), 2);
	sentlog_fini(&l);
	free(o);
}

static void control_packets_may_use_the_reserve_of_a_full_log(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct sentlog l;
	uint64_t pn = 0;

	(void)state;
	assert_int_equal(sentlog_init(&l, 256), 0);
	while (!sentlog_full(&l))
		send_one(&l, o, pn, pn, true), pn++;
	assert_int_equal(pn, 256 - 256 / 8);
	/* Probes of a long blackout: they push out the oldest, which count as lost. */
	for (int i = 0; i < 1000; i++)
		send_one(&l, o, pn, pn, false), pn++;
	assert_int_equal(l.n_out, 0);
	assert_int_equal(oracle_out(o), 0);
	sentlog_fini(&l);
	free(o);
}

static void a_late_acknowledgment_of_a_lost_packet_is_recognized(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct sentlog l;

	(void)state;
	assert_int_equal(sentlog_init(&l, 64), 0);
	send_one(&l, o, 0, 10, true);
	send_one(&l, o, 1, 20, true);
	assert_int_equal(sentlog_detect(&l, 10, on_loss, o), 1);
	assert_int_equal(sentlog_detect(&l, 10, on_loss, o), 0);
	assert_int_equal(l.n_out, 1);
	assert_int_equal(sentlog_ack(&l, 0, 1, on_ack, o), 2); /* on_ack checks was_lost */
	sentlog_fini(&l);
	free(o);
}

static void packets_sent_in_a_row_are_acknowledged_by_runs(void **state)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct sentlog l;

	(void)state;
	assert_int_equal(sentlog_init(&l, 256), 0);
	for (uint64_t i = 0; i < 200; i++)
		send_one(&l, o, i, i, i != 70); /* a control packet ends a run */
	assert_int_equal(sentlog_detect(&l, 9, on_loss, o), 10);
	assert_int_equal(sentlog_ack(&l, 0, 199, on_ack, o), 199);
	/* 0-9 lost, 10-63, 64-69, 71-127, 128-191, 192-199 */
	assert_int_equal(o->runs, 6);
	sentlog_fini(&l);
	free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_agree_with_a_plain_list),
		cmocka_unit_test(acknowledging_what_was_never_sent_changes_nothing),
		cmocka_unit_test(acknowledging_what_is_forgotten_leaves_newer_packets_alone),
		cmocka_unit_test(numbers_skipped_by_a_rekey_are_nobody),
		cmocka_unit_test(control_packets_may_use_the_reserve_of_a_full_log),
		cmocka_unit_test(a_late_acknowledgment_of_a_lost_packet_is_recognized),
		cmocka_unit_test(packets_sent_in_a_row_are_acknowledged_by_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
