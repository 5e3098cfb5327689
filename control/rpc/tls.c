/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/tls.h"

#include "control/base/clock.h"
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/rpc/conn.h"
#include "control/rpc/identity.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPIRY_WARN_S = 7 * 86400 };

static const char *openssl_reason(void)
{
	const char *text = NULL, *words;
	unsigned long e;

	/* on top of a file's error lies a "system lib" that says nothing */
	while ((e = ERR_get_error()) != 0) {
		if (ERR_SYSTEM_ERROR(e)) {
			text = strerror(ERR_GET_REASON(e));
			break;
		}
		words = ERR_reason_error_string(e);
		if (words != NULL)
			text = words;
	}
	ERR_clear_error();
	return text != NULL ? text : "unknown error";
}

static uint64_t certificate_expiry_s(X509 *cert)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1)
		return 0;
	return (uint64_t)timegm(&tm);
}

/*
 * ca, certificate with chain, key; in this order, so that the message is about the first wrong
 * file.
 */
static int load_files(SSL_CTX *ctx, const struct rpc_tls *tls, char *err, size_t err_len)
{
	int rc = file_check_private(tls->key, err, err_len);

	if (rc != 0)
		return rc;
	if (SSL_CTX_load_verify_locations(ctx, tls->ca, NULL) != 1) {
		snprintf(err, err_len, "%s: cannot load the CA certificate (PEM): %s", tls->ca,
			openssl_reason());
		return -EINVAL;
	}
	if (SSL_CTX_use_certificate_chain_file(ctx, tls->cert) != 1) {
		snprintf(err, err_len, "%s: cannot load the certificate (PEM): %s", tls->cert,
			openssl_reason());
		return -EINVAL;
	}
	if (SSL_CTX_use_PrivateKey_file(ctx, tls->key, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(ctx) != 1) {
		snprintf(err, err_len, "%s: cannot use the private key with certificate %s: %s",
			tls->key, tls->cert, openssl_reason());
		return -EINVAL;
	}
	return 0;
}

/*
 * A key with a passphrase cannot be used by a daemon; without this OpenSSL would ask on the
 * terminal.
 */
static int no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

static SSL_CTX *context_create(const struct rpc_tls *tls, char *err, size_t err_len)
{
	SSL_CTX *ctx;
	int rc;

	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_method());
	if (ctx == NULL) {
		snprintf(err, err_len, "TLS: %s", openssl_reason());
		errno = ENOMEM;
		return NULL;
	}
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION);
	/* No resumption: every connection shows its certificate again. */
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_verify_depth(ctx, 4);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	rc = load_files(ctx, tls, err, err_len);
	ERR_clear_error();
	if (rc != 0) {
		SSL_CTX_free(ctx);
		errno = -rc;
		return NULL;
	}
	return ctx;
}

/* Check who we are and for how long, and take the context over. */
static int adopt(struct rpc_tls *tls, SSL_CTX *ctx, char *err, size_t err_len)
{
	X509 *cert = SSL_CTX_get0_certificate(ctx);
	uint64_t now_s = clock_unix_ms() / 1000, expiry_s = certificate_expiry_s(cert);
	struct rpc_identity self;
	char reason[256];

	if (identity_of_certificate(cert, &self, reason, sizeof(reason)) != 0) {
		snprintf(err, err_len, "%s: %s", tls->cert, reason);
		return -EINVAL;
	}
	if (tls->ctx != NULL && memcmp(&self, &tls->self, sizeof(self)) != 0) {
		snprintf(err, err_len,
			"%s: is now for site %s role %s name %s; restart to change identity",
			tls->cert, self.site, self.role, self.name);
		return -EINVAL;
	}
	if (expiry_s < now_s)
		log_warn("rpc", "own certificate has expired, peers will refuse it file=%s",
			tls->cert);
	else if (expiry_s < now_s + EXPIRY_WARN_S)
		log_warn("rpc", "own certificate expires soon file=%s hours=%llu", tls->cert,
			(unsigned long long)((expiry_s - now_s) / 3600));
	SSL_CTX_free(tls->ctx);
	tls->ctx = ctx;
	tls->self = self;
	tls->expiry_s = expiry_s;
	return 0;
}

struct rpc_tls *rpc_tls_create(const struct rpc_tls_config *cfg, char *err, size_t err_len)
{
	struct rpc_tls *tls = calloc(1, sizeof(*tls));
	char uri[256];
	int rc = 0;

	if (tls == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	TAILQ_INIT(&tls->conns);
	tls->insecure = cfg->insecure_loopback;
	if (tls->insecure) {
		tls->self = cfg->self;
		if (rpc_identity_format(&tls->self, uri, sizeof(uri)) != 0) {
			snprintf(err, err_len, "insecure loopback needs site, role and name");
			rc = -EINVAL;
		}
	} else if (cfg->ca == NULL || cfg->cert == NULL || cfg->key == NULL) {
		snprintf(err, err_len,
			"TLS needs ca, cert and key (make them with: straitctl pki init, "
			"straitctl pki issue)");
		rc = -EINVAL;
	} else {
		tls->ca = strdup(cfg->ca);
		tls->cert = strdup(cfg->cert);
		tls->key = strdup(cfg->key);
		if (tls->ca == NULL || tls->cert == NULL || tls->key == NULL)
			rc = -ENOMEM;
		else
			rc = rpc_tls_reload(tls, err, err_len);
	}
	if (rc != 0) {
		rpc_tls_destroy(tls);
		errno = -rc;
		return NULL;
	}
	return tls;
}

int rpc_tls_reload(struct rpc_tls *tls, char *err, size_t err_len)
{
	SSL_CTX *ctx;
	int rc;

	if (tls->insecure)
		return 0;
	ctx = context_create(tls, err, err_len);
	if (ctx == NULL)
		return -errno;
	rc = adopt(tls, ctx, err, err_len);
	if (rc != 0)
		SSL_CTX_free(ctx);
	return rc;
}

void rpc_tls_destroy(struct rpc_tls *tls)
{
	struct rpc_conn *c;

	if (tls == NULL)
		return;
	while ((c = TAILQ_FIRST(&tls->conns)) != NULL)
		conn_free(c);
	SSL_CTX_free(tls->ctx);
	free(tls->ca);
	free(tls->cert);
	free(tls->key);
	free(tls);
}

const struct rpc_identity *rpc_tls_self(const struct rpc_tls *tls)
{
	return &tls->self;
}

uint64_t rpc_tls_expiry_s(const struct rpc_tls *tls)
{
	return tls->expiry_s;
}

int tls_explain(const SSL *ssl, unsigned long ssl_error, char *text, size_t len)
{
	long verdict = SSL_get_verify_result(ssl);
	int reason = ERR_GET_REASON(ssl_error);
	const char *words = ERR_reason_error_string(ssl_error);

	if (verdict != X509_V_OK) {
		snprintf(text, len, "the peer's certificate is not acceptable: %s",
			X509_verify_cert_error_string(verdict));
		return -EACCES;
	}
	if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
		snprintf(text, len, "the peer showed no certificate");
		return -EACCES;
	}
	if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
		snprintf(text, len,
			"the peer does not speak TLS (is it in insecure-loopback mode?)");
		return -EPROTO;
	}
	/* alerts of the peer: about our certificate, mostly */
	if (reason >= SSL_AD_REASON_OFFSET) {
		snprintf(text, len,
			"the peer refused TLS with us: %s (check our certificate and its CA)",
			words != NULL ? words : "alert");
		return -EACCES;
	}
	snprintf(text, len, "TLS: %s", words != NULL ? words : "connection broken");
	return -EPROTO;
}
