/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Honest orders over a bad link while one side, or both, also says what random draws: frames that
 * are well formed and wrong, floods, rubbish, symbols of transfers nobody knows. Left out is only
 * what the side may rightly say of the orders themselves (that an object is committed, that a
 * transfer ends, the bytes of its symbols), so every order must end well, and slots, scratch and
 * rows be empty afterwards. HOSTILE_SEEDS: how many seeds (make soak: more).
 */
#include "tests/unit/hostile.h"

#include <stdlib.h>

enum { SEEDS = 150, STRANGE = 300, STRANGERS = 80 };

static uint32_t below(struct prng *r, uint64_t n)
{
	return (uint32_t)prng_below(r, n);
}

/* A transfer id: of a live one, one that ended, one to come, one of nobody. */
static uint32_t some_id(const struct world *w, struct prng *r)
{
	switch (prng_below(r, 3)) {
	case 0:
		return 1 + below(r, w->session[WORLD_SOURCE]->tx.next_id);
	case 1:
		return STRANGE + below(r, STRANGERS);
	default:
		return (uint32_t)prng_next(r);
	}
}

/* One that is none of the orders', ended or not. */
static uint32_t strange_id(struct prng *r)
{
	return prng_chance(r, 0.8) ? STRANGE + below(r, STRANGERS)
				   : STRANGE + STRANGERS + (uint32_t)prng_next(r) / 2;
}

static void lie_report(struct world *w, struct lie *l, struct prng *r)
{
	struct frame_report f = {
		.queue = prng_chance(r, 0.05),
		.newest = highest_sent(w, WORLD_SOURCE) - below(r, 200) +
			(prng_chance(r, 0.05) ? 1000 : 0),
		/* The clock runs as it likes, but not so far that true times come never again. */
		.newest_us = w->now_ns / 1000 + below(r, 2000) - 1000,
		.delay_us = prng_chance(r, 0.9) ? below(r, 5000) : (uint32_t)prng_next(r),
	};

	f.base = f.newest - (prng_chance(r, 0.2) ? below(r, 50) : 0);
	if (f.base > f.newest || frame_report_begin(&l->f, &f) < 0)
		return;
	for (uint64_t left = f.base + 1, n = below(r, 300); n > 0; n--) {
		uint64_t received = 1 + prng_below(r, prng_chance(r, 0.1) ? 1000 : 3);
		uint64_t missing = prng_below(r, 4);

		if (received + missing > left || frame_report_range(&l->f, received, missing) < 0)
			break;
		left -= received + missing;
	}
	frame_list_end(&l->f);
}

static void lie_list(struct world *w, struct lie *l, struct prng *r)
{
	uint8_t stream = (uint8_t)prng_below(r, 2);
	uint32_t n = below(r, 40), previous = 0;

	if (prng_chance(r, 0.5)) {
		if (frame_have_begin(&l->f, some_id(w, r), stream, below(r, 40)) < 0)
			return;
		for (; n > 0; n--)
			frame_have_run(&l->f, 1 + below(r, 3), 1 + below(r, 3));
	} else {
		if (frame_need_begin(&l->f, some_id(w, r), stream,
			    highest_sent(w, WORLD_SOURCE) - below(r, 3)) < 0)
			return;
		for (uint32_t b = below(r, 5); n > 0; n--, b += 1 + below(r, 3))
			frame_need_block(&l->f, &previous, b, 1 + below(r, 128));
	}
	frame_list_end(&l->f);
}

/* Statuses: above a hole, of transfers that are nobody's. */
static void lie_objects(struct world *w, struct lie *l, struct prng *r)
{
	const struct tx_transfer *t = first_transfer(w);
	bool live = t != NULL && prng_chance(r, 0.5);

	if (frame_object_begin(&l->f, live ? t->id : strange_id(r),
		    live ? t->log_next + 1 + below(r, 9) : below(r, 9)) < 0)
		return;
	for (uint32_t n = below(r, 20); n > 0; n--)
		frame_objects_item(&l->f, below(r, 100), (uint8_t)(1 + prng_below(r, 30)));
	frame_list_end(&l->f);
}

static void lie_any(struct lie *l, struct prng *r)
{
	switch (prng_below(r, 5)) {
	case 0:
		frame_put_ping(&l->f, prng_chance(r, 0.5) ? (uint32_t)prng_next(r) : 0);
		break;
	case 1:
		frame_put_token(&l->f, STRAIT_FRAME_CHALLENGE, prng_next(r));
		break;
	case 2:
		frame_put_token(&l->f, STRAIT_FRAME_RESPONSE, prng_next(r));
		break;
	default:
		/* A type to come, a length to believe, or the end of the packet in the middle. */
		for (size_t n = below(r, 30); n > 0 && l->f.len < l->f.cap; n--)
			l->f.buf[l->f.len++] = (uint8_t)(prng_chance(r, 0.3) ? 200 : n & 7);
	}
}

static void sink_lies(struct world *w, struct prng *r)
{
	struct frame_credit c = { .class_ = (uint8_t)prng_below(r, STRAIT_CLASS_COUNT),
		.bytes = prng_next(r) >> prng_below(r, 64),
		.objects = prng_next(r) >> prng_below(r, 64) };
	struct lie l;

	lie_begin(&l);
	for (uint64_t n = 1 + prng_below(r, 3); n > 0; n--)
		switch (prng_below(r, 8)) {
		case 0 ... 2:
			lie_report(w, &l, r);
			break;
		case 3 ... 4:
			lie_list(w, &l, r);
			break;
		case 5:
			lie_objects(w, &l, r);
			break;
		case 6:
			frame_put_credit(&l.f, &c);
			frame_put_open_ack(&l.f, strange_id(r), (uint8_t)prng_below(r, 30));
			frame_put_close_ack(&l.f, strange_id(r));
			break;
		default:
			lie_any(&l, r);
		}
	lie_tell(w, WORLD_SINK, &l);
}

static void source_opens(struct lie *l, struct prng *r)
{
	struct frame_open o = {
		.transfer = STRANGE + below(r, STRANGERS),
		.objects = 1 + below(r, 50),
		.symbol_bytes = (uint16_t)(STRAIT_SYMBOL_BYTES_MIN +
			prng_below(r, SYMBOL - STRAIT_SYMBOL_BYTES_MIN + 10)),
		.class_ = (uint8_t)prng_below(r, STRAIT_CLASS_COUNT),
		.report_interval_us = (uint32_t)prng_next(r) >> below(r, 32),
		.deadline_ms = prng_next(r),
	};

	o.manifest_bytes = o.objects * (21 + below(r, 100));
	o.stream_bytes = o.objects * (1 + prng_below(r, 100000));
	frame_put_open(&l->f, &o);
}

static void source_sends_symbols(struct world *w, struct prng *r)
{
	struct packet_header h = {
		.type = prng_chance(r, 0.7) ? STRAIT_PACKET_DATA : STRAIT_PACKET_MANIFEST,
		.flags = (uint8_t)prng_below(r, 8),
		.transfer = strange_id(r),
		.block = prng_chance(r, 0.8) ? below(r, 4) : (uint32_t)prng_next(r),
	};
	size_t len = prng_chance(r, 0.7) ? SYMBOL : prng_below(r, SYMBOL + 1);
	struct lie l = { 0 };

	for (uint64_t n = 1 + prng_below(r, 100); n > 0; n--) {
		h.esi = (uint8_t)prng_next(r);
		hostile_packet(w, WORLD_SOURCE, h, l.body, len);
	}
}

static void source_lies(struct world *w, struct prng *r)
{
	struct lie l;

	lie_begin(&l);
	for (uint64_t n = 1 + prng_below(r, 3); n > 0; n--)
		switch (prng_below(r, 6)) {
		case 0:
			source_opens(&l, r);
			break;
		case 1:
			source_sends_symbols(w, r);
			break;
		case 2:
			if (frame_withdraw_begin(&l.f, strange_id(r)) < 0)
				break;
			for (uint32_t i = below(r, 20); i > 0; i--)
				frame_objects_item(&l.f, below(r, 60),
					(uint8_t)(3 + prng_below(r, 9)));
			frame_list_end(&l.f);
			break;
		case 3:
			frame_put_object_ack(&l.f, some_id(w, r), UINT32_MAX - below(r, 100));
			break;
		case 4:
			frame_put_close(&l.f, strange_id(r), (uint8_t)prng_below(r, 20));
			break;
		default:
			lie_any(&l, r);
		}
	lie_tell(w, WORLD_SOURCE, &l);
}

/* What was opened in the source's name must end in its name. */
static void close_strangers(struct world *w)
{
	for (uint32_t i = 0; i < STRANGERS;) {
		struct lie l;

		lie_begin(&l);
		for (; i < STRANGERS &&
			frame_put_close(&l.f, STRANGE + i, STRAIT_STATUS_CANCELED) == 0;
			i++)
			;
		lie_tell(w, WORLD_SOURCE, &l);
	}
}

static void check(const struct world *w)
{
	for (int side = 0; side < WORLD_SIDES; side++) {
		const struct session *s = w->session[side];

		assert_true(s->tx.n_closing <= CLOSING_MAX);
		assert_true(s->rx.n_close_acks <= REFUSED_MAX);
		assert_true(s->tx.log.n_out <= (uint64_t)s->tx.log.mask + 1);
		assert_true(s->rx.early.used <= s->rx.early.n);
		assert_true(s->rx.rows.used <= s->rx.rows.n);
	}
}

static void one_seed(uint64_t seed)
{
	struct world_config cfg = small_config(seed);
	struct prng rnd;
	struct world *w;

	prng_init(&rnd, seed, 4000);
	cfg.strangers = true;
	cfg.link[WORLD_SOURCE].loss = prng_chance(&rnd, 0.5) ? prng_unit(&rnd) * 0.05 : 0;
	cfg.link[WORLD_SINK].loss = prng_chance(&rnd, 0.5) ? prng_unit(&rnd) * 0.3 : 0;
	cfg.link[WORLD_SOURCE].dup = prng_chance(&rnd, 0.2) ? 0.05 : 0;
	if (prng_chance(&rnd, 0.3))
		cfg.scratch_slots = 64;
	if (prng_chance(&rnd, 0.3))
		cfg.row_slots = 64;
	w = world_open(&cfg, NULL);
	for (uint32_t i = 1 + below(&rnd, 3); i > 0; i--)
		order(w, 1 + below(&rnd, 12), 1 + prng_below(&rnd, 400 * KIB));
	for (uint32_t i = 50 + below(&rnd, 300), who = 1 + below(&rnd, 3); i > 0; i--) {
		if (who & 1)
			sink_lies(w, &rnd);
		if (who & 2)
			source_lies(w, &rnd);
		check(w);
		world_run_for(w, prng_below(&rnd, 3 * MS));
	}
	close_strangers(w);
	finish_open(w, 60 * S);
	order(w, 3, 200 * KIB);
	finish_open(w, 20 * S);
	world_run_for(w, 1 * S);
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++)
		assert_false(w->session[WORLD_SINK]->rx.slots[i].used);
	assert_int_equal(w->session[WORLD_SINK]->rx.rows.used, 0);
	world_destroy(w);
}

static void honest_orders_end_well_beside_any_lies(void **state)
{
	const char *seeds = getenv("HOSTILE_SEEDS");
	uint64_t n = seeds ? strtoull(seeds, NULL, 10) : SEEDS;

	(void)state;
	for (uint64_t seed = 1; seed <= n; seed++)
		one_seed(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(honest_orders_end_well_beside_any_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
