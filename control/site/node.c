/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/node.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/site/exist_server.h"
#include "control/sources/adapter.h"
#include "control/sources/http.h"

#include <event2/event.h>
#include <openssl/rand.h>

#include <errno.h>
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
#define WARM_UP_KEYS "sglang_mooncake_store_warmup_key"

struct follower {
	struct site_node *node;
	struct source_adapter *adapter;
	uint32_t number;
	enum source_state shown;
	uint64_t refusing; /* refusals of the store when the listing began .. */
	uint64_t refused;  /* .. and of the last one without any more */
};

struct site_node {
	const struct site_config *cfg;
	struct event *tick;
	struct http *http;
	struct log *log;
	struct index *index;
	struct store *store;
	struct existence existence;
	struct exist_server **servers; /* of each tenant */
	struct follower followers[STORE_SOURCES];
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
	return true;
}

static void on_event(const struct kv_event *e, void *ctx)
{
	struct follower *f = ctx;
	struct store_key k;

	if (!key_get(f->node, e->tenant, e->key.data, e->key.len, &k))
		return;
	if (e->op == KV_STORED)
		(void)store_stored(f->node->store, f->number, &k, 0, clock_now_ns());
	else
		(void)store_removed(f->node->store, f->number, &k, 0, clock_now_ns());
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
		(void)store_listed(f->node->store, &k, clock_now_ns());
}

static int on_list_end(bool ok, void *ctx)
{
	struct follower *f = ctx;
	int64_t gone = store_listing_end(f->node->store, ok, clock_now_ns());
	struct store_stats st;

	store_stats_get(f->node->store, &st);
	if (ok && gone >= 0 && st.refused == f->refusing)
		f->refused = st.refused;

	if (gone > 0)
		log_info("source", "listed source=%s gone=%lld",
			f->node->cfg->sources[f->number].name, (long long)gone);
	return gone < 0 ? (int)gone : 0;
}

static const struct source_adapter_handler handler = { on_event, on_clear, on_list_begin, on_listed,
	on_list_end };

static void follower_show(struct follower *f, const struct source *s)
{
	if (s->state == f->shown)
		return;
	f->shown = s->state;
	log_info("source", "state source=%s state=%s batches=%llu gaps=%llu listings=%llu",
		f->node->cfg->sources[f->number].name, source_state_name(s->state),
		(unsigned long long)s->batches, (unsigned long long)s->gaps,
		(unsigned long long)s->listings);
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
		const struct source *s = source_adapter_state(n->followers[i].adapter);

		follower_show(&n->followers[i], s);
		ready = ready && source_is_complete(s);
		refused = refused || st.refused != n->followers[i].refused;
		complete_ns = s->complete_ns < complete_ns ? s->complete_ns : complete_ns;
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
	return 0;
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
			.machine = { .kind = SOURCE_LISTED,
				.period_ns = 600 * SECOND,
				.poll_ns = 10 * SECOND,
				.status_ns = SECOND,
				.least_ns = SECOND,
				.seed = log_epoch(n->log) + i } };

		*f = (struct follower){ .node = n, .number = i };
		f->adapter = source_adapter_create(base, n->http, &cfg, &handler, f, err, err_len);
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
	n->tick = event_new(base, -1, EV_PERSIST, tick_cb, n);
	ret = -ENOMEM;
	if (n->http == NULL || n->tick == NULL || event_add(n->tick, &every) < 0)
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
	for (unsigned int i = 0; i < STORE_SOURCES; i++)
		source_adapter_destroy(n->followers[i].adapter);
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
