/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/control_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_lost_pool_is_the_edges_trouble(void **state)
{
	struct pool one = { 0 }, two = { 0 }, *pools[] = { &one, &two };
	struct edge_config cfg = { .pool_count = 2 };
	char text[100] = "x";

	(void)state;
	cfg.pools[0].path = (char *)"/dev/shm/one";
	cfg.pools[1].path = (char *)"/dev/shm/two";
	control_report_trouble(text, sizeof(text), &cfg, pools);
	assert_string_equal(text, "");
	two.lost = true;
	control_report_trouble(text, sizeof(text), &cfg, pools);
	assert_non_null(strstr(text, "/dev/shm/two was deleted, replaced or cut"));
	assert_non_null(strstr(text, "restart the edge"));
	one.lost = true;
	control_report_trouble(text, sizeof(text), &cfg, pools);
	assert_non_null(strstr(text, "/dev/shm/one"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_pool_is_the_edges_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
