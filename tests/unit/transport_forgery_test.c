/* SPDX-License-Identifier: Apache-2.0 */
/* Replayed, damaged and invented packets change nothing and each is counted once. */
#include "tests/unit/scenario.h"

#include <stdlib.h>

/* Every packet that arrived, by sending side. */
struct capture {
	struct captured {
		enum world_side from;
		size_t len;
		uint8_t bytes[SYMBOL + STRAIT_OVERHEAD_BYTES];
	} * packets;
	size_t n, cap;
	bool stop;
};

static void capture_arrival(struct world *w, enum world_side from, const uint8_t *packet,
	size_t len, void *user)
{
	struct capture *c = user;

	(void)w;
	if (c->stop)
		return;
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 1024;
		c->packets = realloc(c->packets, c->cap * sizeof(*c->packets));
		assert_non_null(c->packets);
	}
	c->packets[c->n].from = from;
	c->packets[c->n].len = len;
	memcpy(c->packets[c->n++].bytes, packet, len);
}

/* Counters that may move when something is refused or known already; no other may. */
static bool is_harmless(int counter)
{
	return strait_counter_descs[counter].kind == STRAIT_COUNTER_DROP ||
		counter == STRAIT_C_rx_packets || counter == STRAIT_C_rx_bytes ||
		counter == STRAIT_C_rx_unneeded || counter == STRAIT_C_rx_duplicate;
}

static void replay_all(struct world *w, const struct capture *c)
{
	struct session_stats before[WORLD_SIDES], after[WORLD_SIDES];
	struct session_event ev;

	for (int side = 0; side < WORLD_SIDES; side++)
		session_stats(w->session[side], &before[side]);
	for (size_t i = 0; i < c->n; i++)
		session_recv(w->session[!c->packets[i].from], w->now_ns, c->packets[i].bytes,
			c->packets[i].len);
	for (int side = 0; side < WORLD_SIDES; side++) {
		session_stats(w->session[side], &after[side]);
		for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
			if (!is_harmless(i) && before[side].counters[i] != after[side].counters[i])
				fail_msg("replay moved %s", strait_counter_descs[i].name);
		assert_int_equal(before[side].outstanding_bytes, after[side].outstanding_bytes);
		assert_int_equal(before[side].backlog_bytes, after[side].backlog_bytes);
		assert_int_equal(before[side].delivered_bytes, after[side].delivered_bytes);
		assert_int_equal(before[side].srtt_ns, after[side].srtt_ns);
		assert_true(before[side].loss == after[side].loss);
		assert_false(session_poll(w->session[side], &ev));
	}
}

static void replay_at_any_age_changes_nothing(void **state)
{
	struct world_config cfg = small_config(1);
	struct capture c = { 0 };
	const struct world_hooks h = { .user = &c, .on_arrive = capture_arrival };
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, &h);
	order(w, 8, 200 * KIB);
	for (int i = 0; i < 30; i++) {
		world_run_for(w, 5 * MS);
		replay_all(w, &c);
	}
	finish_open(w, 5 * S);
	replay_all(w, &c);
	world_run_for(w, 1 * S);
	replay_all(w, &c);
	world_destroy(w);
	free(c.packets);
}

static void packets_of_an_earlier_session_are_refused(void **state)
{
	struct world_config cfg = small_config(1);
	struct capture c = { 0 };
	const struct world_hooks h = { .user = &c, .on_arrive = capture_arrival };
	struct world *w = world_open(&cfg, &h);
	uint64_t refused;

	(void)state;
	order(w, 8, 200 * KIB);
	world_run_for(w, 80 * MS);
	c.stop = true;
	assert_int_equal(world_restart(w, WORLD_SINK), 0);
	refused = world_counter(w, WORLD_SINK, STRAIT_C_rx_session);
	replay_all(w, &c);
	assert_true(world_counter(w, WORLD_SINK, STRAIT_C_rx_session) > refused + 100);
	finish(w, 5 * S);
	free(c.packets);
}

/* A data packet the sink has not seen, in the middle of a transfer. */
struct held {
	uint8_t bytes[SYMBOL + STRAIT_OVERHEAD_BYTES];
	size_t len;
	unsigned int type;
	int skip;
};

static enum world_pass hold_one(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct held *held = user;

	(void)w;
	if (side != WORLD_SOURCE || packet_type(packet) != held->type || held->len ||
		held->skip-- > 0)
		return WORLD_PASS;
	memcpy(held->bytes, packet, len);
	held->len = len;
	return WORLD_LOSE;
}

/* Injects a bad packet: refused, and one drop counter of the sink moved, which is returned. */
static enum strait_counter inject_bad(struct world *w, const uint8_t *packet, size_t len)
{
	struct session_stats before, after;
	int moved = -1;

	session_stats(w->session[WORLD_SINK], &before);
	assert_true(session_recv(w->session[WORLD_SINK], w->now_ns, packet, len) < 0);
	session_stats(w->session[WORLD_SINK], &after);
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++) {
		if (before.counters[i] == after.counters[i])
			continue;
		assert_int_equal(strait_counter_descs[i].kind, STRAIT_COUNTER_DROP);
		assert_int_equal(after.counters[i], before.counters[i] + 1);
		assert_int_equal(moved, -1);
		moved = i;
	}
	assert_int_not_equal(moved, -1);
	return (enum strait_counter)moved;
}

static enum strait_counter expected_drop(const struct held *h, size_t byte, int bit)
{
	unsigned int version_type = h->bytes[0] ^ 1U << bit;

	switch (byte) {
	case STRAIT_OFF_VERSION_TYPE:
		return version_type >> 4 == STRAIT_WIRE_VERSION && (version_type & 15) >= 1 &&
				(version_type & 15) <= 3
			? STRAIT_C_rx_auth
			: STRAIT_C_rx_version;
	case STRAIT_OFF_QUEUE:
		return STRAIT_C_rx_queue;
	case STRAIT_OFF_SESSION ... STRAIT_OFF_SESSION + 3:
		return STRAIT_C_rx_session;
	case STRAIT_OFF_PACKET_NUMBER ... STRAIT_OFF_PACKET_NUMBER + 7: {
		int pn_bit = (int)(STRAIT_OFF_PACKET_NUMBER + 7 - byte) * 8 + bit;

		/* Generations 0 and 1 are held. */
		return pn_bit <= STRAIT_GENERATION_SHIFT ? STRAIT_C_rx_auth
							 : STRAIT_C_rx_generation;
	}
	default:
		return STRAIT_C_rx_auth;
	}
}

static struct world *open_held(struct held *h, unsigned int type, int skip)
{
	struct world_config cfg = small_config(1);
	struct world_hooks hooks = { .user = h, .on_send = hold_one };
	struct world *w;

	memset(h, 0, sizeof(*h));
	h->type = type;
	h->skip = skip;
	w = world_open(&cfg, &hooks);
	order(w, 4, 100 * KIB);
	world_run_for(w, 25 * MS);
	assert_int_not_equal(h->len, 0);
	return w;
}

static void flipped_bits_are_dropped_with_their_reason(void **state)
{
	(void)state;
	for (unsigned int type = STRAIT_PACKET_DATA; type <= STRAIT_PACKET_CONTROL; type++) {
		struct held h;
		struct world *w = open_held(&h, type, 0);

		for (size_t byte = 0; byte < h.len; byte++) {
			if (byte > 64 && byte + 20 < h.len && byte % 97)
				continue;
			for (int bit = 0; bit < 8; bit++) {
				enum strait_counter want = expected_drop(&h, byte, bit);
				enum strait_counter got;

				h.bytes[byte] ^= (uint8_t)(1U << bit);
				got = inject_bad(w, h.bytes, h.len);
				h.bytes[byte] ^= (uint8_t)(1U << bit);
				/* Another queue within bounds has other keys. */
				if (byte == STRAIT_OFF_QUEUE && got == STRAIT_C_rx_auth)
					continue;
				if (got != want)
					fail_msg("type %u byte %zu bit %d: %s, not %s", type, byte,
						bit, strait_counter_descs[got].name,
						strait_counter_descs[want].name);
			}
		}
		/* None of it kept the true one from being taken. */
		assert_int_equal(world_inject(w, WORLD_SOURCE, h.bytes, h.len), 0);
		finish(w, 5 * S);
	}
}

static void truncated_packets_are_dropped(void **state)
{
	struct held h;
	struct world *w = open_held(&h, STRAIT_PACKET_DATA, 3);

	(void)state;
	for (size_t len = 0; len < h.len; len++) {
		/* Its own allocation: reading past the end is found by the sanitizer. */
		uint8_t *copy = malloc(len ? len : 1);

		assert_non_null(copy);
		memcpy(copy, h.bytes, len);
		assert_int_equal(inject_bad(w, copy, len),
			len < STRAIT_OVERHEAD_BYTES ? STRAIT_C_rx_short : STRAIT_C_rx_auth);
		free(copy);
	}
	assert_int_equal(world_inject(w, WORLD_SOURCE, h.bytes, h.len), 0);
	finish(w, 5 * S);
}

static void a_longer_packet_is_dropped(void **state)
{
	uint8_t longer[9216] = { 0 };
	struct held h;
	struct world *w = open_held(&h, STRAIT_PACKET_DATA, 3);

	(void)state;
	memcpy(longer, h.bytes, h.len);
	for (size_t len = h.len + 1; len < sizeof(longer); len += 131)
		assert_int_equal(inject_bad(w, longer, len),
			len > STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES ? STRAIT_C_rx_length
									      : STRAIT_C_rx_auth);
	finish(w, 5 * S);
}

static void invented_packets_are_dropped(void **state)
{
	uint8_t packet[SYMBOL + STRAIT_OVERHEAD_BYTES];
	struct prng rnd;
	struct held h;
	struct world *w = open_held(&h, STRAIT_PACKET_DATA, 3);

	(void)state;
	prng_init(&rnd, 1, 1);
	for (int i = 0; i < 20000; i++) {
		size_t len = prng_below(&rnd, sizeof(packet) + 1);

		for (size_t j = 0; j < len; j++)
			packet[j] = (uint8_t)prng_next(&rnd);
		/* Most with a header that gets as far as authentication. */
		if (i % 4 && len >= STRAIT_HEADER_BYTES) {
			memcpy(packet, h.bytes, STRAIT_HEADER_BYTES);
			if (i % 4 == 2)
				packet[prng_below(&rnd, STRAIT_HEADER_BYTES)] = (uint8_t)i;
		}
		inject_bad(w, packet, len);
	}
	assert_int_equal(world_inject(w, WORLD_SOURCE, h.bytes, h.len), 0);
	finish(w, 5 * S);
}

static void corruption_on_the_line_is_only_loss(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].corrupt = cfg.link[WORLD_SINK].corrupt = 0.1;
	w = world_open(&cfg, NULL);
	order(w, 8, 200 * KIB);
	finish_open(w, 10 * S);
	assert_true(world_counter(w, WORLD_SINK, STRAIT_C_rx_auth) > 50);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay_at_any_age_changes_nothing),
		cmocka_unit_test(packets_of_an_earlier_session_are_refused),
		cmocka_unit_test(flipped_bits_are_dropped_with_their_reason),
		cmocka_unit_test(truncated_packets_are_dropped),
		cmocka_unit_test(a_longer_packet_is_dropped),
		cmocka_unit_test(invented_packets_are_dropped),
		cmocka_unit_test(corruption_on_the_line_is_only_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
