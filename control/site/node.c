/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/node.h"

#include "control/base/clock.h"
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/site/exist_server.h"
#include "control/site/sets.h"
#include "control/site/tenant.h"
#include "control/sources/http.h"
#include "control/sources/stream.h"

#include <event2/event.h>
#include <openssl/rand.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	TICK_MS = 50,
	SOCKET_THREADS = 2,
	SOCKET_CLIENTS = 1024,
	LOG_BYTES = 256 << 20, /* a minute of 100,000 events/s */
};

#define SECOND      UINT64_C(1000000000)
#define LOG_KEEP_NS (60 * SECOND)
#define BROUGHT_S   (7 * 86400)

struct site_node {
	const struct site_config *cfg;
	struct event *tick;
	struct http *http;
	struct stream_hub *hub;
	struct log *log;
	struct index **indexes;      /* of each tenant, */
	struct existence *existence; /* and what is said from it */
	struct store *store;
	struct recall *recall;
	struct sets *sets;
	struct exist_server **servers; /* of each tenant */
	struct follower_site site;
	struct follower **followers; /* one for each source */
	int state_fd;                /* holds state_dir; -1: there is none */
	bool ready, partial, refused;
};

static void tell(struct site_node *n, struct existence *e, bool ready, uint64_t complete_ns)
{
	existence_partial(e, n->partial);
	if (ready)
		existence_current(e, log_next(n->log) - 1, complete_ns);
	else
		existence_lost(e);
	existence_beat(e, clock_now_ns());
}

/* The view is as old as its oldest source, and as whole as its least whole one. */
static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct site_node *n = arg;
	bool ready = true, refused = false, partial = false;
	uint64_t complete_ns = UINT64_MAX;
	struct store_stats st;

	(void)fd;
	(void)what;
	for (unsigned int i = 0; i < n->cfg->sources_count; i++) {
		struct follower *f = n->followers[i];
		struct site_source_view v;

		follower_tick(f);
		follower_view(f, &v);
		ready = ready && follower_is_known(f);
		partial = partial || !follower_is_complete(f);
		refused = refused || follower_is_refused(f);
		complete_ns = v.complete_ns < complete_ns ? v.complete_ns : complete_ns;
	}
	store_stats_get(n->store, &st);
	if (refused) {
		log_limited(LOG_LEVEL_ERROR, "site", 60000,
			"memory does not suffice for all keys, answers are UNKNOWN: raise memory "
			"bytes=%llu",
			(unsigned long long)st.bytes);
		ready = false;
	}
	n->partial = partial;
	n->refused = refused;
	for (unsigned int i = 0; i < n->cfg->tenants_count; i++)
		tell(n, &n->existence[i], ready, complete_ns);
	if (ready != n->ready)
		log_info("site", "%s objects=%llu", ready ? "ready" : "not ready",
			(unsigned long long)st.objects);
	n->ready = ready;
	log_trim(n->log, clock_now_ns());
	recall_save(n->recall, clock_now_ns());
}

static bool admit(const struct exist_peer *who, struct digest_key *out, void *ctx)
{
	const struct site_tenant_config *t = ctx;

	*out = t->key;
	return tenant_admits(t, who);
}

/* Two processes would overwrite each other's memory. */
static int state_hold(struct site_node *n, char *err, size_t err_len)
{
	if (n->cfg->state_dir == NULL)
		return 0;
	n->state_fd = file_lock_directory(n->cfg->state_dir);
	if (n->state_fd >= 0)
		return 0;
	snprintf(err, err_len, "state_dir %s: %s", n->cfg->state_dir,
		n->state_fd == -EBUSY ? "another strait-master uses it" : strerror(-n->state_fd));
	return n->state_fd;
}

static int recall_open(struct site_node *n, char *err, size_t err_len)
{
	char path[PATH_MAX] = "";
	int rc;

	if (n->cfg->state_dir != NULL &&
		(size_t)snprintf(path, sizeof(path), "%s/recall", n->cfg->state_dir) >=
			sizeof(path))
		return -ENAMETOOLONG;
	n->recall = recall_create(n->cfg->state_dir != NULL ? path : NULL,
		(uint32_t)(n->cfg->evicted_ns / SECOND), BROUGHT_S);
	if (n->recall != NULL)
		return 0;
	rc = -errno;
	snprintf(err, err_len, "%s: what was evicted before cannot be read: %s", path,
		strerror(-rc));
	return rc;
}

static void arrived(void *ctx, uint16_t tenant, struct digest128 d)
{
	struct site_node *n = ctx;

	existence_arrived(&n->existence[tenant], d);
}

/*
 * Each tenant has an index of its own: processes map it, and are not to see how much another has
 * or what of it comes and goes. The site's last event, as_of, is one for all.
 */
static int indexes_create(struct site_node *n)
{
	unsigned int tenants = n->cfg->tenants_count;

	n->indexes = calloc(tenants, sizeof(struct index *));
	n->existence = calloc(tenants, sizeof(*n->existence));
	if (n->indexes == NULL || n->existence == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < tenants; i++) {
		n->indexes[i] =
			index_create_shared(n->cfg->keys / tenants, n->cfg->keys, EXISTENCE_SHARED);
		if (n->indexes[i] == NULL)
			return -errno;
		existence_init(&n->existence[i], n->indexes[i], INDEX_PRESENT_MASK,
			n->cfg->max_age_ns);
	}
	return 0;
}

static int tables_create(struct site_node *n, char *err, size_t err_len)
{
	struct log_config log = { .keep_ns = LOG_KEEP_NS, .max_bytes = LOG_BYTES };
	struct store_config store = { .keys = n->cfg->keys,
		.max_bytes = n->cfg->memory_bytes,
		.fixed = n->site.fixed,
		.ignore = sets_ignore,
		.arrived = arrived,
		.arrived_ctx = n };
	int ret;

	if (RAND_bytes((unsigned char *)&log.epoch, sizeof(log.epoch)) != 1)
		return -EIO;
	log.epoch |= 1;
	store.log = n->log = log_create(&log);
	if (n->log == NULL)
		return -ENOMEM;
	ret = indexes_create(n);
	if (ret < 0)
		return ret;
	store.indexes = n->indexes;
	n->sets = sets_create(n->cfg);
	if (n->sets == NULL)
		return -errno;
	store.ctx = n->sets;
	store.describe = n->cfg->layouts != NULL ? sets_describe : NULL;
	n->store = store_create(&store);
	if (n->store == NULL)
		return -ENOMEM;
	return recall_open(n, err, err_len);
}

static int servers_start(struct site_node *n, char *err, size_t err_len)
{
	n->servers = calloc(n->cfg->tenants_count, sizeof(struct exist_server *));
	if (n->servers == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < n->cfg->tenants_count; i++) {
		struct site_tenant_config *t = &n->cfg->tenants[i];
		struct exist_server_config cfg = { .path = t->socket,
			.mode = tenant_socket_mode(t),
			.threads = SOCKET_THREADS,
			.clients_max = SOCKET_CLIENTS,
			.tenant = admit,
			.ctx = t };

		if (cfg.path == NULL)
			continue;
		n->servers[i] = exist_server_start(&n->existence[i], &cfg, err, err_len);
		if (n->servers[i] == NULL)
			return -errno;
	}
	return 0;
}

static int followers_create(struct site_node *n, struct event_base *base, char *err, size_t err_len)
{
	if (!follower_files_suffice(n->cfg, err, err_len))
		return -EMFILE;
	n->http = http_create(base);
	n->hub = stream_hub_create(base);
	n->followers = calloc(n->cfg->sources_count, sizeof(*n->followers));
	if (n->http == NULL || n->hub == NULL || n->followers == NULL)
		return -ENOMEM;
	follower_site_init(&n->site);
	n->site.cfg = n->cfg;
	n->site.base = base;
	n->site.hub = n->hub;
	n->site.http = n->http;
	n->site.store = n->store;
	n->site.recall = n->recall;
	n->site.sets = n->sets;
	n->site.seed = log_epoch(n->log);
	for (unsigned int i = 0; i < n->cfg->sources_count; i++) {
		n->followers[i] = follower_create(&n->site, i, err, err_len);
		if (n->followers[i] == NULL)
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
	n->state_fd = -1;
	ret = state_hold(n, err, err_len);
	if (ret == 0)
		ret = tables_create(n, err, err_len);
	if (ret < 0)
		goto err;
	n->tick = event_new(base, -1, EV_PERSIST, tick_cb, n);
	ret = n->tick == NULL ? -ENOMEM : followers_create(n, base, err, err_len);
	if (ret == 0 && event_add(n->tick, &every) < 0)
		ret = -ENOMEM;
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
	/* Who has our memory goes to the socket, and finds that it is gone, too. */
	for (unsigned int i = 0; n->existence != NULL && i < n->cfg->tenants_count; i++)
		if (n->existence[i].index != NULL)
			existence_beat(&n->existence[i], 0);
	for (unsigned int i = 0; n->servers != NULL && i < n->cfg->tenants_count; i++)
		exist_server_stop(n->servers[i]);
	free(n->servers);
	if (n->tick != NULL)
		event_free(n->tick);
	http_destroy(n->http);
	for (unsigned int i = 0; n->followers != NULL && i < n->cfg->sources_count; i++)
		follower_destroy(n->followers[i]);
	free(n->followers);
	stream_hub_destroy(n->hub);
	recall_destroy(n->recall);
	store_destroy(n->store);
	sets_destroy(n->sets);
	for (unsigned int i = 0; n->indexes != NULL && i < n->cfg->tenants_count; i++)
		index_destroy(n->indexes[i]);
	free(n->indexes);
	free(n->existence);
	log_destroy(n->log);
	if (n->state_fd >= 0)
		close(n->state_fd);
	free(n);
}

bool site_node_is_ready(const struct site_node *n)
{
	return n->ready;
}

const char *site_node_trouble(const struct site_node *n)
{
	return n->refused ? "memory does not suffice for all keys: raise memory"
			  : recall_trouble(n->recall);
}

void site_node_store_stats(const struct site_node *n, struct store_stats *out)
{
	store_stats_get(n->store, out);
}

bool site_node_is_partial(const struct site_node *n)
{
	return n->partial;
}

void site_node_source_view(const struct site_node *n, unsigned int i, struct site_source_view *out)
{
	follower_view(n->followers[i], out);
}

const struct site_config *site_node_config(const struct site_node *n)
{
	return n->cfg;
}

struct follower *site_node_owner(struct site_node *n, uint32_t owner)
{
	for (unsigned int i = 0; i < n->cfg->sources_count; i++)
		if (follower_is_owner(n->followers[i], owner))
			return n->followers[i];
	return NULL;
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

void site_node_failed(struct site_node *n, const void *tenant, size_t tenant_len, const void *key,
	size_t len)
{
	static const char none[] = "default";

	if (tenant_len == 0) {
		tenant = none;
		tenant_len = sizeof(none) - 1;
	}
	for (unsigned int i = 0; i < n->cfg->tenants_count && n->cfg->negative_ns > 0; i++) {
		const struct site_tenant_config *t = &n->cfg->tenants[i];

		if (strlen(t->name) == tenant_len && memcmp(t->name, tenant, tenant_len) == 0)
			existence_negative(&n->existence[i], digest_of_key(&t->key, key, len),
				clock_now_ns() + n->cfg->negative_ns);
	}
}

void site_node_nowhere(struct site_node *n, struct digest128 d)
{
	if (n->cfg->negative_ns == 0 || store_has(n->store, d))
		return;
	/* Digests are keyed, so that those who are not its tenant will not ask for it. */
	for (unsigned int i = 0; i < n->cfg->tenants_count; i++)
		existence_negative(&n->existence[i], d, clock_now_ns() + n->cfg->negative_ns);
}

size_t site_node_missed(struct site_node *n, unsigned int tenant, struct digest128 *out, size_t max)
{
	return n->servers[tenant] != NULL ? exist_server_missed(n->servers[tenant], out, max) : 0;
}
