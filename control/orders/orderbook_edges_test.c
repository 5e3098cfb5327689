/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook.h"
#include "control/orders/orderbook_private.h"

#include <strait/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool b_is_there, b_drains;
static size_t edge_count;

static size_t edges(void *ctx, const char *site, const char **names, size_t max)
{
	static char text[ORDERBOOK_EDGES_MAX][4];

	(void)ctx;
	if (strcmp(site, "b") == 0 && !b_is_there)
		return 0;
	for (size_t i = 0; i < edge_count && i < max; i++) {
		snprintf(text[i], sizeof(text[i]), "e%zu", i % 100);
		names[i] = text[i];
	}
	return edge_count;
}

static const char *why(void *ctx, const char *site)
{
	(void)ctx;
	(void)site;
	return b_drains ? "those that are connected drain" : NULL;
}

static const struct orderbook_sites sites = { edges, NULL, NULL, NULL, why };

static struct order *submit(struct orderbook *b, const char *key, size_t count, uint64_t bytes)
{
	struct orderbook_key keys[4];
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = "b",
		.class = 1,
		.keys = keys,
		.count = count,
		.bytes = bytes };
	char err[200];

	for (size_t i = 0; i < count; i++)
		keys[i] = (struct orderbook_key){ .key = (const uint8_t *)key + i, .key_len = 1 };
	return orderbook_submit(b, &spec, 1, err, sizeof(err));
}

static int setup(void **state)
{
	b_is_there = true;
	b_drains = false;
	edge_count = 2;
	*state = orderbook_create(1, 7);
	return 0;
}

static int teardown(void **state)
{
	orderbook_destroy(*state);
	return 0;
}

static void sizes_that_an_edge_told_outlive_its_handing_over(void **state)
{
	struct orderbook *b = *state;
	struct order *o = submit(b, "1234", 4, 0), *next;
	struct shipment *s;

	orderbook_plan(b, &sites, 1);
	s = TAILQ_FIRST(&o->shipments);
	assert_int_equal(s->from->backlog_bytes, 4 << 20); /* nobody knows */
	s->progress_total_bytes = 400000000;
	s->progress_done_bytes = 130000000;
	orderbook_flushed(b);
	assert_int_equal(orderbook_result(b, s->wire, 0, STRAIT_STATUS_COMMITTED, 100000000, 2), 0);
	assert_int_equal(orderbook_hand_over(b, s->wire, "it drains", 2), 0);
	orderbook_plan(b, &sites, 3);
	s = TAILQ_LAST(&o->shipments, shipment_list);
	assert_int_equal(shipment_left_bytes(s), 300000000);
	assert_int_equal(s->from->backlog_bytes, 300000000);
	/* By which the next one goes to the other edge. */
	next = submit(b, "5", 1, 0);
	orderbook_plan(b, &sites, 4);
	assert_string_not_equal(TAILQ_FIRST(&next->shipments)->from_edge, s->from_edge);
	/* The same when the edge is lost, or refuses. */
	orderbook_flushed(b);
	s->progress_total_bytes = 240000000;
	orderbook_shipment_end(b, s->wire, STRAIT_STATUS_UNREACHABLE, "lost", 5);
	orderbook_plan(b, &sites, 600000);
	s = TAILQ_LAST(&o->shipments, shipment_list);
	assert_int_equal(s->open, 3);
	assert_int_equal(shipment_left_bytes(s), 240000000);
}

static void an_order_whose_edges_are_all_gone_says_so(void **state)
{
	struct orderbook *b = *state;
	struct order *o = submit(b, "12", 2, 0);

	orderbook_plan(b, &sites, 1);
	orderbook_flushed(b);
	assert_string_equal(o->text, "");
	b_is_there = false;
	orderbook_plan(b, &sites, 2);
	assert_int_equal(o->state, ORDER_RUNNING);
	assert_string_equal(o->text, "waits for an edge of site b to connect");
	assert_true(o->dirty);
	orderbook_flushed(b);
	orderbook_plan(b, &sites, 3);
	assert_false(o->dirty); /* it was told */
	b_is_there = true;
	orderbook_plan(b, &sites, 4);
	assert_string_equal(o->text, "");
	/* Those that drain go on with what they have. */
	b_is_there = false;
	b_drains = true;
	orderbook_plan(b, &sites, 5);
	assert_string_equal(o->text, "");
}

/* More edges than an object can remember: each is asked once, and that has an end. */
static void what_no_edge_of_many_has_ends(void **state)
{
	struct orderbook *b = *state;
	static const char keys[] = "abcdefghijklmnopq";
	struct order *o = NULL;
	struct shipment *s;
	int asked = 0;

	edge_count = 17;
	for (size_t i = 0; i < edge_count; i++) {
		o = submit(b, keys + i, 1, 0);
		orderbook_plan(b, &sites, 1);
	}
	assert_string_equal(TAILQ_FIRST(&o->shipments)->from_edge, "e16");
	while (!order_is_final(o)) {
		assert_true(asked++ < 17);
		s = TAILQ_LAST(&o->shipments, shipment_list);
		orderbook_result(b, s->wire, 0, STRAIT_STATUS_NOT_FOUND, 0, 2);
		orderbook_plan(b, &sites, 2);
	}
	assert_in_range(asked, 16, 17);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sizes_that_an_edge_told_outlive_its_handing_over,
			setup, teardown),
		cmocka_unit_test_setup_teardown(an_order_whose_edges_are_all_gone_says_so, setup,
			teardown),
		cmocka_unit_test_setup_teardown(what_no_edge_of_many_has_ends, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
