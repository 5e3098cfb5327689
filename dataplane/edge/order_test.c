/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/order.h"

#include "control/base/log.h"
#include "dataplane/edge/order_fakes.h"
#include "dataplane/transport/transfer.h"
#include "dataplane/transport/tx_transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { OBJECTS = 10, LEN = 100000 };
#define S_NS 1000000000ULL

struct world {
	struct fake_worker worker;
	struct fake_pool pool;
	struct control_queue queue;
	struct orders *orders;
	struct order_link link;
	uint64_t now_ns, unix_ms;
	uint8_t status[64]; /* by index, as the master learned it */
	uint64_t length[64];
	unsigned int results;
	char text[256]; /* of the last message that had one */
	uint32_t next;  /* log position the master has */
	bool away;
};

static struct pool *find_pool(void *ctx, const uint8_t *tenant, size_t len)
{
	struct world *w = ctx;

	return len == 7 && memcmp(tenant, "default", 7) == 0 ? &w->pool.pool : NULL;
}

static struct order_link *find_link(void *ctx, const Strait__OrderStart *m)
{
	(void)m;
	return &((struct world *)ctx)->link;
}

static void kick(void *ctx)
{
	(void)ctx;
}

static const struct order_ops ops = { .pool = find_pool, .link = find_link, .kick = kick };

static void key_of(int i, char key[static 32])
{
	snprintf(key, 32, "key-%02d", i);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char key[32];

	log_set_level(LOG_LEVEL_ERROR);
	w->worker.room = UINT32_MAX;
	w->pool.pool.ops = &fake_pool_ops;
	w->now_ns = S_NS;
	w->unix_ms = 1000;
	w->link.queues[0].symbol_bytes = 1432;
	w->link.queues[0].session = (struct session *)w; /* never looked at */
	control_queue_init(&w->queue, fake_push, &w->worker);
	w->orders = orders_create(&ops, w, &w->queue);
	for (int i = 0; i < OBJECTS; i++) {
		key_of(i, key);
		fake_add(&w->pool, key, strlen(key), LEN + (uint64_t)i, 77 + (uint64_t)i);
	}
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	orders_destroy(w->orders);
	control_queue_fini(&w->queue);
	assert_int_equal(fake_leases(&w->pool), 0);
	for (int i = 0; i < FAKE_OBJECTS; i++)
		fake_clear(&w->pool.objects[i]);
	free(w);
	return 0;
}

static int take(void *ctx, const Strait__OrderResults *m)
{
	struct world *w = ctx;

	if (w->away)
		return -ENOTCONN;
	assert_true(m->first <= w->next);
	for (size_t i = 0; i < m->n_results; i++) {
		w->status[m->results[i]->index] = (uint8_t)m->results[i]->status;
		w->length[m->results[i]->index] = m->results[i]->length;
	}
	w->results += m->n_results;
	if (m->text != NULL)
		snprintf(w->text, sizeof(w->text), "%s", m->text);
	w->next = m->first + (uint32_t)m->n_results;
	return 0;
}

static void ack(struct world *w, uint64_t order, bool forget)
{
	Strait__OrderResultsAck m = STRAIT__ORDER_RESULTS_ACK__INIT;

	m.order = order;
	m.next = w->next;
	m.has_forget = forget;
	m.forget = forget;
	orders_ack(w->orders, &m);
}

static void turn(struct world *w)
{
	while (orders_run(w->orders, w->now_ns, w->unix_ms))
		;
	orders_flush(w->orders, w->now_ns, take, w);
}

/* n objects, those in `done` finished earlier. */
static uint8_t start(struct world *w, uint64_t order, int n, uint64_t deadline_ms, uint64_t done)
{
	Strait__OrderStart m = STRAIT__ORDER_START__INIT;
	Strait__OrderObject objects[64], *pointers[64];
	char keys[64][32];
	const char *text;

	for (int i = 0; i < n; i++) {
		strait__order_object__init(&objects[i]);
		key_of(i, keys[i]);
		objects[i].key.data = (uint8_t *)keys[i];
		objects[i].key.len = strlen(keys[i]);
		if (done >> i & 1) {
			objects[i].has_status = objects[i].has_length = true;
			objects[i].status = STRAIT_STATUS_COMMITTED;
			objects[i].length = LEN + (uint64_t)i;
		}
		pointers[i] = &objects[i];
	}
	m.order = order;
	m.to_site = m.to_edge = m.to_mgmt_address = (char *)"b";
	m.class_ = STRAIT_CLASS_NORMAL;
	m.has_deadline_ms = deadline_ms != 0;
	m.deadline_ms = deadline_ms;
	m.n_objects = (size_t)n;
	m.objects = pointers;
	return orders_start(w->orders, w->now_ns, &m, &text);
}

static struct tx_transfer *started(struct world *w)
{
	struct worker_command c = { 0 };

	fake_count(&w->worker, WORKER_TX_START, &c);
	return c.tx;
}

static void event(struct world *w, enum session_event_type type, struct tx_transfer *tx,
	uint32_t object, uint8_t status)
{
	struct session_event ev = { .type = type, .tx = tx, .object = object, .status = status };

	orders_event(w->orders, w->now_ns, &ev);
}

static void an_order_runs_from_lookup_to_forgotten(void **state)
{
	struct world *w = *state;
	struct tx_transfer *tx;

	assert_int_equal(start(w, 1, OBJECTS, 0, 0), STRAIT_STATUS_PENDING);
	turn(w);
	tx = started(w);
	assert_non_null(tx);
	assert_int_equal(tx_transfer_objects(tx), OBJECTS);
	assert_int_equal(fake_leases(&w->pool), 0);
	event(w, SESSION_EVENT_TX_WANT, tx, 4, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), 4);
	assert_int_equal(fake_leases(&w->pool), 4);
	event(w, SESSION_EVENT_TX_WANT, tx, OBJECTS, 0);
	for (uint32_t i = 0; i < OBJECTS; i++)
		event(w, SESSION_EVENT_TX_OBJECT, tx, i, STRAIT_STATUS_COMMITTED);
	assert_int_equal(fake_leases(&w->pool), 0);
	event(w, SESSION_EVENT_TX_CLOSED, tx, 0, STRAIT_STATUS_COMMITTED);
	turn(w);
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->status[9], STRAIT_STATUS_COMMITTED);
	assert_int_equal(w->length[9], LEN + 9);
	assert_int_equal(orders_pending(w->orders), 0);
	assert_int_equal(w->link.orders, 0);
	ack(w, 1, true);
	turn(w);
	/* Forgotten: the same number starts from the beginning. */
	assert_int_equal(start(w, 1, OBJECTS, 0, 0), STRAIT_STATUS_PENDING);
	assert_int_equal(orders_pending(w->orders), 1);
}

static void a_deadline_that_cannot_be_met_is_refused_with_the_numbers(void **state)
{
	struct world *w = *state;

	/* Ten objects of 100 kB at 8 Mbit/s: a second. */
	w->link.goodput_bps = w->link.limit_bps = 8000000;
	w->link.latency_ns = 50000000;
	start(w, 1, OBJECTS, w->unix_ms + 1040, 0);
	turn(w);
	assert_null(started(w));
	assert_int_equal(w->results, OBJECTS);
	for (int i = 0; i < OBJECTS; i++)
		assert_int_equal(w->status[i], STRAIT_STATUS_DEADLINE);
	assert_string_equal(w->text,
		"0.0 MB go before it and it has 1.0 MB: at 8.0 Mbit/s it ends in 1.05 s at the "
		"earliest, its deadline is in 1.04 s");
	start(w, 2, OBJECTS, w->unix_ms + 1060, 0);
	turn(w);
	assert_non_null(started(w));
	/* A second one behind it, and one that would make it late. */
	w->next = 0;
	start(w, 3, OBJECTS, w->unix_ms + 1900, 0);
	turn(w);
	assert_non_null(strstr(w->text, "1.0 MB go before it"));
	w->next = 0;
	start(w, 4, 1, w->unix_ms + 500, 0);
	turn(w);
	assert_non_null(strstr(w->text, "order 2 end in"));
	assert_int_equal(fake_count(&w->worker, WORKER_TX_START, NULL), 1);
	/* Without a deadline, or a rate, anything goes. */
	w->next = 0;
	start(w, 5, OBJECTS, 0, 0);
	turn(w);
	w->link.goodput_bps = 0;
	start(w, 6, OBJECTS, w->unix_ms + 10, 0);
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_START, NULL), 3);
}

static void a_deadline_that_has_become_impossible_ends_the_order_at_once(void **state)
{
	struct world *w = *state;
	struct worker_command c = { 0 };

	w->link.goodput_bps = w->link.limit_bps = 8000000;
	start(w, 1, OBJECTS, w->unix_ms + 1500, 0);
	turn(w);
	assert_non_null(started(w));
	/* Half of it is on its way, the other half needs half a second. */
	event(w, SESSION_EVENT_TX_WANT, started(w), 5, 0);
	w->now_ns += S_NS;
	w->unix_ms += 990;
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, NULL), 0);
	w->now_ns += S_NS / 5;
	w->unix_ms += 20;
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, &c), 1);
	assert_int_equal(c.status, STRAIT_STATUS_DEADLINE);
	for (uint32_t i = 0; i < OBJECTS; i++)
		event(w, SESSION_EVENT_TX_OBJECT, started(w), i,
			i < 4 ? STRAIT_STATUS_COMMITTED : STRAIT_STATUS_DEADLINE);
	event(w, SESSION_EVENT_TX_CLOSED, started(w), 0, STRAIT_STATUS_DEADLINE);
	turn(w);
	assert_int_equal(w->status[3], STRAIT_STATUS_COMMITTED);
	assert_int_equal(w->status[4], STRAIT_STATUS_DEADLINE);
	assert_non_null(strstr(w->text, "were not sent yet"));
}

static void appends_stand_right_behind_their_order(void **state)
{
	const uint64_t append = UINT64_C(1) << 40;
	struct world *w = *state;
	struct worker_command *c;
	uint64_t want[] = { 1, append | 1, 2 * append | 1, 2 }, got[4];
	unsigned int n = 0;

	w->link.queues[0].session = NULL;
	start(w, 2, 1, 0, 0);
	start(w, append | 1, 1, 0, 0);
	start(w, 1, 1, 0, 0);
	start(w, 2 * append | 1, 1, 0, 0);
	turn(w);
	w->link.queues[0].session = (struct session *)w;
	turn(w);
	for (unsigned int i = 0; i < w->worker.count; i++) {
		c = &w->worker.commands[i];
		if (c->type == WORKER_TX_START && n < 4)
			got[n++] = c->tx->order;
	}
	assert_int_equal(n, 4);
	assert_memory_equal(got, want, sizeof(want));
}

static void objects_the_pool_lacks_are_not_found_at_once(void **state)
{
	struct world *w = *state;

	start(w, 1, OBJECTS + 3, 0, 0);
	turn(w);
	assert_int_equal(w->results, 3);
	assert_int_equal(w->status[OBJECTS], STRAIT_STATUS_NOT_FOUND);
	assert_int_equal(tx_transfer_objects(started(w)), OBJECTS);
}

static void an_object_replaced_before_it_is_leased_is_evicted(void **state)
{
	struct world *w = *state;
	struct worker_command c = { 0 };

	start(w, 1, OBJECTS, 0, 0);
	turn(w);
	fake_find(&w->pool, "key-03", 6)->digest++;
	fake_clear(fake_find(&w->pool, "key-05", 6));
	event(w, SESSION_EVENT_TX_WANT, started(w), OBJECTS, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), OBJECTS - 2);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_GONE, &c), 2);
	assert_int_equal(c.object, 5);
	assert_int_equal(c.status, STRAIT_STATUS_EVICTED);
	assert_int_equal(fake_leases(&w->pool), OBJECTS - 2);
}

static void a_reset_opens_again_what_is_not_final(void **state)
{
	struct world *w = *state;
	struct tx_transfer *first, *second;

	start(w, 1, OBJECTS, 0, 0);
	turn(w);
	first = started(w);
	event(w, SESSION_EVENT_TX_WANT, first, 6, 0);
	event(w, SESSION_EVENT_TX_OBJECT, first, 0, STRAIT_STATUS_COMMITTED);
	event(w, SESSION_EVENT_TX_OBJECT, first, 1, STRAIT_STATUS_RESET);
	w->link.queues[0].session = NULL;
	event(w, SESSION_EVENT_TX_CLOSED, first, 0, STRAIT_STATUS_RESET);
	turn(w);
	assert_ptr_equal(started(w), first);
	assert_int_equal(fake_leases(&w->pool), 5);

	w->link.queues[0].session = (struct session *)&w->link;
	turn(w);
	second = started(w);
	assert_ptr_not_equal(second, first);
	assert_int_equal(tx_transfer_objects(second), OBJECTS);
	assert_true(tx_transfer_bytes(second) == tx_transfer_bytes(first));
	event(w, SESSION_EVENT_TX_WANT, second, OBJECTS, 0);
	/* Object 0 stays final, 1 to 5 keep their leases. */
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), 6 + OBJECTS - 1);
	assert_int_equal(fake_leases(&w->pool), OBJECTS - 1);
}

static void finished_objects_keep_their_place_in_the_stream(void **state)
{
	struct world *w = *state;

	start(w, 1, OBJECTS, 0, 0x7);
	turn(w);
	assert_int_equal(tx_transfer_objects(started(w)), OBJECTS);
	event(w, SESSION_EVENT_TX_WANT, started(w), OBJECTS, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), OBJECTS - 3);
}

static void results_repeat_until_the_master_has_them(void **state)
{
	struct world *w = *state;

	w->away = true;
	start(w, 1, 1, 0, 0);
	turn(w);
	event(w, SESSION_EVENT_TX_OBJECT, started(w), 0, STRAIT_STATUS_FULL);
	event(w, SESSION_EVENT_TX_CLOSED, started(w), 0, STRAIT_STATUS_COMMITTED);
	turn(w);
	assert_int_equal(w->results, 0);
	w->away = false;
	turn(w);
	assert_int_equal(w->results, 1);
	turn(w);
	assert_int_equal(w->results, 1);
	w->now_ns += 2 * S_NS;
	turn(w);
	assert_int_equal(w->results, 2);
	ack(w, 1, false);
	w->now_ns += 2 * S_NS;
	turn(w);
	assert_int_equal(w->results, 2);
	assert_int_equal(w->status[0], STRAIT_STATUS_FULL);
}

static void a_repeated_order_tries_known_failures_again(void **state)
{
	struct world *w = *state;
	struct tx_transfer *first;

	start(w, 1, 2, 0, 0);
	turn(w);
	first = started(w);
	event(w, SESSION_EVENT_TX_OBJECT, first, 0, STRAIT_STATUS_FULL);
	event(w, SESSION_EVENT_TX_OBJECT, first, 1, STRAIT_STATUS_COMMITTED);
	event(w, SESSION_EVENT_TX_CLOSED, first, 0, STRAIT_STATUS_COMMITTED);
	turn(w);
	/* Not acknowledged yet: nothing is tried again, the result is. */
	start(w, 1, 2, 0, 0);
	turn(w);
	assert_int_equal(orders_pending(w->orders), 0);
	ack(w, 1, false);
	start(w, 1, 2, 0, 0x2);
	turn(w);
	assert_int_equal(orders_pending(w->orders), 1);
	assert_ptr_not_equal(started(w), first);
	event(w, SESSION_EVENT_TX_OBJECT, started(w), 0, STRAIT_STATUS_COMMITTED);
	event(w, SESSION_EVENT_TX_CLOSED, started(w), 0, STRAIT_STATUS_COMMITTED);
	turn(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_COMMITTED);
}

static void a_passed_deadline_cancels(void **state)
{
	struct world *w = *state;
	struct worker_command c = { 0 };

	start(w, 1, OBJECTS, 5000, 0);
	turn(w);
	w->unix_ms = 5001;
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, &c), 1);
	assert_int_equal(c.status, STRAIT_STATUS_DEADLINE);
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, NULL), 1);
	event(w, SESSION_EVENT_TX_CLOSED, c.tx, 0, STRAIT_STATUS_DEADLINE);
	turn(w);
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->status[0], STRAIT_STATUS_DEADLINE);
}

static void an_unreachable_peer_ends_waiting_orders(void **state)
{
	struct world *w = *state;

	w->link.queues[0].session = NULL;
	start(w, 1, OBJECTS, 0, 0);
	turn(w);
	assert_int_equal(w->results, 0);
	w->link.unreachable = true;
	turn(w);
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->status[0], STRAIT_STATUS_UNREACHABLE);
	assert_int_equal(w->link.orders, 0);
}

static void a_refused_transfer_ends_with_the_reason(void **state)
{
	struct world *w = *state;

	start(w, 1, OBJECTS, 0, 0);
	turn(w);
	event(w, SESSION_EVENT_TX_OPENED, started(w), 0, STRAIT_STATUS_REFUSED);
	event(w, SESSION_EVENT_TX_CLOSED, started(w), 0, STRAIT_STATUS_REFUSED);
	turn(w);
	assert_int_equal(w->status[3], STRAIT_STATUS_REFUSED);
}

static void slots_go_to_the_most_urgent(void **state)
{
	struct world *w = *state;

	w->link.live = w->link.queues[0].live = ORDER_NORMAL_SLOTS - 1;
	start(w, 1, 1, 9000, 0);
	start(w, 2, 1, 8000, 0);
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_START, NULL), 1);
	w->unix_ms = 8001; /* the one with the earlier deadline is running: canceled, not ended */
	turn(w);
	assert_int_equal(w->results, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, NULL), 1);
}

static void a_full_ring_keeps_the_order_of_commands(void **state)
{
	struct world *w = *state;

	start(w, 1, OBJECTS, 0, 0);
	w->worker.room = 1;
	turn(w);
	event(w, SESSION_EVENT_TX_WANT, started(w), OBJECTS, 0);
	assert_int_equal(w->worker.count, 1);
	assert_false(control_queue_flush(&w->queue));
	w->worker.room = 5;
	assert_false(control_queue_flush(&w->queue));
	w->worker.room = UINT32_MAX;
	assert_true(control_queue_flush(&w->queue));
	assert_int_equal(w->worker.count, 1 + OBJECTS);
	for (uint32_t i = 0; i < OBJECTS; i++)
		assert_int_equal(w->worker.commands[1 + i].object, i);
}

/* A queue that can neither hand over nor grow. */
static void starve(struct world *w, bool starved)
{
	w->queue.lanes[0].count = w->queue.lanes[0].capacity =
		starved ? SIZE_MAX / 2 / sizeof(*w->queue.lanes[0].waiting) + 1 : 0;
}

static void commands_that_found_no_memory_are_tried_again(void **state)
{
	struct world *w = *state;
	struct worker_command c = { 0 };

	start(w, 1, OBJECTS, 0, 0);
	turn(w);
	event(w, SESSION_EVENT_TX_WANT, started(w), 4, 0);
	starve(w, true);
	event(w, SESSION_EVENT_TX_WANT, started(w), OBJECTS, 0);
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), 4);
	starve(w, false);
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, &c), OBJECTS);
	assert_int_equal(c.object, OBJECTS - 1);
	assert_int_equal(fake_leases(&w->pool), OBJECTS);

	starve(w, true);
	assert_true(orders_cancel(w->orders, 1));
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, NULL), 0);
	starve(w, false);
	turn(w);
	turn(w);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_CANCEL, NULL), 1);
	event(w, SESSION_EVENT_TX_CLOSED, started(w), 0, STRAIT_STATUS_CANCELED);
	turn(w);
	assert_int_equal(orders_pending(w->orders), 0);
}

/* Everything the transfer asks for is committed, then it closes. */
static void ship(struct world *w, struct tx_transfer *tx)
{
	uint32_t n = tx_transfer_objects(tx);

	event(w, SESSION_EVENT_TX_WANT, tx, n, 0);
	for (uint32_t i = 0; i < n; i++)
		event(w, SESSION_EVENT_TX_OBJECT, tx, i, STRAIT_STATUS_COMMITTED);
	event(w, SESSION_EVENT_TX_CLOSED, tx, 0, STRAIT_STATUS_COMMITTED);
	turn(w);
}

static void an_order_waits_for_objects_that_are_being_brought(void **state)
{
	struct world *w = *state;

	w->pool.staging = true;
	w->pool.stage_room = OBJECTS;
	w->pool.lease_error = -EINPROGRESS;
	assert_int_equal(start(w, 1, OBJECTS, 0, 0), STRAIT_STATUS_PENDING);
	assert_false(orders_run(w->orders, w->now_ns, w->unix_ms)); /* no busy waiting */
	assert_null(started(w));
	w->pool.lease_error = -EAGAIN;
	assert_false(orders_run(w->orders, w->now_ns, w->unix_ms));
	w->pool.lease_error = 0;
	turn(w);
	assert_non_null(started(w));
	assert_int_equal(fake_leases(&w->pool), OBJECTS); /* kept from the lookup on */
	ship(w, started(w));
	assert_int_equal(fake_leases(&w->pool), 0);
	assert_int_equal(w->results, OBJECTS);
}

static void an_order_larger_than_the_staging_room_ships_in_parts(void **state)
{
	struct world *w = *state;

	w->pool.staging = true;
	w->pool.stage_room = 4;
	assert_int_equal(start(w, 1, OBJECTS, 0, 1), STRAIT_STATUS_PENDING);
	for (unsigned int done = 4; done < OBJECTS - 1; done += 4) {
		turn(w);
		assert_int_equal(fake_leases(&w->pool), 4);
		ship(w, started(w));
		assert_int_equal(w->results, done);
	}
	ship(w, started(w));
	assert_int_equal(w->results, OBJECTS - 1);
	for (int i = 1; i < OBJECTS; i++)
		assert_int_equal(w->status[i], STRAIT_STATUS_COMMITTED);
	assert_int_equal(orders_pending(w->orders), 0);
}

static void what_came_before_its_time_makes_room_for_what_comes_late(void **state)
{
	struct world *w = *state;

	w->pool.staging = true;
	w->pool.stage_room = 4;
	w->pool.coming = "key-00";
	assert_int_equal(start(w, 1, OBJECTS, 0, 0), STRAIT_STATUS_PENDING);
	turn(w);
	assert_int_equal(fake_leases(&w->pool), 4);
	assert_null(started(w)); /* prefixes first, as long as they are coming */
	w->pool.coming = NULL;
	turn(w);
	for (unsigned int done = 4; done < OBJECTS; done += 4) {
		ship(w, started(w));
		assert_int_equal(w->results, done);
		turn(w);
	}
	ship(w, started(w));
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->status[0], STRAIT_STATUS_COMMITTED);
	assert_int_equal(orders_pending(w->orders), 0);
}

static void what_cannot_be_confirmed_is_not_given_to_the_session(void **state)
{
	struct world *w = *state;
	struct tx_transfer *tx;

	w->pool.staging = true;
	w->pool.stage_room = OBJECTS;
	assert_int_equal(start(w, 1, OBJECTS, 0, 0), STRAIT_STATUS_PENDING);
	turn(w);
	tx = started(w);
	w->pool.confirm_error = -EINPROGRESS;
	event(w, SESSION_EVENT_TX_WANT, tx, OBJECTS, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), 0);
	assert_true(w->pool.confirms >= OBJECTS); /* all are asked about at once */
	assert_false(orders_run(w->orders, w->now_ns, w->unix_ms));
	w->pool.confirm_error = -ESTALE;
	orders_run(w->orders, w->now_ns, w->unix_ms);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, NULL), 0);
	assert_int_equal(fake_count(&w->worker, WORKER_TX_GONE, NULL), OBJECTS);
	for (uint32_t i = 0; i < OBJECTS; i++)
		event(w, SESSION_EVENT_TX_OBJECT, tx, i, STRAIT_STATUS_EVICTED);
	event(w, SESSION_EVENT_TX_CLOSED, tx, 0, STRAIT_STATUS_COMMITTED);
	turn(w);
	assert_int_equal(w->status[3], STRAIT_STATUS_EVICTED);
	assert_int_equal(fake_leases(&w->pool), 0);
}

static void an_order_that_was_cut_in_parts_ends_whole(void **state)
{
	struct world *w = *state;

	w->pool.staging = true;
	w->pool.stage_room = 4;
	assert_int_equal(start(w, 1, OBJECTS, 0, 0), STRAIT_STATUS_PENDING);
	turn(w);
	ship(w, started(w));
	w->pool.lease_error = -EINPROGRESS;
	turn(w);
	assert_true(orders_cancel(w->orders, 1));
	if (orders_live(w->orders) > 0)
		event(w, SESSION_EVENT_TX_CLOSED, started(w), 0, STRAIT_STATUS_CANCELED);
	turn(w);
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->status[OBJECTS - 1], STRAIT_STATUS_CANCELED);
	assert_int_equal(fake_leases(&w->pool), 0);
	assert_int_equal(orders_pending(w->orders), 0);
}

static void bad_orders_are_refused(void **state)
{
	struct world *w = *state;

	assert_int_equal(start(w, 1, 0, 0, 0), STRAIT_STATUS_REFUSED);
	assert_int_equal(start(w, 2, 2, 0, 0), STRAIT_STATUS_PENDING);
	assert_int_equal(start(w, 2, 3, 0, 0), STRAIT_STATUS_REFUSED);
	orders_drain(w->orders);
	assert_int_equal(start(w, 3, 1, 0, 0), STRAIT_STATUS_RESET);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void an_order_of_a_lost_pool_is_refused_with_a_reason(void **state)
{
	struct world *w = *state;
	Strait__OrderStart m = STRAIT__ORDER_START__INIT;
	Strait__OrderObject object = STRAIT__ORDER_OBJECT__INIT, *objects = &object;
	const char *text = NULL;

	/* One that was accepted before ends so by itself. */
	start(w, 1, OBJECTS, 0, 0);
	w->pool.pool.lost = true;
	turn(w);
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->status[0], STRAIT_STATUS_REFUSED);

	m.order = 2;
	m.to_site = m.to_edge = m.to_mgmt_address = (char *)"b";
	object.key.data = (uint8_t *)"key-00";
	object.key.len = 6;
	m.n_objects = 1;
	m.objects = &objects;
	assert_int_equal(orders_start(w->orders, w->now_ns, &m, &text), STRAIT_STATUS_REFUSED);
	assert_non_null(strstr(text, "restart the edge"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_order_runs_from_lookup_to_forgotten),
		TEST(a_deadline_that_cannot_be_met_is_refused_with_the_numbers),
		TEST(a_deadline_that_has_become_impossible_ends_the_order_at_once),
		TEST(appends_stand_right_behind_their_order),
		TEST(objects_the_pool_lacks_are_not_found_at_once),
		TEST(an_object_replaced_before_it_is_leased_is_evicted),
		TEST(a_reset_opens_again_what_is_not_final),
		TEST(finished_objects_keep_their_place_in_the_stream),
		TEST(results_repeat_until_the_master_has_them),
		TEST(a_repeated_order_tries_known_failures_again),
		TEST(a_passed_deadline_cancels),
		TEST(an_unreachable_peer_ends_waiting_orders),
		TEST(a_refused_transfer_ends_with_the_reason),
		TEST(slots_go_to_the_most_urgent),
		TEST(a_full_ring_keeps_the_order_of_commands),
		TEST(commands_that_found_no_memory_are_tried_again),
		TEST(an_order_waits_for_objects_that_are_being_brought),
		TEST(an_order_larger_than_the_staging_room_ships_in_parts),
		TEST(what_came_before_its_time_makes_room_for_what_comes_late),
		TEST(what_cannot_be_confirmed_is_not_given_to_the_session),
		TEST(an_order_that_was_cut_in_parts_ends_whole),
		TEST(bad_orders_are_refused),
		TEST(an_order_of_a_lost_pool_is_refused_with_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
