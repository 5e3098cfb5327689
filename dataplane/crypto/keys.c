/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <errno.h>
#include <string.h>

#define LABEL_PREFIX "tls13 "

enum {
	PREFIX_BYTES = sizeof(LABEL_PREFIX) - 1,
	HASH_BYTES = 48, /* SHA-384 */
	/* HkdfLabel of RFC 8446 section 7.1: length 16, label and context with 8-bit lengths. */
	HKDF_LABEL_BYTES_MAX = 2 + 1 + 255 + 1 + 255,
};

int key_expand_label(const uint8_t secret[STRAIT_SECRET_BYTES], const char *label,
	const uint8_t *context, size_t context_len, uint8_t *out, size_t out_len)
{
	uint8_t input[HASH_BYTES + HKDF_LABEL_BYTES_MAX + 1];
	uint8_t *const info = input + HASH_BYTES;
	uint8_t t[HASH_BYTES];
	size_t label_len = strlen(label), info_len, done = 0;
	uint8_t *p = info;
	int r = 0;

	if (label_len > 255 - PREFIX_BYTES || context_len > 255 || out_len > 255 * HASH_BYTES)
		return -EINVAL;
	*p++ = (uint8_t)(out_len >> 8);
	*p++ = (uint8_t)out_len;
	*p++ = (uint8_t)(PREFIX_BYTES + label_len);
	memcpy(p, LABEL_PREFIX, PREFIX_BYTES);
	memcpy(p + PREFIX_BYTES, label, label_len);
	p += PREFIX_BYTES + label_len;
	*p++ = (uint8_t)context_len;
	if (context_len > 0)
		memcpy(p, context, context_len);
	info_len = (size_t)(p - info) + context_len;

	/* RFC 5869 section 2.3: T(i) = HMAC(secret, T(i-1) || info || i), T(0) empty. */
	for (uint8_t i = 1; done < out_len; i++) {
		const uint8_t *from = i == 1 ? info : input;
		size_t n = (size_t)(info + info_len + 1 - from);
		size_t take = out_len - done < HASH_BYTES ? out_len - done : HASH_BYTES;

		info[info_len] = i;
		if (HMAC(EVP_sha384(), secret, STRAIT_SECRET_BYTES, from, n, t, NULL) == NULL) {
			OPENSSL_cleanse(out, out_len);
			r = -EIO;
			break;
		}
		memcpy(out + done, t, take);
		memcpy(input, t, HASH_BYTES);
		done += take;
	}
	OPENSSL_cleanse(t, sizeof(t));
	OPENSSL_cleanse(input, sizeof(input));
	return r;
}

static int chain_init(struct key_chain *c, const uint8_t secret[STRAIT_SECRET_BYTES],
	uint8_t direction, uint8_t queue)
{
	const uint8_t context[2] = { direction, queue };

	c->generation = 0;
	return key_expand_label(secret, "strait chain", context, sizeof(context), c->secret,
		sizeof(c->secret));
}

static int chain_next(const struct key_chain *c, struct key_chain *next)
{
	next->generation = c->generation + 1;
	return key_expand_label(c->secret, "strait ku", NULL, 0, next->secret,
		sizeof(next->secret));
}

static void slot_fini(struct key_slot *s)
{
	aead_fini(&s->aead);
	OPENSSL_cleanse(s->iv, sizeof(s->iv));
	s->valid = false;
}

/* Fills a slot from the chain's present link; an old key in it is wiped. */
static int slot_init(struct key_slot *s, const struct aead_ops *ops, const struct key_chain *c)
{
	uint8_t key[STRAIT_KEY_BYTES];
	int r;

	slot_fini(s);
	r = key_expand_label(c->secret, "strait key", NULL, 0, key, sizeof(key));
	if (r == 0)
		r = key_expand_label(c->secret, "strait iv", NULL, 0, s->iv, sizeof(s->iv));
	if (r == 0)
		r = aead_init(&s->aead, ops, key);
	OPENSSL_cleanse(key, sizeof(key));
	if (r != 0) {
		s->aead.ops = NULL;
		return r;
	}
	s->generation = c->generation;
	s->valid = true;
	return 0;
}

int key_tx_init(struct key_tx *k, const struct aead_ops *ops,
	const uint8_t secret[STRAIT_SECRET_BYTES], uint8_t direction, uint8_t queue)
{
	int r;

	memset(k, 0, sizeof(*k));
	r = chain_init(&k->chain, secret, direction, queue);
	if (r == 0)
		r = slot_init(&k->slot, ops, &k->chain);
	if (r != 0)
		key_tx_fini(k);
	return r;
}

int key_tx_advance(struct key_tx *k)
{
	const struct aead_ops *ops = k->slot.aead.ops;
	struct key_chain next;
	int r;

	if (ops == NULL)
		return -EINVAL;
	r = chain_next(&k->chain, &next);
	if (r == 0)
		r = slot_init(&k->slot, ops, &next);
	if (r == 0)
		k->chain = next;
	OPENSSL_cleanse(&next, sizeof(next));
	return r;
}

int key_rx_init(struct key_rx *k, const struct aead_ops *ops,
	const uint8_t secret[STRAIT_SECRET_BYTES], uint8_t direction, uint8_t queue)
{
	struct key_chain next;
	int r;

	memset(k, 0, sizeof(*k));
	r = chain_init(&k->chain, secret, direction, queue);
	if (r == 0)
		r = slot_init(&k->slots[0], ops, &k->chain);
	if (r == 0)
		r = chain_next(&k->chain, &next);
	if (r == 0) {
		k->chain = next;
		OPENSSL_cleanse(&next, sizeof(next));
		r = slot_init(&k->slots[1], ops, &k->chain);
	}
	if (r != 0)
		key_rx_fini(k);
	return r;
}

int key_rx_advance(struct key_rx *k, uint64_t generation)
{
	const struct aead_ops *ops = k->slots[k->generation % 3].aead.ops;
	struct key_chain next;
	int r;

	r = chain_next(&k->chain, &next);
	if (r == 0)
		r = slot_init(&k->slots[next.generation % 3], ops, &next);
	if (r == 0) {
		k->chain = next;
		k->generation = generation;
	}
	OPENSSL_cleanse(&next, sizeof(next));
	return r == 0 ? 0 : -EIO;
}

void key_tx_fini(struct key_tx *k)
{
	slot_fini(&k->slot);
	OPENSSL_cleanse(k, sizeof(*k));
}

void key_rx_fini(struct key_rx *k)
{
	for (unsigned i = 0; i < 3; i++)
		slot_fini(&k->slots[i]);
	OPENSSL_cleanse(k, sizeof(*k));
}
