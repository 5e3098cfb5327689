/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/manifest.h"

#include "tools/link/prng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct manifest_entry example = {
	.flags = STRAIT_MANIFEST_DIGEST,
	.tenant = (const uint8_t *)"acme",
	.tenant_len = 4,
	.key = (const uint8_t *)"k\0\xff",
	.key_len = 3,
	.length = 0x10002,
	.digest = 0x6C40DF5F0B497347,
};

static void record_has_the_documented_layout(void **state)
{
	static const uint8_t want[] = { 1, 4, 0, 3, 0, 0, 0, 0, 0, 1, 0, 2, 0x6c, 0x40, 0xdf, 0x5f,
		0x0b, 0x49, 0x73, 0x47, 'a', 'c', 'm', 'e', 'k', 0, 0xff };
	uint8_t buf[64];

	(void)state;
	assert_int_equal(manifest_entry_size(&example), sizeof(want));
	assert_int_equal(manifest_entry_encode(&example, buf, sizeof(buf)), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
	assert_int_equal(manifest_entry_encode(&example, buf, sizeof(want) - 1), -ENOSPC);
	assert_int_equal(manifest_entry_encode(&example, buf, sizeof(want)), sizeof(want));
}

static void bounds_hold_in_both_directions(void **state)
{
	static uint8_t bytes[STRAIT_KEY_BYTES_MAX + 1], buf[2048];
	const uint8_t *p;
	struct manifest_entry e = example, got;

	(void)state;
	e.tenant = e.key = bytes;
	e.tenant_len = STRAIT_TENANT_BYTES_MAX;
	e.key_len = STRAIT_KEY_BYTES_MAX;
	e.length = STRAIT_OBJECT_BYTES_MAX;
	assert_true(manifest_entry_encode(&e, buf, sizeof(buf)) > 0);
	p = buf;
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), 0);

	e.key_len = STRAIT_KEY_BYTES_MAX + 1;
	assert_int_equal(manifest_entry_encode(&e, buf, sizeof(buf)), -EINVAL);
	e.key_len = 0;
	assert_int_equal(manifest_entry_encode(&e, buf, sizeof(buf)), -EINVAL);
	e.key_len = 1;
	e.tenant_len = STRAIT_TENANT_BYTES_MAX + 1;
	assert_int_equal(manifest_entry_encode(&e, buf, sizeof(buf)), -EINVAL);
	e.tenant_len = 0;
	e.length = 0;
	assert_int_equal(manifest_entry_encode(&e, buf, sizeof(buf)), -EINVAL);
	e.length = STRAIT_OBJECT_BYTES_MAX + 1ULL;
	assert_int_equal(manifest_entry_encode(&e, buf, sizeof(buf)), -EINVAL);

	e.length = 1;
	assert_int_equal(manifest_entry_encode(&e, buf, sizeof(buf)), 21);
	p = buf;
	buf[1] = STRAIT_TENANT_BYTES_MAX + 1; /* tenant */
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), -EPROTO);
	buf[1] = 0;
	buf[3] = 0; /* key */
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), -EPROTO);
	buf[2] = STRAIT_KEY_BYTES_MAX >> 8;
	buf[3] = 1;
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), -EPROTO);
	buf[2] = 0;
	buf[4] = 1; /* length */
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), -EPROTO);
	buf[4] = 0;
	buf[11] = 0;
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), -EPROTO);
	assert_ptr_equal(p, buf);
	buf[11] = 1;
	assert_int_equal(manifest_entry_decode(&p, buf + sizeof(buf), &got), 0);
	assert_ptr_equal(p, buf + 21);
}

enum { RECORDS = 50 };

static size_t make(struct prng *r, uint8_t *buf, size_t cap, uint64_t *sum)
{
	static uint8_t bytes[STRAIT_KEY_BYTES_MAX];
	size_t len = 0;

	*sum = 0;
	for (int i = 0; i < RECORDS; i++) {
		struct manifest_entry e = {
			.flags = (uint8_t)prng_next(r),
			.tenant = bytes,
			.tenant_len = (uint8_t)prng_below(r, STRAIT_TENANT_BYTES_MAX + 1),
			.key = bytes,
			.key_len = (uint16_t)(1 + prng_below(r, STRAIT_KEY_BYTES_MAX)),
			.length = 1 + prng_below(r, STRAIT_OBJECT_BYTES_MAX),
			.digest = prng_next(r),
		};
		struct manifest_entry got;
		const uint8_t *p = buf + len;
		long n;

		for (size_t b = 0; b < sizeof(bytes); b++)
			bytes[b] = (uint8_t)prng_next(r);
		n = manifest_entry_encode(&e, buf + len, cap - len);
		assert_true(n > 0);
		len += (size_t)n;
		*sum += e.length;
		assert_int_equal(manifest_entry_decode(&p, buf + len, &got), 0);
		assert_ptr_equal(p, buf + len);
		assert_int_equal(got.flags, e.flags);
		assert_true(got.length == e.length && got.digest == e.digest);
		assert_int_equal(got.tenant_len, e.tenant_len);
		assert_int_equal(got.key_len, e.key_len);
		assert_memory_equal(got.tenant, bytes, e.tenant_len);
		assert_memory_equal(got.key, bytes, e.key_len);
	}
	return len;
}

static void whole_manifests_are_checked_exactly(void **state)
{
	static uint8_t buf[RECORDS * 1200];
	uint64_t sum;
	struct prng r;
	size_t len;

	(void)state;
	prng_init(&r, 1, 0);
	len = make(&r, buf, sizeof(buf), &sum);
	assert_int_equal(manifest_check(buf, len, RECORDS, sum), 0);
	assert_int_equal(manifest_check(buf, len, RECORDS - 1, sum), -EPROTO);
	assert_int_equal(manifest_check(buf, len, RECORDS + 1, sum), -EPROTO);
	assert_int_equal(manifest_check(buf, len, RECORDS, sum - 1), -EPROTO);
	assert_int_equal(manifest_check(buf, len, RECORDS, sum + 1), -EPROTO);
	assert_int_equal(manifest_check(buf, len + 1, RECORDS, sum), -EPROTO);
	for (size_t n = 0; n < len; n += 11) {
		uint8_t *exact = malloc(n + 1); /* so that a sanitizer sees an overrun */

		assert_non_null(exact);
		memcpy(exact, buf, n);
		assert_int_equal(manifest_check(exact, n, RECORDS, sum), -EPROTO);
		free(exact);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_has_the_documented_layout),
		cmocka_unit_test(bounds_hold_in_both_directions),
		cmocka_unit_test(whole_manifests_are_checked_exactly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
