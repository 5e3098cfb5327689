/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that has the keys and breaks the rules: what it seals is authentic, and refused. */
#include "tests/unit/scenario.h"

/* Both have a COUNT; the session's is not needed here. */
#undef COUNT
#include "dataplane/transport/session_pvt.h"
#undef COUNT

#include <errno.h>

/* A length that ends in the middle of a symbol, in two blocks. */
enum { SYMBOLS = 200, LAST_BYTES = 700 };
#define LENGTH ((uint64_t)(SYMBOLS - 1) * SYMBOL + LAST_BYTES)

/* What the source keeps to itself until the peer has spoken. */
static enum world_pass hold_data(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	(void)len;
	(void)user;
	return side == WORLD_SOURCE && packet_type(packet) == STRAIT_PACKET_DATA &&
			w->now_ns < w->t0_ns + 200 * MS
		? WORLD_LOSE
		: WORLD_PASS;
}

static const struct world_hooks held = { .on_send = hold_data };

/* An order whose manifest is across and whose object is placed, with no data yet. */
static struct world *placed(void)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, &held);

	order(w, 1, LENGTH);
	world_run_for(w, 60 * MS);
	assert_string_equal(w->error, "");
	assert_non_null(w->objects[0].dst);
	return w;
}

/* Sealed with the source's keys and given to the sink. */
static int say(struct world *w, struct packet_header h, size_t len)
{
	static uint8_t bytes[STRAIT_SYMBOL_BYTES_MAX], packet[STRAIT_SYMBOL_BYTES_MAX + 100];
	struct session *s = w->session[WORLD_SOURCE];
	size_t n = session_seal(s, &h, packet, bytes, len);

	return session_recv(w->session[WORLD_SINK], w->now_ns, packet, n);
}

static struct packet_header data(const struct world *w, uint32_t block, uint8_t esi)
{
	return (struct packet_header){
		.type = STRAIT_PACKET_DATA,
		.esi = esi,
		.transfer = w->transfers[0].tx->id,
		.block = block,
	};
}

static void a_symbol_that_is_not_of_its_slots_length_is_refused(void **state)
{
	static const struct {
		uint32_t block, len;
		uint8_t esi;
	} wrong[] = {
		{ 0, SYMBOL - 1, 0 },
		{ 0, SYMBOL + 1, 0 },
		{ 0, 0, 5 },
		{ 1, SYMBOL, 99 }, /* the last is short */
		{ 1, LAST_BYTES - 1, 99 },
		{ 1, LAST_BYTES + 1, 99 },
		{ 0, SYMBOL - 1, 110 }, /* rows */
		{ 1, LAST_BYTES, 110 },
	};
	enum { WRONG = sizeof(wrong) / sizeof(wrong[0]) };
	struct world *w = placed();
	uint64_t before = world_counter(w, WORLD_SINK, STRAIT_C_rx_length);

	(void)state;
	for (size_t i = 0; i < WRONG; i++)
		assert_int_equal(say(w, data(w, wrong[i].block, wrong[i].esi), wrong[i].len),
			-EMSGSIZE);
	assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_length), before + WRONG);
	finish(w, 5 * S);
}

static void blocks_and_symbols_that_do_not_exist_are_refused(void **state)
{
	struct world *w = placed();

	(void)state;
	assert_int_equal(say(w, data(w, 2, 0), SYMBOL), -ERANGE);
	assert_int_equal(say(w, data(w, UINT32_MAX, 0), SYMBOL), -ERANGE);
	assert_int_equal(say(w, data(w, 0, 255), SYMBOL), -ERANGE);
	finish(w, 5 * S);
}

static void data_of_a_closed_transfer_changes_nothing(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);
	struct packet_header h = { .type = STRAIT_PACKET_DATA, .transfer = 1 };
	uint64_t before;

	(void)state;
	order(w, 1, LENGTH);
	assert_true(world_run(w, 5 * S));
	world_run_for(w, 100 * MS);
	before = world_counter(w, WORLD_SINK, STRAIT_C_rx_early);
	for (int i = 0; i < 10; i++)
		assert_int_equal(say(w, h, SYMBOL), -ENOENT);
	assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_early), before);
	finish(w, 1 * S);
}

static void data_of_transfers_never_opened_takes_bounded_room(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.scratch_slots = 64;
	w = world_open(&cfg, NULL);
	for (uint32_t i = 0; i < 10000; i++) {
		struct packet_header h = { .type = STRAIT_PACKET_DATA, .transfer = 1 + i };
		int rc = say(w, h, SYMBOL);

		assert_true(rc == 0 || rc == -ENOBUFS || rc == -ENOENT);
	}
	assert_true(world_counter(w, WORLD_SINK, STRAIT_C_rx_early) <= 64);
	world_destroy(w);
}

static void replayed_data_ahead_of_its_transfer_takes_no_more_room(void **state)
{
	static uint8_t bytes[SYMBOL], packet[SYMBOL + 100];
	struct packet_header h = { .type = STRAIT_PACKET_DATA, .transfer = 1 };
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);
	size_t n = session_seal(w->session[WORLD_SOURCE], &h, packet, bytes, SYMBOL);

	(void)state;
	assert_int_equal(session_recv(w->session[WORLD_SINK], w->now_ns, packet, n), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(session_recv(w->session[WORLD_SINK], w->now_ns, packet, n),
			-EALREADY);
	assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_early), 1);
	assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_replay), 100);
	world_destroy(w);
}

/* The sink's word about objects of the first transfer, from entry `first` of its log. */
static void tell(struct world *w, uint32_t first, const uint32_t *objects, uint32_t n,
	uint8_t status)
{
	static uint8_t body[1000], packet[1100];
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	struct frame_writer f;

	frame_writer_init(&f, body, sizeof(body));
	assert_int_equal(frame_object_begin(&f, w->transfers[0].tx->id, first), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(frame_objects_item(&f, objects[i], status), 0);
	frame_list_end(&f);
	assert_int_equal(session_recv(w->session[WORLD_SOURCE], w->now_ns, packet,
				 session_seal(w->session[WORLD_SINK], &h, packet, body, f.len)),
		0);
}

static uint32_t events_of_objects(struct world *w)
{
	struct session_event ev;
	uint32_t n = 0;

	while (session_poll(w->session[WORLD_SOURCE], &ev))
		n += ev.type == SESSION_EVENT_TX_OBJECT;
	return n;
}

static void a_status_told_again_counts_once(void **state)
{
	static const uint32_t objects[] = { 0, 0, 1, 0, 1, 1 };
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, &held);

	(void)state;
	order(w, 3, 100 * KIB);
	world_run_for(w, 60 * MS);
	/* Twice in one list, and the list again: in order, it stands at entry 6 then. */
	tell(w, 0, objects, 6, STRAIT_STATUS_FULL);
	assert_int_equal(events_of_objects(w), 2);
	tell(w, 0, objects, 6, STRAIT_STATUS_COMMITTED);
	tell(w, 3, objects, 3, STRAIT_STATUS_COMMITTED);
	tell(w, 6, objects, 6, STRAIT_STATUS_COMMITTED);
	assert_int_equal(events_of_objects(w), 0);
	/* Nor does it end the transfer: object 2 is still to come. */
	assert_int_equal(w->transfers[0].tx->objects_final, 2);
	/* Entries above a hole are not taken. */
	tell(w, 20, (const uint32_t[]){ 2 }, 1, STRAIT_STATUS_FULL);
	assert_int_equal(events_of_objects(w), 0);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_symbol_that_is_not_of_its_slots_length_is_refused),
		cmocka_unit_test(blocks_and_symbols_that_do_not_exist_are_refused),
		cmocka_unit_test(data_of_a_closed_transfer_changes_nothing),
		cmocka_unit_test(data_of_transfers_never_opened_takes_bounded_room),
		cmocka_unit_test(replayed_data_ahead_of_its_transfer_takes_no_more_room),
		cmocka_unit_test(a_status_told_again_counts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
