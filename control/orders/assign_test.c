/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/assign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct assign_rule none;

/* "a2 b1", or "" */
static const char *pick(const struct assign_edge *from, size_t from_n, const struct assign_edge *to,
	size_t to_n, const struct assign_rule *rule)
{
	static char text[64];
	size_t f, t;

	text[0] = '\0';
	if (assign_pick(from, from_n, to, to_n, rule, &f, &t)) {
		strcpy(text, from[f].name);
		strcat(text, " ");
		strcat(text, to[t].name);
	}
	return text;
}

static void the_edge_with_the_least_to_send_gets_the_order(void **state)
{
	struct assign_edge a[] = { { "a1", 900, 1, false }, { "a2", 100, 5, false } };
	struct assign_edge b[] = { { "b1", 5, 1, false }, { "b2", 4, 9, false } };

	(void)state;
	assert_string_equal(pick(a, 2, b, 2, &none), "a2 b2");
	a[1].backlog_bytes = 901;
	assert_string_equal(pick(a, 2, b, 2, &none), "a1 b2");
	/* as many bytes: fewer shipments, then the name */
	a[1].backlog_bytes = 900;
	assert_string_equal(pick(a, 2, b, 2, &none), "a1 b2");
	a[0].shipments = 6;
	assert_string_equal(pick(a, 2, b, 2, &none), "a2 b2");
	a[0].shipments = 5;
	assert_string_equal(pick(a, 2, b, 2, &none), "a1 b2");
}

static void without_an_edge_at_one_end_there_is_no_pair(void **state)
{
	struct assign_edge a = { "a1", 0, 0, false };

	(void)state;
	assert_string_equal(pick(&a, 1, NULL, 0, &none), "");
	assert_string_equal(pick(NULL, 0, &a, 1, &none), "");
	assert_string_equal(pick(&a, 1, &a, 1, &none), "a1 a1");
}

static void an_order_stays_with_the_edges_it_had(void **state)
{
	struct assign_edge a[] = { { "a1", 900, 9, false }, { "a2", 0, 0, false } };
	struct assign_edge b[] = { { "b1", 900, 9, false }, { "b2", 0, 0, false } };
	struct assign_rule rule = { .from = "a1", .to = "b1" };

	(void)state;
	assert_string_equal(pick(a, 2, b, 2, &rule), "a1 b1");
	/* one of them is gone or drains: the other stays */
	assert_string_equal(pick(a + 1, 1, b, 2, &rule), "a2 b1");
	assert_string_equal(pick(a, 2, b + 1, 1, &rule), "a1 b2");
}

static bool not_a1_b1(void *ctx, const char *from, const char *to)
{
	(void)ctx;
	return strcmp(from, "a1") == 0 && strcmp(to, "b1") == 0;
}

static void a_pair_that_does_not_reach_each_other_is_avoided(void **state)
{
	struct assign_edge a[] = { { "a1", 0, 0, false }, { "a2", 900, 9, false } };
	struct assign_edge b[] = { { "b1", 0, 0, false }, { "b2", 10, 1, false } };
	struct assign_rule rule = { "a1", "b1", not_a1_b1, NULL };

	(void)state;
	/* the destination it had, from the other source */
	assert_string_equal(pick(a, 2, b, 2, &rule), "a2 b1");
	rule.from = rule.to = NULL;
	assert_string_equal(pick(a, 2, b, 2, &rule), "a1 b2");
	/* but there is no other */
	assert_string_equal(pick(a, 1, b, 1, &rule), "a1 b1");
}

static void an_edge_that_did_not_have_it_is_not_asked_again(void **state)
{
	struct assign_edge a[] = { { "a1", 0, 0, true }, { "a2", 900, 9, false } };
	struct assign_edge b = { "b1", 0, 0, false };
	struct assign_rule rule = { .from = "a1", .to = "b1" };

	(void)state;
	assert_string_equal(pick(a, 2, &b, 1, &rule), "a2 b1");
	a[1].tried = true;
	assert_string_equal(pick(a, 2, &b, 1, &rule), "a1 b1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_edge_with_the_least_to_send_gets_the_order),
		cmocka_unit_test(without_an_edge_at_one_end_there_is_no_pair),
		cmocka_unit_test(an_order_stays_with_the_edges_it_had),
		cmocka_unit_test(a_pair_that_does_not_reach_each_other_is_avoided),
		cmocka_unit_test(an_edge_that_did_not_have_it_is_not_asked_again),
	};

	return cmocka_run_group_tests_name("assign", tests, NULL, NULL);
}
