/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"

#include <openssl/ssl.h>

#include <sys/queue.h>

/* Certificates and TLS settings shared by the connections of a process. Private to control/rpc. */

struct rpc_tls {
	SSL_CTX *ctx; /* NULL with insecure_loopback */
	struct rpc_identity self;
	char *ca, *cert, *key;
	bool insecure;
	uint64_t expiry_s;
	TAILQ_HEAD(, rpc_conn) conns; /* all, lingering ones too */
};

/**
 * Why TLS failed, for people: the verification's verdict if the peer's certificate was judged,
 * else OpenSSL's reason. ssl_error is from bufferevent_get_openssl_error(). Returns the matching
 * -errno.
 */
int tls_explain(const SSL *ssl, unsigned long ssl_error, char *text, size_t len);
