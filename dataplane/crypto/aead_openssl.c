/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/aead.h"

#include <strait/wire.h>

#include <openssl/evp.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* One context a direction: re-initializing one with another direction would need the key again. */
struct state {
	EVP_CIPHER_CTX *seal, *open;
};
static_assert(sizeof(struct state) <= AEAD_STATE_BYTES, "AEAD_STATE_BYTES is too small");

static void openssl_fini(struct aead *a)
{
	struct state *s = (struct state *)a->state;

	EVP_CIPHER_CTX_free(s->seal);
	EVP_CIPHER_CTX_free(s->open);
	s->seal = NULL;
	s->open = NULL;
}

static int openssl_init(struct aead *a, const uint8_t *key)
{
	struct state *s = (struct state *)a->state;

	s->seal = EVP_CIPHER_CTX_new();
	s->open = EVP_CIPHER_CTX_new();
	if (s->seal == NULL || s->open == NULL) {
		openssl_fini(a);
		return -ENOMEM;
	}
	if (EVP_EncryptInit_ex(s->seal, EVP_aes_256_gcm(), NULL, key, NULL) != 1 ||
		EVP_DecryptInit_ex(s->open, EVP_aes_256_gcm(), NULL, key, NULL) != 1) {
		openssl_fini(a);
		return -ENOTSUP;
	}
	return 0;
}

static void openssl_seal(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, uint8_t *dst, uint8_t *tag)
{
	struct state *s = (struct state *)a->state;
	int n;

	if (len <= INT_MAX && aad_len <= INT_MAX &&
		EVP_EncryptInit_ex(s->seal, NULL, NULL, NULL, iv) == 1 &&
		EVP_EncryptUpdate(s->seal, NULL, &n, aad, (int)aad_len) == 1 &&
		(len == 0 || EVP_EncryptUpdate(s->seal, dst, &n, src, (int)len) == 1) &&
		EVP_EncryptFinal_ex(s->seal, dst + len, &n) == 1 &&
		EVP_CIPHER_CTX_ctrl(s->seal, EVP_CTRL_GCM_GET_TAG, STRAIT_TAG_BYTES, tag) == 1)
		return;
	/* Out of memory inside the library: send a packet the peer refuses, never plaintext. */
	memset(dst, 0, len);
	memset(tag, 0, STRAIT_TAG_BYTES);
}

static int openssl_open(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, const uint8_t *tag, uint8_t *dst)
{
	struct state *s = (struct state *)a->state;
	uint8_t expected[STRAIT_TAG_BYTES];
	int n;

	memcpy(expected, tag, sizeof(expected));
	if (len <= INT_MAX && aad_len <= INT_MAX &&
		EVP_DecryptInit_ex(s->open, NULL, NULL, NULL, iv) == 1 &&
		EVP_DecryptUpdate(s->open, NULL, &n, aad, (int)aad_len) == 1 &&
		(len == 0 || EVP_DecryptUpdate(s->open, dst, &n, src, (int)len) == 1) &&
		EVP_CIPHER_CTX_ctrl(s->open, EVP_CTRL_GCM_SET_TAG, STRAIT_TAG_BYTES, expected) ==
			1 &&
		EVP_DecryptFinal_ex(s->open, dst + len, &n) == 1)
		return 0;
	return -EBADMSG;
}

const struct aead_ops aead_openssl = {
	.name = "openssl",
	.init = openssl_init,
	.fini = openssl_fini,
	.seal = openssl_seal,
	.open = openssl_open,
};
