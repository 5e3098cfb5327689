/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/aead_cryptodev.h"

#include "dataplane/edge/eal.h"
#include "tools/link/prng.h"

#include <strait/wire.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { JOBS = 37 };

static const struct aead_ops *crypto;

static void fill(struct prng *r, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)prng_next(r);
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, test cases 14 and 16. */
static void published_vectors_hold(void **state)
{
	static const uint8_t zero[32],
		cipher14[16] = { 0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5,
			0xd3, 0xba, 0xf3, 0x9d, 0x18 };
	static const uint8_t tag14[16] = { 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0, 0x26,
		0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19 };
	static const uint8_t iv16[12] = { 0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde,
		0xca, 0xf8, 0x88 };
	static const uint8_t aad16[20] = { 0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe,
		0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2 };
	static const uint8_t tag16[16] = { 0x76, 0xfc, 0x6e, 0xce, 0x0f, 0x4e, 0x17, 0x68, 0xcd,
		0xdf, 0x88, 0x53, 0xbb, 0x2d, 0x55, 0x1b };
	static const uint8_t half[16] = { 0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d,
		0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08 };
	static const char plain16[] = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a31"
				      "8a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b3"
				      "9";
	uint8_t key[32], plain[60], out[60], back[60], tag[16];
	struct aead a;

	(void)state;
	assert_int_equal(aead_init(&a, crypto, zero), 0);
	aead_seal(&a, zero, NULL, 0, zero, 16, out, tag);
	assert_memory_equal(out, cipher14, 16);
	assert_memory_equal(tag, tag14, 16);
	aead_fini(&a);

	memcpy(key, half, 16);
	memcpy(key + 16, half, 16);
	for (int i = 0; i < 60; i++) {
		unsigned int v;

		assert_int_equal(sscanf(plain16 + 2 * i, "%2x", &v), 1);
		plain[i] = (uint8_t)v;
	}
	assert_int_equal(aead_init(&a, crypto, key), 0);
	aead_seal(&a, iv16, aad16, 20, plain, 60, out, tag);
	assert_memory_equal(tag, tag16, 16);
	assert_int_equal(aead_open(&a, iv16, aad16, 20, out, 60, tag, back), 0);
	assert_memory_equal(back, plain, 60);
	aead_fini(&a);
}

static void all_backends_agree(void **state)
{
	const struct aead_ops *const ops[3] = { crypto, &aead_ipsec_mb, &aead_openssl };
	static uint8_t plain[STRAIT_SYMBOL_BYTES_MAX], out[3][STRAIT_SYMBOL_BYTES_MAX],
		back[STRAIT_SYMBOL_BYTES_MAX];
	uint8_t key[32], iv[12], aad[STRAIT_HEADER_BYTES], tag[3][16];
	struct prng r;

	(void)state;
	prng_init(&r, 1, 0);
	for (int round = 0; round < 100; round++) {
		size_t len = round < 40 ? (size_t)round + 1
					: 1 + prng_below(&r, STRAIT_SYMBOL_BYTES_MAX);
		struct aead a[3];

		fill(&r, key, sizeof(key));
		fill(&r, iv, sizeof(iv));
		fill(&r, aad, sizeof(aad));
		fill(&r, plain, len);
		for (int b = 0; b < 3; b++) {
			assert_int_equal(aead_init(&a[b], ops[b], key), 0);
			aead_seal(&a[b], iv, aad, sizeof(aad), plain, len, out[b], tag[b]);
			assert_memory_equal(out[b], out[0], len);
			assert_memory_equal(tag[b], tag[0], 16);
		}
		for (int b = 0; b < 3; b++) {
			assert_int_equal(aead_open(&a[b], iv, aad, sizeof(aad), out[(b + 1) % 3],
						 len, tag[(b + 1) % 3], back),
				0);
			assert_memory_equal(back, plain, len);
			tag[b][round % 16] ^= 1;
			memset(back, 0xee, len);
			assert_int_equal(aead_open(&a[b], iv, aad, sizeof(aad), out[b], len, tag[b],
						 back),
				-EBADMSG);
			tag[b][round % 16] ^= 1;
			aead_fini(&a[b]);
		}
	}
}

static void many_are_sealed_as_one_by_one(void **state)
{
	static uint8_t plain[JOBS][1432], out[JOBS][1432], tag[JOBS][16], aad[JOBS][24];
	struct aead_job jobs[JOBS];
	uint8_t key[32], want[1432], want_tag[16];
	struct aead a, b;
	struct prng r;

	(void)state;
	prng_init(&r, 2, 0);
	fill(&r, key, sizeof(key));
	assert_int_equal(aead_init(&a, crypto, key), 0);
	assert_int_equal(aead_init(&b, &aead_openssl, key), 0);
	for (uint32_t i = 0; i < JOBS; i++) {
		fill(&r, plain[i], sizeof(plain[i]));
		fill(&r, aad[i], sizeof(aad[i]));
		fill(&r, jobs[i].iv, sizeof(jobs[i].iv));
		jobs[i].len = 1432 - i;
		jobs[i].aad = aad[i];
		jobs[i].src = plain[i];
		jobs[i].dst = out[i];
		jobs[i].tag = tag[i];
	}
	crypto->seal_many(&a, jobs, JOBS, 24);
	for (uint32_t i = 0; i < JOBS; i++) {
		aead_seal(&b, jobs[i].iv, aad[i], 24, plain[i], jobs[i].len, want, want_tag);
		assert_memory_equal(out[i], want, jobs[i].len);
		assert_memory_equal(tag[i], want_tag, 16);
	}
	aead_fini(&a);
	aead_fini(&b);
}

static void what_is_too_large_is_refused(void **state)
{
	static uint8_t big[STRAIT_SYMBOL_BYTES_MAX + 1];
	uint8_t key[32] = { 1 }, iv[12] = { 2 }, tag[16];
	struct aead a;

	(void)state;
	assert_int_equal(aead_init(&a, crypto, key), 0);
	memset(big, 7, sizeof(big));
	aead_seal(&a, iv, NULL, 0, big, sizeof(big), big, tag);
	for (size_t i = 0; i < sizeof(big); i++)
		assert_int_equal(big[i], 0); /* nothing of it leaves */
	assert_int_equal(aead_open(&a, iv, NULL, 0, big, sizeof(big), tag, big), -EBADMSG);
	aead_fini(&a);
}

static void unknown_devices_are_named(void **state)
{
	char err[256] = "";

	(void)state;
	assert_null(aead_cryptodev_start("0000:ff:1f.7", err, sizeof(err)));
	assert_non_null(strstr(err, "0000:ff:1f.7"));
}

static int device_setup(const char *name)
{
	char err[256] = "";

	crypto = aead_cryptodev_start(name, err, sizeof(err));
	if (crypto == NULL)
		fprintf(stderr, "%s\n", err);
	return crypto != NULL ? 0 : -1;
}

static int setup_gcm(void **state)
{
	(void)state;
	return device_setup("crypto_aesni_gcm");
}

static int setup_openssl(void **state)
{
	(void)state;
	return device_setup("crypto_openssl");
}

static int teardown(void **state)
{
	(void)state;
	aead_cryptodev_stop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors_hold),
		cmocka_unit_test(all_backends_agree),
		cmocka_unit_test(many_are_sealed_as_one_by_one),
		cmocka_unit_test(what_is_too_large_is_refused),
	};
	const struct CMUnitTest without[] = { cmocka_unit_test(unknown_devices_are_named) };
	const struct eal_config cfg = { .memory_mb = 128 };
	char err[256];
	int failed;

	if (eal_start(&cfg, err, sizeof(err)) < 0) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	failed = cmocka_run_group_tests_name("crypto_aesni_gcm", tests, setup_gcm, teardown);
	failed += cmocka_run_group_tests_name("crypto_openssl", tests, setup_openssl, teardown);
	failed += cmocka_run_group_tests_name("no device", without, NULL, NULL);
	eal_stop();
	return failed;
}
