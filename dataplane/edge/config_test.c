/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/config.h"

#include "control/base/log.h"
#include "dataplane/pool/shm_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[128];

static const char good[] = "site: alpha\n"                      /* 1 */
			   "edge: a1\n"                         /* 2 */
			   "state_dir: DIR\n"                   /* 3 */
			   "pools:\n"                           /* 4 */
			   "  - path: DIR/p.pool\n"             /* 5 */
			   "    size: 2M\n"                     /* 6 */
			   "    create: true\n"                 /* 7 */
			   "port:\n"                            /* 8 */
			   "  device: net_memif0,role=client\n" /* 9 */
			   "  address: 10.0.0.1/24\n"           /* 10 */
			   "control:\n"                         /* 11 */
			   "  listen: 127.0.0.1:7402\n"         /* 12 */
			   "master:\n"                          /* 13 */
			   "  address: 127.0.0.1:7400\n"        /* 14 */
			   "insecure_loopback: true\n"          /* 15 */
			   "log_level: error\n"                 /* 16 */
			   "cap: 1Gbit\n"                       /* 17 */
			   "peers:\n"                           /* 18 */
			   "  - {site: beta, cap: 200M}\n"      /* 19 */
			   "credit:\n"                          /* 20 */
			   "  normal: {bytes: 8M, objects: 100}\n" /* 21 */;

static int set_up(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_ERROR);
	strcpy(dir, "/tmp/config_test.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/edge.yaml", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

/* Write the good file with one text replaced, DIR being our directory. */
static void write_config(const char *from, const char *to)
{
	char text[4096], out[8192];
	size_t n = 0;
	FILE *f;

	if (from == NULL) {
		snprintf(text, sizeof(text), "%s", good);
	} else {
		const char *at = strstr(good, from);

		assert_non_null(at);
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, to,
			at + strlen(from));
	}
	for (const char *p = text; *p != '\0';) {
		if (strncmp(p, "DIR", 3) == 0) {
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s", dir);
			p += 3;
		} else {
			out[n++] = *p++;
		}
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fwrite(out, 1, n, f);
	fclose(f);
}

static void a_good_file_loads_with_defaults(void **state)
{
	struct edge_config cfg;
	char err[1024], *text;

	(void)state;
	write_config(NULL, NULL);
	if (edge_config_load(&cfg, path, err, sizeof(err)) < 0)
		fail_msg("%s", err);
	assert_string_equal(cfg.site, "alpha");
	assert_string_equal(cfg.pools[0].tenant, "default");
	assert_int_equal(cfg.pools[0].size_bytes, 2 << 20);
	assert_true(net_ip_equal(cfg.port.ip, net_ip4(0x0a000001)));
	assert_int_equal(cfg.port.prefix_len, 24);
	assert_int_equal(cfg.port.udp_port, 4790);
	assert_int_equal(cfg.port.mtu, 1500);
	assert_int_equal(cfg.burst, 0);
	assert_int_equal(cfg.cap_bps, 1000000000);
	assert_int_equal(cfg.caps[0].bps, 200000000);
	assert_true(cfg.drain_timeout_ns == 10000000000);
	edge_config_credit(&cfg, 64 << 20);
	assert_int_equal(cfg.credit[STRAIT_CLASS_NORMAL].bytes, 8 << 20);
	assert_int_equal(cfg.credit[STRAIT_CLASS_NORMAL].objects, 100);
	assert_int_equal(cfg.credit[STRAIT_CLASS_BULK].bytes, 16 << 20);
	text = edge_config_print(&cfg);
	assert_non_null(text);
	assert_non_null(strstr(text, "udp_port: 4790"));
	assert_non_null(strstr(text, "scratch_slots: 4096"));
	free(text);
	edge_config_fini(&cfg);
}

static void the_printed_configuration_loads_again(void **state)
{
	struct edge_config cfg, again;
	char err[1024], *text;
	FILE *f;

	(void)state;
	write_config(NULL, NULL);
	assert_int_equal(edge_config_load(&cfg, path, err, sizeof(err)), 0);
	text = edge_config_print(&cfg);
	assert_non_null(text);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	if (edge_config_load(&again, path, err, sizeof(err)) < 0)
		fail_msg("%s\n%s", err, text);
	assert_int_equal(again.cap_bps, cfg.cap_bps);
	assert_int_equal(again.eal.memory_mb, cfg.eal.memory_mb);
	free(text);
	edge_config_fini(&cfg);
	edge_config_fini(&again);
}

static void the_printed_configuration_shows_the_credit(void **state)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = 8 << 20 };
	char err[1024], want[64], file[128], *text;
	struct strait_pool_stats stats;
	struct edge_config cfg;
	struct pool *pool;

	(void)state;
	write_config(NULL, NULL);
	assert_int_equal(edge_config_load(&cfg, path, err, sizeof(err)), 0);
	text = edge_config_print(&cfg);
	assert_non_null(text);
	assert_non_null(strstr(text, "a quarter of the pool"));
	free(text);

	snprintf(file, sizeof(file), "%s/p.pool", dir);
	pool = shm_pool_open(file, &options, err, sizeof(err));
	assert_non_null(pool);
	assert_int_equal(pool_stats(pool, &stats), 0);
	pool_destroy(pool);
	text = edge_config_print(&cfg);
	assert_non_null(text);
	snprintf(want, sizeof(want), "bytes: %llu\n", (unsigned long long)stats.arena_bytes / 4);
	if (strstr(text, want) == NULL || strstr(text, "bytes: 8M\n") == NULL ||
		strstr(text, "quarter") != NULL)
		fail_msg("%s", text);
	free(text);
	edge_config_fini(&cfg);
	unlink(file);
}

#define SECOND_POOL "create: true\n  - {path: DIR/q.pool, size: 2M, create: true"

static void errors_name_the_line_and_what_to_do(void **state)
{
	static const struct {
		const char *from, *to;
		unsigned int line;
		const char *says;
	} cases[] = {
		{ "site: alpha", "site: Alpha!", 1, "Alpha!" },
		{ "edge: a1", "edgy: a1", 2, "edgy" },
		{ "state_dir: DIR", "state_dir: DIR/nothing", 3, "create it" },
		{ "size: 2M", "size: 2X", 6, "2X" },
		{ "size: 2M", "size: 900T", 6, "does not fit" },
		{ "size: 2M", "size: 2K", 6, "at least 1M" },
		{ "create: true", "create: false", 0, "create: true" },
		{ "10.0.0.1/24", "10.0.0.1", 10, "prefix" },
		{ "10.0.0.1/24", "10.0.0.300/24", 10, "10.0.0.300" },
		{ "10.0.0.1/24", "10.0.0.1/33", 10, "0 to 32" },
		{ "10.0.0.1/24", "fd00::1", 10, "prefix" },
		{ "10.0.0.1/24", "fd00::1/129", 10, "0 to 128" },
		{ "10.0.0.1/24", "fd00::g/64", 10, "fd00::g" },
		{ "10.0.0.1/24", "::ffff:10.0.0.1/120", 10, "not an address" },
		{ "10.0.0.1/24", "fd00::1/64\n  gateway: 10.0.0.2", 11, "both be IPv4" },
		{ "10.0.0.1/24", "fd00::1/64\n  gateway: fd00:1::1", 11, "not on the prefix" },
		{ "10.0.0.1/24", "fd00::1/64\n  mtu: 1279", 0, "over IPv6 it is 1280" },
		{ "10.0.0.1/24", "fe80::1/64", 0, "link-local" },
		{ "10.0.0.1/24", "ff02::1/64", 0, "not a host" },
		{ "10.0.0.1/24", "::1/64", 0, "not a host" },
		{ "10.0.0.1/24", "::/64", 0, "not a host" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  mac: 02:00", 11, "MAC" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  mtu: 100", 11, "mtu" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  dscp: 64", 11, "dscp" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  udp_port: many", 11, "many" },
		{ "127.0.0.1:7402", "0.0.0.0:7402", 12, "advertise" },
		{ "127.0.0.1:7402", "127.0.0.1", 12, "host:port" },
		{ "127.0.0.1:7400", "127.0.0.1:0", 14, "host:port" },
		{ "insecure_loopback: true", "tls: {ca: DIR/ca.pem}", 15, "pki init" },
		{ "cap: 1Gbit", "cap: fast", 17, "fast" },
		{ "cap: 1Gbit", "cap: 1G\ncrypto: rot13", 18, "rot13" },
		{ "cap: 1Gbit", "cap: 1G\ncrypto: \"cryptodev:\"", 18, "cryptodev" },
		{ "site: beta", "site: B", 19, "\"B\"" },
		{ "bytes: 8M", "bytes: 8", 21, "1M" },
		{ "cap: 1Gbit", "cap: 1G\ndebug: {socket: s}", 18, "must begin with /" },
		{ "cap: 1Gbit", "cap: 1G\ndebug: {key_log: k}", 18, "must begin with /" },
		{ "cap: 1Gbit", "cap: 1G\ndebug: {capture_dir: DIR/no}", 18, "No such file" },
		{ "cap: 1Gbit", "cap: 1G\ndebug: {capture_dir: DIR}", 18, "add it" },
		{ "cap: 1Gbit", "cap: 0", 17, "leave it out for no cap" },
		{ "cap: 200M", "cap: 0", 19, "leave it out for no cap" },
		{ "{site: beta, cap: 200M}", "{site: alpha, cap: 200M}", 19, "own site" },
		{ "{site: beta, cap: 200M}\n",
			"{site: beta, cap: 200M}\n  - {site: beta, cap: 1M}\n", 20, "twice" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  gateway: 10.0.1.1", 11, "not on the prefix" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  mtu: 0", 11, "leave it out" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  udp_port: 0", 11, "leave it out" },
		{ "path: DIR/p.pool", "path: p.pool", 5, "begin with /" },
		{ "objects: 100", "objects: 0", 21, "leave it out" },
		{ "credit:", "session: {scratch_slots: 0}\ncredit:", 20, "leave it out" },
		{ "credit:", "session: {window_packets: 1000}\ncredit:", 20, "1024 to" },
		{ "credit:", "worker: {count: 0}\ncredit:", 20, "leave it out" },
		{ "credit:", "worker: {count: 17}\ncredit:", 20, "at most 16" },
		{ "credit:", "worker: {max_sleep_us: 0}\ncredit:", 20, "poll_mode" },
		{ "credit:", "worker: {burst: 1}\ncredit:", 20, "2 to 1024" },
		{ "credit:", "worker: {burst: 1025}\ncredit:", 20, "2 to 1024" },
		{ "credit:", "worker: {realtime: 100}\ncredit:", 20, "1 to 99" },
		{ "credit:", "worker: {realtime: 1, poll_mode: true}\ncredit:", 20,
			"workers that sleep" },
		{ "credit:", "worker: {count: 2, cpu: 0}\ncredit:", 20, "worker.cpus" },
		{ "credit:", "worker: {count: 2, cpus: [0]}\ncredit:", 20, "give each one" },
		{ "credit:", "worker: {count: 2, cpus: [0, 0]}\ncredit:", 20, "two workers" },
		{ "credit:", "worker: {count: 1, cpus: [9999]}\ncredit:", 20, "has CPUs 0 to" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  queues: 2", 11, "1, or as many" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  queues: 2\nworker: {count: 3}", 11, "as many" },
		{ "10.0.0.1/24", "10.0.0.1/24\n  udp_port: 65535\nworker: {count: 2}", 0, "65536" },
		{ "credit:", "session: {scratch_slots: 70000}\ncredit:", 20, "at most" },
		{ "create: true", "create: true\n    site: beta", 4, "own site, alpha" },
		{ "create: true", SECOND_POOL "}", 8, "tenant default has two pools" },
		{ "create: true", SECOND_POOL ", site: B}", 8, "\"B\"" },
		{ "create: true", SECOND_POOL ", site: beta, gateway: /g}", 8, "gateway" },
		{ "create: true", "gateway: /g\n    " SECOND_POOL ", site: beta}", 0,
			"none of them can have a gateway" },
		{ "create: true",
			"create: true\n  - {site: beta, path: DIR/p.pool, size: 2M, create: true}",
			8, "the pool of two" },
		{ "cap: 1Gbit", "cap: 1G\nlan_cap: 0", 18, "leave it out for no cap" },
	};
	char want[160], err[1024];
	struct edge_config cfg;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_config(cases[i].from, cases[i].to);
		if (edge_config_load(&cfg, path, err, sizeof(err)) == 0)
			fail_msg("accepted: %s", cases[i].to);
		edge_config_fini(&cfg);
		snprintf(want, sizeof(want), "%s:%u: ", path, cases[i].line);
		if ((cases[i].line != 0 && strncmp(err, want, strlen(want)) != 0) ||
			strstr(err, cases[i].says) == NULL)
			fail_msg("%s: %s", cases[i].to, err);
	}
}

static void a_port_may_have_an_ipv6_address(void **state)
{
	static const struct net_ip ip = { .b = { 0xfd, [15] = 1 } };
	static const char *const gateways[] = { "", "\n  gateway: fd00::ff",
		"\n  gateway: fe80::1" };
	struct edge_config cfg;
	char err[256], text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(gateways) / sizeof(gateways[0]); i++) {
		snprintf(text, sizeof(text), "fd00::1/64%s", gateways[i]);
		write_config("10.0.0.1/24", text);
		if (edge_config_load(&cfg, path, err, sizeof(err)) != 0)
			fail_msg("%s", err);
		assert_true(net_ip_equal(cfg.port.ip, ip));
		assert_int_equal(cfg.port.prefix_len, 64);
		assert_int_equal(net_ip_is_set(cfg.port.gateway), i > 0);
		edge_config_fini(&cfg);
	}
}

static void a_gateway_may_be_outside_a_prefix_of_one_address(void **state)
{
	struct edge_config cfg;
	char err[1024];

	(void)state;
	write_config("10.0.0.1/24", "10.0.0.1/32\n  gateway: 10.0.0.254");
	if (edge_config_load(&cfg, path, err, sizeof(err)) < 0)
		fail_msg("%s", err);
	edge_config_fini(&cfg);
}

static void a_missing_file_is_named(void **state)
{
	struct edge_config cfg;
	char err[1024];

	(void)state;
	assert_true(edge_config_load(&cfg, "/nonexistent.yaml", err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "/nonexistent.yaml"));
	edge_config_fini(&cfg);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_good_file_loads_with_defaults),
		TEST(the_printed_configuration_loads_again),
		TEST(the_printed_configuration_shows_the_credit),
		TEST(errors_name_the_line_and_what_to_do),
		TEST(a_gateway_may_be_outside_a_prefix_of_one_address),
		TEST(a_port_may_have_an_ipv6_address),
		TEST(a_missing_file_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
