/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master_config.h"

#include "control/base/file.h"
#include "control/master/master.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/strait-master-config-XXXXXX", path[64], err[512];

/* Two lines, then the rest. */
static struct master_config *load(const char *rest)
{
	char text[1000];

	snprintf(text, sizeof(text), "ledger: %s/db\ninsecure_loopback: true\n%s", dir, rest);
	assert_int_equal(file_put(path, text, strlen(text)), 0);
	return master_config_load(path, err, sizeof(err));
}

static void wrong_sites_and_links_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *rest, *want;
	} cases[] = {
		{ "sites:\n- { name: a, cap: 0 }\n",
			":4: sites[0].cap: 0 would mean no cap; leave it out" },
		{ "links:\n- { from: a, to: b, cap: 0Mbit }\n",
			":4: links[0].cap: 0 would mean no cap; leave it out" },
		{ "sites:\n- name: a\n- name: a\n", ":5: sites[1].name: site a is listed twice" },
		{ "insecure_loopback: flase\n", ":3: insecure_loopback: given a second time" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(load(cases[i].rest));
		if (strstr(err, cases[i].want) == NULL)
			fail_msg("case %zu: \"%s\", expected \"%s\"", i, err, cases[i].want);
	}
}

static void the_lowest_cap_counts(void **state)
{
	struct master m = { 0 };

	(void)state;
	m.cfg = load(
		"sites:\n- { name: a, cap: 3M }\n- { name: b, cap: 2M }\n- name: c\n- name: d\n"
		"links:\n- { from: a, to: b, cap: 5M }\n- { from: a, to: c, cap: 1M }\n"
		"- { from: c, to: d, cap: 7M }\n");
	assert_non_null(m.cfg);
	TAILQ_INIT(&m.sites);
	TAILQ_INIT(&m.edges);
	sites_configure(&m);
	assert_int_equal(sites_cap(&m, "a", "b"), 2000000); /* the link's does not lift it */
	assert_int_equal(sites_cap(&m, "b", "a"), 2000000);
	assert_int_equal(sites_cap(&m, "a", "c"), 1000000);
	assert_int_equal(sites_cap(&m, "c", "a"), 3000000);
	assert_int_equal(sites_cap(&m, "c", "d"), 7000000);
	assert_int_equal(sites_cap(&m, "d", "c"), 0);
	sites_free(&m);
	master_config_free(m.cfg);
}

static int begin(void **state)
{
	(void)state;
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/m.yaml", dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_sites_and_links_are_refused_with_their_line),
		cmocka_unit_test(the_lowest_cap_counts),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
