/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/order_private.h"

#include "control/base/log.h"
#include "dataplane/edge/order_fakes.h"
#include "dataplane/transport/transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Orders over links of several queues: how objects are dealt, and what happens to the parts. */

enum { OBJECTS = 40, QUEUES = 3, STARTS = 16 };
#define S_NS 1000000000ULL

struct world {
	struct fake_worker worker;
	struct fake_pool pool;
	struct control_queue queue;
	struct orders *orders;
	struct order_link link;
	uint64_t now_ns;
	unsigned int results;
	char sessions[2 * QUEUES];
};

static struct pool *find_pool(void *ctx, const uint8_t *tenant, size_t len)
{
	(void)tenant;
	(void)len;
	return &((struct world *)ctx)->pool.pool;
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

/* n queues, with other sessions than the last time. */
static void connect_link(struct world *w, uint32_t n, uint32_t first)
{
	w->link.queue_count = n;
	for (uint32_t q = 0; q < QUEUES; q++) {
		w->link.queues[q].session =
			q < n ? (struct session *)&w->sessions[first + q] : NULL;
		w->link.queues[q].symbol_bytes = 1432;
	}
}

static uint64_t length_of(int i)
{
	return 50000 + (uint64_t)(i * 7919 % 11) * 40000;
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char key[32];

	log_set_level(LOG_LEVEL_ERROR);
	w->worker.room = UINT32_MAX;
	w->pool.pool.ops = &fake_pool_ops;
	w->now_ns = S_NS;
	connect_link(w, QUEUES, 0);
	control_queue_init(&w->queue, fake_push, &w->worker);
	w->orders = orders_create(&ops, w, &w->queue);
	for (int i = 0; i < OBJECTS; i++) {
		snprintf(key, sizeof(key), "key-%02d", i);
		fake_add(&w->pool, key, strlen(key), length_of(i), 77);
	}
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	orders_destroy(w->orders);
	control_queue_fini(&w->queue);
	for (int i = 0; i < FAKE_OBJECTS; i++)
		fake_clear(&w->pool.objects[i]);
	free(w);
	return 0;
}

static int take(void *ctx, const Strait__OrderResults *m)
{
	((struct world *)ctx)->results += (unsigned int)m->n_results;
	return 0;
}

static void turn(struct world *w)
{
	while (orders_run(w->orders, w->now_ns, 1000))
		;
	orders_flush(w->orders, w->now_ns, take, w);
}

static void start(struct world *w, uint64_t order, int n)
{
	Strait__OrderStart m = STRAIT__ORDER_START__INIT;
	Strait__OrderObject objects[OBJECTS], *pointers[OBJECTS];
	char keys[OBJECTS][32];
	const char *text;

	for (int i = 0; i < n; i++) {
		strait__order_object__init(&objects[i]);
		snprintf(keys[i], sizeof(keys[i]), "key-%02d", i);
		objects[i].key.data = (uint8_t *)keys[i];
		objects[i].key.len = strlen(keys[i]);
		pointers[i] = &objects[i];
	}
	m.order = order;
	m.to_site = m.to_edge = m.to_mgmt_address = (char *)"b";
	m.class_ = STRAIT_CLASS_NORMAL;
	m.n_objects = (size_t)n;
	m.objects = pointers;
	assert_int_equal(orders_start(w->orders, w->now_ns, &m, &text), STRAIT_STATUS_PENDING);
	turn(w);
}

/* The transfers that were started, from command number `from` on. */
static unsigned int starts(const struct world *w, unsigned int from, struct worker_command *out)
{
	unsigned int n = 0;

	for (unsigned int i = from; i < w->worker.count; i++)
		if (w->worker.commands[i].type == WORKER_TX_START) {
			assert_true(n < STARTS);
			out[n++] = w->worker.commands[i];
		}
	return n;
}

static void event(struct world *w, enum session_event_type type, struct tx_transfer *tx,
	uint32_t object, uint8_t status)
{
	struct session_event ev = { .type = type, .tx = tx, .object = object, .status = status };

	orders_event(w->orders, w->now_ns, &ev);
}

static void close_all(struct world *w, const struct worker_command *c, unsigned int n,
	uint8_t status)
{
	for (unsigned int i = 0; i < n; i++) {
		for (uint32_t k = 0;
			status == STRAIT_STATUS_COMMITTED && k < tx_transfer_objects(c[i].tx); k++)
			event(w, SESSION_EVENT_TX_OBJECT, c[i].tx, k, status);
		event(w, SESSION_EVENT_TX_CLOSED, c[i].tx, 0, status);
	}
}

static void an_order_is_dealt_to_all_queues_evenly(void **state)
{
	struct worker_command c[STARTS];
	struct world *w = *state;
	uint64_t least = UINT64_MAX, most = 0;
	uint32_t objects = 0;

	start(w, 1, OBJECTS);
	assert_int_equal(starts(w, 0, c), QUEUES);
	for (unsigned int q = 0; q < QUEUES; q++) {
		uint64_t bytes = tx_transfer_bytes(c[q].tx);

		assert_int_equal(c[q].worker, q);
		assert_ptr_equal(c[q].session, w->link.queues[q].session);
		assert_int_equal(w->link.queues[q].live, 1);
		objects += tx_transfer_objects(c[q].tx);
		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	assert_int_equal(objects, OBJECTS);
	assert_true(most - least <= 50000 + 10 * 40000);
	/* The first of each queue are the order's first: prefixes arrive first. */
	for (unsigned int q = 0; q < QUEUES; q++) {
		struct worker_command ready;

		event(w, SESSION_EVENT_TX_WANT, c[q].tx, 1, 0);
		assert_int_equal(fake_count(&w->worker, WORKER_TX_READY, &ready), q + 1);
		assert_ptr_equal(ready.data, w->pool.objects[q].data);
		assert_int_equal(ready.worker, q);
	}
	close_all(w, c, QUEUES, STRAIT_STATUS_COMMITTED);
	turn(w);
	assert_int_equal(w->results, OBJECTS);
	assert_int_equal(w->link.live, 0);
	assert_int_equal(orders_pending(w->orders), 0);
}

static void small_orders_take_one_queue_each_and_different_ones(void **state)
{
	struct worker_command c[STARTS];
	struct world *w = *state;

	for (uint64_t i = 0; i < QUEUES; i++)
		start(w, 1 + i, 2);
	assert_int_equal(starts(w, 0, c), QUEUES);
	for (unsigned int q = 0; q < QUEUES; q++)
		assert_int_equal(c[q].worker, q);
	close_all(w, c, QUEUES, STRAIT_STATUS_COMMITTED);
}

static void a_link_with_other_queues_has_the_rest_dealt_anew(void **state)
{
	struct worker_command c[STARTS];
	struct world *w = *state;
	unsigned int before;

	start(w, 1, OBJECTS);
	assert_int_equal(starts(w, 0, c), QUEUES);
	event(w, SESSION_EVENT_TX_OBJECT, c[1].tx, 0, STRAIT_STATUS_COMMITTED);
	connect_link(w, 1, QUEUES);
	before = w->worker.count;
	/* Not while transfers of the old session live. */
	event(w, SESSION_EVENT_TX_CLOSED, c[0].tx, 0, STRAIT_STATUS_RESET);
	event(w, SESSION_EVENT_TX_CLOSED, c[1].tx, 0, STRAIT_STATUS_RESET);
	turn(w);
	assert_int_equal(starts(w, before, c + QUEUES), 0);
	event(w, SESSION_EVENT_TX_CLOSED, c[2].tx, 0, STRAIT_STATUS_RESET);
	turn(w);
	assert_int_equal(starts(w, before, c), 1);
	assert_int_equal(c[0].worker, 0);
	assert_int_equal(tx_transfer_objects(c[0].tx), OBJECTS);
	close_all(w, c, 1, STRAIT_STATUS_COMMITTED);
	turn(w);
	assert_int_equal(w->results, OBJECTS);
}

static void the_same_order_has_the_same_layout_again(void **state)
{
	struct worker_command first[STARTS], again[STARTS];
	struct world *w = *state;
	unsigned int before;

	start(w, 1, OBJECTS);
	assert_int_equal(starts(w, 0, first), QUEUES);
	connect_link(w, QUEUES, QUEUES);
	before = w->worker.count;
	close_all(w, first, QUEUES, STRAIT_STATUS_RESET);
	turn(w);
	assert_int_equal(starts(w, before, again), QUEUES);
	for (unsigned int q = 0; q < QUEUES; q++) {
		assert_int_equal(again[q].worker, first[q].worker);
		assert_int_equal(tx_transfer_bytes(again[q].tx), tx_transfer_bytes(first[q].tx));
		assert_int_equal(tx_transfer_objects(again[q].tx),
			tx_transfer_objects(first[q].tx));
	}
	close_all(w, again, QUEUES, STRAIT_STATUS_COMMITTED);
}

static void canceling_reaches_all_queues(void **state)
{
	struct worker_command c[STARTS];
	struct world *w = *state;
	bool canceled[QUEUES] = { false };

	start(w, 1, OBJECTS);
	assert_int_equal(starts(w, 0, c), QUEUES);
	assert_true(orders_cancel(w->orders, 1));
	for (unsigned int i = 0; i < w->worker.count; i++)
		if (w->worker.commands[i].type == WORKER_TX_CANCEL)
			canceled[w->worker.commands[i].worker] = true;
	for (unsigned int q = 0; q < QUEUES; q++)
		assert_true(canceled[q]);
	close_all(w, c, QUEUES, STRAIT_STATUS_CANCELED);
	turn(w);
	assert_int_equal(w->results, OBJECTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_order_is_dealt_to_all_queues_evenly),
		TEST(small_orders_take_one_queue_each_and_different_ones),
		TEST(a_link_with_other_queues_has_the_rest_dealt_anew),
		TEST(the_same_order_has_the_same_layout_again),
		TEST(canceling_reaches_all_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
