/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/conn.h"
#include "control/rpc/framing.h"

#include <event2/buffer.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * insecure_loopback: a first frame { 32 random bytes, identity URI } each way takes the place of
 * the TLS handshake. Nothing is proven; it exists for experiments on one machine.
 */

int hello_send(struct rpc_conn *c)
{
	uint8_t frame[FRAME_HEADER_BYTES + HELLO_MAX];
	uint8_t *body = frame + FRAME_HEADER_BYTES;
	struct frame_header h = { .type = HELLO_TYPE };
	char uri[HELLO_MAX - HELLO_NONCE_BYTES];

	if (RAND_bytes(c->nonce, sizeof(c->nonce)) != 1 ||
		rpc_identity_format(&c->tls->self, uri, sizeof(uri)) != 0)
		return -EINVAL;
	h.len = (uint32_t)(HELLO_NONCE_BYTES + strlen(uri));
	frame_header_encode(frame, &h);
	memcpy(body, c->nonce, HELLO_NONCE_BYTES);
	memcpy(body + HELLO_NONCE_BYTES, uri, strlen(uri));
	return bufferevent_write(c->bev, frame, FRAME_HEADER_BYTES + h.len) == 0 ? 0 : -ENOMEM;
}

int hello_receive(struct rpc_conn *c, const uint8_t *body, size_t len, char *why, size_t why_len)
{
	char uri[HELLO_MAX - HELLO_NONCE_BYTES + 1];
	size_t n;

	if (len < HELLO_NONCE_BYTES || len > HELLO_MAX) {
		snprintf(why, why_len, "malformed insecure-loopback hello");
		return -EPROTO;
	}
	memcpy(c->peer_nonce, body, HELLO_NONCE_BYTES);
	n = len - HELLO_NONCE_BYTES;
	memcpy(uri, body + HELLO_NONCE_BYTES, n);
	uri[n] = '\0';
	if (strlen(uri) != n || rpc_identity_parse(uri, &c->peer) != 0) {
		snprintf(why, why_len, "the peer's hello has no valid identity");
		return -EPROTO;
	}
	return 0;
}

int hello_export(const struct rpc_conn *c, const char *label, const uint8_t *context,
	size_t context_len, uint8_t *out, size_t out_len)
{
	uint8_t salt[2 * HELLO_NONCE_BYTES];
	size_t label_len = strlen(label) + 1;
	uint8_t *info = malloc(label_len + context_len);
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *k = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	int rc = -ENOMEM;

	if (info != NULL && k != NULL) {
		OSSL_PARAM params[] = {
			OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, "SHA256", 0),
			OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, "insecure", 8),
			OSSL_PARAM_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof(salt)),
			OSSL_PARAM_octet_string(OSSL_KDF_PARAM_INFO, info, label_len + context_len),
			OSSL_PARAM_END,
		};

		memcpy(salt, c->initiator ? c->nonce : c->peer_nonce, HELLO_NONCE_BYTES);
		memcpy(salt + HELLO_NONCE_BYTES, c->initiator ? c->peer_nonce : c->nonce,
			HELLO_NONCE_BYTES);
		memcpy(info, label, label_len);
		if (context_len > 0)
			memcpy(info + label_len, context, context_len);
		rc = EVP_KDF_derive(k, out, out_len, params) == 1 ? 0 : -EINVAL;
	}
	EVP_KDF_CTX_free(k);
	EVP_KDF_free(kdf);
	free(info);
	return rc;
}
