/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/follower.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/log/record.h"
#include "control/site/sets.h"
#include "control/sources/adapter.h"
#include "control/sources/block_names.h"
#include "control/sources/engine_source.h"
#include "control/sources/pool_source.h"
#include "control/sources/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

enum {
	ADMIN_TIMEOUT_MS = 10000,
	POKED = 4,
	/* Descriptors: a subscription has four, a replay as many, an admin port up to two. */
	FILES_MOONCAKE = 6,
	FILES_ENGINE = 8,
	FILES_POOL = 4,
	FILES_SPARE = 64,
};

#define SECOND  UINT64_C(1000000000)
#define POLL_NS (10 * SECOND)

struct follower {
	TAILQ_ENTRY(follower) entry; /* if waiting */
	bool waiting;
	struct follower_site *site;
	const struct site_source_config *cfg;
	uint32_t owner;                 /* the first one */
	struct source_adapter *adapter; /* of a Mooncake master, or .. */
	struct engine_source *engine;
	struct pool_source *pool;
	struct publisher *publisher; /* of the pool's events; NULL: not configured */
	const char *shown;
	char media[FOLLOWER_MEDIA][24]; /* names by owner, "": free */
	/* Refusals of the store when the listing began, and of the last one without any more; of
	 * an engine its own, and those before it was cleared. */
	uint64_t refusing, refused;
};

static const struct site_tenant_config *tenant_of(const struct follower_site *s, const char *name,
	size_t len, uint16_t *number)
{
	for (unsigned int i = 0; i < s->cfg->tenants_count; i++) {
		const struct site_tenant_config *t = &s->cfg->tenants[i];

		if (strlen(t->name) != len || memcmp(t->name, name, len) != 0)
			continue;
		*number = (uint16_t)i;
		return t;
	}
	return NULL;
}

static bool key_get(struct follower_site *s, struct kv_text tenant, const char *data, size_t len,
	struct store_key *out)
{
	const struct site_tenant_config *t;

	t = tenant.len > 0 ? tenant_of(s, tenant.data, tenant.len, &out->tenant)
			   : tenant_of(s, "default", 7, &out->tenant);
	if (t == NULL || len == 0) {
		s->strangers++;
		return false;
	}
	out->tenant_key = &t->key;
	out->data = data;
	out->len = len;
	out->size = 0;
	return true;
}

/* Of the source's own tenant. */
static struct store_key own_key(const struct follower *f, const void *data, size_t len,
	uint64_t size)
{
	return (struct store_key){ .tenant_key = &f->site->cfg->tenants[f->cfg->tenant_number].key,
		.tenant = f->cfg->tenant_number,
		.data = data,
		.len = len,
		.size = size };
}

static uint64_t refusals(const struct follower *f)
{
	struct store_stats st;

	store_stats_get(f->site->store, &st);
	return st.refused;
}

/* Of an object that appears: whether we brought it. */
static uint8_t origin(const struct follower *f, struct digest128 d)
{
	return recall_was_brought(f->site->recall, d, clock_unix_ms() / 1000) ? LOG_FLAG_OURS : 0;
}

/* The site has it no more: not to be brought again for a while. */
static void gone(struct follower *f, struct digest128 d)
{
	recall_evicted(f->site->recall, d, clock_unix_ms() / 1000);
}

/*
 * ---- a Mooncake master
 * -------------------------------------------------------------------------------
 */

static void on_event(const struct kv_event *e, void *ctx)
{
	struct follower *f = ctx;
	struct digest128 d;
	struct store_key k;

	if (!key_get(f->site, e->tenant, e->key.data, e->key.len, &k))
		return;
	d = digest_of_key(k.tenant_key, k.data, k.len);
	if (e->op == KV_STORED)
		(void)store_stored(f->site->store, f->owner, &k, origin(f, d), clock_now_ns());
	else if (store_removed(f->site->store, f->owner, &k, LOG_FLAG_EVICTED, clock_now_ns()) == 1)
		gone(f, d);
}

static void on_clear(void *ctx)
{
	struct follower *f = ctx;
	uint32_t n = f->engine != NULL ? FOLLOWER_MEDIA : 1;

	for (uint32_t i = 0; i < n; i++)
		if (store_held(f->site->store, f->owner + i) > 0)
			store_clear(f->site->store, f->owner + i, clock_now_ns());
	if (f->engine != NULL)
		f->refused = f->refusing;
}

static void on_walk_begin(void *ctx)
{
	struct follower *f = ctx;

	f->refusing = refusals(f);
}

static void on_walk_end(void *ctx)
{
	struct follower *f = ctx;

	if (refusals(f) == f->refusing)
		f->refused = f->refusing;
}

static int on_list_begin(void *ctx)
{
	struct follower *f = ctx;
	uint16_t tenant = UINT16_MAX;
	int rc;

	(void)tenant_of(f->site, "default", 7, &tenant);
	rc = store_listing_begin(f->site->store, f->owner, tenant);
	if (rc == 0)
		on_walk_begin(f);
	if (f->waiting && rc == 0)
		TAILQ_REMOVE(&f->site->waiting, f, entry);
	else if (!f->waiting && rc == -EBUSY)
		TAILQ_INSERT_TAIL(&f->site->waiting, f, entry);
	f->waiting = rc == -EBUSY;
	return rc;
}

/* The admin port lists the default tenant's keys alone. */
static int on_listed(const char *key, size_t len, void *ctx)
{
	struct kv_text none = { NULL, 0 };
	struct follower *f = ctx;
	struct store_key k;

	if (!key_get(f->site, none, key, len, &k))
		return 0;
	return store_listed(f->site->store, &k,
		origin(f, digest_of_key(k.tenant_key, k.data, k.len)), clock_now_ns());
}

static int on_list_end(bool ok, void *ctx)
{
	struct follower *f = ctx;
	int64_t missing = store_listing_end(f->site->store, ok, clock_now_ns());
	struct follower *next;

	/* Several, as one may have lost its reason meanwhile; who comes late waits again. */
	for (int i = 0; i < POKED && (next = TAILQ_FIRST(&f->site->waiting)) != NULL; i++) {
		TAILQ_REMOVE(&f->site->waiting, next, entry);
		next->waiting = false;
		source_adapter_poke(next->adapter);
	}
	if (ok && missing >= 0)
		on_walk_end(f);
	if (missing > 0)
		log_info("source", "listed source=%s gone=%lld", f->cfg->name, (long long)missing);
	return missing < 0 ? (int)missing : 0;
}

static const struct source_adapter_handler on_mooncake = { on_event, on_clear, on_list_begin,
	on_listed, on_list_end };

static struct source_adapter *mooncake_create(struct follower *f, char *err, size_t err_len)
{
	struct source_adapter_config cfg = { .name = f->cfg->name,
		.events = f->cfg->events,
		.admin = f->cfg->admin,
		.timeout_ms = ADMIN_TIMEOUT_MS,
		.list_max = f->site->cfg->memory_bytes, /* a key takes more there than its line */
		.machine = { .period_ns = f->cfg->list_every_ns,
			.poll_ns =
				f->cfg->list_every_ns < POLL_NS ? f->cfg->list_every_ns : POLL_NS,
			.status_ns = SECOND,
			.least_ns = SECOND,
			.seed = f->site->seed + f->owner } };

	return source_adapter_create(f->site->base, f->site->hub, f->site->http, &cfg, &on_mooncake,
		f, err, err_len);
}

/*
 * ---- an engine
 * ---------------------------------------------------------------------------------------
 */

/* Which of its owners a medium is; -1: one that is not to be followed. */
static int medium_of(struct follower *f, struct kv_text medium)
{
	const char *name = medium.len > 0 ? medium.data : "GPU";
	int len = medium.len > 0 ? (int)medium.len : 3, i;
	bool wanted = f->cfg->media_count == 0;
	char text[sizeof(f->media[0])];

	snprintf(text, sizeof(text), "%.*s", len, name);
	for (unsigned int k = 0; k < f->cfg->media_count && !wanted; k++)
		wanted = strcasecmp(f->cfg->media[k], text) == 0;
	if (!wanted)
		return -1;
	for (i = 0; i < FOLLOWER_MEDIA - 1 && f->media[i][0] != '\0'; i++)
		if (strcasecmp(f->media[i], text) == 0)
			return i;
	memcpy(f->media[i], text, sizeof(text));
	return i;
}

static void on_block(struct follower *f, const struct kv_event *e, uint32_t owner,
	const struct kv_hash *hash)
{
	char key[KV_KEY_MAX];

	for (unsigned int i = 0; i < f->cfg->keys_count; i++) {
		size_t len = block_name(f->cfg->keys[i], hash, e->group_index, key);
		struct store_key k = own_key(f, key, len, 0);

		if (len == 0)
			continue;
		if (e->op == KV_STORED)
			f->refusing += store_stored(f->site->store, owner, &k,
					       origin(f, digest_of_key(k.tenant_key, key, len)),
					       clock_now_ns()) < 0;
		else
			(void)store_removed(f->site->store, owner, &k, LOG_FLAG_EVICTED,
				clock_now_ns());
	}
}

static void on_blocks(const struct kv_event *e, void *ctx)
{
	struct follower *f = ctx;
	int medium = medium_of(f, e->medium);

	if (e->op == KV_STORED)
		sets_learn(f->site->sets, e);
	for (uint32_t i = 0; medium >= 0 && i < e->hash_count; i++)
		on_block(f, e, f->owner + (uint32_t)medium, &e->hashes[i]);
}

static const struct engine_source_handler on_engine = { on_blocks, on_clear };

static struct engine_source *engine_create(struct follower *f, char *err, size_t err_len)
{
	struct engine_source_config cfg = { .name = f->cfg->name,
		.events = f->cfg->events,
		.replay = f->cfg->replay,
		.topic = f->cfg->topic != NULL ? f->cfg->topic : "",
		.timeout_ns = 5 * SECOND,
		.machine = { .poll_ns = 5 * SECOND, .retry_ns = SECOND } };

	return engine_source_create(f->site->base, f->site->hub, &cfg, &on_engine, f, err, err_len);
}

/*
 * ---- a pool
 * ------------------------------------------------------------------------------------------
 */

static int on_pool_stored(const void *key, size_t len, uint64_t size, bool ours,
	struct digest128 *digest, void *ctx)
{
	struct follower *f = ctx;
	struct store_key k = own_key(f, key, len, size);
	int rc;

	*digest = digest_of_key(k.tenant_key, key, len);
	if (f->publisher != NULL)
		publisher_event(f->publisher, true, f->site->cfg->tenants[k.tenant].name, key, len,
			clock_unix_ms());
	rc = store_stored(f->site->store, f->owner, &k, ours ? LOG_FLAG_OURS : 0, clock_now_ns());
	return rc < 0 ? rc : 0;
}

static void on_pool_removed(struct digest128 digest, bool evicted, void *ctx)
{
	struct follower *f = ctx;
	struct store_key k;

	if (f->publisher != NULL && store_key_of(f->site->store, digest, &k))
		publisher_event(f->publisher, false, f->site->cfg->tenants[k.tenant].name, k.data,
			k.len, clock_unix_ms());
	if (store_gone(f->site->store, f->owner, digest, evicted ? LOG_FLAG_EVICTED : 0,
		    clock_now_ns()) == 1)
		gone(f, digest);
}

static const struct pool_source_handler on_pool = { on_pool_stored, on_pool_removed, on_clear,
	on_walk_begin, on_walk_end };

static struct pool_source *pool_create(struct follower *f, char *err, size_t err_len)
{
	if (f->cfg->publish != NULL) {
		f->publisher = publisher_create(f->cfg->publish, f->cfg->name, err, err_len);
		if (f->publisher == NULL)
			return NULL;
	}
	return pool_source_create(f->site->base, f->cfg->pool, &on_pool, f);
}

/*
 * ---- whichever it is
 * ---------------------------------------------------------------------------------
 */

void follower_site_init(struct follower_site *site)
{
	*site = (struct follower_site){ 0 };
	TAILQ_INIT(&site->waiting);
}

/* Without them ZeroMQ connects to some sources and never says that it cannot to others. */
bool follower_files_suffice(const struct site_config *cfg, char *err, size_t err_len)
{
	rlim_t need = FILES_SPARE;
	struct rlimit files;

	for (unsigned int i = 0; i < cfg->sources_count; i++) {
		const struct site_source_config *s = &cfg->sources[i];

		need += s->pool != NULL     ? FILES_POOL
			: s->engine != NULL ? FILES_ENGINE
					    : FILES_MOONCAKE;
	}
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= need)
		return true;
	snprintf(err, err_len,
		"%u sources need %llu open files, %llu are allowed: raise the limit "
		"(ulimit -n, LimitNOFILE= of systemd)",
		cfg->sources_count, (unsigned long long)need, (unsigned long long)files.rlim_cur);
	return false;
}

struct follower *follower_create(struct follower_site *site, unsigned int number, char *err,
	size_t err_len)
{
	const struct site_source_config *cfg = &site->cfg->sources[number];
	struct follower *f = calloc(1, sizeof(*f));
	bool ok;
	int rc;

	if (f == NULL)
		return NULL;
	*f = (struct follower){ .site = site, .cfg = cfg, .owner = site->owners };
	site->owners += cfg->engine != NULL ? FOLLOWER_MEDIA : 1;
	for (uint32_t i = f->owner; i < site->owners; i++)
		site->fixed[i] = cfg->engine != NULL;
	if (cfg->pool != NULL)
		ok = (f->pool = pool_create(f, err, err_len)) != NULL;
	else if (cfg->engine != NULL)
		ok = (f->engine = engine_create(f, err, err_len)) != NULL;
	else
		ok = (f->adapter = mooncake_create(f, err, err_len)) != NULL;
	if (ok)
		return f;
	rc = errno;
	follower_destroy(f);
	errno = rc;
	return NULL;
}

void follower_destroy(struct follower *f)
{
	if (f == NULL)
		return;
	if (f->waiting)
		TAILQ_REMOVE(&f->site->waiting, f, entry);
	source_adapter_destroy(f->adapter);
	engine_source_destroy(f->engine);
	pool_source_destroy(f->pool);
	publisher_destroy(f->publisher);
	free(f);
}

bool follower_is_known(const struct follower *f)
{
	return f->engine != NULL ? engine_is_known(engine_source_state(f->engine))
				 : follower_is_complete(f);
}

bool follower_is_complete(const struct follower *f)
{
	if (f->pool != NULL)
		return pool_source_is_complete(f->pool);
	if (f->engine != NULL)
		return engine_is_complete(engine_source_state(f->engine));
	return source_is_complete(source_adapter_state(f->adapter));
}

bool follower_is_refused(const struct follower *f)
{
	return (f->engine != NULL ? f->refusing : refusals(f)) != f->refused;
}

bool follower_is_owner(const struct follower *f, uint32_t owner)
{
	return owner >= f->owner && owner < f->owner + (f->engine != NULL ? FOLLOWER_MEDIA : 1u);
}

int follower_query(struct follower *f, const struct kv_text *keys, size_t n,
	void (*done)(const struct query_answer *a, size_t n, void *ctx), void *ctx)
{
	return f->adapter != NULL ? source_adapter_query(f->adapter, keys, n, done, ctx) : -ENOTSUP;
}

static void view_pool(const struct follower *f, struct site_source_view *out)
{
	struct pool_source_stats ps;

	pool_source_stats_get(f->pool, &ps);
	out->kind = "pool";
	out->state = ps.state;
	out->complete_ns = ps.complete_ns;
	out->events = ps.events;
	out->gaps = ps.behind;
	out->listings = ps.walks;
	memcpy(out->trouble, ps.trouble, sizeof(out->trouble));
}

static void view_engine(const struct follower *f, struct site_source_view *out)
{
	const struct engine *e = engine_source_state(f->engine);

	out->kind = f->cfg->engine;
	out->state = engine_state_name(e->state);
	out->complete_ns = e->complete_ns;
	out->events = e->batches;
	out->gaps = e->gaps;
	out->listings = e->replays;
	engine_source_trouble(f->engine, out->trouble, sizeof(out->trouble));
	if (e->state == ENGINE_PARTIAL && out->trouble[0] == '\0')
		snprintf(out->trouble, sizeof(out->trouble), "%s",
			f->cfg->replay == NULL ? "has no replay: what it held before is not known"
				: e->failures > 0 ? "its replay does not answer"
						  : "its replay does not go back to its start");
}

static void view_mooncake(const struct follower *f, struct site_source_view *out)
{
	const struct source *s = source_adapter_state(f->adapter);

	out->kind = "mooncake";
	out->state = source_state_name(s->state);
	out->complete_ns = s->complete_ns;
	out->events = s->batches;
	out->gaps = s->gaps;
	out->listings = s->listings;
	source_adapter_trouble(f->adapter, out->trouble, sizeof(out->trouble));
}

void follower_view(const struct follower *f, struct site_source_view *out)
{
	uint32_t n = f->engine != NULL ? FOLLOWER_MEDIA : 1;

	*out = (struct site_source_view){ .name = f->cfg->name };
	for (uint32_t i = 0; i < n; i++)
		out->objects += store_held(f->site->store, f->owner + i);
	if (f->pool != NULL)
		view_pool(f, out);
	else if (f->engine != NULL)
		view_engine(f, out);
	else
		view_mooncake(f, out);
}

void follower_tick(struct follower *f)
{
	struct site_source_view v;

	if (f->publisher != NULL)
		publisher_flush(f->publisher, clock_unix_ms());
	if (f->adapter != NULL && !TAILQ_EMPTY(&f->site->waiting))
		source_adapter_hurry(f->adapter);
	follower_view(f, &v);
	if (f->shown != NULL && strcmp(v.state, f->shown) == 0)
		return;
	f->shown = v.state;
	log_info("source", "state source=%s state=%s events=%llu gaps=%llu listings=%llu", v.name,
		v.state, (unsigned long long)v.events, (unsigned long long)v.gaps,
		(unsigned long long)v.listings);
}
