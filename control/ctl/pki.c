/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/pki.h"

#include "control/base/file.h"
#include "control/base/name.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PEM_MAX = 64 << 10, BACKDATE_S = 300 };

static int path_of(char out[PATH_MAX], const char *dir, const char *name, const char *ext)
{
	int n = snprintf(out, PATH_MAX, "%s/%s.%s", dir, name, ext);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int openssl_failed(char *err, size_t err_len)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	snprintf(err, err_len, "OpenSSL: %s", why != NULL ? why : "failed");
	ERR_clear_error();
	return -EIO;
}

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	int ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	if (ext == NULL)
		return 0;
	ok = X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
	return ok;
}

static int set_serial(X509 *cert)
{
	unsigned char bytes[16];
	BIGNUM *n;
	int ok;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return 0;
	bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and always 16 bytes */
	n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	ok = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;
	BN_free(n);
	return ok;
}

/* A certificate for key without extensions or signature. NULL on failure. */
static X509 *certificate_new(EVP_PKEY *key, const char *cn, X509_NAME *issuer, int64_t starts_s,
	int64_t ends_s)
{
	X509 *cert = X509_new();
	X509_NAME *name;

	if (cert == NULL)
		return NULL;
	name = X509_get_subject_name(cert);
	if (X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
		X509_gmtime_adj(X509_getm_notBefore(cert), starts_s) == NULL ||
		X509_gmtime_adj(X509_getm_notAfter(cert), ends_s) == NULL ||
		X509_set_pubkey(cert, key) != 1 ||
		X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)"Strait",
			-1, -1, 0) != 1 ||
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1,
			-1, 0) != 1 ||
		X509_set_issuer_name(cert, issuer != NULL ? issuer : name) != 1) {
		X509_free(cert);
		return NULL;
	}
	return cert;
}

/*
 * The key goes first: a certificate without its key is of no use, and one of them may exist
 * already.
 */
static int write_pair(const char *dir, const char *name, X509 *cert, EVP_PKEY *key, char *err,
	size_t err_len)
{
	char cert_path[PATH_MAX], key_path[PATH_MAX];
	BIO *bio = BIO_new(BIO_s_secmem()), *cbio = BIO_new(BIO_s_mem());
	struct stat st;
	char *data;
	long len;
	int rc;

	if (path_of(cert_path, dir, name, "pem") != 0 || path_of(key_path, dir, name, "key") != 0) {
		rc = -ENAMETOOLONG;
		snprintf(err, err_len, "%s: path too long", dir);
		goto out;
	}
	if (lstat(cert_path, &st) == 0) {
		rc = -EEXIST;
		snprintf(err, err_len, "%s exists already; remove it first to replace it",
			cert_path);
		goto out;
	}
	if (bio == NULL || cbio == NULL ||
		PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1 ||
		PEM_write_bio_X509(cbio, cert) != 1) {
		rc = openssl_failed(err, err_len);
		goto out;
	}
	len = BIO_get_mem_data(bio, &data);
	rc = file_create(key_path, data, (size_t)len, 0600);
	if (rc != 0) {
		snprintf(err, err_len, "%s: %s", key_path,
			rc == -EEXIST ? "exists already; remove it first to replace it"
				      : strerror(-rc));
		goto out;
	}
	len = BIO_get_mem_data(cbio, &data);
	rc = file_create(cert_path, data, (size_t)len, 0644);
	if (rc != 0) {
		snprintf(err, err_len, "%s: %s", cert_path, strerror(-rc));
		remove(key_path);
	}
out:
	BIO_free(bio);
	BIO_free(cbio);
	return rc;
}

int pki_init(const char *dir, unsigned int days, char *err, size_t err_len)
{
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	int rc;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
		rc = -errno;
		snprintf(err, err_len, "%s: %s", dir, strerror(-rc));
		return rc;
	}
	key = EVP_EC_gen("P-256");
	if (key != NULL)
		cert = certificate_new(key, "Strait development CA", NULL, -BACKDATE_S,
			(int64_t)days * 86400);
	if (cert == NULL ||
		!add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
		!add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
		!add_extension(cert, cert, NID_subject_key_identifier, "hash") ||
		X509_sign(cert, key, EVP_sha256()) == 0)
		rc = openssl_failed(err, err_len);
	else
		rc = write_pair(dir, "ca", cert, key, err, err_len);
	X509_free(cert);
	EVP_PKEY_free(key);
	return rc;
}

static int load_ca(const char *dir, X509 **cert, EVP_PKEY **key, char *err, size_t err_len)
{
	static const char *const exts[] = { "pem", "key" };
	char path[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		char *text;
		size_t len;
		BIO *bio;
		int rc = path_of(path, dir, "ca", exts[i]);

		if (rc == 0)
			rc = file_read(path, PEM_MAX, &text, &len);
		if (rc != 0) {
			snprintf(err, err_len, "%s: %s (make a CA with: straitctl pki init %s)",
				path, strerror(-rc), dir);
			return rc;
		}
		bio = BIO_new_mem_buf(text, (int)len);
		if (bio != NULL && i == 0)
			*cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
		else if (bio != NULL)
			*key = PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"");
		BIO_free(bio);
		OPENSSL_cleanse(text, len);
		free(text);
		if ((i == 0 && *cert == NULL) || (i == 1 && *key == NULL)) {
			ERR_clear_error();
			snprintf(err, err_len, "%s: not a PEM %s", path,
				i == 0 ? "certificate" : "key");
			return -EINVAL;
		}
	}
	if (X509_check_private_key(*cert, *key) == 1)
		return 0;
	snprintf(err, err_len, "%s/ca.key is not the key of ca.pem", dir);
	return -EINVAL;
}

int pki_issue(const char *dir, const struct pki_request *req, char *err, size_t err_len)
{
	const char *file = req->file != NULL ? req->file : req->id.name;
	EVP_PKEY *ca_key = NULL, *key = NULL;
	X509 *ca = NULL, *cert = NULL;
	char uri[256], san[300];
	int rc;

	if (rpc_identity_format(&req->id, uri, sizeof(uri)) != 0) {
		snprintf(err, err_len,
			"bad identity: site \"%s\", role \"%s\" (edge, site-master, master, "
			"operator or tenant), name \"%s\"",
			req->id.site, req->id.role, req->id.name);
		return -EINVAL;
	}
	if (name_check("file", file, err, err_len) != 0)
		return -EINVAL;
	if (strcmp(file, "ca") == 0) {
		snprintf(err, err_len,
			"\"ca\" is the CA's own file name; choose another with --file");
		return -EINVAL;
	}
	rc = load_ca(dir, &ca, &ca_key, err, err_len);
	if (rc != 0)
		goto out;
	snprintf(san, sizeof(san), "URI:%s", uri);
	key = EVP_EC_gen("P-256");
	if (key != NULL)
		cert = certificate_new(key, req->id.name, X509_get_subject_name(ca),
			req->starts_in_s, req->ends_in_s);
	if (cert == NULL || !add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE") ||
		!add_extension(cert, ca, NID_key_usage, "critical,digitalSignature") ||
		!add_extension(cert, ca, NID_ext_key_usage, "serverAuth,clientAuth") ||
		!add_extension(cert, ca, NID_subject_key_identifier, "hash") ||
		!add_extension(cert, ca, NID_authority_key_identifier, "keyid:always") ||
		!add_extension(cert, ca, NID_subject_alt_name, san) ||
		X509_sign(cert, ca_key, EVP_sha256()) == 0)
		rc = openssl_failed(err, err_len);
	else
		rc = write_pair(dir, file, cert, key, err, err_len);
out:
	X509_free(cert);
	X509_free(ca);
	EVP_PKEY_free(key);
	EVP_PKEY_free(ca_key);
	return rc;
}
