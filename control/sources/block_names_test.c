/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/block_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *template, const struct kv_hash *h, uint32_t group, const char *want)
{
	char key[KV_KEY_MAX];

	assert_int_equal(block_name(template, h, group, key), strlen(want));
	assert_memory_equal(key, want, strlen(want));
}

static void keys_are_those_that_connectors_write(void **state)
{
	static const uint8_t bytes[] = { 0x00, 0x1f, 0xa0, 0xff };
	struct kv_hash digest = { 0, bytes, sizeof(bytes) }, low = { 0xdeadbeef, NULL, 0 };
	struct kv_hash negative = { (uint64_t)INT64_C(-2), NULL, 0 };

	(void)state;
	check("{hash}", &low, 0, "00000000deadbeef");
	check("{hash}_0_k", &negative, 0, "fffffffffffffffe_0_k");
	check("m@tp_rank:1@pcp0@dcp0@pp_rank:0@group:{group}@{hash}", &digest, 12,
		"m@tp_rank:1@pcp0@dcp0@pp_rank:0@group:12@001fa0ff");
	check("{hash}{hash}", &digest, UINT32_MAX, "001fa0ff001fa0ff");
	check("{group}{hash}", &low, UINT32_MAX, "429496729500000000deadbeef");
}

static void templates_without_a_hash_or_too_long_are_refused(void **state)
{
	struct kv_hash low = { 1, NULL, 0 };
	char wide[KV_KEY_MAX + 8], key[KV_KEY_MAX];

	(void)state;
	assert_true(block_name_is_valid("{hash}"));
	assert_true(block_name_is_valid("a@{group}@{hash}@b"));
	assert_false(block_name_is_valid(""));
	assert_false(block_name_is_valid("key"));
	assert_false(block_name_is_valid("{group}"));
	assert_false(block_name_is_valid("{hash}{rank}"));
	assert_false(block_name_is_valid("{hash"));
	memset(wide, 'x', sizeof(wide));
	strcpy(wide + KV_KEY_MAX - 2 * KV_HASH_MAX, "{hash}");
	assert_true(block_name_is_valid(wide));
	memset(wide, 'x', sizeof(wide));
	strcpy(wide + KV_KEY_MAX - 2 * KV_HASH_MAX + 1, "{hash}");
	assert_false(block_name_is_valid(wide));
	memset(wide, 'x', sizeof(wide));
	strcpy(wide + KV_KEY_MAX - 15, "{hash}");
	assert_int_equal(block_name(wide, &low, 0, key), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_those_that_connectors_write),
		cmocka_unit_test(templates_without_a_hash_or_too_long_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
