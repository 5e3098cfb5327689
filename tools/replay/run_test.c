/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/run.h"

#include "dataplane/pool/shm_testing.h"
#include "tools/replay/manifest.h"

#include <strait/strait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static struct testing_dir dir;
static char manifest[128];
static char err[1024];
static struct replay_options o;
static struct replay_put_result put;
static struct replay_verify_result verify;

static int setup(void **state)
{
	(void)state;
	if (!testing_dir_create(&dir))
		return -1;
	snprintf(manifest, sizeof(manifest), "%s/manifest", dir.path);
	o = (struct replay_options){ .seed = 1,
		.requests = 100,
		.model = "m",
		.block_tokens = 16,
		.tp = 1,
		.bytes_per_block = 70001,
		.objects = 40,
		.bytes = UINT64_MAX,
		.blocks_per_request = UINT64_MAX,
		.pool = dir.file,
		.manifest = manifest,
		.create_bytes = 8 << 20 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(manifest);
	testing_dir_remove(&dir);
	return 0;
}

static void what_was_put_verifies(void **state)
{
	(void)state;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	assert_int_equal(put.objects, 40);
	assert_int_equal(put.bytes, 40 * 70001);
	assert_int_equal(put.existed, 0);
	assert_int_equal(replay_verify(&o, &verify, err, sizeof(err)), 0);
	assert_int_equal(verify.verified, 40);
	assert_int_equal(verify.bytes, 40 * 70001);
	assert_true(replay_verify_is_good(&o, &verify));
	/* Once more: everything is there and stays as it is. */
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	assert_int_equal(put.existed, 40);
}

/* Replaces the object of the manifest's first line. */
static void first_replace(size_t len, uint8_t change)
{
	struct replay_manifest_reader r;
	struct replay_manifest_entry e;
	struct strait_object object;
	struct strait_pool *pool;
	static uint8_t copy[80000];

	pool = strait_pool_open(dir.file, 0, 0);
	assert_non_null(pool);
	assert_int_equal(replay_manifest_open(&r, manifest), 0);
	assert_int_equal(replay_manifest_next(&r, &e, err, sizeof(err)), 1);
	assert_int_equal(strait_get(pool, e.key, e.key_len, 0, &object), 0);
	memcpy(copy, object.data, object.len);
	strait_release(pool, &object);
	assert_int_equal(strait_remove(pool, e.key, e.key_len), 0);
	copy[len / 2] ^= change;
	if (len > 0)
		assert_int_equal(strait_put(pool, e.key, e.key_len, copy, len), 0);
	replay_manifest_close(&r);
	strait_pool_close(pool);
}

static void one_wrong_bit_is_found(void **state)
{
	(void)state;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	first_replace(70001, 1);
	assert_int_equal(replay_verify(&o, &verify, err, sizeof(err)), 0);
	assert_int_equal(verify.differs, 1);
	assert_int_equal(verify.verified, 39);
	assert_false(replay_verify_is_good(&o, &verify));
	assert_non_null(strstr(verify.first, "other bytes"));
}

static void a_missing_byte_is_found(void **state)
{
	(void)state;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	first_replace(70000, 0);
	assert_int_equal(replay_verify(&o, &verify, err, sizeof(err)), 0);
	assert_int_equal(verify.differs, 1);
	assert_non_null(strstr(verify.first, "70000 bytes, not 70001"));
}

static void a_missing_object_is_found_unless_allowed(void **state)
{
	(void)state;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	first_replace(0, 0);
	assert_int_equal(replay_verify(&o, &verify, err, sizeof(err)), 0);
	assert_int_equal(verify.missing, 1);
	assert_false(replay_verify_is_good(&o, &verify));
	o.allow_missing = true;
	assert_true(replay_verify_is_good(&o, &verify));
}

static void a_full_pool_says_which_option_helps(void **state)
{
	(void)state;
	o.objects = 1000;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), -ENOSPC);
	assert_non_null(strstr(err, "--bytes"));
	assert_non_null(strstr(err, "--create"));
	assert_in_range(put.objects, 60, 120);
	o.allow_evict = true;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	assert_true(put.evictions > 0);
}

static void a_pool_that_is_not_there_is_told(void **state)
{
	(void)state;
	o.create_bytes = 0;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "--create"));
}

static void a_bad_manifest_line_is_told(void **state)
{
	static const char *const lines[] = { "", "zz", "12 13 k",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015aD 1 k",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad -1 k",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 1 ",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 1" };
	char where[160];
	FILE *f;

	(void)state;
	o.objects = 2;
	assert_int_equal(replay_put(&o, &put, err, sizeof(err)), 0);
	snprintf(where, sizeof(where), "%s:1: ", manifest);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		f = fopen(manifest, "w");
		assert_non_null(f);
		fprintf(f, "%s\n", lines[i]);
		fclose(f);
		assert_int_equal(replay_verify(&o, &verify, err, sizeof(err)), -EINVAL);
		assert_memory_equal(err, where, strlen(where));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_put_verifies),
		TEST(one_wrong_bit_is_found),
		TEST(a_missing_byte_is_found),
		TEST(a_missing_object_is_found_unless_allowed),
		TEST(a_full_pool_says_which_option_helps),
		TEST(a_pool_that_is_not_there_is_told),
		TEST(a_bad_manifest_line_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
