/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/node.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/site/exist_server.h"
#include "control/sources/adapter.h"
#include "control/sources/http.h"
#include "control/sources/pool_source.h"
#include "control/sources/publish.h"
#include "control/sources/stream.h"

#include <event2/event.h>
#include <openssl/rand.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK_MS = 50,
	ADMIN_TIMEOUT_MS = 10000,
	SOCKET_MODE = 0660,
	SOCKET_THREADS = 2,
	SOCKET_CLIENTS = 1024,
	LOG_BYTES = 256 << 20, /* a minute of 100,000 events/s */
};

#define SECOND       UINT64_C(1000000000)
#define LOG_KEEP_NS  (60 * SECOND)
#define BROUGHT_S    (7 * 86400)
#define WARM_UP_KEYS "sglang_mooncake_store_warmup_key"

struct follower {
	struct site_node *node;
	struct source_adapter *adapter; /* of a Mooncake master, or .. */
	struct pool_source *pool;
	struct publisher *publisher; /* of the pool's events; NULL: not configured */
	uint32_t number;
	const char *shown;
	uint64_t refusing; /* refusals of the store when the listing began .. */
	uint64_t refused;  /* .. and of the last one without any more */
};

struct site_node {
	const struct site_config *cfg;
	struct event *tick;
	struct http *http;
	struct stream_hub *hub;
	struct log *log;
	struct index *index;
	struct store *store;
	struct recall *recall;
	struct existence existence;
	struct exist_server **servers; /* of each tenant */
	struct follower *followers;    /* one for each source */
	uint64_t strangers; /* events of tenants that are not configured, or without a key */
	bool ready;
};

static const struct site_tenant_config *tenant_of(const struct site_node *n, const char *name,
	size_t len, uint16_t *number)
{
	for (unsigned int i = 0; i < n->cfg->tenants_count; i++) {
		const struct site_tenant_config *t = &n->cfg->tenants[i];

		if (strlen(t->name) != len || memcmp(t->name, name, len) != 0)
			continue;
		*number = (uint16_t)i;
		return t;
	}
	return NULL;
}

static bool key_get(struct site_node *n, struct kv_text tenant, const char *data, size_t len,
	struct store_key *out)
{
	const struct site_tenant_config *t;

	t = tenant.len > 0 ? tenant_of(n, tenant.data, tenant.len, &out->tenant)
			   : tenant_of(n, "default", 7, &out->tenant);
	if (t == NULL || len == 0) {
		n->strangers++;
		return false;
	}
	out->tenant_key = &t->key;
	out->data = data;
	out->len = len;
	out->size = 0;
	return true;
}

/* Of an object that appears: whether we brought it. */
static uint8_t origin(const struct follower *f, struct digest128 d)
{
	return recall_was_brought(f->node->recall, d, clock_unix_ms() / 1000) ? LOG_FLAG_OURS : 0;
}

/* The site has it no more: not to be brought again for a while. */
static void gone(struct follower *f, struct digest128 d)
{
	recall_evicted(f->node->recall, d, clock_unix_ms() / 1000);
}

static void on_event(const struct kv_event *e, void *ctx)
{
	struct follower *f = ctx;
	struct digest128 d;
	struct store_key k;

	if (!key_get(f->node, e->tenant, e->key.data, e->key.len, &k))
		return;
	d = digest_of_key(k.tenant_key, k.data, k.len);
	if (e->op == KV_STORED)
		(void)store_stored(f->node->store, f->number, &k, origin(f, d), clock_now_ns());
	else if (store_removed(f->node->store, f->number, &k, 0, clock_now_ns()) == 1)
		gone(f, d);
}

static void on_clear(void *ctx)
{
	struct follower *f = ctx;

	store_clear(f->node->store, f->number, clock_now_ns());
}

static int on_list_begin(void *ctx)
{
	struct follower *f = ctx;
	struct store_stats st;
	uint16_t tenant = UINT16_MAX;

	(void)tenant_of(f->node, "default", 7, &tenant);
	store_stats_get(f->node->store, &st);
	f->refusing = st.refused;
	return store_listing_begin(f->node->store, f->number, tenant);
}

/* The admin port lists the default tenant's keys alone. */
static void on_listed(const char *key, size_t len, void *ctx)
{
	struct kv_text none = { NULL, 0 };
	struct follower *f = ctx;
	struct store_key k;

	if (key_get(f->node, none, key, len, &k))
		(void)store_listed(f->node->store, &k,
			origin(f, digest_of_key(k.tenant_key, k.data, k.len)), clock_now_ns());
}

static int on_list_end(bool ok, void *ctx)
{
	struct follower *f = ctx;
	int64_t missing = store_listing_end(f->node->store, ok, clock_now_ns());
	struct store_stats st;

	store_stats_get(f->node->store, &st);
	if (ok && missing >= 0 && st.refused == f->refusing)
		f->refused = st.refused;

	if (missing > 0)
		log_info("source", "listed source=%s gone=%lld",
			f->node->cfg->sources[f->number].name, (long long)missing);
	return missing < 0 ? (int)missing : 0;
}

static const struct source_adapter_handler handler = { on_event, on_clear, on_list_begin, on_listed,
	on_list_end };

static int on_pool_stored(const void *key, size_t len, uint64_t size, bool ours,
	struct digest128 *digest, void *ctx)
{
	struct follower *f = ctx;
	const struct site_source_config *cfg = &f->node->cfg->sources[f->number];
	struct store_key k = { .tenant_key = &f->node->cfg->tenants[cfg->tenant_number].key,
		.tenant = cfg->tenant_number,
		.data = key,
		.len = len,
		.size = size };
	int rc;

	*digest = digest_of_key(k.tenant_key, key, len);
	if (f->publisher != NULL)
		publisher_event(f->publisher, true, f->node->cfg->tenants[k.tenant].name, key, len,
			clock_unix_ms());
	rc = store_stored(f->node->store, f->number, &k, ours ? LOG_FLAG_OURS : 0, clock_now_ns());
	return rc < 0 ? rc : 0;
}

static void on_pool_removed(struct digest128 digest, bool evicted, void *ctx)
{
	struct follower *f = ctx;
	struct store_key k;

	if (f->publisher != NULL && store_key_of(f->node->store, digest, &k))
		publisher_event(f->publisher, false, f->node->cfg->tenants[k.tenant].name, k.data,
			k.len, clock_unix_ms());
	if (store_gone(f->node->store, f->number, digest, evicted ? LOG_FLAG_EVICTED : 0,
		    clock_now_ns()) == 1)
		gone(f, digest);
}

static void on_walk_begin(void *ctx)
{
	struct follower *f = ctx;
	struct store_stats st;

	store_stats_get(f->node->store, &st);
	f->refusing = st.refused;
}

static void on_walk_end(void *ctx)
{
	struct follower *f = ctx;
	struct store_stats st;

	store_stats_get(f->node->store, &st);
	if (st.refused == f->refusing)
		f->refused = st.refused;
}

static const struct pool_source_handler pool_handler = { on_pool_stored, on_pool_removed, on_clear,
	on_walk_begin, on_walk_end };

static bool follower_is_complete(const struct follower *f)
{
	return f->pool != NULL ? pool_source_is_complete(f->pool)
			       : source_is_complete(source_adapter_state(f->adapter));
}

static void follower_show(struct follower *f, const struct site_source_view *v)
{
	if (f->shown != NULL && strcmp(v->state, f->shown) == 0)
		return;
	f->shown = v->state;
	log_info("source", "state source=%s state=%s events=%llu gaps=%llu listings=%llu", v->name,
		v->state, (unsigned long long)v->events, (unsigned long long)v->gaps,
		(unsigned long long)v->listings);
}

/* The view is as old as its oldest source, and as whole as its least whole one. */
static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct site_node *n = arg;
	uint64_t complete_ns = UINT64_MAX;
	struct store_stats st;
	bool ready = true, refused = false;

	(void)fd;
	(void)what;
	store_stats_get(n->store, &st);
	for (unsigned int i = 0; i < n->cfg->sources_count; i++) {
		struct site_source_view v;

		if (n->followers[i].publisher != NULL)
			publisher_flush(n->followers[i].publisher, clock_unix_ms());
		site_node_source_view(n, i, &v);
		follower_show(&n->followers[i], &v);
		ready = ready && follower_is_complete(&n->followers[i]);
		refused = refused || st.refused != n->followers[i].refused;
		complete_ns = v.complete_ns < complete_ns ? v.complete_ns : complete_ns;
	}
	if (refused) {
		log_limited(LOG_LEVEL_ERROR, "site", 60000,
			"memory does not suffice for all keys, answers are UNKNOWN: raise memory "
			"bytes=%llu",
			(unsigned long long)st.bytes);
		ready = false;
	}
	if (ready)
		existence_current(&n->existence, log_next(n->log) - 1, complete_ns);
	else
		existence_lost(&n->existence);
	if (ready != n->ready)
		log_info("site", "%s objects=%llu", ready ? "ready" : "not ready",
			(unsigned long long)st.objects);
	n->ready = ready;
	log_trim(n->log, clock_now_ns());
	recall_save(n->recall, clock_now_ns());
}

static bool ignored(const void *key, size_t len)
{
	return len >= sizeof(WARM_UP_KEYS) - 1 &&
		memcmp(key, WARM_UP_KEYS, sizeof(WARM_UP_KEYS) - 1) == 0;
}

/* Who may open the socket is the tenant: its mode and directory say who that is. */
static bool tenant_any(uid_t uid, gid_t gid, struct digest_key *out, void *ctx)
{
	(void)uid;
	(void)gid;
	*out = *(const struct digest_key *)ctx;
	return true;
}

static int recall_open(struct site_node *n)
{
	char path[PATH_MAX];

	if (n->cfg->state_dir != NULL &&
		(size_t)snprintf(path, sizeof(path), "%s/recall", n->cfg->state_dir) >=
			sizeof(path))
		return -ENAMETOOLONG;
	n->recall = recall_create(n->cfg->state_dir != NULL ? path : NULL,
		(uint32_t)(n->cfg->evicted_ns / SECOND), BROUGHT_S);
	return n->recall != NULL ? 0 : -ENOMEM;
}

static int tables_create(struct site_node *n)
{
	struct log_config log = { .keep_ns = LOG_KEEP_NS, .max_bytes = LOG_BYTES };
	struct store_config store = { .keys = n->cfg->keys,
		.max_bytes = n->cfg->memory_bytes,
		.ignore = ignored };

	if (RAND_bytes((unsigned char *)&log.epoch, sizeof(log.epoch)) != 1)
		return -EIO;
	log.epoch |= 1;
	store.log = n->log = log_create(&log);
	store.index = n->index = index_create(n->cfg->keys);
	if (n->log == NULL || n->index == NULL)
		return -ENOMEM;
	n->store = store_create(&store);
	if (n->store == NULL)
		return -ENOMEM;
	existence_init(&n->existence, n->index, INDEX_PRESENT_MASK, n->cfg->max_age_ns);
	return recall_open(n);
}

static int servers_start(struct site_node *n, char *err, size_t err_len)
{
	n->servers = calloc(n->cfg->tenants_count, sizeof(struct exist_server *));
	if (n->servers == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < n->cfg->tenants_count; i++) {
		struct exist_server_config cfg = { .path = n->cfg->tenants[i].socket,
			.mode = SOCKET_MODE,
			.threads = SOCKET_THREADS,
			.clients_max = SOCKET_CLIENTS,
			.tenant = tenant_any,
			.ctx = &n->cfg->tenants[i].key };

		if (cfg.path == NULL)
			continue;
		n->servers[i] = exist_server_start(&n->existence, &cfg, err, err_len);
		if (n->servers[i] == NULL)
			return -errno;
	}
	return 0;
}

static int followers_create(struct site_node *n, struct event_base *base, char *err, size_t err_len)
{
	for (uint32_t i = 0; i < n->cfg->sources_count; i++) {
		struct follower *f = &n->followers[i];
		struct source_adapter_config cfg = { .name = n->cfg->sources[i].name,
			.events = n->cfg->sources[i].events,
			.admin = n->cfg->sources[i].admin,
			.timeout_ms = ADMIN_TIMEOUT_MS,
			.machine = { .period_ns = 600 * SECOND,
				.poll_ns = 10 * SECOND,
				.status_ns = SECOND,
				.least_ns = SECOND,
				.seed = log_epoch(n->log) + i } };

		*f = (struct follower){ .node = n, .number = i };
		if (n->cfg->sources[i].publish != NULL) {
			f->publisher = publisher_create(n->cfg->sources[i].publish,
				n->cfg->sources[i].name, err, err_len);
			if (f->publisher == NULL)
				return -errno;
		}
		if (n->cfg->sources[i].pool != NULL) {
			f->pool =
				pool_source_create(base, n->cfg->sources[i].pool, &pool_handler, f);
			if (f->pool == NULL)
				return -errno;
			continue;
		}
		f->adapter = source_adapter_create(base, n->hub, n->http, &cfg, &handler, f, err,
			err_len);
		if (f->adapter == NULL)
			return -errno;
	}
	return 0;
}

struct site_node *site_node_create(struct event_base *base, const struct site_config *cfg,
	char *err, size_t err_len)
{
	struct timeval every = { 0, TICK_MS * 1000 };
	struct site_node *n = calloc(1, sizeof(*n));
	int ret = -ENOMEM;

	snprintf(err, err_len, "out of memory");
	if (n == NULL)
		goto err;
	n->cfg = cfg;
	ret = tables_create(n);
	if (ret < 0)
		goto err;
	n->http = http_create(base);
	n->hub = stream_hub_create(base);
	n->followers = calloc(cfg->sources_count, sizeof(n->followers[0]));
	n->tick = event_new(base, -1, EV_PERSIST, tick_cb, n);
	ret = -ENOMEM;
	if (n->http == NULL || n->hub == NULL || n->followers == NULL || n->tick == NULL ||
		event_add(n->tick, &every) < 0)
		goto err;
	ret = followers_create(n, base, err, err_len);
	if (ret == 0)
		ret = servers_start(n, err, err_len);
	if (ret == 0)
		return n;
err:
	site_node_destroy(n);
	errno = -ret;
	return NULL;
}

void site_node_destroy(struct site_node *n)
{
	if (n == NULL)
		return;
	for (unsigned int i = 0; n->servers != NULL && i < n->cfg->tenants_count; i++)
		exist_server_stop(n->servers[i]);
	free(n->servers);
	if (n->tick != NULL)
		event_free(n->tick);
	http_destroy(n->http);
	for (unsigned int i = 0; n->followers != NULL && i < n->cfg->sources_count; i++) {
		source_adapter_destroy(n->followers[i].adapter);
		pool_source_destroy(n->followers[i].pool);
		publisher_destroy(n->followers[i].publisher);
	}
	free(n->followers);
	stream_hub_destroy(n->hub);
	recall_destroy(n->recall);
	store_destroy(n->store);
	index_destroy(n->index);
	log_destroy(n->log);
	free(n);
}

bool site_node_is_ready(const struct site_node *n)
{
	return n->ready;
}

void site_node_store_stats(const struct site_node *n, struct store_stats *out)
{
	store_stats_get(n->store, out);
}

const struct source *site_node_source(const struct site_node *n, unsigned int i)
{
	return source_adapter_state(n->followers[i].adapter);
}

void site_node_source_view(const struct site_node *n, unsigned int i, struct site_source_view *out)
{
	const struct follower *f = &n->followers[i];
	struct pool_source_stats ps;
	const struct source *s;

	*out = (struct site_source_view){ .name = n->cfg->sources[i].name,
		.objects = store_held(n->store, i) };
	if (f->pool != NULL) {
		pool_source_stats_get(f->pool, &ps);
		out->kind = "pool";
		out->state = ps.state;
		out->complete_ns = ps.complete_ns;
		out->events = ps.events;
		out->gaps = ps.behind;
		out->listings = ps.walks;
		memcpy(out->trouble, ps.trouble, sizeof(out->trouble));
		return;
	}
	s = source_adapter_state(f->adapter);
	out->kind = "mooncake";
	out->state = source_state_name(s->state);
	out->complete_ns = s->complete_ns;
	out->events = s->batches;
	out->gaps = s->gaps;
	out->listings = s->listings;
}

const struct site_config *site_node_config(const struct site_node *n)
{
	return n->cfg;
}

struct store *site_node_store(struct site_node *n)
{
	return n->store;
}

struct log *site_node_log(struct site_node *n)
{
	return n->log;
}

struct recall *site_node_recall(struct site_node *n)
{
	return n->recall;
}

size_t site_node_missed(struct site_node *n, unsigned int tenant, struct digest128 *out, size_t max)
{
	return n->servers[tenant] != NULL ? exist_server_missed(n->servers[tenant], out, max) : 0;
}
