/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/aead.h"

#include "tools/link/prng.h"

#include <strait/wire.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES_MAX = 9000 };

static const struct aead_ops *const backends[] = { &aead_ipsec_mb, &aead_openssl };

static size_t hex(const char *s, uint8_t *out)
{
	size_t n = strlen(s) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned v;

		assert_int_equal(sscanf(s + 2 * i, "%2x", &v), 1);
		out[i] = (uint8_t)v;
	}
	return n;
}

static void fill(struct prng *r, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)prng_next(r);
}

/*
 * McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, test cases 13, 14 and 16.
 */
static const struct vector {
	const char *key, *iv, *aad, *plain, *cipher, *tag;
} vectors[] = {
	{ "0000000000000000000000000000000000000000000000000000000000000000",
		"000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b" },
	{ "0000000000000000000000000000000000000000000000000000000000000000",
		"000000000000000000000000", "", "00000000000000000000000000000000",
		"cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919" },
	{ "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
		"cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
		"d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
		"1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
		"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
		"8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
		"76fc6ece0f4e1768cddf8853bb2d551b" },
};

static void published_vectors_hold(void **state)
{
	uint8_t key[32], iv[12], aad[32], plain[64], cipher[64], tag[16], out[64], got[16];

	(void)state;
	for (size_t b = 0; b < 2; b++) {
		for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
			const struct vector *v = &vectors[i];
			size_t aad_len = hex(v->aad, aad), len = hex(v->plain, plain);
			struct aead a;

			hex(v->key, key);
			hex(v->iv, iv);
			hex(v->cipher, cipher);
			hex(v->tag, tag);
			assert_int_equal(aead_init(&a, backends[b], key), 0);
			aead_seal(&a, iv, aad, aad_len, plain, len, out, got);
			assert_memory_equal(out, cipher, len);
			assert_memory_equal(got, tag, 16);
			assert_int_equal(aead_open(&a, iv, aad, aad_len, cipher, len, tag, out), 0);
			assert_memory_equal(out, plain, len);
			aead_fini(&a);
		}
	}
}

static void backends_agree_on_random_packets(void **state)
{
	static uint8_t plain[BYTES_MAX], out[2][BYTES_MAX], back[BYTES_MAX];
	uint8_t key[32], iv[12], aad[STRAIT_HEADER_BYTES], tag[2][16];
	struct prng r;

	(void)state;
	prng_init(&r, 1, 0);
	for (int round = 0; round < 300; round++) {
		size_t len = round < 80 ? (size_t)round : prng_below(&r, BYTES_MAX + 1);
		struct aead a[2];

		fill(&r, key, sizeof(key));
		fill(&r, iv, sizeof(iv));
		fill(&r, aad, sizeof(aad));
		fill(&r, plain, len);
		for (int b = 0; b < 2; b++) {
			assert_int_equal(aead_init(&a[b], backends[b], key), 0);
			aead_seal(&a[b], iv, aad, sizeof(aad), plain, len, out[b], tag[b]);
		}
		assert_memory_equal(out[0], out[1], len);
		assert_memory_equal(tag[0], tag[1], 16);
		for (int b = 0; b < 2; b++) {
			assert_int_equal(aead_open(&a[b], iv, aad, sizeof(aad), out[1 - b], len,
						 tag[1 - b], back),
				0);
			assert_memory_equal(back, plain, len);
			aead_fini(&a[b]);
		}
	}
}

static void any_flipped_bit_is_refused(void **state)
{
	uint8_t key[32], iv[12], aad[STRAIT_HEADER_BYTES], plain[100], out[100], tag[16], back[100];
	struct prng r;

	(void)state;
	prng_init(&r, 2, 0);
	fill(&r, key, sizeof(key));
	fill(&r, iv, sizeof(iv));
	fill(&r, aad, sizeof(aad));
	fill(&r, plain, sizeof(plain));
	for (size_t b = 0; b < 2; b++) {
		struct {
			uint8_t *p;
			size_t n;
		} parts[] = { { iv, 12 }, { aad, sizeof(aad) }, { out, sizeof(out) }, { tag, 16 } };
		struct aead a;

		assert_int_equal(aead_init(&a, backends[b], key), 0);
		aead_seal(&a, iv, aad, sizeof(aad), plain, sizeof(plain), out, tag);
		for (size_t i = 0; i < 4; i++) {
			for (size_t bit = 0; bit < 8 * parts[i].n; bit++) {
				parts[i].p[bit / 8] ^= (uint8_t)(1 << bit % 8);
				assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), out,
							 sizeof(out), tag, back),
					-EBADMSG);
				parts[i].p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			}
		}
		assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), out, sizeof(out), tag, back),
			0);
		/* A shorter ciphertext under the same tag. */
		assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), out, sizeof(out) - 1, tag,
					 back),
			-EBADMSG);
		aead_fini(&a);
	}
}

static void seal_and_open_work_in_place(void **state)
{
	uint8_t key[32] = { 1 }, iv[12] = { 2 }, plain[333], buf[333], out[333], tag[16];
	struct prng r;

	(void)state;
	prng_init(&r, 3, 0);
	fill(&r, plain, sizeof(plain));
	for (size_t b = 0; b < 2; b++) {
		struct aead a;

		assert_int_equal(aead_init(&a, backends[b], key), 0);
		aead_seal(&a, iv, NULL, 0, plain, sizeof(plain), out, tag);
		memcpy(buf, plain, sizeof(buf));
		aead_seal(&a, iv, NULL, 0, buf, sizeof(buf), buf, tag);
		assert_memory_equal(buf, out, sizeof(buf));
		assert_int_equal(aead_open(&a, iv, NULL, 0, buf, sizeof(buf), tag, buf), 0);
		assert_memory_equal(buf, plain, sizeof(buf));
		aead_fini(&a);
	}
}

static void fini_wipes_the_key_and_may_repeat(void **state)
{
	static const struct aead zero;
	uint8_t key[32];
	struct aead a = { 0 };

	(void)state;
	aead_fini(&a); /* never initialized */
	memset(key, 0x5a, sizeof(key));
	for (size_t b = 0; b < 2; b++) {
		assert_int_equal(aead_init(&a, backends[b], key), 0);
		aead_fini(&a);
		assert_null(a.ops);
		assert_memory_equal(a.state, zero.state, sizeof(a.state));
		aead_fini(&a);
	}
}

static void default_backend_is_decided_once(void **state)
{
	(void)state;
	assert_non_null(aead_default());
	assert_ptr_equal(aead_default(), aead_default());
	assert_ptr_equal(aead_by_name("ipsec-mb"), &aead_ipsec_mb);
	assert_ptr_equal(aead_by_name("openssl"), &aead_openssl);
	assert_null(aead_by_name("rot13"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors_hold),
		cmocka_unit_test(backends_agree_on_random_packets),
		cmocka_unit_test(any_flipped_bit_is_refused),
		cmocka_unit_test(seal_and_open_work_in_place),
		cmocka_unit_test(fini_wipes_the_key_and_may_repeat),
		cmocka_unit_test(default_backend_is_decided_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
