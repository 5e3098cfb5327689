/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master_config.h"

#include "control/base/file.h"
#include "control/master/links.h"
#include "control/master/master.h"
#include "control/master/replication.h"

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
		{ "links:\n- { from: a, to: b }\n- { from: b, to: a }\n- { from: a, to: b }\n",
			":6: links[2].to: the link from a to b is listed twice" },
		{ "sites:\n- name: c\n  pools_at: [ a1 ]\n",
			":5: sites[0].pools_at[0]: \"a1\" is not an edge of another site like" },
		{ "sites:\n- name: c\n  pools_at: [ a/A! ]\n", "is not an edge of another site" },
		{ "sites:\n- name: c\n  pools_at: [ c/c1 ]\n", "is an edge of site c itself" },
		{ "sites:\n- name: c\n  pools_at: [ a/a1, a/a1 ]\n", "a/a1 is listed twice" },
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
	links_init(&m);
	sites_configure(&m);
	assert_int_equal(sites_cap(&m, "a", "b"), 2000000); /* the link's does not lift it */
	assert_int_equal(sites_cap(&m, "b", "a"), 2000000);
	assert_int_equal(sites_cap(&m, "a", "c"), 1000000);
	assert_int_equal(sites_cap(&m, "c", "a"), 3000000);
	assert_int_equal(sites_cap(&m, "c", "d"), 7000000);
	assert_int_equal(sites_cap(&m, "d", "c"), 0);
	links_fini(&m);
	sites_free(&m);
	master_config_free(m.cfg);
}

static void policies_are_matched_in_order_by_site_or_label(void **state)
{
	const struct site a = { .name = "a", .label = "eu" }, b = { .name = "b", .label = "us" };
	const struct site c = { .name = "c" };
	struct master m = { 0 };

	(void)state;
	m.cfg = load("policies:\n- { from: a, to: us, allow: false }\n"
		     "- { from: eu, to: \"*\", class: normal, cap: 1M, after: 2, least: 1K,\n"
		     "    most: 1M, ttl: 1m, tenants: [ x, y ] }\n"
		     "- { from: c, to: eu, ttl: eviction-age, pause_below: 10m }\n");
	if (m.cfg == NULL)
		fail_msg("%s", err);
	assert_ptr_equal(policy_find(&m, &a, &b), &m.cfg->policies[0]);
	assert_false(m.cfg->policies[0].allowed);
	assert_ptr_equal(policy_find(&m, &a, &c), &m.cfg->policies[1]);
	assert_ptr_equal(policy_find(&m, &c, &a), &m.cfg->policies[2]);
	assert_null(policy_find(&m, &c, &b));
	assert_true(m.cfg->policies[2].ttl_by_age);
	assert_int_equal(m.cfg->policies[2].ttl_ns, 0);
	assert_int_equal(m.cfg->policies[2].pause_below_ns, 600 * UINT64_C(1000000000));
	assert_false(m.cfg->policies[1].ttl_by_age);
	assert_true(m.cfg->policies[1].allowed);
	assert_int_equal(m.cfg->policies[1].least_bytes, 1024);
	assert_int_equal(m.cfg->policies[1].ttl_ns, 60000000000);
	assert_int_equal(m.cfg->policies[1].tenants_count, 2);
	assert_string_equal(m.cfg->policies[1].tenants[1], "y");
	master_config_free(m.cfg);
}

static struct edge *edge_up(struct master *m, const char *site, const char *name)
{
	struct edge *e = edge_put(m, site, name);

	assert_non_null(e);
	e->client = (struct client *)m; /* never looked at */
	return e;
}

static void one_label_is_a_lan_and_one_edge_copies(void **state)
{
	struct master m = { 0 };
	const char *edge = NULL;
	struct edge *a1;

	(void)state;
	m.cfg = load("sites:\n- { name: a, label: eu, cap: 3M }\n- { name: b, label: eu }\n"
		     "- { name: c, label: eu, pools_at: [ a/a1 ] }\n- { name: d, label: us }\n"
		     "- name: e\n- name: f\n"
		     "policies:\n- { from: e, to: f, profile: lan, cap: 5M }\n"
		     "- { from: c, to: a, profile: wan }\n");
	if (m.cfg == NULL)
		fail_msg("%s", err);
	TAILQ_INIT(&m.sites);
	TAILQ_INIT(&m.edges);
	links_init(&m);
	sites_configure(&m);
	assert_int_equal(sites_way(&m, "a", "b", &edge), ORDER_LAN);
	assert_int_equal(sites_way(&m, "a", "d", &edge), ORDER_WAN);
	assert_int_equal(sites_way(&m, "f", "e", &edge), ORDER_WAN); /* no label is none */
	assert_int_equal(sites_way(&m, "e", "f", &edge), ORDER_LAN);
	assert_int_equal(sites_cap(&m, "e", "f"), 5000000);
	assert_int_equal(sites_cap(&m, "a", "b"), 0);
	assert_int_equal(sites_cap(&m, "a", "d"), 3000000);
	assert_true(sites_may_reach(&m, "a", "b"));
	assert_true(sites_may_reach(&m, "a", "c"));
	assert_false(sites_may_reach(&m, "c", "a")); /* not over the WAN, without an edge */
	assert_false(sites_may_reach(&m, "b", "c"));
	assert_false(sites_may_reach(&m, "d", "c"));
	a1 = edge_up(&m, "a", "a1");
	assert_int_equal(sites_way(&m, "a", "c", &edge), ORDER_LAN); /* it has no such pool */
	assert_false(sites_reach(&m, "a", "c"));
	assert_false(sites_has_edge(&m, "c"));
	a1->pool_site_count = 2;
	strcpy(a1->pool_sites[0], "b");
	strcpy(a1->pool_sites[1], "c");
	assert_int_equal(sites_way(&m, "a", "c", &edge), ORDER_LOCAL);
	assert_string_equal(edge, "a/a1");
	assert_ptr_equal(edge_of(&m, "c", edge), a1);
	assert_true(sites_reach(&m, "a", "c"));
	assert_true(sites_has_edge(&m, "c"));
	assert_int_equal(sites_way(&m, "c", "a", &edge), ORDER_WAN); /* the policy's word */
	assert_int_equal(sites_way(&m, "a", "b", &edge), ORDER_LAN); /* b does not agree */
	assert_false(sites_allow_pools(&m, a1, "b"));
	edge_up(&m, "c", "c1");
	assert_true(sites_may_reach(&m, "b", "c"));
	assert_true(sites_may_reach(&m, "c", "a"));
	a1->client = NULL;
	assert_int_equal(sites_way(&m, "a", "c", &edge), ORDER_LAN);
	links_fini(&m);
	sites_free(&m);
	master_config_free(m.cfg);
}

static void edges_that_drain_stop_or_are_away_get_nothing(void **state)
{
	struct master m = { 0 };
	const char *names[4];
	struct edge *a1, *a2;

	(void)state;
	m.cfg = load("sites:\n- { name: a }\n- { name: b }\n");
	assert_non_null(m.cfg);
	TAILQ_INIT(&m.sites);
	TAILQ_INIT(&m.edges);
	links_init(&m);
	sites_configure(&m);
	a1 = edge_up(&m, "a", "a1");
	a2 = edge_up(&m, "a", "a2");
	assert_string_equal(sites_edge(&m, "a"), "a1");
	assert_int_equal(sites_edges(&m, "a", names, 4), 2);
	assert_string_equal(names[1], "a2");
	assert_int_equal(sites_edges(&m, "a", names, 1), 1);
	assert_null(sites_why(&m, "b"));
	a1->leaving = true;
	assert_string_equal(sites_edge(&m, "a"), "a2");
	assert_int_equal(sites_edges(&m, "a", names, 4), 1);
	a2->draining = true;
	assert_null(sites_edge(&m, "a"));
	assert_non_null(strstr(sites_why(&m, "a"), "drain"));
	a2->client = NULL;
	assert_null(sites_edge(&m, "a"));
	assert_non_null(strstr(sites_why(&m, "a"), "stop"));
	a1->leaving = false;
	assert_string_equal(sites_edge(&m, "a"), "a1");
	assert_null(sites_edge(&m, "b"));
	links_fini(&m);
	sites_free(&m);
	master_config_free(m.cfg);
}

static void wrong_policies_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *rest, *want;
	} cases[] = {
		{ "policies:\n- { from: a, to: b, class: urgent }\n",
			":4: policies[0].class: use normal or bulk" },
		{ "policies:\n- { from: a, to: b, allow: perhaps }\n",
			":4: policies[0].allow: use true or false" },
		{ "policies:\n- { from: a, to: b, least: 2M, most: 1M }\n",
			":4: policies[0].most: must be least to 4G" },
		{ "policies:\n- { from: a, to: b, profile: man }\n",
			":4: policies[0].profile: use lan or wan" },
		{ "policies:\n- { from: a }\n", "to" },
		{ "policies:\n- { from: a, to: b, most: 0 }\n",
			":4: policies[0].most: 0 would let nothing pass" },
		{ "policies:\n- { from: a, to: b, ttl: 0 }\n",
			":4: policies[0].ttl: must be 1.00 ms" },
		{ "policies:\n- { from: a, to: b, ttl: 200000d }\n",
			":4: policies[0].ttl: must be 1.00 ms to 365" },
		{ "policies:\n- { from: a, to: \"b\\n\" }\n",
			":4: policies[0].to: a site or label" },
		{ "sites:\n- { name: a, label: \"\\e[31m\" }\n", ":4: sites[0].label: a label is" },
		{ "evicted_for: 0\n", ":3: evicted_for: must be 1.00 s to 90" },
		{ "evicted_for: 100d\n", ":3: evicted_for: must be 1.00 s to 90" },
		{ "forget_after: 1ms\n", ":3: forget_after: must be 1.00 s" },
		{ "keys: -1\n", ":3: keys: must be 1 to 10000000000" },
		{ "listen: 127.0.0.1:70000\n",
			"listen: \"127.0.0.1:70000\": a port is at most 65535" },
		{ "listen: a:b:c\n", "listen: \"a:b:c\" is not HOST:PORT" },
		{ "secret: /no/such/file\n", "secret" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(load(cases[i].rest));
		if (strstr(err, cases[i].want) == NULL)
			fail_msg("case %zu: \"%s\", expected \"%s\"", i, err, cases[i].want);
	}
}

static void policy_for_tenants_that_nobody_has_is_for_none(void **state)
{
	struct replication r = { .tenants = 2, .tenant = { { .name = "x" }, { .name = "y" } } };
	struct master_config *cfg = load("policies:\n- { from: a, to: b, tenants: [ y, z ] }\n"
					 "- { from: a, to: b, tenants: [ z ] }\n"
					 "- { from: a, to: b }\n");
	uint64_t mask;

	(void)state;
	assert_non_null(cfg);
	assert_true(replication_policy_tenants(&r, &cfg->policies[0], &mask));
	assert_int_equal(mask, 2);
	assert_false(replication_policy_tenants(&r, &cfg->policies[1], &mask));
	assert_true(replication_policy_tenants(&r, &cfg->policies[2], &mask));
	assert_int_equal(mask, 0);
	master_config_free(cfg);
}

static void check_finds_what_the_start_would(void **state)
{
	char db[80], text[400];
	struct master_config *cfg;
	struct ledger_site row = { "b", "us", 0 };
	struct ledger *l;

	(void)state;
	cfg = load("sites: [{ name: a }]\nlinks:\n- { from: a, to: b }\n");
	assert_non_null(cfg);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, ":5: links[0].to: unknown site b"));
	master_config_free(cfg);
	cfg = load("sites: [{ name: c, pools_at: [ a/a1 ] }]\n");
	assert_non_null(cfg);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, ":3: sites[0].pools_at[0]: unknown site a"));
	master_config_free(cfg);
	cfg = load("sites: [{ name: a, label: eu }]\npolicies:\n- { from: eu, to: zork }\n");
	assert_non_null(cfg);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, ":5: policies[0].to: zork is neither a site nor"));
	master_config_free(cfg);
	assert_null(load("sites: [{ name: a }]\nkeys: 0\n"));
	assert_non_null(strstr(err, ":4: keys: must be 1 to "));
	cfg = load("sites: [{ name: a }]\nlinks:\n- { from: a, to: b }\npolicies:\n"
		   "- { from: \"*\", to: us }\n");
	assert_non_null(cfg);
	/* a site of the ledger is fine, while a master has it open, too */
	l = ledger_open(cfg->ledger, err, sizeof(err));
	assert_non_null(l);
	assert_int_equal(ledger_site_put(l, &row), 0);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), 0);
	ledger_close(l);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), 0);
	master_config_free(cfg);
	snprintf(db, sizeof(db), "%s/db.lock", dir);
	unlink(db);
	snprintf(db, sizeof(db), "%s/db", dir);
	unlink(db);
	snprintf(db, sizeof(db), "%s/db-wal", dir); /* no trace of the check */
	assert_int_not_equal(access(db, F_OK), 0);

	snprintf(text, sizeof(text), "ledger: %s/none/db\ninsecure_loopback: true\n", dir);
	assert_int_equal(file_put(path, text, strlen(text)), 0);
	cfg = master_config_load(path, err, sizeof(err));
	assert_non_null(cfg);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, ":1: ledger: the directory of "));
	master_config_free(cfg);

	snprintf(text, sizeof(text),
		"ledger: %s/db\ntls: { ca: /none/ca, cert: /none/cert, key: /none/key }\n", dir);
	assert_int_equal(file_put(path, text, strlen(text)), 0);
	cfg = master_config_load(path, err, sizeof(err));
	assert_non_null(cfg);
	assert_int_equal(master_config_check(cfg, path, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, ":2: tls: /none/key: "));
	master_config_free(cfg);
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
		cmocka_unit_test(check_finds_what_the_start_would),
		cmocka_unit_test(the_lowest_cap_counts),
		cmocka_unit_test(policies_are_matched_in_order_by_site_or_label),
		cmocka_unit_test(one_label_is_a_lan_and_one_edge_copies),
		cmocka_unit_test(edges_that_drain_stop_or_are_away_get_nothing),
		cmocka_unit_test(wrong_policies_are_refused_with_their_line),
		cmocka_unit_test(policy_for_tenants_that_nobody_has_is_for_none),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
