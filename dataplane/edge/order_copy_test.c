/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/order.h"

#include "control/base/log.h"
#include "dataplane/edge/order_fakes.h"
#include "dataplane/fec/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { MIB = 1 << 20, LEN = 100000, BIG = 3 * MIB + 17, OBJECTS = 4 };
#define MS_NS 1000000ULL
#define S_NS  (1000 * MS_NS)

/* Pools of sites a, the edge's own, and c. */
struct world {
	struct fake_worker worker;
	struct fake_pool a, c;
	struct control_queue queue;
	struct orders *orders;
	uint64_t now_ns;
	uint8_t status[OBJECTS];
	uint32_t next;
};

static struct pool *pool_of(void *ctx, const char *site, const uint8_t *tenant, size_t len)
{
	struct world *w = ctx;

	if (tenant != NULL && (len != 7 || memcmp(tenant, "default", 7) != 0))
		return NULL;
	return strcmp(site, "a") == 0 ? &w->a.pool : strcmp(site, "c") == 0 ? &w->c.pool : NULL;
}

static struct pool *own_pool(void *ctx, const uint8_t *tenant, size_t len)
{
	return pool_of(ctx, "a", tenant, len);
}

static struct order_link *no_link(void *ctx, const Strait__OrderStart *m)
{
	(void)ctx;
	(void)m;
	fail_msg("an order to copy needs no other edge");
	return NULL;
}

static void kick(void *ctx)
{
	(void)ctx;
}

static const struct order_ops ops = { own_pool, pool_of, no_link, kick };

static void key_of(int i, char key[static 32])
{
	snprintf(key, 32, "key-%02d", i);
}

static struct fake_object *object_at(struct fake_pool *p, int i)
{
	char key[32];

	key_of(i, key);
	return fake_find(p, key, strlen(key));
}

/* Objects at a: all of LEN bytes but the first, which takes several slices. */
static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char key[32];

	log_set_level(LOG_LEVEL_ERROR);
	w->a.pool.ops = w->c.pool.ops = &fake_pool_ops;
	w->now_ns = S_NS;
	control_queue_init(&w->queue, fake_push, &w->worker);
	w->orders = orders_create(&ops, w, &w->queue);
	for (int i = 0; i < OBJECTS; i++) {
		struct fake_object *o;

		key_of(i, key);
		o = fake_add(&w->a, key, strlen(key), i == 0 ? BIG : LEN, 0);
		for (uint64_t k = 0; k < o->len; k++)
			o->data[k] = (uint8_t)(k * 7 + (k >> 9) + (unsigned int)i);
		o->digest = digest_bytes(o->data, o->len);
	}
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	orders_destroy(w->orders);
	control_queue_fini(&w->queue);
	assert_int_equal(fake_leases(&w->a), 0);
	assert_int_equal(fake_in_state(&w->c, FAKE_RESERVED), 0);
	assert_int_equal(w->worker.count, 0); /* no packet was asked for */
	for (int i = 0; i < FAKE_OBJECTS; i++) {
		fake_clear(&w->a.objects[i]);
		fake_clear(&w->c.objects[i]);
	}
	free(w);
	return 0;
}

static uint8_t start_from(struct world *w, const char *from, uint64_t order, uint64_t cap_bps,
	int first, int end)
{
	Strait__OrderStart m = STRAIT__ORDER_START__INIT;
	Strait__OrderObject objects[OBJECTS], *pointers[OBJECTS];
	char keys[OBJECTS][32];
	const char *text;

	for (int i = first; i < end; i++) {
		strait__order_object__init(&objects[i - first]);
		key_of(i, keys[i]);
		objects[i - first].key.data = (uint8_t *)keys[i];
		objects[i - first].key.len = strlen(keys[i]);
		pointers[i - first] = &objects[i - first];
	}
	m.order = order;
	m.from_site = (char *)from;
	m.to_site = (char *)"c";
	m.to_edge = (char *)"a1";
	m.to_mgmt_address = (char *)"";
	m.class_ = STRAIT_CLASS_NORMAL;
	m.has_way = m.has_cap_bps = true;
	m.way = ORDER_LOCAL;
	m.cap_bps = cap_bps;
	m.n_objects = (size_t)(end - first);
	m.objects = pointers;
	w->next = 0;
	memset(w->status, 0, sizeof(w->status));
	return orders_start(w->orders, w->now_ns, &m, &text);
}

static void start(struct world *w, uint64_t order, uint64_t cap_bps, int first, int end)
{
	assert_int_equal(start_from(w, "a", order, cap_bps, first, end), STRAIT_STATUS_PENDING);
}

static int take(void *ctx, const Strait__OrderResults *m)
{
	struct world *w = ctx;

	for (size_t i = 0; i < m->n_results; i++)
		w->status[m->results[i]->index] = (uint8_t)m->results[i]->status;
	w->next = m->first + (uint32_t)m->n_results;
	return 0;
}

static uint64_t slice(struct world *w)
{
	uint64_t wait;

	while (orders_run(w->orders, w->now_ns, 1000))
		;
	wait = orders_copy(w->orders, w->now_ns);
	orders_flush(w->orders, w->now_ns, take, w);
	return wait;
}

/* Until nothing is left to do but to wait. */
static void run(struct world *w)
{
	while (slice(w) == 0)
		;
}

static void assert_same(struct world *w, int i)
{
	const struct fake_object *from = object_at(&w->a, i), *to = object_at(&w->c, i);

	assert_non_null(to);
	assert_int_equal(to->state, FAKE_VISIBLE);
	assert_int_equal(to->digest, from->digest);
	assert_memory_equal(to->data, from->data, from->len);
}

static void objects_are_copied_and_published(void **state)
{
	struct world *w = *state;
	uint64_t objects, bytes;

	start(w, 1, 0, 0, OBJECTS);
	run(w);
	for (int i = 0; i < OBJECTS; i++) {
		assert_int_equal(w->status[i], STRAIT_STATUS_COMMITTED);
		assert_same(w, i);
	}
	assert_int_equal(orders_pending(w->orders), 0);
	assert_false(orders_are_copied(w->orders));
	orders_copied(w->orders, &objects, &bytes);
	assert_int_equal(objects, OBJECTS);
	assert_int_equal(bytes, BIG + 3 * LEN);
	start(w, 2, 0, 0, OBJECTS);
	run(w);
	for (int i = 0; i < OBJECTS; i++)
		assert_int_equal(w->status[i], STRAIT_STATUS_EXISTS);
}

static void a_slice_is_bounded_and_shows_nothing_before_the_end(void **state)
{
	struct world *w = *state;
	int slices = 1;

	start(w, 1, 0, 0, 1);
	assert_int_equal(slice(w), 0);
	assert_int_equal(object_at(&w->c, 0)->state, FAKE_RESERVED);
	/* what lies beyond one slice was not touched yet */
	for (uint64_t k = MIB; k < BIG; k++)
		assert_int_equal(object_at(&w->c, 0)->data[k], 0);
	while (object_at(&w->c, 0)->state != FAKE_VISIBLE) {
		assert_true(slices++ < 10);
		slice(w);
	}
	assert_int_equal(slices, 4);
	assert_same(w, 0);
}

static void bytes_that_are_not_the_digests_are_never_published(void **state)
{
	struct world *w = *state;

	object_at(&w->a, 1)->data[LEN - 1] ^= 1;
	start(w, 1, 0, 1, 3);
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_DIGEST);
	assert_null(object_at(&w->c, 1));
	assert_int_equal(w->status[1], STRAIT_STATUS_COMMITTED);
}

static void what_goes_meanwhile_is_evicted(void **state)
{
	struct world *w = *state;

	start(w, 1, 0, 0, 3);
	assert_int_equal(slice(w), 0);
	fake_clear(object_at(&w->a, 1));
	object_at(&w->a, 2)->digest++; /* another value under the key */
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_COMMITTED);
	assert_int_equal(w->status[1], STRAIT_STATUS_EVICTED);
	assert_int_equal(w->status[2], STRAIT_STATUS_EVICTED);
	start(w, 2, 0, 1, 2);
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_NOT_FOUND);
}

static void no_room_is_the_objects_end(void **state)
{
	static const struct {
		int error;
		uint8_t status;
	} cases[] = {
		{ -ENOSPC, STRAIT_STATUS_FULL },
		{ -EFBIG, STRAIT_STATUS_TOO_LARGE },
		{ -ENXIO, STRAIT_STATUS_REFUSED },
		{ -EIO, STRAIT_STATUS_INTERNAL },
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		w->c.reserve_error = cases[i].error;
		start(w, 1 + i, 0, 1, 2);
		run(w);
		assert_int_equal(w->status[0], cases[i].status);
	}
}

static void another_writer_of_the_key_is_waited_for_but_not_for_ever(void **state)
{
	struct world *w = *state;

	w->c.reserve_error = -EBUSY;
	start(w, 1, 0, 1, 2);
	assert_in_range(slice(w), MS_NS, 100 * MS_NS);
	w->now_ns += S_NS;
	assert_true(slice(w) > 0);
	w->c.reserve_error = 0;
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_COMMITTED);
	w->c.reserve_error = -EBUSY;
	start(w, 2, 0, 2, 3);
	run(w);
	w->now_ns += 3 * S_NS;
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_BUSY);
}

static void a_canceled_order_leaves_nothing(void **state)
{
	struct world *w = *state;

	start(w, 1, 0, 0, 2);
	assert_int_equal(slice(w), 0);
	assert_int_equal(orders_live(w->orders), 1);
	assert_true(orders_cancel(w->orders, 1));
	assert_null(object_at(&w->c, 0));
	assert_int_equal(fake_leases(&w->a), 0);
	assert_int_equal(orders_live(w->orders), 0);
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_CANCELED);
	assert_int_equal(w->status[1], STRAIT_STATUS_CANCELED);
}

static void draining_ends_the_object_that_was_begun_and_no_other(void **state)
{
	struct world *w = *state;

	start(w, 1, 0, 0, 2);
	assert_int_equal(slice(w), 0);
	orders_drain(w->orders);
	for (int i = 0; i < 10; i++)
		slice(w);
	assert_int_equal(orders_live(w->orders), 0);
	assert_same(w, 0);
	assert_null(object_at(&w->c, 1));
	assert_int_equal(orders_pending(w->orders), 1);
}

static void the_cap_counts_for_all_orders_between_two_sites(void **state)
{
	const uint64_t cap = 80000000, began = S_NS;
	struct world *w = *state;

	start(w, 1, cap, 0, 1);
	start(w, 2, cap, 1, OBJECTS);
	while (orders_pending(w->orders) > 0) {
		uint64_t wait = slice(w);

		w->now_ns += wait != UINT64_MAX ? wait : 0;
		assert_true(w->now_ns < began + 10 * S_NS);
	}
	/* But for the last slice, which nothing follows. */
	assert_in_range(w->now_ns - began, (BIG + 3 * LEN - MIB) * 8 * S_NS / cap,
		(BIG + 3 * LEN) * 8 * S_NS / cap);
}

static void a_partial_object_is_filled_from_its_first_byte(void **state)
{
	struct world *w = *state;
	struct fake_object *left;

	left = fake_add(&w->c, "key-01", 6, LEN, object_at(&w->a, 1)->digest);
	left->state = FAKE_PARTIAL;
	memset(left->data, 0xee, LEN);
	memset(left->resume, 0xff, sizeof(left->resume));
	start(w, 1, 0, 1, 2);
	run(w);
	assert_int_equal(w->status[0], STRAIT_STATUS_COMMITTED);
	assert_same(w, 1);
	for (size_t i = 0; i < sizeof(left->resume); i++)
		assert_int_equal(left->resume[i], 0);
}

static void an_edge_without_the_pools_refuses(void **state)
{
	struct world *w = *state;

	assert_int_equal(start_from(w, "b", 1, 0, 0, 1), STRAIT_STATUS_REFUSED);
	assert_int_equal(start_from(w, NULL, 2, 0, 0, 1), STRAIT_STATUS_REFUSED);
	assert_int_equal(start_from(w, "c", 3, 0, 0, 1), STRAIT_STATUS_REFUSED);
	assert_int_equal(orders_pending(w->orders), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(objects_are_copied_and_published),
		TEST(a_slice_is_bounded_and_shows_nothing_before_the_end),
		TEST(bytes_that_are_not_the_digests_are_never_published),
		TEST(what_goes_meanwhile_is_evicted),
		TEST(no_room_is_the_objects_end),
		TEST(another_writer_of_the_key_is_waited_for_but_not_for_ever),
		TEST(a_canceled_order_leaves_nothing),
		TEST(draining_ends_the_object_that_was_begun_and_no_other),
		TEST(the_cap_counts_for_all_orders_between_two_sites),
		TEST(a_partial_object_is_filled_from_its_first_byte),
		TEST(an_edge_without_the_pools_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
