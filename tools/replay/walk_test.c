/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/walk.h"

#include "tools/replay/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEYS_MAX = 512 };

static char keys[KEYS_MAX][REPLAY_KEY_SIZE];
static int count;
static char err[512];
static struct replay_walk_totals totals;

static int collect(void *ctx, const struct replay_object *object)
{
	int stop_at = *(int *)ctx;

	assert_true(count < KEYS_MAX);
	assert_int_equal(strlen(object->key), object->key_len);
	strcpy(keys[count], object->key);
	count++;
	return count == stop_at ? 42 : 0;
}

/* A request of 1040 tokens and one that shares its first 512. */
static int walk(struct replay_options o, int stop_at)
{
	static const char text[] =
		"{\"timestamp\": 0, \"input_length\": 1047, \"output_length\": 1, \"hash_ids\": "
		"[0, 1, 2]}\n"
		"{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": "
		"[0, 3]}\n";
	char path[] = "/tmp/strait-walk-XXXXXX";
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), (int)sizeof(text) - 1);
	close(fd);
	o.trace = path;
	count = 0;
	ret = replay_walk(&o, collect, &stop_at, &totals, err, sizeof(err));
	unlink(path);
	return ret;
}

static struct replay_options defaults(void)
{
	return (struct replay_options){ .requests = 100,
		.model = "m/8B",
		.block_tokens = 16,
		.tp = 1,
		.bytes_per_block = 1000,
		.objects = UINT64_MAX,
		.bytes = UINT64_MAX,
		.blocks_per_request = UINT64_MAX };
}

static void whole_blocks_become_objects_and_shared_ones_only_once(void **state)
{
	(void)state;
	assert_int_equal(walk(defaults(), 0), 0);
	/* 1047 / 16 and 600 / 16 blocks, of which the first 32 are shared. */
	assert_int_equal(totals.requests, 2);
	assert_int_equal(totals.blocks, 65 + 37);
	assert_int_equal(totals.reused_blocks, 32);
	assert_int_equal(totals.objects, 65 + 5);
	assert_int_equal(totals.bytes, 70000);
	for (int i = 0; i < count; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(keys[i], keys[j]);
}

static void keys_have_the_form_of_the_connector(void **state)
{
	struct replay_options o = defaults();
	char want[REPLAY_KEY_SIZE], *hash;

	(void)state;
	o.tp = 2;
	assert_int_equal(walk(o, 0), 0);
	assert_int_equal(totals.objects, 140);
	for (int i = 0; i < count; i++) {
		snprintf(want, sizeof(want), "m/8B@tp_rank:%d@pcp0@dcp0@pp_rank:0@group:0@", i % 2);
		assert_memory_equal(keys[i], want, strlen(want));
		hash = keys[i] + strlen(want);
		assert_int_equal(strlen(hash), 64);
		assert_int_equal(strspn(hash, "0123456789abcdef"), 64);
		if (i % 2)
			assert_string_equal(hash, keys[i - 1] + strlen(want));
	}
	/* SHA-256 of 44 zero bytes: the first position of the trace's block 0 after no prefix. */
	assert_string_equal(strrchr(keys[0], '@') + 1,
		"85759b3811ff7dc47b03792ac85317be51431a3f9e01dcafce317ed736a391b0");
}

static void limits_stop_before_a_block_that_would_pass_them(void **state)
{
	struct replay_options o = defaults();

	(void)state;
	o.tp = 4;
	o.objects = 11;
	assert_int_equal(walk(o, 0), 0);
	assert_int_equal(totals.objects, 8);
	assert_int_equal(totals.requests, 1);
	o.objects = UINT64_MAX;
	o.bytes = 2999;
	assert_int_equal(walk(o, 0), 0);
	assert_int_equal(totals.objects, 8);
	assert_int_equal(totals.bytes, 2000);
	o.bytes = 999;
	assert_int_equal(walk(o, 0), 0);
	assert_int_equal(totals.objects, 0);
	assert_int_equal(totals.requests, 0);
}

static void only_the_first_blocks_of_each_request_if_so_told(void **state)
{
	struct replay_options o = defaults();

	(void)state;
	o.blocks_per_request = 34;
	assert_int_equal(walk(o, 0), 0);
	assert_int_equal(totals.requests, 2);
	assert_int_equal(totals.blocks, 2 * 34);
	assert_int_equal(totals.reused_blocks, 32);
	assert_int_equal(totals.objects, 34 + 2);
	/* The limit is reached when the second request begins to differ. */
	o.objects = 34;
	assert_int_equal(walk(o, 0), 0);
	assert_int_equal(totals.objects, 34);
}

static void a_callback_can_end_the_walk(void **state)
{
	(void)state;
	assert_int_equal(walk(defaults(), 7), 42);
	assert_int_equal(count, 7);
}

static void values_follow_from_key_and_length(void **state)
{
	uint8_t a[1003], b[1003], c[1003];

	(void)state;
	for (size_t len = 1; len <= sizeof(a); len += 167) {
		assert_int_equal(replay_value_fill("k1", 2, a, len), 0);
		assert_int_equal(replay_value_fill("k1", 2, b, len), 0);
		assert_int_equal(replay_value_fill("k2", 2, c, len), 0);
		assert_memory_equal(a, b, len);
		assert_true(len < 8 || memcmp(a, c, len) != 0);
	}
	assert_int_equal(replay_value_fill("k1", 2, b, sizeof(b) - 1), 0);
	assert_memory_not_equal(a, b, 64);
}

static void hashes_are_sha256(void **state)
{
	char hex[2 * REPLAY_HASH_BYTES + 1];
	uint8_t hash[REPLAY_HASH_BYTES];

	(void)state;
	/* FIPS 180-4 example. */
	assert_int_equal(replay_value_hash("abc", 3, hash), 0);
	replay_hex(hash, sizeof(hash), hex);
	assert_string_equal(hex,
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_blocks_become_objects_and_shared_ones_only_once),
		cmocka_unit_test(keys_have_the_form_of_the_connector),
		cmocka_unit_test(limits_stop_before_a_block_that_would_pass_them),
		cmocka_unit_test(only_the_first_blocks_of_each_request_if_so_told),
		cmocka_unit_test(a_callback_can_end_the_walk),
		cmocka_unit_test(values_follow_from_key_and_length),
		cmocka_unit_test(hashes_are_sha256),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
