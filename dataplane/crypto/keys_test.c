/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/keys.h"

#include "tools/link/prng.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t secret[STRAIT_SECRET_BYTES] = { 1, 2, 3, 4, 5 };

/* The same function out of OpenSSL's TLS stack. */
static void oracle(const uint8_t *key, const char *label, const uint8_t *context,
	size_t context_len, uint8_t *out, size_t out_len)
{
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS13-KDF", NULL);
	EVP_KDF_CTX *c = EVP_KDF_CTX_new(kdf);
	OSSL_PARAM params[] = {
		OSSL_PARAM_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, "SHA384", 0),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, STRAIT_SECRET_BYTES),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_PREFIX, "tls13 ", 6),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_LABEL, (void *)label, strlen(label)),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_DATA, (void *)context, context_len),
		OSSL_PARAM_END,
	};

	assert_non_null(c);
	assert_int_equal(EVP_KDF_derive(c, out, out_len, params), 1);
	EVP_KDF_CTX_free(c);
	EVP_KDF_free(kdf);
}

static void expand_label_agrees_with_the_tls_library(void **state)
{
	static const char *const labels[] = { "strait chain", "strait ku", "key", "iv", "x" };
	uint8_t key[STRAIT_SECRET_BYTES], context[255], out[300], want[300];
	struct prng r;

	(void)state;
	prng_init(&r, 1, 0);
	for (int round = 0; round < 200; round++) {
		size_t context_len = prng_below(&r, 200), out_len = 1 + prng_below(&r, 300);
		const char *label = labels[prng_below(&r, 5)];

		for (size_t i = 0; i < sizeof(key); i++)
			key[i] = (uint8_t)prng_next(&r);
		for (size_t i = 0; i < context_len; i++)
			context[i] = (uint8_t)prng_next(&r);
		assert_int_equal(key_expand_label(key, label, context, context_len, out, out_len),
			0);
		oracle(key, label, context, context_len, want, out_len);
		assert_memory_equal(out, want, out_len);
	}
}

static void expand_label_refuses_what_does_not_fit(void **state)
{
	static uint8_t out[255 * 48 + 1], context[256];
	char label[251];

	(void)state;
	memset(label, 'l', sizeof(label));
	label[250] = 0;
	assert_int_equal(key_expand_label(secret, label, NULL, 0, out, 48), -EINVAL);
	label[249] = 0;
	assert_int_equal(key_expand_label(secret, label, context, 255, out, 255 * 48), 0);
	assert_int_equal(key_expand_label(secret, label, context, 256, out, 48), -EINVAL);
	assert_int_equal(key_expand_label(secret, label, NULL, 0, out, sizeof(out)), -EINVAL);
}

/* A packet number of the generation; 1 when rx opens what tx seals, 0 when rx holds no key. */
static int can_talk(struct key_tx *tx, struct key_rx *rx)
{
	uint64_t pn = tx->slot.generation << STRAIT_GENERATION_SHIFT | 7;
	uint8_t nonce[12], sealed[20], tag[16], opened[20];
	struct key_slot *slot = key_rx_find(rx, tx->slot.generation);

	if (slot == NULL)
		return 0;
	key_nonce(tx->slot.iv, pn, nonce);
	aead_seal(&tx->slot.aead, nonce, (const uint8_t *)"h", 1, (const uint8_t *)"hello", 5,
		sealed, tag);
	key_nonce(slot->iv, pn, nonce);
	return aead_open(&slot->aead, nonce, (const uint8_t *)"h", 1, sealed, 5, tag, opened) == 0
		? 1
		: -1;
}

static void receiver_follows_the_sender_through_generations(void **state)
{
	struct key_tx tx;
	struct key_rx rx;

	(void)state;
	assert_int_equal(key_tx_init(&tx, aead_default(), secret, 0, 3), 0);
	assert_int_equal(key_rx_init(&rx, aead_default(), secret, 0, 3), 0);
	for (uint64_t g = 0; g < 10; g++) {
		assert_int_equal(tx.slot.generation, g);
		assert_int_equal(can_talk(&tx, &rx), 1);
		assert_int_equal(key_rx_used(&rx, g), 0);
		assert_int_equal(rx.generation, g);
		/* Exactly g-1, g, g+1 are held. */
		for (uint64_t h = 0; h < 14; h++)
			assert_int_equal(key_rx_find(&rx, h) != NULL, h + 1 >= g && h <= g + 1);
		assert_int_equal(key_tx_advance(&tx), 0);
	}
	key_tx_fini(&tx);
	key_rx_fini(&rx);
}

static void late_packets_do_not_move_the_window(void **state)
{
	struct key_rx rx;

	(void)state;
	assert_int_equal(key_rx_init(&rx, &aead_openssl, secret, 1, 0), 0);
	assert_int_equal(key_rx_used(&rx, 1), 0);
	assert_int_equal(key_rx_used(&rx, 2), 0);
	assert_int_equal(key_rx_used(&rx, 1), 0);
	assert_int_equal(rx.generation, 2);
	assert_null(key_rx_find(&rx, 0));
	assert_non_null(key_rx_find(&rx, 3));
	key_rx_fini(&rx);
}

static void directions_and_queues_have_unrelated_keys(void **state)
{
	struct key_tx tx;
	struct key_rx rx;

	(void)state;
	assert_int_equal(key_tx_init(&tx, aead_default(), secret, 0, 1), 0);
	assert_int_equal(key_rx_init(&rx, aead_default(), secret, 1, 1), 0);
	assert_int_equal(can_talk(&tx, &rx), -1);
	key_rx_fini(&rx);
	assert_int_equal(key_rx_init(&rx, aead_default(), secret, 0, 2), 0);
	assert_int_equal(can_talk(&tx, &rx), -1);
	key_rx_fini(&rx);
	key_tx_fini(&tx);
}

static int refuse_init(struct aead *a, const uint8_t *key)
{
	(void)a;
	(void)key;
	return -ENOMEM;
}

static void a_backend_that_fails_leaves_nothing_behind(void **state)
{
	static const struct aead_ops refusing = { .name = "refusing", .init = refuse_init };
	static const struct key_tx zero_tx;
	static const struct key_rx zero_rx;
	struct key_tx tx;
	struct key_rx rx;

	(void)state;
	assert_int_equal(key_tx_init(&tx, &refusing, secret, 0, 0), -ENOMEM);
	assert_memory_equal(tx.chain.secret, zero_tx.chain.secret, sizeof(tx.chain.secret));
	assert_int_equal(key_rx_init(&rx, &refusing, secret, 0, 0), -ENOMEM);
	assert_memory_equal(rx.chain.secret, zero_rx.chain.secret, sizeof(rx.chain.secret));
	assert_null(key_rx_find(&rx, 0));
	key_tx_fini(&tx);
	key_rx_fini(&rx);
}

static void nonce_is_iv_xor_packet_number(void **state)
{
	static const uint8_t iv[12] = { 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
		0x1a, 0x1b };
	static const uint8_t want[12] = { 0x10, 0x11, 0x12, 0x13, 0x15, 0x17, 0x15, 0x13, 0x1d,
		0x1f, 0x1d, 0x13 };
	uint8_t nonce[12];

	(void)state;
	key_nonce(iv, 0, nonce);
	assert_memory_equal(nonce, iv, 12);
	key_nonce(iv, 0x0102030405060708, nonce);
	assert_memory_equal(nonce, want, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expand_label_agrees_with_the_tls_library),
		cmocka_unit_test(expand_label_refuses_what_does_not_fit),
		cmocka_unit_test(receiver_follows_the_sender_through_generations),
		cmocka_unit_test(late_packets_do_not_move_the_window),
		cmocka_unit_test(directions_and_queues_have_unrelated_keys),
		cmocka_unit_test(a_backend_that_fails_leaves_nothing_behind),
		cmocka_unit_test(nonce_is_iv_xor_packet_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
