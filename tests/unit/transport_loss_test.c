/* SPDX-License-Identifier: Apache-2.0 */
/* No lost message, whichever it is, wedges a transfer or costs more than it must. */
#include "tests/unit/scenario.h"

/* Loses packets [from, to) of one side, counted from the order. */
struct range {
	enum world_side side;
	uint64_t from, to;
	uint64_t seen;
};

static enum world_pass lose_range(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct range *r = user;
	uint64_t i;

	(void)w;
	(void)packet;
	(void)len;
	if (side != r->side)
		return WORLD_PASS;
	i = r->seen++;
	return i >= r->from && i < r->to ? WORLD_LOSE : WORLD_PASS;
}

static void ship_without(enum world_side side, uint64_t from, uint64_t to, uint64_t length)
{
	struct range r = { .side = side, .from = from, .to = to };
	const struct world_hooks h = { .user = &r, .on_send = lose_range };
	struct world_config cfg = small_config(from + 1);

	ship(&cfg, &h, length, 20 * S);
}

static void lost_first_packets_are_sent_again(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 256; n *= 2)
		ship_without(WORLD_SOURCE, 0, n, 200 * KIB);
}

static void any_lost_packet_of_a_small_transfer_is_made_up_for(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		ship_without(WORLD_SOURCE, i, i + 1, 30 * KIB);
		ship_without(WORLD_SINK, i, i + 1, 30 * KIB);
	}
}

static void any_lost_run_of_packets_is_made_up_for(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 40; i += 3) {
		ship_without(WORLD_SOURCE, i, i + 20, 30 * KIB);
		ship_without(WORLD_SINK, i, i + 20, 30 * KIB);
	}
}

static void all_but_the_first_packets_lost_for_a_while(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 30; i += 2) {
		ship_without(WORLD_SOURCE, i, i + 300, 100 * KIB);
		ship_without(WORLD_SINK, i, i + 100, 100 * KIB);
	}
}

/* Loses every transmission of a class of packets while virtual time is within [from, to). */
struct while_time {
	enum world_side side;
	unsigned int type; /* 0: any */
	uint64_t from_ns, to_ns;
};

static enum world_pass lose_while(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	const struct while_time *t = user;
	uint64_t at = w->now_ns - w->t0_ns;

	(void)len;
	if (side != t->side || (t->type && packet_type(packet) != t->type))
		return WORLD_PASS;
	return at >= t->from_ns && at < t->to_ns ? WORLD_LOSE : WORLD_PASS;
}

static void ship_while(const struct while_time *t, uint64_t length, uint64_t limit_ns)
{
	struct while_time copy = *t;
	const struct world_hooks h = { .user = &copy, .on_send = lose_while };
	struct world_config cfg = small_config(1);

	ship(&cfg, &h, length, limit_ns);
}

static void lost_open_is_repeated(void **state)
{
	const struct while_time t = { WORLD_SOURCE, STRAIT_PACKET_CONTROL, 0, 500 * MS };

	(void)state;
	ship_while(&t, 2 * MIB, 10 * S);
}

static void lost_manifest_is_repaired(void **state)
{
	const struct while_time t = { WORLD_SOURCE, STRAIT_PACKET_MANIFEST, 0, 500 * MS };

	(void)state;
	ship_while(&t, 2 * MIB, 10 * S);
}

static void lost_data_is_repaired_when_only_control_passes(void **state)
{
	const struct while_time t = { WORLD_SOURCE, STRAIT_PACKET_DATA, 0, 500 * MS };

	(void)state;
	ship_while(&t, 2 * MIB, 10 * S);
}

static void feedback_lost_for_two_seconds_stops_nothing(void **state)
{
	static const uint64_t from_ms[] = { 0, 30, 100, 150 };

	(void)state;
	for (size_t i = 0; i < COUNT(from_ms); i++) {
		const struct while_time t = { WORLD_SINK, 0, from_ms[i] * MS,
			from_ms[i] * MS + 2 * S };

		ship_while(&t, 2 * MIB, 12 * S);
	}
}

static void half_of_the_feedback_is_enough(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct world_config cfg = small_config(seed);

		cfg.link[WORLD_SOURCE].loss = 0.01;
		cfg.link[WORLD_SINK].loss = 0.5;
		ship(&cfg, NULL, 2 * MIB, 5 * S);
	}
}

struct every {
	uint64_t k, seen;
};

static enum world_pass lose_every(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct every *e = user;

	(void)w;
	(void)packet;
	(void)len;
	return side == WORLD_SOURCE && ++e->seen % e->k == 0 ? WORLD_LOSE : WORLD_PASS;
}

static void every_kth_packet_lost_is_made_up_for(void **state)
{
	(void)state;
	for (uint64_t k = 2; k <= 128; k = k * 3 / 2) {
		struct every e = { .k = k };
		const struct world_hooks h = { .user = &e, .on_send = lose_every };
		struct world_config cfg = small_config(k);

		ship(&cfg, &h, 2 * MIB, 20 * S);
	}
}

/* Loses the first transmissions of the last source block, as many as it has symbols and rows. */
struct last_block {
	uint32_t block;
	uint64_t left;
};

static enum world_pass lose_last_block(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct last_block *l = user;

	(void)w;
	(void)len;
	if (side != WORLD_SOURCE || packet_type(packet) != STRAIT_PACKET_DATA ||
		packet_u32(packet, STRAIT_OFF_BLOCK) != l->block || l->left == 0)
		return WORLD_PASS;
	l->left--;
	return WORLD_LOSE;
}

static void lost_last_packets_are_repaired(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 256; n *= 2) {
		/* Three blocks of 128 symbols. */
		struct last_block l = { .block = 2, .left = n };
		const struct world_hooks h = { .user = &l, .on_send = lose_last_block };
		struct world_config cfg = small_config(n);

		ship(&cfg, &h, 3 * 128 * SYMBOL, 10 * S);
		assert_int_equal(l.left, 0);
	}
}

static void blackouts_are_survived(void **state)
{
	static const uint64_t len_ms[] = { 50, 1000, 30000 };

	(void)state;
	for (size_t i = 0; i < COUNT(len_ms); i++)
		for (uint64_t at_ms = 0; at_ms < 300; at_ms += 70) {
			struct world_config cfg = small_config(at_ms + 1);

			for (int side = 0; side < WORLD_SIDES; side++) {
				cfg.link[side].ncuts = 1;
				cfg.link[side].cuts[0].at_ns = at_ms * MS;
				cfg.link[side].cuts[0].len_ns = len_ms[i] * MS;
			}
			ship(&cfg, NULL, 2 * MIB, len_ms[i] * MS + 3 * S);
		}
}

/* Longer than any fixed number of repeats: the last message is the one nobody asks for. */
static void a_lost_close_is_repeated_until_it_is_answered(void **state)
{
	(void)state;
	for (uint64_t at_ms = 10; at_ms < 60; at_ms += 3) {
		struct world_config cfg = small_config(at_ms);

		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].rtt_ns = 2 * MS;
			cfg.link[side].ncuts = 1;
			cfg.link[side].cuts[0].at_ns = at_ms * MS;
			cfg.link[side].cuts[0].len_ns = 20 * S;
		}
		ship(&cfg, NULL, 500 * KIB, 25 * S);
	}
}

static void copies_of_every_packet_change_nothing(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].dup = 1;
	cfg.link[WORLD_SINK].dup = 1;
	w = world_open(&cfg, NULL);
	order(w, 7, 300 * KIB);
	finish_open(w, 2 * S);
	/* A symbol is placed once. */
	assert_true(
		world_counter(w, WORLD_SINK, STRAIT_C_rx_source) <= 7 * 300 * KIB / SYMBOL + 1 + 4);
	assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_resend), 0);
	world_destroy(w);
}

struct again {
	uint8_t seen[2][64][STRAIT_BLOCK_SYMBOLS_MAX]; /* by stream, block, symbol */
	uint64_t first, again;
};

static enum world_pass count_again(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct again *a = user;
	uint32_t block =
		(uint32_t)packet[20] << 24 | packet[21] << 16 | packet[22] << 8 | packet[23];
	bool manifest = packet_type(packet) == STRAIT_PACKET_MANIFEST;

	(void)w;
	if (side != WORLD_SOURCE || len < STRAIT_HEADER_BYTES || block >= 64 ||
		(!manifest && packet_type(packet) != STRAIT_PACKET_DATA) ||
		packet[STRAIT_OFF_ESI] >= (manifest ? 1 : STRAIT_BLOCK_SYMBOLS_MAX))
		return WORLD_PASS;
	if (a->seen[manifest][block][packet[STRAIT_OFF_ESI]]++)
		a->again++;
	else
		a->first++;
	return WORLD_PASS;
}

/*
 * Over a short path reports come while a block is still being sent. What its repair sends then may
 * be a symbol whose first turn has not come: that is no resend.
 */
static void a_symbol_sent_for_the_first_time_is_no_resend(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct world_config cfg = small_config(seed);
		struct again a = { 0 };
		const struct world_hooks h = { .user = &a, .on_send = count_again };
		struct world *w;

		cfg.link[WORLD_SOURCE].rtt_ns = cfg.link[WORLD_SINK].rtt_ns = MS / 5;
		cfg.link[WORLD_SOURCE].loss = 0.01;
		cfg.symbol_bytes = 1400;
		w = world_open(&cfg, &h);
		/* Whole blocks, whose rows have higher numbers; the manifest is one symbol. */
		order(w, 1, 45 * STRAIT_BLOCK_SYMBOLS_MAX * 1400);
		finish_open(w, 10 * S);
		assert_true(a.again > 10);
		assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_resend), a.again);
		assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_source), a.first);
		world_destroy(w);
	}
}

static void reordering_causes_little_repair(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	/* The profile that packet thresholds misread: a quarter of the packets up to 5 ms late. */
	cfg.link[WORLD_SOURCE].reorder = 0.25;
	cfg.link[WORLD_SOURCE].reorder_ns = 5 * MS;
	cfg.link[WORLD_SOURCE].rtt_ns = cfg.link[WORLD_SINK].rtt_ns = 197 * MS;
	w = world_open(&cfg, NULL);
	order(w, 10, 2 * MIB);
	finish_open(w, 10 * S);
	assert_true(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_spurious) <=
		w->f[WORLD_SOURCE].symbols / 200);
	world_destroy(w);
}

static void repair_is_little_more_than_what_was_lost(void **state)
{
	struct world_config cfg = small_config(1);
	const struct world_figures *f;
	struct world *w;
	uint64_t source;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, NULL);
	f = &w->f[WORLD_SOURCE];
	order(w, 16, 2 * MIB);
	finish_open(w, 10 * S);
	source = 16 * 2 * MIB / SYMBOL + 2;
	assert_true(f->symbols - source <= f->symbols_lost * 11 / 10 + 60);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_first_packets_are_sent_again),
		cmocka_unit_test(any_lost_packet_of_a_small_transfer_is_made_up_for),
		cmocka_unit_test(any_lost_run_of_packets_is_made_up_for),
		cmocka_unit_test(all_but_the_first_packets_lost_for_a_while),
		cmocka_unit_test(lost_open_is_repeated),
		cmocka_unit_test(lost_manifest_is_repaired),
		cmocka_unit_test(lost_data_is_repaired_when_only_control_passes),
		cmocka_unit_test(feedback_lost_for_two_seconds_stops_nothing),
		cmocka_unit_test(half_of_the_feedback_is_enough),
		cmocka_unit_test(every_kth_packet_lost_is_made_up_for),
		cmocka_unit_test(lost_last_packets_are_repaired),
		cmocka_unit_test(blackouts_are_survived),
		cmocka_unit_test(a_lost_close_is_repeated_until_it_is_answered),
		cmocka_unit_test(copies_of_every_packet_change_nothing),
		cmocka_unit_test(a_symbol_sent_for_the_first_time_is_no_resend),
		cmocka_unit_test(reordering_causes_little_repair),
		cmocka_unit_test(repair_is_little_more_than_what_was_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
