/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/replication.h"

#include "control/base/clock.h"
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/site/site_config.h"

#include <strait/status.h>

#include <openssl/crypto.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	SECRET_MAX = 4096,
	WANTED_MAX = 1 << 18,
	MEMORY_ENTRIES = 1 << 16,
	ECHO_S = 7 * 86400,
	ASKED_S = 600,
	REPORT_MS = 1000,
	SEND_MAX = 4 << 20, /* queued to a site master that does not read */
};
#define COMPARE_NS UINT64_C(900000000000)

static uint64_t now_s(void)
{
	return clock_unix_ms() / 1000;
}

/*
 * ---- what the federation has done
 * -----------------------------------------------------------------------
 */

static bool send_digests(struct master *m, uint16_t slot, uint16_t type, uint64_t batch,
	const struct digest128 *d, size_t n, bool asked)
{
	struct client *c = m->replication->slot[slot].client;
	Strait__SiteDigests msg = STRAIT__SITE_DIGESTS__INIT;
	uint8_t bytes[FEDERATION_BATCH * 16];

	if (c == NULL || n > FEDERATION_BATCH || rpc_queued_bytes(c->conn) > SEND_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		memcpy(bytes + i * 16, &d[i].lo, 8);
		memcpy(bytes + i * 16 + 8, &d[i].hi, 8);
	}
	msg.batch = batch;
	msg.digests.data = bytes;
	msg.digests.len = n * 16;
	msg.has_asked = asked;
	msg.asked = asked;
	return rpc_send(c->conn, type, &msg.base) == 0;
}

static bool on_expand(void *ctx, uint16_t from, uint64_t batch, const struct digest128 *d, size_t n)
{
	return send_digests(ctx, from, STRAIT__MSG_TYPE__MSG_SITE_EXPAND, batch, d, n, false);
}

static bool on_offer(void *ctx, uint16_t to, uint64_t batch, const struct digest128 *d, size_t n,
	bool asked)
{
	return send_digests(ctx, to, STRAIT__MSG_TYPE__MSG_SITE_OFFER, batch, d, n, asked);
}

static uint64_t on_submit(void *ctx, const struct federation_order *what)
{
	struct orderbook_key keys[FEDERATION_BATCH];
	struct master *m = ctx;
	struct replication *r = m->replication;
	uint64_t now_ms = clock_unix_ms();
	struct orderbook_spec spec = { .from_site = r->slot[what->from].site,
		.to_site = r->slot[what->to].site,
		.class = what->class,
		.bytes = what->bytes,
		.deadline_ms = what->ttl_ns > 0 ? now_ms + what->ttl_ns / 1000000 + 1 : 0,
		.keys = keys,
		.count = what->count };
	struct order *o;
	char err[256];

	for (size_t i = 0; i < what->count; i++)
		keys[i] = (struct orderbook_key){ what->keys[i].key, what->keys[i].tenant,
			what->keys[i].key_len, what->keys[i].tenant_len };
	o = orderbook_submit(m->book, &spec, now_ms, err, sizeof(err));
	if (o == NULL) {
		log_limited(LOG_LEVEL_WARN, "replication", 10000, "no order from=%s to=%s: %s",
			spec.from_site, spec.to_site, err);
		return 0;
	}
	r->orders++;
	log_debug("replication", "order=%" PRIu64 " from=%s to=%s objects=%zu", o->id,
		spec.from_site, spec.to_site, what->count);
	master_changed(m);
	return o->id;
}

static bool on_can_ship(void *ctx, uint16_t from, uint16_t to)
{
	struct master *m = ctx;
	const struct replication *r = m->replication;

	return m->ledger_trouble[0] == '\0' && !m->stopping &&
		orderbook_count(m->book) < MASTER_ORDERS_LIVE_MAX &&
		sites_reach(m, r->slot[from].site, r->slot[to].site);
}

static void on_nowhere(void *ctx, uint16_t to, const struct digest128 *d, size_t n)
{
	failed_nowhere(ctx, to, d, n);
}

static const struct federation_ops ops = { on_expand, on_offer, on_submit, on_can_ship,
	on_nowhere };

static uint8_t end_of(unsigned int status)
{
	switch (status) {
	case STRAIT_STATUS_COMMITTED:
	case STRAIT_STATUS_EXISTS:
		return FEDERATION_DONE;
	case STRAIT_STATUS_EVICTED:
	case STRAIT_STATUS_NOT_FOUND:
		return FEDERATION_ABSENT;
	case STRAIT_STATUS_CANCELED:
	case STRAIT_STATUS_DEADLINE:
	case STRAIT_STATUS_TOO_LARGE:
		return FEDERATION_GONE;
	case STRAIT_STATUS_FULL:
		return FEDERATION_FULL;
	case STRAIT_STATUS_UNREACHABLE:
	case STRAIT_STATUS_REFUSED:
	case STRAIT_STATUS_INTERNAL:
		return FEDERATION_EDGE;
	default:
		return FEDERATION_FAILED;
	}
}

void replication_order_changed(struct master *m, const struct order *o)
{
	for (const struct order_object *x = o->dirty_objects; x != NULL; x = x->next_dirty)
		if (x->state == OBJECT_FINAL && end_of(x->status) == FEDERATION_FAILED)
			federation_failed(m->replication->f, o->id, (uint32_t)(x - o->objects),
				now_s());
}

void replication_order_final(struct master *m, const struct order *o)
{
	uint64_t lengths[FEDERATION_BATCH];
	uint8_t ends[FEDERATION_BATCH];

	if (o->count > FEDERATION_BATCH)
		return; /* not one of ours */
	for (uint32_t i = 0; i < o->count; i++) {
		ends[i] = end_of(o->objects[i].status);
		lengths[i] =
			o->objects[i].status == STRAIT_STATUS_COMMITTED ? o->objects[i].length : 0;
	}
	federation_ended(m->replication->f, o->id, ends, lengths, o->count, clock_now_ns(),
		now_s());
}

/*
 * ---- sites, tenants, policies
 * ---------------------------------------------------------------------------
 */

int replication_slot(const struct replication *r, const char *site)
{
	for (int i = 0; i < INDEX_SITES; i++)
		if (r->slot[i].used && strcmp(r->slot[i].site, site) == 0)
			return i;
	return -1;
}

int replication_tenant_find(const struct replication *r, const char *name, size_t len)
{
	for (uint32_t i = 0; i < r->tenants; i++)
		if (strlen(r->tenant[i].name) == len && memcmp(r->tenant[i].name, name, len) == 0)
			return (int)i;
	return -ENOENT;
}

/* The same, added if need be; at most FEDERATION_TENANTS. */
static int tenant_put(struct replication *r, const char *name, size_t len)
{
	int n = replication_tenant_find(r, name, len);
	struct replication_tenant *t;

	if (n >= 0)
		return n;
	if (r->tenants == FEDERATION_TENANTS || len >= sizeof(t->name))
		return -ENOSPC;
	t = &r->tenant[r->tenants];
	memset(t, 0, sizeof(*t));
	memcpy(t->name, name, len);
	return (int)r->tenants++;
}

int replication_digest(const struct replication *r, const Strait__OrderObject *o,
	struct digest128 *out)
{
	char tenant[STRAIT_TENANT_BYTES_MAX + 1] = "default";
	struct digest_key key;

	if (r->secret == NULL)
		return -ENOKEY;
	if (o->key.len == 0 || o->tenant.len >= sizeof(tenant))
		return -EINVAL;
	if (o->tenant.len > 0) {
		memcpy(tenant, o->tenant.data, o->tenant.len);
		tenant[o->tenant.len] = '\0';
	}
	if (site_tenant_key(r->secret, r->secret_len, tenant, &key) != 0)
		return -EINVAL;
	*out = digest_of_key(&key, o->key.data, o->key.len);
	OPENSSL_cleanse(&key, sizeof(key));
	return 0;
}

static void slot_close(struct replication *r, int i, const char *why)
{
	struct replication_slot *s = &r->slot[i];

	if (s->client != NULL) {
		s->client->site_master = false;
		s->gone_ns = clock_now_ns();
		s->gone_ms = clock_unix_ms();
		snprintf(s->gone, sizeof(s->gone), "%s", why);
	}
	s->client = NULL;
	federation_close(r->f, (uint16_t)i, clock_now_ns());
}

static void slot_free(struct replication *r, int i)
{
	struct replication_slot *s = &r->slot[i];

	if (s->client != NULL)
		rpc_close(s->client->conn);
	slot_close(r, i, "");
	if (s->report != NULL)
		strait__site_report__free_unpacked(s->report, NULL);
	federation_site_del(r->f, (uint16_t)i);
	memset(s, 0, sizeof(*s));
}

bool replication_policy_tenants(const struct replication *r, const struct master_policy_config *p,
	uint64_t *mask)
{
	*mask = 0;
	for (unsigned int t = 0; t < p->tenants_count; t++) {
		int n = replication_tenant_find(r, p->tenants[t], strlen(p->tenants[t]));

		*mask |= n >= 0 ? UINT64_C(1) << n : 0;
	}
	return p->tenants_count == 0 || *mask != 0;
}

static struct planner_policy policy_of(struct master *m, const char *from, const char *to,
	uint64_t *ttl_ns)
{
	const struct master_policy_config *c = policy_find(m, site_find(m, from), site_find(m, to));
	struct planner_policy p = { .allow = false };

	*ttl_ns = 0;
	if (c == NULL)
		return p;
	p.allow = replication_policy_tenants(m->replication, c, &p.tenants) && c->allowed &&
		sites_may_reach(m, from, to);
	p.class = c->shipping_class;
	p.after = (uint8_t)c->after;
	p.least_bytes = (uint32_t)c->least_bytes;
	p.most_bytes = (uint32_t)c->most_bytes;
	p.pause_below_ns = c->pause_below_ns;
	p.ttl_by_age = c->ttl_by_age;
	*ttl_ns = c->ttl_ns;
	return p;
}

/* Those that are allowed, or those that are not. */
static void policies_set(struct master *m, bool allowed)
{
	struct replication *r = m->replication;

	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		for (uint16_t k = 0; k < INDEX_SITES; k++) {
			struct planner_policy p;
			uint64_t ttl_ns;

			if (i == k || !r->slot[i].used || !r->slot[k].used)
				continue;
			p = policy_of(m, r->slot[i].site, r->slot[k].site, &ttl_ns);
			if (p.allow == allowed)
				(void)federation_policy_set(r->f, i, k, &p, ttl_ns);
		}
	}
}

/* New ones first: what waits under one that is gone comes by another if it can. */
static void policies_configure(struct master *m)
{
	policies_set(m, true);
	policies_set(m, false);
}

/* A misspelled label would otherwise look like nothing to do. */
static void policies_unused_log(const struct master *m)
{
	for (unsigned int i = 0; i < m->cfg->policies_count; i++) {
		const struct master_policy_config *p = &m->cfg->policies[i];
		const struct site *from, *to;
		bool used = false;

		TAILQ_FOREACH(from, &m->sites, entry)
			TAILQ_FOREACH(to, &m->sites, entry)
				used = used || (from != to && policy_find(m, from, to) == p);
		if (!used)
			log_warn("replication",
				"policy fits no two sites, or others before it do number=%u "
				"from=%s to=%s",
				i + 1, p->from, p->to);
	}
}

void replication_configure(struct master *m)
{
	struct replication *r = m->replication;
	const struct site *s;

	for (int i = 0; i < INDEX_SITES; i++)
		if (r->slot[i].used && site_find(m, r->slot[i].site) == NULL)
			slot_free(r, i);
	TAILQ_FOREACH(s, &m->sites, entry) {
		int i = 0;

		if (replication_slot(r, s->name) >= 0)
			continue;
		while (i < INDEX_SITES && r->slot[i].used)
			i++;
		if (i == INDEX_SITES || federation_site_add(r->f, (uint16_t)i) < 0) {
			log_limited(LOG_LEVEL_WARN, "replication", 60000,
				"site is not followed, there are %d already site=%s", INDEX_SITES,
				s->name);
			continue;
		}
		r->slot[i].used = true;
		snprintf(r->slot[i].site, sizeof(r->slot[i].site), "%s", s->name);
	}
	policies_configure(m);
	policies_unused_log(m);
}

static int secret_load(struct master *m, struct replication *r)
{
	char why[300];
	int rc;

	if (m->cfg->secret == NULL)
		return 0;
	rc = file_check_private(m->cfg->secret, why, sizeof(why));
	if (rc == 0)
		rc = file_read(m->cfg->secret, SECRET_MAX, &r->secret, &r->secret_len);
	else
		log_error("master", "secret: %s", why);
	return rc;
}

int replication_create(struct master *m)
{
	struct federation_config cfg = { .planner = { .keys = m->cfg->keys,
						 .wanted_max = WANTED_MAX,
						 .memory_entries = MEMORY_ENTRIES,
						 .evicted_s = (uint32_t)(m->cfg->evicted_ns /
							 1000000000),
						 .echo_s = ECHO_S,
						 .asked_s = ASKED_S },
		.compare_every_ns = COMPARE_NS };
	struct replication *r = calloc(1, sizeof(*r));
	int rc = -ENOMEM;

	if (getrandom(&cfg.seed, sizeof(cfg.seed), 0) != sizeof(cfg.seed))
		cfg.seed = clock_now_ns();
	m->replication = r;
	if (r != NULL)
		r->f = federation_create(&cfg, &ops, m);
	if (r != NULL && r->f != NULL)
		rc = secret_load(m, r);
	if (rc == 0)
		replication_configure(m);
	return rc;
}

void replication_destroy(struct master *m)
{
	struct replication *r = m->replication;

	if (r == NULL)
		return;
	for (int i = 0; i < INDEX_SITES; i++)
		if (r->slot[i].report != NULL)
			strait__site_report__free_unpacked(r->slot[i].report, NULL);
	federation_destroy(r->f);
	if (r->secret != NULL)
		OPENSSL_cleanse(r->secret, r->secret_len);
	free(r->secret);
	free(r);
	m->replication = NULL;
}

/*
 * ---- site masters
 * ------------------------------------------------------------------------------------
 */

static void pump(struct master *m, uint16_t slot)
{
	struct client *c = m->replication->slot[slot].client;
	uint8_t buf[LOG_FRAME_HEADER_BYTES];

	while (c != NULL && rpc_queued_bytes(c->conn) < SEND_MAX &&
		federation_pull(m->replication->f, slot, clock_now_ns(), buf))
		(void)rpc_send_bytes(c->conn, STRAIT__MSG_TYPE__MSG_LOG, buf, sizeof(buf));
}

/* It is gone for so long that nobody shall rely on what it held, nor keep it in memory. */
static void slot_expire(struct master *m, uint16_t i, uint64_t now_ns)
{
	struct replication *r = m->replication;
	struct replication_slot *s = &r->slot[i];
	struct federation_flow flow = r->f->site[i].flow;

	if (!s->used || s->expired || s->gone_ns == 0 ||
		now_ns - s->gone_ns < m->cfg->forget_after_ns)
		return;
	log_warn("replication", "site master is gone for long, what it held is forgotten site=%s",
		s->site);
	federation_site_del(r->f, i);
	if (federation_site_add(r->f, i) < 0) {
		log_error("replication", "out of memory, not followed any more site=%s", s->site);
		s->used = false;
		return;
	}
	flow.flying = flow.flying_bytes = 0;
	r->f->site[i].flow = flow; /* what was done stays done */
	if (s->report != NULL)
		strait__site_report__free_unpacked(s->report, NULL);
	s->report = NULL;
	s->expired = true;
	policies_configure(m);
}

void replication_tick(struct master *m)
{
	struct replication *r = m->replication;
	uint64_t now_ns = clock_now_ns();

	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		struct client *c = r->slot[i].client;

		if (c == NULL) {
			slot_expire(m, i, now_ns);
			continue;
		}
		pump(m, i);
		if (!reader_is_silent(&r->f->site[i].reader, now_ns))
			continue;
		log_warn("replication",
			"site master is gone site=%s reason=nothing heard of the log for 10 s",
			r->slot[i].site);
		rpc_fail(c->conn, ETIMEDOUT, "nothing heard of the log for 10 s");
		slot_close(r, i, "nothing heard of the log for 10 s");
	}
	federation_tick(r->f, now_ns, now_s());
}

/* Another connected site has a tenant of this name with another key: digests mean nothing then. */
static const char *strange_tenant(const struct replication *r, int slot, int number,
	const Strait__SiteTenant *t)
{
	const struct replication_tenant *known = &r->tenant[number];

	if (!known->has_id || memcmp(known->id, t->id.data, sizeof(known->id)) == 0)
		return NULL;
	for (int i = 0; i < INDEX_SITES; i++)
		for (uint32_t k = 0;
			i != slot && r->slot[i].client != NULL && k < r->slot[i].tenant_count; k++)
			if (r->slot[i].tenants[k] == number)
				return r->slot[i].site;
	return NULL;
}

static int tenants_take(struct replication *r, int slot, const Strait__SiteRegister *msg, char *why,
	size_t why_len)
{
	struct replication_slot *s = &r->slot[slot];

	s->tenant_count = 0;
	for (size_t i = 0; i < msg->n_tenants; i++) {
		const Strait__SiteTenant *t = msg->tenants[i];
		const char *other;
		int n = tenant_put(r, t->name, strlen(t->name));

		if (t->number != i || t->id.len != sizeof(r->tenant[0].id) ||
			i == FEDERATION_TENANTS) {
			snprintf(why, why_len, "malformed list of tenants");
			return -EINVAL;
		}
		if (n < 0) {
			snprintf(why, why_len, "more than %d tenants in all sites",
				FEDERATION_TENANTS);
			return n;
		}
		other = strange_tenant(r, slot, n, t);
		if (other != NULL) {
			snprintf(why, why_len,
				"its key of tenant %.64s is not that of site %s: the "
				"deployment's secret must be the same at all sites",
				t->name, other);
			return -EKEYREJECTED;
		}
		memcpy(r->tenant[n].id, t->id.data, sizeof(r->tenant[n].id));
		r->tenant[n].has_id = true;
		s->tenants[s->tenant_count++] = (uint16_t)n;
	}
	return 0;
}

static int check_register(struct client *c, const Strait__SiteRegister *msg, int *slot, char *why,
	size_t len)
{
	struct replication *r = c->master->replication;
	const struct replication_slot *s;

	*slot = -1;
	if (c->site_master || msg->version != LOG_FRAME_VERSION) {
		snprintf(why, len, "registered already, or version %u of a log's stream, not %d",
			msg->version, LOG_FRAME_VERSION);
		return -EPROTO;
	}
	if (strcmp(msg->site, rpc_peer(c->conn)->site) != 0) {
		snprintf(why, len, "it says it is of site %.63s, its certificate of %s", msg->site,
			rpc_peer(c->conn)->site);
		return -EACCES;
	}
	*slot = replication_slot(r, msg->site);
	if (*slot < 0 && site_find(c->master, msg->site) != NULL) {
		snprintf(why, len,
			"site %s is known, but this master follows %d others, and no more: remove "
			"one (straitctl site del), or make what site %s has sources of another "
			"site",
			msg->site, INDEX_SITES, msg->site);
		return -ENOSPC;
	}
	if (*slot < 0 || msg->boot_id.len != sizeof(s->boot_id)) {
		snprintf(why, len,
			"site %s is not followed by this master: add it with straitctl site add %s",
			msg->site, msg->site);
		return -ENOENT;
	}
	s = &r->slot[*slot];
	if (s->client != NULL && memcmp(s->boot_id, msg->boot_id.data, sizeof(s->boot_id)) != 0) {
		snprintf(why, len, "another process at %s is the site master of %s and answers",
			s->address, s->site);
		return -EEXIST;
	}
	return tenants_take(r, *slot, msg, why, len);
}

static int on_register(struct client *c, const Strait__SiteRegister *msg)
{
	Strait__SiteAccept accept = STRAIT__SITE_ACCEPT__INIT;
	struct master *m = c->master;
	struct replication *r = m->replication;
	struct replication_slot *s;
	char why[256];
	uint32_t tenants = r->tenants;
	int slot, rc = check_register(c, msg, &slot, why, sizeof(why));

	if (rc != 0) {
		log_warn("replication", "site master refused peer=%s site=%.63s reason=%s",
			rpc_peer_address(c->conn), msg->site, why);
		if (slot >= 0) {
			snprintf(r->slot[slot].refused, sizeof(why), "%s", why);
			r->slot[slot].refused_ns = clock_now_ns();
		}
		return rpc_fail(c->conn, -rc, "%s", why);
	}
	if (r->tenants > tenants)
		policies_configure(m); /* some may be of them */
	s = &r->slot[slot];
	if (s->client != NULL) {
		rpc_fail(s->client->conn, EEXIST, "a newer connection took over");
		slot_close(r, slot, "a newer connection took over");
	}
	memcpy(s->boot_id, msg->boot_id.data, sizeof(s->boot_id));
	snprintf(s->address, sizeof(s->address), "%s", rpc_peer_address(c->conn));
	snprintf(s->program, sizeof(s->program), "%s", msg->program != NULL ? msg->program : "");
	s->refused[0] = '\0';
	s->takes_failed = msg->has_takes_failed && msg->takes_failed;
	s->left = s->expired = false;
	s->gone_ns = s->gone_ms = 0;
	s->since_ms = clock_unix_ms();
	s->client = c;
	c->site_master = true;
	c->slot = (uint16_t)slot;
	accept.term = m->term;
	accept.has_report_ms = true;
	accept.report_ms = m->cfg->report_ms < REPORT_MS ? (uint32_t)m->cfg->report_ms : REPORT_MS;
	(void)rpc_send(c->conn, STRAIT__MSG_TYPE__MSG_SITE_ACCEPT, &accept.base);
	log_info("replication", "site master registered site=%s peer=%s tenants=%u", s->site,
		s->address, s->tenant_count);
	federation_open(r->f, c->slot, s->tenants, s->tenant_count, clock_now_ns());
	pump(m, c->slot);
	return 0;
}

void sitemaster_disconnected(struct client *c, const char *why)
{
	struct replication *r = c->master->replication;

	if (!c->site_master)
		return;
	log_warn("replication", "site master is gone site=%s reason=%s", r->slot[c->slot].site,
		why);
	slot_close(r, c->slot, r->slot[c->slot].left ? "it was stopped" : why);
}

static int on_log(struct client *c, const uint8_t *body, size_t len)
{
	struct replication *r = c->master->replication;
	enum replica_state before = r->f->site[c->slot].reader.replica.state, now;
	int rc = federation_input(r->f, c->slot, body, len, clock_now_ns(), now_s());

	now = r->f->site[c->slot].reader.replica.state;
	if (now != before && (now == REPLICA_LIVE || before == REPLICA_LIVE))
		log_info("replication", "view of site=%s is %s objects=%" PRIu64,
			r->slot[c->slot].site, now == REPLICA_LIVE ? "live" : "stale",
			r->f->site[c->slot].reader.replica.sums->total.count);
	if (rc == -EBUSY) {
		rpc_close(c->conn);
		return 0;
	}
	if (rc != 0)
		return rpc_fail(c->conn, -rc, "the log does not fit: %s", strerror(-rc));
	pump(c->master, c->slot);
	return 0;
}

static int on_expanded(struct client *c, const Strait__SiteExpanded *msg)
{
	struct federation_key keys[FEDERATION_BATCH];

	if (msg->n_objects > FEDERATION_BATCH)
		return -EBADMSG;
	for (size_t i = 0; i < msg->n_objects; i++) {
		const Strait__OrderObject *o = msg->objects[i];

		if (o->key.len > STRAIT_KEY_BYTES_MAX || o->tenant.len > STRAIT_TENANT_BYTES_MAX)
			return -EBADMSG;
		keys[i] = (struct federation_key){ o->key.data, o->tenant.data, o->key.len,
			o->tenant.len, o->has_length ? o->length : 0 };
	}
	return federation_expanded(c->master->replication->f, c->slot, msg->batch, keys,
		msg->n_objects, clock_now_ns(), now_s());
}

static int on_offered(struct client *c, const Strait__SiteOffered *msg)
{
	return federation_offered(c->master->replication->f, c->slot, msg->batch,
		msg->verdicts.data, msg->verdicts.len, clock_now_ns(), now_s());
}

static int on_asked(struct client *c, const Strait__SiteAsked *msg)
{
	const struct replication_slot *s = &c->master->replication->slot[c->slot];

	if (msg->tenant >= s->tenant_count || msg->digests.len % 16 != 0)
		return -EBADMSG;
	for (size_t i = 0; i < msg->digests.len; i += 16) {
		struct digest128 d;

		memcpy(&d.lo, msg->digests.data + i, 8);
		memcpy(&d.hi, msg->digests.data + i + 8, 8);
		(void)federation_asked(c->master->replication->f, c->slot, d,
			s->tenants[msg->tenant], false, clock_now_ns(), now_s());
	}
	return 0;
}

static int on_report(struct client *c, Strait__SiteReport *msg)
{
	struct replication_slot *s = &c->master->replication->slot[c->slot];

	if (s->report != NULL)
		strait__site_report__free_unpacked(s->report, NULL);
	s->report = msg;
	s->report_ns = clock_now_ns();
	return 0;
}

static int unpack(struct client *c, uint16_t type, const uint8_t *body, size_t len)
{
	Strait__SiteExpanded *expanded;
	Strait__SiteOffered *offered;
	Strait__SiteReport *report;
	Strait__SiteAsked *asked;
	int rc = -EBADMSG;

	switch (type) {
	case STRAIT__MSG_TYPE__MSG_SITE_EXPANDED:
		expanded = strait__site_expanded__unpack(NULL, len, body);
		if (expanded != NULL) {
			rc = on_expanded(c, expanded);
			strait__site_expanded__free_unpacked(expanded, NULL);
		}
		return rc;
	case STRAIT__MSG_TYPE__MSG_SITE_OFFERED:
		offered = strait__site_offered__unpack(NULL, len, body);
		if (offered != NULL) {
			rc = on_offered(c, offered);
			strait__site_offered__free_unpacked(offered, NULL);
		}
		return rc;
	case STRAIT__MSG_TYPE__MSG_SITE_ASKED:
		asked = strait__site_asked__unpack(NULL, len, body);
		if (asked != NULL) {
			rc = on_asked(c, asked);
			strait__site_asked__free_unpacked(asked, NULL);
		}
		return rc;
	case STRAIT__MSG_TYPE__MSG_SITE_REPORT:
		report = strait__site_report__unpack(NULL, len, body);
		return report != NULL ? on_report(c, report) : rc;
	default:
		return rc;
	}
}

int sitemaster_message(struct client *c, uint16_t type, const uint8_t *body, size_t len)
{
	Strait__SiteRegister *reg;
	int rc = -EBADMSG;

	if (type == STRAIT__MSG_TYPE__MSG_SITE_REGISTER) {
		reg = strait__site_register__unpack(NULL, len, body);
		if (reg != NULL) {
			rc = on_register(c, reg);
			strait__site_register__free_unpacked(reg, NULL);
		}
		return rc;
	}
	if (!c->site_master)
		return rpc_fail(c->conn, EPROTO, "register first");
	if (type == STRAIT__MSG_TYPE__MSG_LOG)
		return on_log(c, body, len);
	if (type == STRAIT__MSG_TYPE__MSG_SITE_LEAVE) {
		c->master->replication->slot[c->slot].left = true;
		return 0;
	}
	return unpack(c, type, body, len);
}
