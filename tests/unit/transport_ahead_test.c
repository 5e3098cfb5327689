/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_recv_ahead() fetches memory by a header that nobody has checked yet: a run in which every
 * packet, broken ones and noise are shown to it first is the run without.
 */
#include "tests/unit/scenario.h"

#include "tools/link/prng.h"

static void show_noise(struct session *s, const uint8_t *packet, size_t len, struct prng *random)
{
	uint8_t bytes[STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES];

	memcpy(bytes, packet, len);
	for (size_t at = STRAIT_OFF_QUEUE; at < STRAIT_HEADER_BYTES; at++)
		if (prng_below(random, 4) == 0)
			bytes[at] = (uint8_t)prng_next(random);
	bytes[STRAIT_OFF_FLAGS] |= STRAIT_FLAG_TAIL;
	session_recv_ahead(s, bytes, len);
	session_recv_ahead(s, bytes, prng_below(random, STRAIT_HEADER_BYTES + 1));
}

static enum world_pass show(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct prng *random = user;

	for (int i = 0; random != NULL && i < 4; i++) {
		session_recv_ahead(w->session[!side], packet, len);
		show_noise(w->session[!side], packet, len, random);
	}
	return WORLD_PASS;
}

static void run(struct prng *random, uint64_t counters[STRAIT_COUNTER_COUNT], uint64_t *ended_ns)
{
	const struct world_hooks h = { .user = random, .on_send = show };
	struct world_config cfg = small_config(7);
	struct world *w;

	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.03;
	w = world_open(&cfg, &h);
	order(w, 8, 300 * KIB);
	finish_open(w, 10 * S);
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
		counters[i] = world_counter(w, WORLD_SINK, i);
	*ended_ns = w->now_ns;
	world_destroy(w);
}

static void nothing_changes_by_what_is_looked_at_ahead(void **state)
{
	uint64_t with[STRAIT_COUNTER_COUNT], without[STRAIT_COUNTER_COUNT], ended[2];
	struct prng random;

	(void)state;
	prng_init(&random, 11, 0);
	run(&random, with, &ended[0]);
	run(NULL, without, &ended[1]);
	assert_memory_equal(with, without, sizeof(with));
	assert_int_equal(ended[0], ended[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_changes_by_what_is_looked_at_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
