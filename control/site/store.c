/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/store.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	BITS_MIN = 16, /* so that an anti-entropy bucket is whole chains */
	BITS_MAX = 28,
	KEY_MAX = 65535,
};

/* One owner is the rule; others stand behind the key, 16 bits each. */
struct object {
	struct object *next;
	struct digest128 digest;
	uint32_t size;
	uint16_t owner, others, tenant, key_len;
	uint8_t flags, round; /* of the listing that named it last, 0: none */
	uint8_t key[];
};

struct store {
	struct store_config cfg;
	struct object **chains; /* by the digest's top bits */
	uint32_t bits;
	struct sums *sums;
	struct touched touched;
	bool listing, overrun;
	uint32_t lister;
	uint16_t listed_tenant;
	uint64_t named; /* objects by the listing going on */
	uint8_t round;
	struct store_stats stats;
	uint64_t held[STORE_OWNERS];
	uint32_t held_of[STORE_OWNERS][STORE_TENANTS];
};

struct store *store_create(const struct store_config *cfg)
{
	struct store *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->cfg = *cfg;
	s->bits = BITS_MIN;
	while (s->bits < BITS_MAX && UINT64_C(1) << s->bits < cfg->keys)
		s->bits++;
	s->chains = calloc((size_t)1 << s->bits, sizeof(struct object *));
	s->sums = sums_create();
	touched_init(&s->touched, STORE_TOUCHED_MAX);
	if (s->chains != NULL && s->sums != NULL)
		return s;
	store_destroy(s);
	errno = ENOMEM;
	return NULL;
}

void store_destroy(struct store *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; s->chains != NULL && i < (size_t)1 << s->bits; i++) {
		struct object *x;

		while ((x = s->chains[i]) != NULL) {
			s->chains[i] = x->next;
			free(x);
		}
	}
	free(s->chains);
	sums_destroy(s->sums);
	touched_fini(&s->touched);
	free(s);
}

static struct object **find(const struct store *s, struct digest128 d)
{
	struct object **p = &s->chains[d.hi >> (64 - s->bits)];

	while (*p != NULL && !digest_equal((*p)->digest, d))
		p = &(*p)->next;
	return p;
}

static size_t object_bytes(const struct object *x)
{
	return offsetof(struct object, key) + x->key_len + x->others * sizeof(uint16_t);
}

static uint16_t other_get(const struct object *x, uint32_t i)
{
	uint16_t v;

	memcpy(&v, x->key + x->key_len + i * sizeof(v), sizeof(v));
	return v;
}

static void other_set(struct object *x, uint32_t i, uint16_t v)
{
	memcpy(x->key + x->key_len + i * sizeof(v), &v, sizeof(v));
}

/* Place among the others, -1: the first one, -2: not an owner. */
static int owner_find(const struct object *x, uint32_t source)
{
	if (x->owner == source)
		return -1;
	for (uint32_t i = 0; i < x->others; i++)
		if (other_get(x, i) == source)
			return (int)i;
	return -2;
}

static bool is_fixed(const struct store *s, const struct object *x)
{
	bool fixed = s->cfg.fixed != NULL && s->cfg.fixed[x->owner];

	for (uint32_t i = 0; i < x->others && fixed; i++)
		fixed = s->cfg.fixed[other_get(x, i)];
	return fixed;
}

static struct log_record record_of(const struct store *s, const struct object *x, uint8_t op,
	uint8_t flags)
{
	struct log_record r = {
		.digest = x->digest,
		.size = x->size,
		.tenant = x->tenant,
		.op = op,
		.flags = (uint8_t)(flags | (is_fixed(s, x) ? LOG_FLAG_FIXED : 0)),
	};

	if (s->cfg.describe != NULL)
		s->cfg.describe(s->cfg.ctx, x->tenant, x->key, x->key_len, &r);
	return r;
}

/* The site has it since now, or no more: what others are told. */
static int publish(struct store *s, const struct object *x, uint8_t op, uint8_t flags,
	uint64_t now_ns)
{
	struct index *index = s->cfg.indexes[x->tenant];
	struct log_record r = record_of(s, x, op, flags);
	int ret = index_update(index, x->digest, 0, op == LOG_STORED ? INDEX_PRESENT(0) : 0, NULL,
		NULL);

	if (ret < 0)
		return ret;
	if (log_append(s->cfg.log, &r, now_ns) == 0) {
		(void)index_update(index, x->digest, 0, op == LOG_STORED ? 0 : INDEX_PRESENT(0),
			NULL, NULL);
		return -ENOMEM;
	}
	if (op == LOG_STORED)
		sums_add(s->sums, x->digest);
	else
		sums_del(s->sums, x->digest);
	return 0;
}

/* It can be had from the site since now, or no more: nothing comes or goes. */
static void republish(struct store *s, const struct object *x, uint64_t now_ns)
{
	struct log_record r = record_of(s, x, LOG_REMOVED, LOG_FLAG_FIXED);

	(void)log_append(s->cfg.log, &r, now_ns);
	r = record_of(s, x, LOG_STORED, x->flags);
	(void)log_append(s->cfg.log, &r, now_ns);
}

static void held_add(struct store *s, uint32_t source, uint16_t tenant, int32_t n)
{
	s->held[source] += (uint64_t)(int64_t)n;
	s->held_of[source][tenant] += (uint32_t)n;
}

static int owner_add(struct store *s, struct object **p, uint32_t source, const struct store_key *k,
	uint8_t flags, uint64_t now_ns)
{
	struct object *x = *p;
	bool fixed = is_fixed(s, x);

	if (owner_find(x, source) != -2)
		return 0;
	if (s->stats.bytes + sizeof(uint16_t) <= s->cfg.max_bytes)
		x = realloc(x, object_bytes(x) + sizeof(uint16_t));
	else
		x = NULL;
	if (x == NULL) {
		s->stats.refused++;
		return -ENOSPC;
	}
	other_set(x, x->others++, (uint16_t)source);
	*p = x;
	s->stats.bytes += sizeof(uint16_t);
	held_add(s, source, x->tenant, 1);
	if (fixed && !s->cfg.fixed[source]) {
		x->flags = flags;
		if (k->size > 0 && k->size <= LOG_SIZE_MAX)
			x->size = (uint32_t)k->size;
		republish(s, x, now_ns);
	}
	return 0;
}

static int add(struct store *s, uint32_t source, const struct store_key *k, struct digest128 d,
	uint8_t flags, uint64_t now_ns)
{
	size_t bytes = offsetof(struct object, key) + k->len;
	struct object **p = find(s, d), *x = *p;
	int ret;

	if (x != NULL)
		return owner_add(s, p, source, k, flags, now_ns);
	x = s->stats.bytes + bytes > s->cfg.max_bytes ? NULL : malloc(bytes);
	if (x == NULL) {
		s->stats.refused++;
		return -ENOSPC;
	}
	x->next = *p;
	x->digest = d;
	x->size = k->size <= LOG_SIZE_MAX ? (uint32_t)k->size : LOG_SIZE_UNKNOWN;
	x->owner = (uint16_t)source;
	x->others = 0;
	x->tenant = k->tenant;
	x->key_len = (uint16_t)k->len;
	x->flags = flags;
	x->round = 0;
	memcpy(x->key, k->data, k->len);
	ret = publish(s, x, LOG_STORED, flags, now_ns);
	if (ret < 0) {
		s->stats.refused++;
		free(x);
		return ret;
	}
	*p = x;
	s->stats.objects++;
	s->stats.bytes += bytes;
	held_add(s, source, x->tenant, 1);
	return 1;
}

/* One owner less. 1 if it was the last; then the object is gone. */
static int drop(struct store *s, uint32_t source, struct object **p, uint8_t flags, uint64_t now_ns)
{
	struct object *x = *p;
	int at = owner_find(x, source);
	bool fixed = is_fixed(s, x);

	if (at == -2)
		return 0;
	if (x->others == 0 && publish(s, x, LOG_REMOVED, flags, now_ns) < 0)
		return -ENOMEM;
	held_add(s, source, x->tenant, -1);
	if (x->others > 0) { /* the last one takes its place; the memory stays */
		uint16_t last = other_get(x, --x->others);

		if (at == -1)
			x->owner = last;
		else if ((uint32_t)at < x->others)
			other_set(x, (uint32_t)at, last);
		s->stats.bytes -= sizeof(uint16_t);
		if (!fixed && is_fixed(s, x))
			republish(s, x, now_ns);
		return 0;
	}
	*p = x->next;
	s->stats.objects--;
	s->stats.bytes -= object_bytes(x);
	free(x);
	return 1;
}

static int digest_get(struct store *s, uint32_t source, const struct store_key *k,
	struct digest128 *out)
{
	if (source >= STORE_OWNERS || k->tenant >= STORE_TENANTS || k->len == 0 || k->len > KEY_MAX)
		return -EINVAL;
	if (s->cfg.ignore != NULL && s->cfg.ignore(s->cfg.ctx, k->data, k->len)) {
		s->stats.ignored++;
		return -ENOENT;
	}
	*out = digest_of_key(k->tenant_key, k->data, k->len);
	return 0;
}

static void touch(struct store *s, uint32_t source, struct digest128 d)
{
	if (s->listing && s->lister == source && touched_add(&s->touched, d) < 0)
		s->overrun = true;
}

int store_stored(struct store *s, uint32_t source, const struct store_key *k, uint8_t flags,
	uint64_t now_ns)
{
	struct digest128 d;
	int ret = digest_get(s, source, k, &d);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	touch(s, source, d);
	ret = add(s, source, k, d, flags, now_ns);
	if (ret >= 0 && s->cfg.arrived != NULL)
		s->cfg.arrived(s->cfg.arrived_ctx, k->tenant, d);
	return ret;
}

int store_removed(struct store *s, uint32_t source, const struct store_key *k, uint8_t flags,
	uint64_t now_ns)
{
	struct object **p;
	struct digest128 d;
	int ret = digest_get(s, source, k, &d);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	touch(s, source, d);
	p = find(s, d);
	return *p == NULL ? 0 : drop(s, source, p, flags, now_ns);
}

int store_gone(struct store *s, uint32_t source, struct digest128 d, uint8_t flags, uint64_t now_ns)
{
	struct object **p = find(s, d);

	if (source >= STORE_OWNERS)
		return -EINVAL;
	touch(s, source, d);
	return *p == NULL ? 0 : drop(s, source, p, flags, now_ns);
}

/* Take a source's objects away, all or those that its listing did not name. */
static int64_t sweep(struct store *s, uint32_t source, bool all, uint8_t flags, uint64_t now_ns)
{
	int64_t n = 0;

	for (size_t i = 0; i < (size_t)1 << s->bits; i++) {
		struct object **p = &s->chains[i];

		while (*p != NULL) {
			struct object *x = *p;
			bool named = x->tenant != s->listed_tenant || x->round == s->round ||
				touched_has(&s->touched, x->digest);

			if ((all || !named) && owner_find(x, source) != -2) {
				n++;
				if (drop(s, source, p, flags, now_ns) == 1)
					continue;
			}
			p = &x->next;
		}
	}
	return n;
}

void store_clear(struct store *s, uint32_t source, uint64_t now_ns)
{
	if (source < STORE_OWNERS)
		(void)sweep(s, source, true, 0, now_ns);
}

int store_listing_begin(struct store *s, uint32_t source, uint16_t tenant)
{
	if (source >= STORE_OWNERS || tenant >= STORE_TENANTS)
		return -EINVAL;
	if (s->listing)
		return -EBUSY;
	s->listing = true;
	s->overrun = false;
	s->named = 0;
	s->lister = source;
	s->listed_tenant = tenant;
	if (++s->round == 0) { /* all marks of 255 listings ago are no marks */
		for (size_t i = 0; i < (size_t)1 << s->bits; i++)
			for (struct object *x = s->chains[i]; x != NULL; x = x->next)
				x->round = 0;
		s->round = 1;
	}
	return 0;
}

int store_listed(struct store *s, const struct store_key *k, uint8_t flags, uint64_t now_ns)
{
	struct digest128 d;
	int ret = s->listing ? digest_get(s, s->lister, k, &d) : -EINVAL;

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (touched_has(&s->touched, d))
		return 0;
	ret = add(s, s->lister, k, d, flags, now_ns);
	if (ret >= 0) {
		struct object *x = *find(s, d);

		s->named += x->round != s->round;
		x->round = s->round;
	}
	return ret;
}

int64_t store_listing_end(struct store *s, bool ok, uint64_t now_ns)
{
	int64_t n = 0;
	uint32_t held = s->held_of[s->lister][s->listed_tenant];
	bool all = s->touched.count == 0 && held == s->named;
	/* a source that names little of it began anew: nothing tells what it evicted */
	uint8_t flags = s->named * 2 >= held ? LOG_FLAG_EVICTED : 0;

	if (!s->listing)
		return -EINVAL;
	/* Of many tiny sources most listings name just what is known: no need to look at all. */
	if (ok && !all)
		n = s->overrun ? -ESTALE : sweep(s, s->lister, false, flags, now_ns);
	s->listing = false;
	touched_clear(&s->touched);
	return n;
}

const struct sums *store_sums(const struct store *s)
{
	return s->sums;
}

void store_list(void *store, uint32_t bucket, void (*fn)(void *ctx, const struct log_record *r),
	void *ctx)
{
	const struct store *s = store;
	size_t chains = (size_t)1 << (s->bits - BITS_MIN);

	for (size_t i = bucket * chains; i < (bucket + 1) * chains; i++) {
		for (const struct object *x = s->chains[i]; x != NULL; x = x->next) {
			struct log_record r = record_of(s, x, LOG_STORED, x->flags);

			fn(ctx, &r);
		}
	}
}

int32_t store_sole_owner(const struct store *s, struct digest128 d)
{
	const struct object *x = *find(s, d);

	return x != NULL && x->others == 0 ? x->owner : -1;
}

bool store_is_readable(const struct store *s, struct digest128 d)
{
	const struct object *x = *find(s, d);

	return x != NULL && (record_of(s, x, LOG_STORED, 0).flags & LOG_FLAG_FIXED) == 0;
}

bool store_has(const struct store *s, struct digest128 d)
{
	return *find(s, d) != NULL;
}

bool store_key_of(const struct store *s, struct digest128 d, struct store_key *out)
{
	const struct object *x = *find(s, d);

	if (x == NULL)
		return false;
	*out = (struct store_key){ .tenant = x->tenant,
		.data = x->key,
		.len = x->key_len,
		.size = x->size };
	return true;
}

void store_stats_get(const struct store *s, struct store_stats *out)
{
	*out = s->stats;
}

uint64_t store_held(const struct store *s, uint32_t source)
{
	return source < STORE_OWNERS ? s->held[source] : 0;
}
