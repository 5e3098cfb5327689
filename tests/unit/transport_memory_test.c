/* SPDX-License-Identifier: Apache-2.0 */
/* What a transfer takes at the receiver, and that a session takes nothing while it runs. */
#include "tests/unit/hostile.h"

enum { OBJECTS = 4000, RECORD_BYTES = 60 };

/* Bytes asked for by rx_transfer_create(), without the manifest, which is what was announced. */
static uint64_t state_bytes(uint32_t objects, uint64_t length)
{
	const struct session_open open = {
		.transfer = 1,
		.objects = objects,
		.stream_bytes = objects * length,
		.manifest_bytes = objects * RECORD_BYTES,
		.symbol_bytes = SYMBOL,
	};
	uint64_t before = allocated_bytes;
	struct rx_transfer *t = rx_transfer_create(&open, NULL);
	uint64_t bytes;

	assert_non_null(t);
	bytes = allocated_bytes - before - open.manifest_bytes - sizeof(*t);
	/* Of the manifest's own symbols too. */
	bytes -= t->stream[STRAIT_STREAM_MANIFEST].part.blocks * sizeof(struct rx_block);
	rx_transfer_destroy(t);
	return bytes;
}

static void an_object_takes_64_bytes_and_10_bits_for_8_packets(void **state)
{
	static const uint64_t lengths[] = { 1, 4 * KIB, 100 * KIB, 2 * MIB, 64 * MIB };

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t packets = (OBJECTS * lengths[i] + SYMBOL - 1) / SYMBOL;
		/* Blocks of 128 packets or hardly less; 20 bytes each. */
		uint64_t blocks =
			(packets + STRAIT_BLOCK_SYMBOLS_MAX - 1) / STRAIT_BLOCK_SYMBOLS_MAX;
		uint64_t bytes = state_bytes(OBJECTS, lengths[i]);

		if (bytes > 60 * OBJECTS + 8 + 20 * blocks)
			fail_msg("%llu objects of %llu bytes take %llu bytes",
				(unsigned long long)OBJECTS, (unsigned long long)lengths[i],
				(unsigned long long)bytes);
	}
}

static void a_running_session_asks_for_no_memory(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = 0.03;
	w = world_open(&cfg, NULL);
	order(w, 8, 512 * KIB);
	world_run_for(w, 100 * MS);
	/* By hand, without the world's own control threads and link. */
	for (int i = 0; i < 2000; i++) {
		static uint8_t packet[SYMBOL + STRAIT_OVERHEAD_BYTES];
		uint64_t before = allocations;

		for (int side = 0; side < WORLD_SIDES; side++) {
			size_t n =
				session_send(w->session[side], w->now_ns, packet, sizeof(packet));

			if (n > 0)
				session_recv(w->session[!side], w->now_ns, packet, n);
			session_next(w->session[side], w->now_ns);
		}
		assert_int_equal(allocations, before);
		w->now_ns += 100000;
	}
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_takes_64_bytes_and_10_bits_for_8_packets),
		cmocka_unit_test(a_running_session_asks_for_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
