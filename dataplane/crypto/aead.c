/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/aead.h"

#include <strait/wire.h>

#include <openssl/crypto.h>
#include <pthread.h>

#include <string.h>

static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static const struct aead_ops *default_ops;

static void choose_default(void)
{
	static const uint8_t key[STRAIT_KEY_BYTES];
	struct aead a = { 0 };

	default_ops = aead_init(&a, &aead_ipsec_mb, key) == 0 ? &aead_ipsec_mb : &aead_openssl;
	aead_fini(&a);
}

const struct aead_ops *aead_default(void)
{
	pthread_once(&default_once, choose_default);
	return default_ops;
}

const struct aead_ops *aead_by_name(const char *name)
{
	if (strcmp(name, aead_ipsec_mb.name) == 0)
		return &aead_ipsec_mb;
	return strcmp(name, aead_openssl.name) == 0 ? &aead_openssl : NULL;
}

void aead_fini(struct aead *a)
{
	if (a->ops == NULL)
		return;
	a->ops->fini(a);
	OPENSSL_cleanse(a->state, sizeof(a->state));
	a->ops = NULL;
}
