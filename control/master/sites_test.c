/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void edges_in_trouble_get_orders_only_where_no_other_is(void **state)
{
	Strait__EdgeReport bad = STRAIT__EDGE_REPORT__INIT, well = STRAIT__EDGE_REPORT__INIT;
	struct master_config cfg = { 0 };
	struct client client = { 0 };
	struct master m = { .cfg = &cfg };
	struct edge *one, *two;
	const char *names[4];

	(void)state;
	bad.trouble = (char *)"its pool was replaced";
	TAILQ_INIT(&m.sites);
	TAILQ_INIT(&m.edges);
	shares_init(&m.shares, NULL, NULL, 1);
	assert_non_null(site_put(&m, "b", NULL, 0));
	one = edge_put(&m, "b", "b1");
	two = edge_put(&m, "b", "b2");
	one->client = two->client = &client;
	assert_int_equal(sites_edges(&m, "b", names, 4), 2);
	one->report = &bad;
	two->report = &well;
	assert_int_equal(sites_edges(&m, "b", names, 4), 1);
	assert_string_equal(names[0], "b2");
	two->report = &bad;
	assert_int_equal(sites_edges(&m, "b", names, 4), 2);
	one->report = two->report = NULL;
	shares_fini(&m.shares);
	sites_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edges_in_trouble_get_orders_only_where_no_other_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
