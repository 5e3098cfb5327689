/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/uplink.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/log/feed.h"
#include "control/rpc/strait.pb-c.h"
#include "control/site/expand.h"
#include "control/site/offer.h"

#include <event2/event.h>
#include <openssl/rand.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	TICK_MS = 10,
	REPORT_MS = 1000,
	ASKED_TICKS = 10,
	ASKED_MAX = 1024,
	SNAPSHOTS = 1, /* one reader */
	DIGEST_BYTES = 16,
};
#define SNAPSHOT_NS UINT64_C(1000000000)
#define RETRY_LEAST UINT64_C(100000000)
/* A master that starts again is to be ready soon, and who may load is its own affair. */
#define RETRY_MOST UINT64_C(2000000000)
#define PROGRAM    "strait-master 0.1.0"

struct uplink {
	struct rpc_conn *(*connect)(void *ctx, const struct rpc_handler *h, void *h_ctx);
	void *ctx;
	struct site_node *node;
	struct rpc_conn *conn;
	struct event *tick;
	struct feed_source source;
	struct gate gate;
	struct feed feed;
	struct backoff backoff;
	uint8_t boot_id[16];
	bool accepted, feeding;
	char said[128]; /* the last reason of a lost connection, to say it once */
	unsigned int ticks;
	void (*left)(void *ctx);
	void *left_ctx;
	LIST_HEAD(, question) questions;
	uint64_t retry_ns, report_ns, report_every_ns, suppressed;
};

static void digest_take(const uint8_t *p, struct digest128 *out)
{
	memcpy(&out->lo, p, 8);
	memcpy(&out->hi, p + 8, 8);
}

static void pump(struct uplink *u)
{
	const uint8_t *frame;
	size_t len;
	int rc = 1;

	while (u->feeding && rc > 0 && rpc_queued_bytes(u->conn) < UPLINK_QUEUE) {
		rc = feed_pull(&u->feed, clock_now_ns(), &frame, &len);
		if (rc > 0)
			rc = rpc_send_bytes(u->conn, STRAIT__MSG_TYPE__MSG_LOG, frame, len) == 0;
	}
	if (rc == -ESTALE) {
		/* it fell out of the ring: it asks anew and gets a snapshot */
		u->feeding = false;
		rpc_fail(u->conn, ESTALE, "the reader of the log fell behind, it must resume");
	}
}

static void drain(struct rpc_conn *c, void *ctx)
{
	(void)c;
	pump(ctx);
}

static void send_register(struct uplink *u)
{
	const struct site_config *cfg = site_node_config(u->node);
	Strait__SiteRegister msg = STRAIT__SITE_REGISTER__INIT;
	Strait__SiteTenant *tenants = calloc(cfg->tenants_count, sizeof(*tenants));
	Strait__SiteTenant **list = calloc(cfg->tenants_count, sizeof(*list));

	if (tenants == NULL || list == NULL) {
		rpc_close(u->conn);
		goto out;
	}
	for (unsigned int i = 0; i < cfg->tenants_count; i++) {
		strait__site_tenant__init(&tenants[i]);
		tenants[i].number = i;
		tenants[i].name = cfg->tenants[i].name;
		tenants[i].id.data = cfg->tenants[i].id;
		tenants[i].id.len = sizeof(cfg->tenants[i].id);
		list[i] = &tenants[i];
	}
	msg.version = LOG_FRAME_VERSION;
	msg.site = cfg->site;
	msg.boot_id.data = u->boot_id;
	msg.boot_id.len = sizeof(u->boot_id);
	msg.n_tenants = cfg->tenants_count;
	msg.tenants = list;
	msg.program = (char *)PROGRAM;
	msg.has_takes_failed = msg.takes_failed = true;
	(void)rpc_send(u->conn, STRAIT__MSG_TYPE__MSG_SITE_REGISTER, &msg.base);
out:
	free(tenants);
	free(list);
}

static void source_info(const struct site_source_view *v, uint64_t now_ns, Strait__SourceInfo *out)
{
	strait__source_info__init(out);
	out->name = (char *)(uintptr_t)v->name;
	out->kind = (char *)(uintptr_t)v->kind;
	out->state = (char *)(uintptr_t)v->state;
	out->has_age_ms = v->complete_ns > 0;
	out->age_ms = v->complete_ns > 0 ? (now_ns - v->complete_ns) / 1000000 : 0;
	out->has_objects = out->has_events = true;
	out->has_gaps = out->has_listings = true;
	out->objects = v->objects;
	out->events = v->events;
	out->gaps = v->gaps;
	out->listings = v->listings;
	out->trouble = v->trouble[0] != '\0' ? (char *)(uintptr_t)v->trouble : NULL;
}

static void send_report(struct uplink *u, uint64_t now_ns)
{
	unsigned int n = site_node_config(u->node)->sources_count;
	Strait__SourceInfo *info = calloc(n, sizeof(*info)), **list = calloc(n, sizeof(*list));
	struct site_source_view *views = calloc(n, sizeof(*views));
	Strait__SiteReport msg = STRAIT__SITE_REPORT__INIT;
	uint64_t oldest_ns = UINT64_MAX;
	struct store_stats st;

	u->report_ns = now_ns;
	if (info == NULL || list == NULL || views == NULL)
		goto out;
	site_node_store_stats(u->node, &st);
	for (unsigned int i = 0; i < n; i++) {
		site_node_source_view(u->node, i, &views[i]);
		source_info(&views[i], now_ns, &info[i]);
		if (views[i].complete_ns < oldest_ns)
			oldest_ns = views[i].complete_ns;
		list[i] = &info[i];
	}
	msg.ready = site_node_is_ready(u->node);
	msg.has_partial = true;
	msg.partial = site_node_is_partial(u->node);
	msg.has_objects = msg.has_memory_bytes = msg.has_refused = msg.has_suppressed = true;
	msg.objects = st.objects;
	msg.memory_bytes = st.bytes;
	msg.refused = st.refused;
	msg.suppressed = u->suppressed;
	msg.has_age_ms = oldest_ns > 0 && oldest_ns != UINT64_MAX;
	msg.age_ms = msg.has_age_ms ? (now_ns - oldest_ns) / 1000000 : 0;
	msg.has_seq = true;
	msg.seq = log_next(site_node_log(u->node)) - 1;
	if (site_node_trouble(u->node)[0] != '\0')
		msg.trouble = (char *)(uintptr_t)site_node_trouble(u->node);
	msg.n_sources = n;
	msg.sources = list;
	(void)rpc_send(u->conn, STRAIT__MSG_TYPE__MSG_SITE_REPORT, &msg.base);
out:
	free(views);
	free(list);
	free(info);
}

/* What was asked for here and missed: a policy may wait for that. */
static void send_asked(struct uplink *u)
{
	const struct site_config *cfg = site_node_config(u->node);
	Strait__SiteAsked msg = STRAIT__SITE_ASKED__INIT;
	struct digest128 d[ASKED_MAX];
	uint8_t bytes[ASKED_MAX * DIGEST_BYTES];

	for (unsigned int t = 0; t < cfg->tenants_count; t++) {
		size_t n = site_node_missed(u->node, t, d, ASKED_MAX);

		if (n == 0)
			continue;
		for (size_t i = 0; i < n; i++) {
			memcpy(bytes + i * DIGEST_BYTES, &d[i].lo, 8);
			memcpy(bytes + i * DIGEST_BYTES + 8, &d[i].hi, 8);
		}
		msg.tenant = t;
		msg.digests.data = bytes;
		msg.digests.len = n * DIGEST_BYTES;
		(void)rpc_send(u->conn, STRAIT__MSG_TYPE__MSG_SITE_ASKED, &msg.base);
	}
}

static bool digests_are_good(const Strait__SiteDigests *q)
{
	return q->digests.len % DIGEST_BYTES == 0 &&
		q->digests.len / DIGEST_BYTES <= UPLINK_DIGESTS_MAX;
}

/* An EXPAND that waits for sources; dropped if the connection it came by is gone. */
struct question {
	LIST_ENTRY(question) entry;
	struct uplink *u; /* NULL: nobody waits any more */
	uint64_t batch;
};

static void questions_drop(struct uplink *u)
{
	struct question *q;

	while ((q = LIST_FIRST(&u->questions)) != NULL) {
		LIST_REMOVE(q, entry);
		q->u = NULL;
	}
}

static void send_expanded(struct uplink *u, uint64_t batch, const struct expanded *keys, size_t n)
{
	const struct site_config *cfg = site_node_config(u->node);
	Strait__SiteExpanded msg = STRAIT__SITE_EXPANDED__INIT;
	Strait__OrderObject *objects = calloc(n + 1, sizeof(*objects));
	Strait__OrderObject **list = calloc(n + 1, sizeof(*list));

	for (size_t i = 0; i < n && objects != NULL && list != NULL; i++) {
		const char *tenant = cfg->tenants[keys[i].tenant].name;

		strait__order_object__init(&objects[i]);
		list[i] = &objects[i];
		if (keys[i].len == 0)
			continue;
		objects[i].key.data = (uint8_t *)(uintptr_t)keys[i].key;
		objects[i].key.len = keys[i].len;
		objects[i].has_length = keys[i].size > 0;
		objects[i].length = keys[i].size;
		objects[i].has_tenant = strcmp(tenant, "default") != 0;
		objects[i].tenant.data = (uint8_t *)(uintptr_t)tenant;
		objects[i].tenant.len = strlen(tenant);
	}
	if (objects != NULL && list != NULL) {
		msg.batch = batch;
		msg.n_objects = n;
		msg.objects = list;
		(void)rpc_send(u->conn, STRAIT__MSG_TYPE__MSG_SITE_EXPANDED, &msg.base);
	}
	free(objects);
	free(list);
}

static void on_expanded(const struct expanded *list, size_t n, void *ctx)
{
	struct question *q = ctx;

	if (q->u != NULL) {
		LIST_REMOVE(q, entry);
		if (list != NULL) /* else the batch is given up there */
			send_expanded(q->u, q->batch, list, n);
	}
	free(q);
}

static int on_expand(struct uplink *u, const Strait__SiteDigests *msg)
{
	size_t n = msg->digests.len / DIGEST_BYTES;
	struct digest128 d[UPLINK_DIGESTS_MAX];
	struct question *q = malloc(sizeof(*q));

	if (q == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		digest_take(msg->digests.data + i * DIGEST_BYTES, &d[i]);
	*q = (struct question){ .u = u, .batch = msg->batch };
	LIST_INSERT_HEAD(&u->questions, q, entry);
	if (expand_start(u->node, d, n, on_expanded, q) == 0)
		return 0;
	LIST_REMOVE(q, entry);
	free(q);
	return -ENOMEM;
}

static int on_offer(struct uplink *u, const Strait__SiteDigests *q)
{
	Strait__SiteOffered msg = STRAIT__SITE_OFFERED__INIT;
	size_t n = q->digests.len / DIGEST_BYTES;
	struct digest128 d[UPLINK_DIGESTS_MAX];
	uint8_t verdicts[UPLINK_DIGESTS_MAX];

	for (size_t i = 0; i < n; i++)
		digest_take(q->digests.data + i * DIGEST_BYTES, &d[i]);
	u->suppressed += offer_judge(site_node_store(u->node), site_node_recall(u->node), d, n,
		q->has_asked && q->asked, clock_unix_ms() / 1000, verdicts);
	msg.batch = q->batch;
	msg.verdicts.data = verdicts;
	msg.verdicts.len = n;
	return rpc_send(u->conn, STRAIT__MSG_TYPE__MSG_SITE_OFFERED, &msg.base);
}

static int on_accept(struct uplink *u, const Strait__SiteAccept *msg)
{
	log_info("site", "registered master=%s term=%llu", rpc_peer_address(u->conn),
		(unsigned long long)msg->term);
	u->accepted = true;
	u->report_every_ns = (uint64_t)(msg->has_report_ms && msg->report_ms >= 100 ? msg->report_ms
										    : REPORT_MS) *
		1000000;
	u->said[0] = '\0';
	backoff_reset(&u->backoff);
	feed_init(&u->feed, &u->source, &u->gate);
	u->feeding = true;
	rpc_set_drain(u->conn, UPLINK_QUEUE / 2, drain);
	send_report(u, clock_now_ns());
	return 0;
}

static int on_digests(struct uplink *u, uint16_t type, const uint8_t *body, size_t len)
{
	Strait__SiteDigests *q = strait__site_digests__unpack(NULL, len, body);
	int rc = -EBADMSG;

	if (q != NULL && digests_are_good(q))
		rc = type == STRAIT__MSG_TYPE__MSG_SITE_EXPAND ? on_expand(u, q) : on_offer(u, q);
	if (q != NULL)
		strait__site_digests__free_unpacked(q, NULL);
	return rc;
}

/* What could not be fetched, here or from here. Tenants that are not ours are nothing to us. */
static int on_failed(struct uplink *u, const uint8_t *body, size_t len)
{
	Strait__SiteFailed *msg = strait__site_failed__unpack(NULL, len, body);

	if (msg == NULL)
		return -EBADMSG;
	for (size_t i = 0; i + DIGEST_BYTES <= msg->digests.len; i += DIGEST_BYTES) {
		struct digest128 d;

		digest_take(msg->digests.data + i, &d);
		site_node_nowhere(u->node, d);
	}
	for (size_t i = 0; i < msg->n_objects; i++) {
		const Strait__OrderObject *o = msg->objects[i];

		site_node_failed(u->node, o->tenant.data, o->tenant.len, o->key.data, o->key.len);
	}
	strait__site_failed__free_unpacked(msg, NULL);
	return 0;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	Strait__SiteAccept *accept;
	struct uplink *u = ctx;
	int rc = -EBADMSG;

	(void)c;
	if (type == STRAIT__MSG_TYPE__MSG_SITE_ACCEPT && !u->accepted) {
		accept = strait__site_accept__unpack(NULL, len, body);
		if (accept != NULL) {
			rc = on_accept(u, accept);
			strait__site_accept__free_unpacked(accept, NULL);
		}
		return rc;
	}
	if (!u->feeding)
		return -EPROTO;
	switch (type) {
	case STRAIT__MSG_TYPE__MSG_LOG:
		rc = feed_input(&u->feed, body, len);
		pump(u);
		return rc == -ENOBUFS ? 0 : rc;
	case STRAIT__MSG_TYPE__MSG_SITE_EXPAND:
	case STRAIT__MSG_TYPE__MSG_SITE_OFFER:
		return on_digests(u, type, body, len);
	case STRAIT__MSG_TYPE__MSG_SITE_FAILED:
		return on_failed(u, body, len);
	default:
		return -EBADMSG;
	}
}

static int on_open(struct rpc_conn *c, void *ctx)
{
	(void)c;
	send_register(ctx);
	return 0;
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct uplink *u = ctx;

	(void)c;
	(void)err;
	if (u->feeding)
		feed_fini(&u->feed);
	questions_drop(u);
	u->conn = NULL;
	u->accepted = u->feeding = false;
	if (u->left != NULL) {
		u->left(u->left_ctx);
		return;
	}
	u->retry_ns = clock_now_ns() + backoff_next(&u->backoff);
	if (strncmp(u->said, text, sizeof(u->said) - 1) != 0)
		log_warn("site", "no connection with the inter-dc master reason=%s", text);
	snprintf(u->said, sizeof(u->said), "%s", text);
}

static const struct rpc_handler uplink_handler = { on_open, on_message, on_close };

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct uplink *u = arg;
	uint64_t now_ns = clock_now_ns();

	(void)fd;
	(void)what;
	if (u->left != NULL)
		return;
	if (u->conn == NULL && now_ns >= u->retry_ns)
		u->conn = u->connect(u->ctx, &uplink_handler, u);
	if (u->conn == NULL || !u->accepted)
		return;
	if (now_ns - u->report_ns >= u->report_every_ns)
		send_report(u, now_ns);
	if (++u->ticks % ASKED_TICKS == 0)
		send_asked(u);
	pump(u);
}

struct uplink *uplink_create(struct event_base *base, struct site_node *node,
	struct rpc_conn *(*connect)(void *ctx, const struct rpc_handler *h, void *h_ctx), void *ctx)
{
	struct timeval every = { 0, TICK_MS * 1000 };
	struct uplink *u = calloc(1, sizeof(*u));
	uint64_t seed;

	if (u == NULL)
		return NULL;
	LIST_INIT(&u->questions);
	u->connect = connect;
	u->ctx = ctx;
	u->node = node;
	u->tick = event_new(base, -1, EV_PERSIST, tick_cb, u);
	if (u->tick == NULL || event_add(u->tick, &every) < 0 ||
		RAND_bytes(u->boot_id, sizeof(u->boot_id)) != 1) {
		uplink_destroy(u);
		errno = ENOMEM;
		return NULL;
	}
	memcpy(&seed, u->boot_id, sizeof(seed));
	u->source = (struct feed_source){ .log = site_node_log(node),
		.sums = store_sums(site_node_store(node)),
		.list = store_list,
		.ctx = site_node_store(node) };
	gate_init(&u->gate, SNAPSHOTS, SNAPSHOT_NS, seed);
	backoff_init(&u->backoff, RETRY_LEAST, RETRY_MOST, seed);
	return u;
}

void uplink_destroy(struct uplink *u)
{
	if (u == NULL)
		return;
	if (u->feeding)
		feed_fini(&u->feed);
	questions_drop(u);
	if (u->tick != NULL)
		event_free(u->tick);
	free(u);
}

void uplink_leave(struct uplink *u, void (*done)(void *ctx), void *ctx)
{
	Strait__SiteLeave msg = STRAIT__SITE_LEAVE__INIT;

	u->left = done;
	u->left_ctx = ctx;
	if (u->conn == NULL) {
		done(ctx);
		return;
	}
	if (u->accepted)
		(void)rpc_send(u->conn, STRAIT__MSG_TYPE__MSG_SITE_LEAVE, &msg.base);
	rpc_close(u->conn);
}

bool uplink_is_open(const struct uplink *u)
{
	return u->accepted;
}
