/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static struct wan_options opt;
static char err[256];

static int parse(const char *const *args)
{
	char *argv[24] = { (char *)"strait-wan" };
	int argc = 1;

	while (*args)
		argv[argc++] = (char *)(uintptr_t)*args++;
	err[0] = '\0';
	return wan_options_parse(&opt, argc, argv, err, sizeof(err));
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })
#define PORTS      "--port-a", "net_null0", "--port-b", "net_null1"

static void link_options_apply_to_both_directions(void **state)
{
	(void)state;
	assert_int_equal(PARSE(PORTS, "--loss", "0.01", "--rtt-ms=60", "--cut", "1,1"), 0);
	for (int side = 0; side < WAN_SIDES; side++) {
		assert_true(opt.link[side].loss == 0.01);
		assert_int_equal(opt.link[side].rtt_ns, 60000000);
		assert_int_equal(opt.link[side].ncuts, 1);
	}
}

static void a_direction_wins_wherever_it_stands(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--ab-loss", "0.2", PORTS, "--loss", "0.01", "--ba-cut=5,5", "--cut",
				 "1,1"),
		0);
	assert_true(opt.link[WAN_A].loss == 0.2);
	assert_true(opt.link[WAN_B].loss == 0.01);
	assert_int_equal(opt.link[WAN_A].ncuts, 1);
	assert_int_equal(opt.link[WAN_B].ncuts, 2);
}

static void own_options_are_read(void **state)
{
	(void)state;
	assert_int_equal(PARSE(PORTS, "--seed", "18446744073709551615", "--seconds", "9",
				 "--stats-ms", "0", "--json", "--inject-forged", "50",
				 "--poll-mode", "--nap-us", "250"),
		0);
	assert_int_equal(opt.nap_us, 250);
	assert_true(opt.seed == UINT64_MAX && opt.seconds == 9 && opt.stats_ms == 0);
	assert_true(opt.json && opt.poll_mode && opt.forged_pps == 50 && !opt.hugepages);
	assert_string_equal(opt.vdev[WAN_B], "net_null1");
	assert_int_equal(PARSE("--help"), 0);
	assert_true(opt.help);
	assert_int_equal(opt.nap_us, 50);
}

static void mistakes_are_named(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--port-a", "net_null0"), -EINVAL);
	assert_non_null(strstr(err, "--port-b"));
	assert_int_equal(PARSE("--port-a", "net_null0,x=1", "--port-b", "net_null0"), -EINVAL);
	assert_non_null(strstr(err, "both"));
	assert_int_equal(PARSE("--port-a", "eth0", "--port-b", "net_null0"), -EINVAL);
	assert_non_null(strstr(err, "eth0"));
	assert_int_equal(PARSE(PORTS, "--ba-ge", "1"), -EINVAL);
	assert_non_null(strstr(err, "--ba-ge '1'"));
	assert_int_equal(PARSE(PORTS, "--nothing=1"), -EINVAL);
	assert_non_null(strstr(err, "'--nothing'"));
	assert_int_equal(PARSE(PORTS, "--seed"), -EINVAL);
	assert_int_equal(PARSE("--port-a", "--json"), -EINVAL);
	assert_string_equal(err, "--port-a needs a value");
	assert_int_equal(PARSE(PORTS, "--ab-loss", "--json"), -EINVAL);
	assert_string_equal(err, "--ab-loss needs a value");
	assert_int_equal(PARSE(PORTS, "--seed", "-1"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "--seed", "18446744073709551616"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "--mtu", "9001"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "--json=yes"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "--cpu", "100000"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "stray"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "--ab-seed", "1"), -EINVAL);
	assert_int_equal(PARSE(PORTS, "--a-name-so-long-that-it-does-not-fit-any-buffer", "1"),
		-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_options_apply_to_both_directions),
		cmocka_unit_test(a_direction_wins_wherever_it_stands),
		cmocka_unit_test(own_options_are_read),
		cmocka_unit_test(mistakes_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
