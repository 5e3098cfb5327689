/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/digest.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void oracle(const uint8_t key[16], const uint8_t *p, size_t len, uint8_t out[16])
{
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
	EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);
	unsigned int size = 16;
	OSSL_PARAM params[] = { OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_SIZE, &size),
		OSSL_PARAM_construct_end() };
	size_t n = 0;

	assert_int_equal(EVP_MAC_init(ctx, key, 16, params), 1);
	assert_int_equal(EVP_MAC_update(ctx, p, len), 1);
	assert_int_equal(EVP_MAC_final(ctx, out, &n, 16), 1);
	assert_int_equal(n, 16);
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(mac);
}

static void digest_agrees_with_openssl_at_every_length(void **state)
{
	struct digest_key k;
	uint8_t text[300], want[16];

	(void)state;
	for (int i = 0; i < 16; i++)
		k.bytes[i] = (uint8_t)(i * 7 + 1);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 31 + 5);
	for (size_t len = 0; len <= sizeof(text); len++) {
		struct digest128 d = digest_of_key(&k, text, len);

		oracle(k.bytes, text, len, want);
		assert_memory_equal(&d.lo, want, 8);
		assert_memory_equal(&d.hi, want + 8, 8);
	}
}

static void digest_has_the_value_of_the_reference(void **state)
{
	/* vectors_sip128[15] of the reference implementation: key 00..0f, message 00..0e. */
	static const uint8_t want[16] = { 0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e,
		0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9 };
	struct digest_key k;
	uint8_t text[15];
	struct digest128 d;

	(void)state;
	for (uint8_t i = 0; i < 16; i++)
		k.bytes[i] = i;
	for (uint8_t i = 0; i < 15; i++)
		text[i] = i;
	d = digest_of_key(&k, text, sizeof(text));
	assert_memory_equal(&d.lo, want, 8);
	assert_memory_equal(&d.hi, want + 8, 8);
}

static void digest_depends_on_the_tenants_key(void **state)
{
	struct digest_key a = { { 1 } }, b = { { 2 } };

	(void)state;
	assert_false(digest_equal(digest_of_key(&a, "k", 1), digest_of_key(&b, "k", 1)));
}

/* Runs of one length, long enough for lanes or not, and others between them. */
static void keys_hashed_side_by_side_have_the_digests_of_each(void **state)
{
	enum { KEYS = 100, LEN_MAX = 70 };
	static uint8_t bytes[KEYS][LEN_MAX];
	struct digest_key k = { { 9, 8, 7 } };
	struct digest_text text[KEYS];
	struct digest128 got[KEYS];

	(void)state;
	for (int i = 0; i < KEYS * LEN_MAX; i++)
		bytes[i / LEN_MAX][i % LEN_MAX] = (uint8_t)(i * 131 + i / 7);
	for (size_t len = 0; len < LEN_MAX; len++) {
		for (size_t i = 0; i < KEYS; i++)
			text[i] = (struct digest_text){ bytes[i],
				i % 30 < 3 ? (len + i) % LEN_MAX : len };
		digest_of_keys(&k, text, KEYS, got);
		for (size_t i = 0; i < KEYS; i++)
			assert_true(
				digest_equal(got[i], digest_of_key(&k, text[i].data, text[i].len)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digest_agrees_with_openssl_at_every_length),
		cmocka_unit_test(digest_has_the_value_of_the_reference),
		cmocka_unit_test(keys_hashed_side_by_side_have_the_digests_of_each),
		cmocka_unit_test(digest_depends_on_the_tenants_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
