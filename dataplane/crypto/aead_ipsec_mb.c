/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/aead.h"

#include <strait/wire.h>

#include <intel-ipsec-mb.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/*
 * The direct GCM calls read only function pointers of the manager and keep all state in the key and
 * the context given to them, so one manager serves every thread.
 */
static pthread_once_t manager_once = PTHREAD_ONCE_INIT;
static IMB_MGR *manager;
static int manager_error;

struct state {
	struct gcm_key_data key;
	struct gcm_context_data context;
};
static_assert(sizeof(struct state) <= AEAD_STATE_BYTES, "AEAD_STATE_BYTES is too small");
static_assert(_Alignof(struct state) <= 64, "struct aead aligns its state to 64 bytes");

static void create_manager(void)
{
	const uint64_t need = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
	IMB_MGR *m = alloc_mb_mgr(0);

	if (m == NULL) {
		manager_error = -ENOMEM;
		return;
	}
	init_mb_mgr_auto(m, NULL);
	if (imb_get_errno(m) != 0 || (m->features & need) != need ||
		((m->features & IMB_FEATURE_SELF_TEST) &&
			!(m->features & IMB_FEATURE_SELF_TEST_PASS))) {
		free_mb_mgr(m);
		manager_error = -ENOTSUP;
		return;
	}
	manager = m;
}

static int ipsec_mb_init(struct aead *a, const uint8_t *key)
{
	struct state *s = (struct state *)a->state;

	pthread_once(&manager_once, create_manager);
	if (manager == NULL)
		return manager_error;
	IMB_AES256_GCM_PRE(manager, key, &s->key);
	return 0;
}

static void ipsec_mb_fini(struct aead *a)
{
	(void)a; /* the caller wipes the state */
}

static void ipsec_mb_seal(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, uint8_t *dst, uint8_t *tag)
{
	struct state *s = (struct state *)a->state;

	IMB_AES256_GCM_ENC(manager, &s->key, &s->context, dst, src, len, iv, aad, aad_len, tag,
		STRAIT_TAG_BYTES);
}

static int ipsec_mb_open(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, const uint8_t *tag, uint8_t *dst)
{
	struct state *s = (struct state *)a->state;
	uint64_t computed[2], given[2];

	IMB_AES256_GCM_DEC(manager, &s->key, &s->context, dst, src, len, iv, aad, aad_len,
		(uint8_t *)computed, STRAIT_TAG_BYTES);
	/* All 16 bytes before any decision: constant time. */
	memcpy(given, tag, sizeof(given));
	return ((computed[0] ^ given[0]) | (computed[1] ^ given[1])) == 0 ? 0 : -EBADMSG;
}

const struct aead_ops aead_ipsec_mb = {
	.name = "ipsec-mb",
	.init = ipsec_mb_init,
	.fini = ipsec_mb_fini,
	.seal = ipsec_mb_seal,
	.open = ipsec_mb_open,
};
