/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook.h"

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
	names[0] = site;
	return 1;
}

static const struct orderbook_sites up = { any_edge, NULL, NULL, NULL, NULL };

static size_t words(const char *text, struct orderbook_key *keys)
{
	size_t count = 0;

	while (*text != '\0') {
		size_t n = strcspn(text, " ");

		keys[count++] =
			(struct orderbook_key){ .key = (const uint8_t *)text, .key_len = n };
		text += n + (text[n] == ' ');
	}
	return count;
}

static struct order *submit(struct orderbook *b, const char *to, unsigned int class,
	const char *text, bool open, uint64_t deadline_ms)
{
	struct orderbook_key keys[16];
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = to,
		.class = class,
		.deadline_ms = deadline_ms,
		.keys = keys,
		.open = open };

	spec.count = words(text, keys);
	return orderbook_submit(b, &spec, 1, err, sizeof(err));
}

static int append(struct orderbook *b, const struct order *o, uint32_t number, const char *text)
{
	struct orderbook_key keys[16];
	uint32_t taken = 0;
	int rc = orderbook_append(b, o->id, number, keys, words(text, keys), 2, &taken, err,
		sizeof(err));

	if (rc == 0 && number != 0)
		assert_int_equal(taken, number);
	return rc;
}

/* Every object that flies arrives. */
static void arrive(struct orderbook *b, struct order *o, uint64_t now_ms)
{
	for (uint32_t i = 0; i < o->count; i++) {
		struct shipment *s = o->objects[i].shipment;

		for (uint32_t k = 0; s != NULL && k < s->count; k++)
			if (s->members[k] == i) {
				orderbook_result(b, s->wire, k, STRAIT_STATUS_COMMITTED, 10,
					now_ms);
				break;
			}
	}
}

static void each_append_is_a_shipment_of_its_own_at_once(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "k0", true, 0);
	struct shipment *s;

	(void)state;
	orderbook_plan(b, &up, 1);
	orderbook_flushed(b);
	assert_int_equal(append(b, o, 1, "k1 k2"), 0);
	orderbook_plan(b, &up, 2);
	s = TAILQ_LAST(&o->shipments, shipment_list);
	assert_int_equal(s->wire, UINT64_C(1) << 40 | o->id);
	assert_int_equal(s->count, 2);
	assert_int_equal(s->members[0], 1);
	assert_int_equal(s->members[1], 2);
	orderbook_flushed(b);
	arrive(b, o, 3);
	assert_int_equal(o->committed, 3);
	/* All is there, but more may come. */
	assert_int_equal(o->state, ORDER_RUNNING);
	orderbook_flushed(b);
	assert_int_equal(append(b, o, 2, "k3"), 0);
	orderbook_plan(b, &up, 4);
	assert_int_equal(orderbook_seal(b, o->id, 5), 0);
	assert_int_equal(o->state, ORDER_RUNNING);
	arrive(b, o, 6);
	assert_int_equal(o->state, ORDER_DONE);
	assert_int_equal(o->opened, ORDER_SEALED);
	assert_int_equal(o->committed, 4);
	orderbook_flushed(b);
	assert_int_equal(orderbook_count(b), 0);
	orderbook_destroy(b);
}

static void a_repeated_append_is_taken_once(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "", true, 0);

	(void)state;
	assert_non_null(o);
	assert_int_equal(append(b, o, 1, "x y"), 0);
	assert_int_equal(append(b, o, 1, "x y"), 0);
	assert_int_equal(o->count, 2);
	assert_int_equal(append(b, o, 1, "x z"), -EEXIST);
	assert_int_equal(append(b, o, 1, "x"), -EEXIST);
	assert_int_equal(append(b, o, 3, "z"), -ERANGE);
	assert_non_null(strstr(err, "2 is"));
	assert_int_equal(append(b, o, 2, "z"), 0);
	assert_int_equal(append(b, o, 1, "x y"), 0);
	assert_int_equal(append(b, o, 0, "w"), 0);
	assert_int_equal(o->appends, 3);
	assert_int_equal(o->count, 4);
	orderbook_destroy(b);
}

static void a_bad_append_leaves_the_order_as_it_was(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "k", true, 0);
	struct order *closed = submit(b, "b", 1, "c", false, 0);

	(void)state;
	assert_int_equal(append(b, o, 1, "x y x"), -EEXIST);
	assert_int_equal(append(b, o, 1, ""), -EINVAL);
	assert_int_equal(o->count, 1);
	assert_int_equal(o->pending, 1);
	assert_int_equal(o->appends, 0);
	assert_int_equal(append(b, closed, 1, "x"), -ESHUTDOWN);
	/* A key of before is no mistake: it shares that object's result. */
	assert_int_equal(append(b, o, 1, "k l"), 0);
	orderbook_plan(b, &up, 2);
	assert_int_equal(TAILQ_FIRST(&o->shipments)->count, 2);
	arrive(b, o, 2);
	assert_int_equal(o->committed, 3);
	orderbook_seal(b, o->id, 3);
	assert_int_equal(o->state, ORDER_DONE);
	assert_int_equal(append(b, o, 2, "x"), -ESHUTDOWN);
	assert_int_equal(append(b, o, 1, "k l"), 0);
	orderbook_destroy(b);
}

static void thousands_of_appends_keep_their_objects(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "", true, 0);
	char key[32];

	(void)state;
	for (uint32_t i = 1; i <= 3000; i++) {
		snprintf(key, sizeof(key), "key-%u", i);
		assert_int_equal(append(b, o, i, key), 0);
	}
	for (uint32_t i = 1; i <= 3000; i++) {
		snprintf(key, sizeof(key), "key-%u", i);
		assert_int_equal(append(b, o, i, key), 0);
		assert_memory_equal(o->objects[i - 1].name, key, strlen(key));
	}
	assert_int_equal(o->count, 3000);
	orderbook_plan(b, &up, 2);
	assert_int_equal(TAILQ_FIRST(&o->shipments)->count, 3000);
	orderbook_destroy(b);
}

static void an_open_order_that_gets_nothing_is_sealed_and_says_so(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "k", true, 0);

	(void)state;
	orderbook_set_open_idle(b, 10000);
	orderbook_plan(b, &up, 1);
	arrive(b, o, 2);
	orderbook_tick(b, 9000);
	assert_int_equal(o->opened, ORDER_OPEN);
	orderbook_tick(b, 10001);
	assert_int_equal(o->opened, ORDER_EXPIRED);
	assert_int_equal(o->state, ORDER_DONE);
	assert_string_equal(o->text, "sealed because nothing was appended for 10 s");
	assert_int_equal(append(b, o, 1, "x"), -ESHUTDOWN);
	orderbook_destroy(b);
}

static void cancel_and_deadline_end_an_open_order(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "k", true, 0);
	struct order *late = submit(b, "b", 1, "l", true, 5000);

	(void)state;
	orderbook_plan(b, &up, 1);
	arrive(b, o, 2);
	arrive(b, late, 2);
	orderbook_flushed(b);
	assert_int_equal(orderbook_cancel(b, o->id, 3), 0);
	assert_int_equal(o->state, ORDER_CANCELED);
	assert_int_equal(o->opened, ORDER_ENDED);
	assert_int_equal(late->state, ORDER_RUNNING);
	orderbook_tick(b, 5000);
	assert_int_equal(late->state, ORDER_DONE);
	assert_string_equal(late->text, "sealed by its deadline");
	orderbook_destroy(b);
}

static uint32_t flying(struct orderbook *b, const char *to)
{
	uint32_t n = 0;

	for (struct order *o = orderbook_first(b); o != NULL; o = TAILQ_NEXT(o, live))
		if (strcmp(o->to_site, to) == 0)
			n += !TAILQ_EMPTY(&o->shipments);
	return n;
}

static void a_destination_that_stands_still_blocks_no_other(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *first, *o;
	char key[32];

	(void)state;
	for (int i = 0; i < 500; i++) {
		snprintf(key, sizeof(key), "slow-%d", i);
		assert_non_null(submit(b, "slow", 1, key, false, 0));
	}
	orderbook_plan(b, &up, 1);
	assert_int_equal(flying(b, "slow"), ORDERBOOK_FLYING_MAX);
	first = orderbook_first(b);
	/* Others pass, and so do urgent ones to the same place, within their reserve. */
	assert_non_null(submit(b, "fast", 2, "f", false, 0));
	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "urgent-%d", i);
		assert_non_null(submit(b, "slow", 0, key, false, 0));
	}
	orderbook_plan(b, &up, 2);
	assert_int_equal(flying(b, "fast"), 1);
	assert_int_equal(flying(b, "slow"), ORDERBOOK_FLYING_MAX + ORDERBOOK_FLYING_URGENT);
	orderbook_flushed(b);
	/* What waits says so, and goes on as others end. */
	for (o = first; TAILQ_NEXT(o, live) != NULL && strcmp(o->to_site, "slow") == 0 &&
		!TAILQ_EMPTY(&o->shipments);
		o = TAILQ_NEXT(o, live))
		;
	assert_non_null(strstr(o->text, "under way"));
	for (o = orderbook_first(b); o != NULL; o = TAILQ_NEXT(o, live))
		arrive(b, o, 3);
	orderbook_flushed(b);
	orderbook_plan(b, &up, 4);
	assert_int_equal(flying(b, "slow"), ORDERBOOK_FLYING_MAX);
	orderbook_destroy(b);
}

static void what_was_never_stored_can_be_forgotten(void **state)
{
	struct orderbook *b = orderbook_create(1, 7);
	struct order *o = submit(b, "b", 1, "k0 k1", false, 0), *other, *open;
	uint64_t id = o->id;

	(void)state;
	other = submit(b, "b", 1, "k1 k2", false, 0);
	open = submit(b, "b", 1, "k3", true, 0);
	assert_int_equal(append(b, open, 1, "k3 k4"), 0);
	orderbook_plan(b, &up, 1);
	assert_int_equal(other->objects[0].state, OBJECT_FOLLOWING);
	orderbook_drop(b, id, 2);
	assert_null(orderbook_find(b, id));
	assert_null(orderbook_find_shipment(b, id));
	orderbook_drop(b, open->id, 2);
	assert_int_equal(orderbook_count(b), 1);
	/* What waited for it goes by itself. */
	assert_int_equal(other->objects[0].state, OBJECT_READY);
	orderbook_plan(b, &up, 3);
	orderbook_flushed(b);
	arrive(b, other, 4);
	assert_int_equal(other->state, ORDER_DONE);
	orderbook_flushed(b);
	/* One that is stored stays. */
	o = submit(b, "b", 1, "k0", false, 0);
	orderbook_flushed(b);
	orderbook_drop(b, o->id, 5);
	assert_int_equal(orderbook_count(b), 1);
	orderbook_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_append_is_a_shipment_of_its_own_at_once),
		cmocka_unit_test(a_repeated_append_is_taken_once),
		cmocka_unit_test(a_bad_append_leaves_the_order_as_it_was),
		cmocka_unit_test(thousands_of_appends_keep_their_objects),
		cmocka_unit_test(an_open_order_that_gets_nothing_is_sealed_and_says_so),
		cmocka_unit_test(cancel_and_deadline_end_an_open_order),
		cmocka_unit_test(what_was_never_stored_can_be_forgotten),
		cmocka_unit_test(a_destination_that_stands_still_blocks_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
