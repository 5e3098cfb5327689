/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/sets.h"

#include "control/base/log.h"
#include "control/keys/chain.h"
#include "control/keys/keys.h"

#include <errno.h>
#include <stdlib.h>

enum { CHAIN_MIN = 1 << 16, CHAIN_MAX = 1 << 24, WARN_MS = 60000 };

struct sets {
	const struct site_config *cfg;
	struct keys *keys;
	struct key_chain *chain; /* NULL: keys are opaque */
};

struct sets *sets_create(const struct site_config *cfg)
{
	struct sets *s = calloc(1, sizeof(*s));
	uint64_t slots = cfg->keys < CHAIN_MAX ? cfg->keys : CHAIN_MAX;
	char err[300];

	if (s == NULL)
		return NULL;
	s->cfg = cfg;
	s->keys = keys_create(cfg->layouts, err, sizeof(err));
	if (s->keys == NULL) {
		log_error("site", "%s", err);
		goto fail;
	}
	if (cfg->layouts == NULL)
		return s;
	s->chain = key_chain_create(slots > CHAIN_MIN ? slots : CHAIN_MIN);
	if (s->chain != NULL)
		return s;
fail:
	sets_destroy(s);
	errno = ENOMEM;
	return NULL;
}

void sets_destroy(struct sets *s)
{
	if (s == NULL)
		return;
	keys_destroy(s->keys);
	key_chain_destroy(s->chain);
	free(s);
}

bool sets_ignore(void *ctx, const void *key, size_t len)
{
	const struct sets *s = ctx;

	return keys_is_junk(s->keys, key, len);
}

void sets_describe(void *ctx, uint16_t tenant, const void *key, size_t len, struct log_record *r)
{
	struct sets *s = ctx;
	struct key_view v;
	char why[KEYS_WHY_MAX];
	enum key_verdict verdict;

	if (tenant >= s->cfg->tenants_count)
		return;
	verdict = keys_judge(s->keys, tenant, &s->cfg->tenants[tenant].key, key, len, &v, why);
	if (verdict == KEY_REFUSED) {
		r->flags |= LOG_FLAG_FIXED;
		log_limited(LOG_LEVEL_WARN, "site", WARN_MS,
			"objects of another layout are not shipped tenant=%s form=%s reason=%s",
			s->cfg->tenants[tenant].name, v.form, why);
		return;
	}
	if (v.form != NULL && s->chain != NULL)
		r->position = key_chain_place(s->chain, v.chain);
	if (verdict != KEY_MEMBER || v.members < 2)
		return;
	r->set = v.set;
	r->member = v.member;
	r->members = v.members;
}

/* What is joined by: of bytes the last 64 bits, as engines tell a hash as a number. */
static uint64_t hash_number(const struct kv_hash *h)
{
	uint64_t v = 0;

	if (h->data == NULL)
		return h->number;
	for (uint32_t i = h->len > 8 ? h->len - 8 : 0; i < h->len; i++)
		v = v << 8 | h->data[i];
	return v;
}

void sets_learn(struct sets *s, const struct kv_event *e)
{
	const struct kv_hash *parent = &e->parent;
	int has_parent = parent->len > 0 || parent->number != 0;

	if (s->chain == NULL)
		return;
	for (uint32_t i = 0; i < e->hash_count; i++) {
		(void)key_chain_add(s->chain, hash_number(&e->hashes[i]), has_parent,
			hash_number(parent));
		parent = &e->hashes[i];
		has_parent = 1;
	}
}
