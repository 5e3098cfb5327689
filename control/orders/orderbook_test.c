/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook.h"

#include "control/orders/retry.h"

#include <strait/status.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char err[300];

static size_t any_edge(void *ctx, const char *site, const char **names, size_t max)
{
	(void)ctx;
	(void)max;
	names[0] = site[0] == 'a' ? "edge-a" : site[0] == 'b' ? "edge-b" : "edge-c";
	return 1;
}

static size_t no_edge(void *ctx, const char *site, const char **names, size_t max)
{
	(void)ctx;
	(void)site;
	(void)names;
	(void)max;
	return 0;
}

static const struct orderbook_sites up = { any_edge, NULL, NULL, NULL, NULL };
static const struct orderbook_sites down = { no_edge, NULL, NULL, NULL, NULL };

/* Keys are the words of one string. */
static struct order *submit(struct orderbook *b, const char *to, const char *words,
	uint64_t deadline_ms, uint64_t now_ms)
{
	struct orderbook_key keys[16] = { 0 };
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = to,
		.class = 1,
		.deadline_ms = deadline_ms,
		.keys = keys };

	while (*words != '\0') {
		size_t n = strcspn(words, " ");

		keys[spec.count].key = (const uint8_t *)words;
		keys[spec.count++].key_len = n;
		words += n + (words[n] == ' ');
	}
	return orderbook_submit(b, &spec, now_ms, err, sizeof(err));
}

static void bad_orders_are_refused_with_a_reason(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct orderbook_key k = { .key = (const uint8_t *)"k", .key_len = 1 };
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = "b",
		.class = 3,
		.keys = &k,
		.count = 1 };

	(void)state;
	assert_null(orderbook_submit(b, &spec, 1, err, sizeof(err)));
	assert_non_null(strstr(err, "class"));
	spec.class = 0;
	spec.to_site = "a";
	assert_null(orderbook_submit(b, &spec, 1, err, sizeof(err)));
	assert_non_null(strstr(err, "same site"));
	spec.to_site = "b";
	k.key_len = 1025;
	assert_null(orderbook_submit(b, &spec, 1, err, sizeof(err)));
	assert_non_null(strstr(err, "1 to 1024"));
	k.key_len = 0;
	assert_null(orderbook_submit(b, &spec, 1, err, sizeof(err)));
	k.key_len = 1;
	spec.count = 65537;
	assert_null(orderbook_submit(b, &spec, 1, err, sizeof(err)));
	assert_int_equal(errno, E2BIG);
	spec.count = 0;
	assert_null(orderbook_submit(b, &spec, 1, err, sizeof(err)));
	spec.count = 1;
	spec.deadline_ms = 1;
	assert_null(orderbook_submit(b, &spec, 2, err, sizeof(err)));
	assert_null(submit(b, "b", "x y x", 0, 1));
	assert_int_equal(errno, EEXIST);
	assert_non_null(strstr(err, "objects 0 and 2"));
	assert_null(orderbook_dirty(b));
	assert_non_null(submit(b, "b", "x y", 0, 1));
	orderbook_destroy(b);
}

static void order_waits_for_both_edges_and_says_so(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", "k", 0, 1);

	(void)state;
	orderbook_plan(b, &down, 1);
	assert_int_equal(o->state, ORDER_QUEUED);
	assert_string_equal(o->text, "waits for an edge of site a to connect");
	orderbook_plan(b, &up, 1);
	assert_int_equal(o->state, ORDER_RUNNING);
	assert_string_equal(TAILQ_FIRST(&o->shipments)->to_edge, "edge-b");
	assert_int_equal(TAILQ_FIRST(&o->shipments)->wire, o->id);
	orderbook_destroy(b);
}

static enum order_way by_edge_a1(void *ctx, const char *from, const char *to, const char **edge)
{
	(void)ctx;
	(void)from;
	if (to[0] == 'c')
		*edge = "a/a1";
	return to[0] == 'c' ? ORDER_LOCAL : ORDER_LAN;
}

static void what_one_edge_copies_needs_no_other(void **state)
{
	const struct orderbook_sites local = { no_edge, NULL, by_edge_a1, NULL, NULL };
	const struct orderbook_sites lan = { any_edge, NULL, by_edge_a1, NULL, NULL };
	struct orderbook *b = orderbook_create(1, 7);
	struct order *copied = submit(b, "c", "k", 0, 1), *sent = submit(b, "b", "k", 0, 1);

	(void)state;
	orderbook_plan(b, &local, 1);
	assert_int_equal(copied->state, ORDER_RUNNING);
	assert_int_equal(copied->way, ORDER_LOCAL);
	assert_string_equal(TAILQ_FIRST(&copied->shipments)->from_edge, "a/a1");
	assert_string_equal(TAILQ_FIRST(&copied->shipments)->to_edge, "a/a1");
	assert_int_equal(sent->state, ORDER_QUEUED);
	assert_int_equal(sent->way, ORDER_WAY_NONE);
	orderbook_plan(b, &lan, 1);
	assert_int_equal(sent->way, ORDER_LAN);
	assert_string_equal(TAILQ_FIRST(&sent->shipments)->to_edge, "edge-b");
	orderbook_destroy(b);
}

/* Two edges a site; which ones are there is in ctx. */
static size_t those_of_two(void *ctx, const char *site, const char **names, size_t max)
{
	static const char *const two[] = { "edge-0", "edge-1" };
	const bool *there = ctx;
	size_t n = 0;

	(void)site;
	(void)max;
	for (int i = 0; i < 2; i++)
		if (there[i])
			names[n++] = two[i];
	return n;
}

static const char *draining(void *ctx, const char *site)
{
	(void)ctx;
	(void)site;
	return "all drain";
}

static const char *shipper_of(const struct order *o)
{
	return TAILQ_LAST(&o->shipments, shipment_list)->from_edge;
}

static const char *receiver_of(const struct order *o)
{
	return TAILQ_LAST(&o->shipments, shipment_list)->to_edge;
}

static void orders_are_spread_over_the_edges_of_both_ends(void **state)
{
	bool there[2] = { true, true };
	const struct orderbook_sites two = { those_of_two, there, NULL, NULL, NULL };
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o[6];

	(void)state;
	/* in one plan, and to another site from the same edges */
	for (int i = 0; i < 4; i++) {
		char key[4] = { 'k', (char)('0' + i), '\0' };

		o[i] = submit(b, i == 3 ? "c" : "b", key, 0, 1);
	}
	orderbook_plan(b, &two, 1);
	assert_string_equal(shipper_of(o[0]), "edge-0");
	assert_string_equal(receiver_of(o[0]), "edge-0");
	assert_string_equal(shipper_of(o[1]), "edge-1");
	assert_string_equal(receiver_of(o[1]), "edge-1");
	assert_string_equal(shipper_of(o[2]), "edge-0");
	assert_string_equal(shipper_of(o[3]), "edge-1");
	assert_string_equal(receiver_of(o[3]), "edge-0"); /* of c */
	/* the first is nearly through by its edge's word */
	TAILQ_FIRST(&o[0]->shipments)->progress_total_bytes = 1 << 20;
	TAILQ_FIRST(&o[0]->shipments)->progress_done_bytes = (1 << 20) - 1;
	o[4] = submit(b, "b", "k4", 0, 1);
	orderbook_plan(b, &two, 2);
	assert_string_equal(shipper_of(o[4]), "edge-0");
	there[0] = false; /* it drains */
	o[5] = submit(b, "b", "k5", 0, 1);
	orderbook_plan(b, &two, 3);
	assert_string_equal(shipper_of(o[5]), "edge-1");
	assert_string_equal(receiver_of(o[5]), "edge-1");
	orderbook_destroy(b);
}

static void what_is_handed_over_goes_on_by_another_edge_at_once(void **state)
{
	bool there[2] = { true, true };
	const struct orderbook_sites two = { those_of_two, there, NULL, NULL, draining };
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", "k1 k2", 0, 1);
	struct shipment *s;

	(void)state;
	orderbook_plan(b, &two, 1);
	orderbook_flushed(b);
	assert_int_equal(orderbook_result(b, o->id, 0, STRAIT_STATUS_COMMITTED, 10, 2), 0);
	there[0] = false;
	assert_int_equal(orderbook_hand_over(b, o->id, "edge-0 is lost", 2), 0);
	assert_int_equal(orderbook_hand_over(b, 77, "edge-0 is lost", 2), -ENOENT);
	assert_string_equal(o->text, "edge-0 is lost");
	assert_true(TAILQ_FIRST(&o->shipments)->cancel);
	orderbook_plan(b, &two, 2);
	s = TAILQ_LAST(&o->shipments, shipment_list);
	assert_string_equal(s->from_edge, "edge-1");
	assert_int_equal(s->open, 1);
	assert_int_equal(o->objects[1].attempts, 1); /* the first does not count */
	/* the lost one's late word changes nothing */
	assert_int_equal(orderbook_result(b, o->id, 1, STRAIT_STATUS_COMMITTED, 10, 3), 0);
	assert_int_equal(o->state, ORDER_RUNNING);
	assert_int_equal(orderbook_result(b, s->wire, 0, STRAIT_STATUS_COMMITTED, 10, 3), 0);
	assert_int_equal(o->state, ORDER_DONE);
	there[1] = false;
	orderbook_flushed(b);
	o = submit(b, "b", "k3", 0, 1);
	orderbook_plan(b, &two, 4);
	assert_string_equal(o->text, "waits for an edge of site a: all drain");
	orderbook_destroy(b);
}

static void what_one_edge_does_not_have_is_asked_of_the_others_once(void **state)
{
	bool there[2] = { true, true };
	const struct orderbook_sites two = { those_of_two, there, NULL, NULL, NULL };
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", "k1 k2 k3", 0, 1);
	uint64_t again;

	(void)state;
	orderbook_plan(b, &two, 1);
	assert_int_equal(orderbook_result(b, o->id, 0, STRAIT_STATUS_COMMITTED, 9, 2), 0);
	assert_int_equal(orderbook_result(b, o->id, 1, STRAIT_STATUS_NOT_FOUND, 0, 2), 0);
	assert_int_equal(orderbook_result(b, o->id, 2, STRAIT_STATUS_RESET, 0, 2), 0);
	orderbook_plan(b, &two, 2);
	again = TAILQ_LAST(&o->shipments, shipment_list)->wire;
	assert_string_equal(shipper_of(o), "edge-1");
	assert_string_equal(receiver_of(o), "edge-0"); /* where the rest is */
	assert_int_equal(TAILQ_LAST(&o->shipments, shipment_list)->count, 1);
	orderbook_flushed(b);
	assert_int_equal(orderbook_result(b, again, 0, STRAIT_STATUS_NOT_FOUND, 0, 3), 0);
	assert_int_equal(o->objects[1].state, OBJECT_FINAL);
	assert_int_equal(o->objects[1].status, STRAIT_STATUS_NOT_FOUND);
	orderbook_plan(b, &two, 2002);
	assert_int_equal(TAILQ_LAST(&o->shipments, shipment_list)->count, 1);
	again = TAILQ_LAST(&o->shipments, shipment_list)->wire;
	assert_int_equal(orderbook_result(b, again, 0, STRAIT_STATUS_COMMITTED, 9, 2003), 0);
	assert_int_equal(o->state, ORDER_FAILED);
	orderbook_destroy(b);
}

static void order_is_done_when_all_objects_are(void **state)
{
	struct orderbook *b = orderbook_create(5, 7);
	struct order *o = submit(b, "b", "k1 k2 k3", 0, 1);

	(void)state;
	orderbook_plan(b, &up, 1);
	assert_int_equal(orderbook_result(b, 5, 0, STRAIT_STATUS_COMMITTED, 10, 2), 0);
	assert_int_equal(orderbook_result(b, 5, 1, STRAIT_STATUS_EXISTS, 20, 2), 0);
	assert_int_equal(orderbook_result(b, 5, 0, STRAIT_STATUS_FULL, 0, 2),
		0); /* late: ignored */
	assert_int_equal(orderbook_result(b, 5, 3, STRAIT_STATUS_FULL, 0, 2), -EINVAL);
	assert_int_equal(orderbook_result(b, 6, 0, STRAIT_STATUS_FULL, 0, 2), -ENOENT);
	assert_int_equal(o->state, ORDER_RUNNING);
	assert_int_equal(orderbook_result(b, 5, 2, STRAIT_STATUS_COMMITTED, 30, 2), 0);
	assert_int_equal(o->state, ORDER_DONE);
	assert_int_equal(o->committed_bytes, 60);
	orderbook_flushed(b);
	assert_null(orderbook_find(b, 5));
	assert_int_equal(orderbook_result(b, 5, 0, STRAIT_STATUS_COMMITTED, 10, 2), -ENOENT);
	orderbook_destroy(b);
}

static void object_in_flight_is_not_shipped_twice(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *first = submit(b, "b", "k1 k2", 0, 1),
		     *second = submit(b, "b", "k2 k3", 0, 1);
	struct order *other = submit(b, "c", "k2", 0, 1); /* another destination: its own flight */

	(void)state;
	orderbook_plan(b, &up, 1);
	assert_int_equal(TAILQ_FIRST(&first->shipments)->count, 2);
	assert_int_equal(TAILQ_FIRST(&second->shipments)->count, 1);
	assert_int_equal(TAILQ_FIRST(&other->shipments)->count, 1);
	assert_int_equal(second->objects[0].state, OBJECT_FOLLOWING);
	orderbook_result(b, first->id, 1, STRAIT_STATUS_COMMITTED, 9, 2);
	assert_int_equal(second->objects[0].status, STRAIT_STATUS_COMMITTED);
	assert_int_equal(second->objects[0].length, 9);
	assert_int_equal(second->pending, 1);
	orderbook_destroy(b);
}

static void follower_leads_when_the_leader_fails(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *first = submit(b, "b", "k", 0, 1), *second = submit(b, "b", "k", 0, 1);
	struct order *third = submit(b, "b", "k", 0, 1);

	(void)state;
	orderbook_plan(b, &up, 1);
	assert_true(TAILQ_EMPTY(&second->shipments));
	orderbook_result(b, first->id, 0, STRAIT_STATUS_EVICTED, 0, 2);
	assert_int_equal(first->state, ORDER_FAILED);
	assert_string_equal(first->text, "1 of 1 objects failed: 1 EVICTED");
	orderbook_plan(b, &up, 2);
	assert_int_equal(second->objects[0].state, OBJECT_FLYING);
	assert_int_equal(third->objects[0].state, OBJECT_FOLLOWING);
	assert_int_equal(orderbook_cancel(b, second->id, 3), 0);
	assert_true(TAILQ_FIRST(&second->shipments)->cancel);
	assert_int_equal(second->state, ORDER_CANCELED);
	orderbook_plan(b, &up, 3);
	orderbook_result(b, third->id, 0, STRAIT_STATUS_COMMITTED, 1, 4);
	assert_int_equal(third->state, ORDER_DONE);
	orderbook_flushed(b);
	assert_int_equal(orderbook_count(b), 0);
	orderbook_destroy(b);
}

static void full_destination_is_answered_after_three_attempts(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", "k", 0, 1000);
	uint64_t now = 1000;
	unsigned int attempts = 0;

	(void)state;
	while (!order_is_final(o) && now < 60000) {
		struct shipment *s;

		orderbook_plan(b, &up, now);
		TAILQ_FOREACH(s, &o->shipments, of_order)
			if (s->open > 0) {
				attempts++;
				orderbook_result(b, s->wire, 0, STRAIT_STATUS_FULL, 0, now);
			}
		now += 100;
	}
	assert_int_equal(attempts, 3);
	assert_int_equal(now, 4100);
	assert_int_equal(o->objects[0].status, STRAIT_STATUS_FULL);
	orderbook_destroy(b);
}

static void deadline_ends_what_waits_at_once_and_what_flies_a_little_later(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *waits = submit(b, "b", "k1", 5000, 1000), *flies;

	(void)state;
	orderbook_plan(b, &down, 1000);
	orderbook_tick(b, 4999);
	assert_int_equal(waits->state, ORDER_QUEUED);
	orderbook_tick(b, 5000);
	assert_int_equal(waits->objects[0].status, STRAIT_STATUS_DEADLINE);
	flies = submit(b, "b", "k2", 7000, 5000);
	orderbook_plan(b, &up, 5000);
	orderbook_tick(b, 8999);
	assert_int_equal(flies->state, ORDER_RUNNING);
	orderbook_tick(b, 9000);
	assert_int_equal(flies->state, ORDER_FAILED);
	assert_true(TAILQ_FIRST(&flies->shipments)->cancel);
	orderbook_destroy(b);
}

static void retries_end_before_the_deadline(void **state)
{
	(void)state;
	assert_int_equal(retry_at(STRAIT_STATUS_UNREACHABLE, 1, 1000, 0), 3000);
	assert_int_equal(retry_at(STRAIT_STATUS_UNREACHABLE, 4, 1000, 0), 17000);
	assert_int_equal(retry_at(STRAIT_STATUS_UNREACHABLE, 5, 1000, 0), 0);
	assert_int_equal(retry_at(STRAIT_STATUS_UNREACHABLE, 50, 1000, 100000), 31000);
	assert_int_equal(retry_at(STRAIT_STATUS_UNREACHABLE, 1, 1000, 3000), 0);
	assert_int_equal(retry_at(STRAIT_STATUS_FULL, 3, 1000, 0), 0);
	assert_int_equal(retry_at(STRAIT_STATUS_FULL, 3, 1000, 9000), 5000);
	assert_int_equal(retry_at(STRAIT_STATUS_DIGEST, 1, 1000, 0), 0);
	assert_int_equal(retry_at(200, 1, 1000, 0), 0);
}

/* ---- random histories against a world that remembers what is true --------- */

enum { KEYS = 10, ORDERS = 60, SHIPMENTS = 4096 };

struct row {
	uint64_t id, deadline_ms;
	char to[8];
	bool stored, final;
	enum order_state state;
	uint32_t count;
	uint8_t keys[KEYS], status[KEYS], attempts[KEYS];
	uint32_t last_shipment[KEYS], next_attempt;
};

/* A shipment as the ledger and its edge have it. */
struct parcel {
	uint64_t wire;
	uint32_t attempt, count, members[KEYS];
	struct row *row;
	bool told, closed;
	uint8_t outcome[KEYS];           /* of the edge; PENDING while it works on it */
	bool heard[KEYS], durable[KEYS]; /* the book has the outcome; so has the ledger */
};

struct world {
	struct orderbook *book;
	struct row rows[ORDERS];
	struct parcel parcels[SHIPMENTS];
	uint32_t nrows, nparcels;
	uint64_t now;
	uint32_t seed;
	bool calm, at[2][KEYS]; /* at[site]: the key is there */
	uint32_t commits[2][KEYS];
};

static uint32_t rnd(struct world *w, uint32_t n)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(w->seed >> 4) * n >> 28);
}

static size_t flaky_edge(void *ctx, const char *site, const char **names, size_t max)
{
	struct world *w = ctx;

	return !w->calm && rnd(w, 4) == 0 ? 0 : any_edge(NULL, site, names, max);
}

static struct row *row_of(struct world *w, uint64_t id)
{
	for (uint32_t i = 0; i < w->nrows; i++)
		if (w->rows[i].id == id)
			return &w->rows[i];
	return NULL;
}

static void spec_of(const struct row *r, struct orderbook_spec *spec, struct orderbook_key *keys)
{
	static const uint8_t names[KEYS][2] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };

	for (uint32_t i = 0; i < r->count; i++)
		keys[i] = (struct orderbook_key){ .key = names[r->keys[i]], .key_len = 1 };
	*spec = (struct orderbook_spec){ .from_site = "a",
		.to_site = r->to,
		.class = (unsigned int)r->id % 3,
		.deadline_ms = r->deadline_ms,
		.keys = keys,
		.count = r->count };
}

static void world_submit(struct world *w)
{
	struct row *r = &w->rows[w->nrows];
	struct orderbook_key keys[KEYS] = { 0 };
	struct orderbook_spec spec;
	struct order *o;

	if (w->nrows == ORDERS)
		return;
	memset(r, 0, sizeof(*r));
	r->id = w->nrows + 1;
	strcpy(r->to, rnd(w, 2) ? "b" : "c");
	r->deadline_ms = rnd(w, 3) == 0 ? w->now + 1 + rnd(w, 20000) : 0;
	for (uint32_t k = 0; k < KEYS; k++)
		if (rnd(w, 3) == 0)
			r->keys[r->count++] = (uint8_t)k;
	if (r->count == 0)
		r->keys[r->count++] = 0;
	spec_of(r, &spec, keys);
	o = orderbook_submit(w->book, &spec, w->now, err, sizeof(err));
	assert_non_null(o);
	assert_int_equal(o->id, r->id);
	w->nrows++;
}

static void flush(struct world *w)
{
	struct order *o;

	for (o = orderbook_dirty(w->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry)) {
		struct row *r = row_of(w, o->id);
		struct order_object *obj;
		struct shipment *s;

		assert_false(r->final); /* a finished order never changes */
		r->stored = true;
		r->state = o->state;
		r->final = order_is_final(o);
		r->next_attempt = o->next_attempt;
		for (obj = o->dirty_objects; obj != NULL; obj = obj->next_dirty) {
			size_t i = (size_t)(obj - o->objects);

			assert_true(r->status[i] == STRAIT_STATUS_PENDING ||
				r->status[i] == obj->status);
			r->status[i] = obj->status;
			r->attempts[i] = (uint8_t)obj->attempts;
			r->last_shipment[i] = obj->last_shipment;
		}
		TAILQ_FOREACH(s, &o->shipments, of_order) {
			struct parcel *p;

			if (s->is_new && s->open > 0) {
				assert_true(w->nparcels < SHIPMENTS);
				p = &w->parcels[w->nparcels++];
				*p = (struct parcel){ .wire = s->wire,
					.attempt = s->attempt,
					.count = s->count,
					.row = r,
					.told = true };
				memcpy(p->members, s->members, s->count * sizeof(*s->members));
			}
			for (uint32_t i = 0; s->open == 0 && i < w->nparcels; i++)
				if (w->parcels[i].wire == s->wire)
					w->parcels[i].closed = true;
		}
	}
	orderbook_flushed(w->book);
	for (uint32_t i = 0; i < w->nparcels; i++)
		memcpy(w->parcels[i].durable, w->parcels[i].heard, sizeof(w->parcels[i].heard));
}

static void crash(struct world *w)
{
	struct orderbook_key keys[KEYS] = { 0 };
	struct orderbook_spec spec;
	uint32_t kept = 0;

	orderbook_destroy(w->book);
	/* what was not durable never happened */
	for (uint32_t i = 0; i < w->nrows; i++)
		if (w->rows[i].stored)
			kept = i + 1;
	w->nrows = kept;
	w->book = orderbook_create(w->nrows + 1, w->seed);
	for (uint32_t i = 0; i < w->nrows; i++) {
		struct row *r = &w->rows[i];
		struct order *o;

		if (r->final)
			continue;
		spec_of(r, &spec, keys);
		o = orderbook_restore(w->book, r->id, &spec, err, sizeof(err));
		assert_non_null(o);
		o->state = r->state;
		o->next_attempt = r->next_attempt;
		for (uint32_t k = 0; k < r->count; k++) {
			o->objects[k].status = r->status[k];
			o->objects[k].attempts = r->attempts[k];
			o->objects[k].last_shipment = r->last_shipment[k];
		}
		for (uint32_t p = 0; p < w->nparcels; p++)
			if (w->parcels[p].row == r && !w->parcels[p].closed)
				assert_int_equal(orderbook_restore_shipment(w->book, o,
							 w->parcels[p].attempt, "edge-a", "edge-b",
							 w->parcels[p].members,
							 w->parcels[p].count),
					0);
	}
	assert_int_equal(orderbook_restored(w->book, w->now), 0);
	for (uint32_t p = 0; p < w->nparcels; p++)
		memcpy(w->parcels[p].heard, w->parcels[p].durable, sizeof(w->parcels[p].heard));
	/* what an edge has answered durably is not flying with it any more */
	for (uint32_t p = 0; p < w->nparcels; p++) {
		const struct parcel *q = &w->parcels[p];
		struct shipment *s = orderbook_find_shipment(w->book, q->wire);

		for (uint32_t i = 0; s != NULL && i < s->count; i++)
			assert_false(
				q->durable[i] && s->order->objects[s->members[i]].shipment == s);
	}
}

/* The edge finishes one object, or tells again what it told before. */
static void edge_acts(struct world *w, struct parcel *p)
{
	static const uint8_t failures[] = { STRAIT_STATUS_FULL, STRAIT_STATUS_UNREACHABLE,
		STRAIT_STATUS_BUSY, STRAIT_STATUS_NOT_FOUND, STRAIT_STATUS_DIGEST, 99 };
	uint32_t i = rnd(w, p->count), site = p->row->to[0] == 'c';
	uint8_t key = p->row->keys[p->members[i]];
	int rc;

	if (p->outcome[i] == STRAIT_STATUS_PENDING) {
		if (!w->calm && rnd(w, 3) == 0) {
			p->outcome[i] = failures[rnd(w, sizeof(failures))];
		} else if (w->at[site][key]) {
			p->outcome[i] = STRAIT_STATUS_EXISTS;
		} else {
			w->at[site][key] = true;
			w->commits[site][key]++;
			p->outcome[i] = STRAIT_STATUS_COMMITTED;
		}
	}
	rc = orderbook_result(w->book, p->wire, i, p->outcome[i], 100, w->now);
	assert_true(rc == 0 || rc == -ENOENT);
	p->heard[i] = true;
}

static void check(struct world *w)
{
	uint32_t flying[2][KEYS] = { { 0 } };

	for (struct order *o = orderbook_first(w->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		uint32_t pending = 0;

		for (uint32_t i = 0; i < o->count; i++) {
			struct order_object *obj = &o->objects[i];
			bool leads = flight_is_leader(&obj->member);

			pending += obj->state != OBJECT_FINAL;
			assert_int_equal(obj->state == OBJECT_FINAL, obj->member.flight == NULL);
			assert_int_equal(obj->state == OBJECT_FINAL, obj->status != 0);
			assert_int_equal(obj->state == OBJECT_FLYING, obj->shipment != NULL);
			assert_int_equal(leads,
				obj->state == OBJECT_READY || obj->state == OBJECT_FLYING);
			if (obj->state == OBJECT_FLYING)
				assert_int_equal(flying[o->to_site[0] == 'c'][obj->name[0] - '0']++,
					0);
		}
		assert_int_equal(pending, o->pending);
		assert_int_equal(pending == 0, order_is_final(o));
		assert_int_equal(o->committed + o->existed + o->failed + o->pending, o->count);
	}
}

static void step(struct world *w)
{
	struct orderbook_sites sites = { flaky_edge, w, NULL, NULL, NULL };
	uint32_t what = rnd(w, 100);

	w->now += rnd(w, 200);
	if (what < 10 && !w->calm)
		world_submit(w);
	else if (what < 12 && !w->calm)
		orderbook_cancel(w->book, 1 + rnd(w, w->nrows + 1), w->now);
	else if (what < 14 && !w->calm && w->nparcels > 0)
		orderbook_shipment_end(w->book, w->parcels[rnd(w, w->nparcels)].wire,
			rnd(w, 2) ? STRAIT_STATUS_UNREACHABLE : STRAIT_STATUS_REFUSED, "test",
			w->now);
	else if (what < 17 && !w->calm)
		crash(w);
	else if (what < 30)
		orderbook_tick(w->book, w->now);
	else if (what < 45)
		flush(w);
	else if (what < 60)
		orderbook_plan(w->book, &sites, w->now);
	else if (w->nparcels > 0)
		edge_acts(w, &w->parcels[rnd(w, w->nparcels)]);
	check(w);
}

static void random_histories_lose_nothing_and_ship_nothing_twice(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	uint32_t finals[ORDER_STATE_COUNT] = { 0 };

	(void)state;
	for (uint32_t seed = 1; seed <= 150; seed++) {
		memset(w, 0, sizeof(*w));
		w->seed = seed * 2654435761u;
		w->now = 1000000;
		w->book = orderbook_create(1, seed);
		for (int i = 0; i < 1500; i++)
			step(w);
		w->calm = true;
		for (int i = 0; i < 200000 && orderbook_count(w->book) > 0; i++)
			step(w);
		assert_int_equal(orderbook_count(w->book), 0);
		for (uint32_t i = 0; i < w->nrows; i++) {
			struct row *r = &w->rows[i];
			bool all = true;

			assert_true(r->final);
			finals[r->state]++;
			for (uint32_t k = 0; k < r->count; k++) {
				bool good = r->status[k] == STRAIT_STATUS_COMMITTED ||
					r->status[k] == STRAIT_STATUS_EXISTS;

				all = all && good;
				/* a success is true at the destination */
				assert_true(!good || w->at[r->to[0] == 'c'][r->keys[k]]);
				assert_int_not_equal(r->status[k], STRAIT_STATUS_PENDING);
			}
			assert_int_equal(all, r->state == ORDER_DONE);
		}
		orderbook_destroy(w->book);
	}
	/* the histories are worth something only if all ends occur */
	assert_true(finals[ORDER_DONE] > 100 && finals[ORDER_FAILED] > 100);
	assert_true(finals[ORDER_CANCELED] > 20);
	free(w);
}

static void a_full_destination_is_asked_ever_more_seldom(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", "x", 600000, 1);
	struct order *other = submit(b, "b", "y", 0, 1);
	uint64_t now = 1, last = 1, wait = 0;
	unsigned int attempts = 0;

	(void)state;
	/* With a deadline of ten minutes, and a pool that stays full. */
	for (; now < 600000 && !order_is_final(o); now += 100) {
		struct shipment *s;

		orderbook_tick(b, now);
		orderbook_plan(b, &up, now);
		orderbook_flushed(b);
		s = TAILQ_FIRST(&o->shipments);
		if (s == NULL)
			continue;
		attempts++;
		if (attempts > 1) {
			assert_true(now - last >= wait);
			wait = now - last;
		}
		last = now;
		orderbook_result(b, s->wire, 0, STRAIT_STATUS_FULL, 0, now);
		assert_true(order_is_final(o) || strstr(o->text, "FULL") != NULL);
		if (!order_is_final(o))
			orderbook_flushed(b);
	}
	assert_int_equal(o->state, ORDER_FAILED);
	assert_in_range(attempts, 10, 30);
	/* Without one, three times. */
	assert_int_equal(other->state, ORDER_RUNNING);
	orderbook_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_orders_are_refused_with_a_reason),
		cmocka_unit_test(order_waits_for_both_edges_and_says_so),
		cmocka_unit_test(what_one_edge_copies_needs_no_other),
		cmocka_unit_test(orders_are_spread_over_the_edges_of_both_ends),
		cmocka_unit_test(what_is_handed_over_goes_on_by_another_edge_at_once),
		cmocka_unit_test(what_one_edge_does_not_have_is_asked_of_the_others_once),
		cmocka_unit_test(order_is_done_when_all_objects_are),
		cmocka_unit_test(object_in_flight_is_not_shipped_twice),
		cmocka_unit_test(follower_leads_when_the_leader_fails),
		cmocka_unit_test(full_destination_is_answered_after_three_attempts),
		cmocka_unit_test(deadline_ends_what_waits_at_once_and_what_flies_a_little_later),
		cmocka_unit_test(retries_end_before_the_deadline),
		cmocka_unit_test(random_histories_lose_nothing_and_ship_nothing_twice),
		cmocka_unit_test(a_full_destination_is_asked_ever_more_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
