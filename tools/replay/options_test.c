/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static struct replay_options opt;
static char err[256];

static int parse(const char *const *args)
{
	char *argv[24] = { (char *)"strait-replay" };
	int argc = 1;

	while (*args)
		argv[argc++] = (char *)(uintptr_t)*args++;
	err[0] = '\0';
	return replay_options_parse(&opt, argc, argv, err, sizeof(err));
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

static void a_block_of_an_8b_model_is_the_default(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--pool", "p"), 0);
	assert_int_equal(opt.verb, REPLAY_PUT);
	assert_int_equal(opt.block_tokens, 16);
	assert_int_equal(replay_object_bytes(&opt), 2 << 20);
	assert_true(opt.objects == UINT64_MAX && opt.bytes == UINT64_MAX);
}

static void ranks_share_the_scaled_block(void **state)
{
	(void)state;
	assert_int_equal(PARSE("put", "--pool", "p", "--bytes-per-block", "2M", "--scale", "0.5",
				 "--tp", "3"),
		0);
	assert_int_equal(opt.bytes_per_block, 1 << 20);
	assert_int_equal(replay_object_bytes(&opt), ((1 << 20) + 2) / 3);
}

static void verbs_need_their_files(void **state)
{
	(void)state;
	assert_int_equal(PARSE("put"), -EINVAL);
	assert_non_null(strstr(err, "--pool"));
	assert_int_equal(PARSE("verify", "--pool", "p"), -EINVAL);
	assert_non_null(strstr(err, "--manifest"));
	assert_int_equal(PARSE("keys"), 0);
	assert_int_equal(PARSE("keys", "--manifest", "m"), 0);
	assert_int_equal(PARSE("--help"), 0);
	assert_true(opt.help);
}

static void mistakes_name_the_option(void **state)
{
	static const struct {
		const char *args[3], *names;
	} cases[] = {
		{ { "--block-tokens", "10" }, "--block-tokens" },
		{ { "--block-tokens", "0" }, "--block-tokens" },
		{ { "--tp", "0" }, "--tp" },
		{ { "--objects", "-1" }, "--objects" },
		{ { "--bytes", "12parsecs" }, "--bytes" },
		{ { "--bytes-per-block", "0" }, "--bytes-per-block" },
		{ { "--scale", "0" }, "--scale" },
		{ { "--scale", "nan" }, "--scale" },
		{ { "--scale", "1000" }, "64 MiB" },
		{ { "--model", "a b" }, "--model" },
		{ { "--model", "" }, "--model" },
		{ { "--seed" }, "--seed" },
		{ { "--manifest", "--json" }, "--manifest needs a value" },
		{ { "--bogus" }, "--bogus" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].args), -EINVAL);
		if (strstr(err, cases[i].names) == NULL)
			fail_msg("%s: %s", cases[i].names, err);
	}
	assert_int_equal(PARSE("fetch"), -EINVAL);
	assert_int_equal(PARSE("put", "stray"), -EINVAL);
	assert_int_equal(PARSE("put", "--pool", "p", "--json", "--manifest", "-"), -EINVAL);
}

static void prefill_as_a_service_has_its_own_defaults(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--prfaas"), 0);
	assert_int_equal(opt.verb, REPLAY_PRFAAS);
	assert_true(opt.requests == 12000 && opt.mode == -1);
	assert_true(opt.prfaas.block_tokens == 64 && opt.prfaas.block_bytes == 2552000);
	assert_int_equal(PARSE("prfaas", "--trace", "t", "--mode", "serial", "--block-tokens", "16",
				 "--tp", "2", "--decode-pool", "1T", "--prefill-rate", "7"),
		0);
	assert_true(opt.requests == UINT64_MAX && opt.mode == PRFAAS_SERIAL);
	assert_true(opt.prfaas.block_bytes == 638000 && opt.prfaas.ranks == 2);
	assert_true(opt.prfaas.decode.pool_bytes == UINT64_C(1) << 40);
	assert_true(opt.prfaas.prefill.tokens_per_s == 7 && opt.prfaas.decode.instances == 8);
	assert_int_equal(PARSE("prfaas", "--cap", "0"), -EINVAL);
	assert_int_equal(PARSE("prfaas", "--efficiency", "1.5"), -EINVAL);
	assert_int_equal(PARSE("prfaas", "--speed", "nan"), -EINVAL);
	assert_int_equal(PARSE("prfaas", "--decode-rate", "0"), -EINVAL);
	assert_int_equal(PARSE("prfaas", "--mode", "fast"), -EINVAL);
	assert_non_null(strstr(err, "fast"));
	assert_int_equal(PARSE("prfaas", "--deadline", "99999d"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefill_as_a_service_has_its_own_defaults),
		cmocka_unit_test(a_block_of_an_8b_model_is_the_default),
		cmocka_unit_test(ranks_share_the_scaled_block),
		cmocka_unit_test(verbs_need_their_files),
		cmocka_unit_test(mistakes_name_the_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
