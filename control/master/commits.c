/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/commits.h"

#include "control/base/clock.h"
#include "control/base/log.h"

#include <strait/status.h>
#include <strait/wire.h>

#include <event2/event.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, AGAIN_MS = 5, PROGRESS_MS = 1000, COMMIT_BYTES = 128 };

struct subscription {
	TAILQ_ENTRY(subscription) entry;
	struct client *client;
	uint64_t next, end; /* end 0: it goes on */
	uint64_t told;      /* next, as it was told last */
	uint64_t told_ns;
	char from_site[ORDERBOOK_SITE_MAX], to_site[ORDERBOOK_SITE_MAX]; /* "": any */
	char label[MASTER_LABEL_MAX + 1];
	int class;      /* -1: any */
	uint64_t order; /* 0: any */
	bool objects, orders;
	uint8_t tenant[STRAIT_TENANT_BYTES_MAX];
	size_t tenant_len; /* 0: any */
	uint8_t *prefix;
	size_t prefix_len;
};

/* ---- a reply ---- */

struct batch {
	struct subscription *s;
	struct view v;
	size_t bytes;
	uint32_t looks; /* at objects of orders that ended */
};

void view_commits_fini(struct view *v)
{
	for (size_t i = 0; i < v->reply.n_commits; i++) {
		free(v->reply.commits[i]->from_site);
		free(v->reply.commits[i]->to_site);
		free(v->reply.commits[i]->state);
		free(v->reply.commits[i]->key.data);
		free(v->reply.commits[i]->tenant.data);
		free(v->reply.commits[i]);
	}
	free(v->reply.commits);
}

static void put_commit(struct view *v, const struct ledger_commit *c)
{
	Strait__Commit *out = view_append(v, &v->reply.commits, &v->reply.n_commits, sizeof(*out));

	if (out == NULL)
		return;
	strait__commit__init(out);
	out->seq = c->seq;
	out->time_ms = c->at_ms;
	out->order = c->order;
	out->from_site = view_dup(v, c->from_site);
	out->to_site = view_dup(v, c->to_site);
	out->class_ = c->class;
	if (c->ended) {
		out->state = view_dup(v, order_state_name((enum order_state)c->state));
		out->has_objects = out->has_committed = out->has_existed_objects = true;
		out->has_failed = out->has_bytes = true;
		out->objects = c->objects;
		out->committed = c->committed;
		out->existed_objects = c->existed;
		out->failed = c->failed;
		out->bytes = c->bytes;
		return;
	}
	out->has_key = true;
	view_dup_bytes(v, &out->key, c->object.key, c->object.key_len);
	out->has_tenant = c->object.tenant_len > 0;
	if (out->has_tenant)
		view_dup_bytes(v, &out->tenant, c->object.tenant, c->object.tenant_len);
	out->has_length = c->object.length > 0;
	out->length = c->object.length;
	out->has_existed = true;
	out->existed = c->object.status == STRAIT_STATUS_EXISTS;
}

static bool is_of_tenant(const struct subscription *s, const struct ledger_object *o)
{
	const void *tenant = o->tenant_len > 0 ? o->tenant : "default";
	size_t len = o->tenant_len > 0 ? o->tenant_len : 7;

	return s->tenant_len == 0 || (len == s->tenant_len && memcmp(tenant, s->tenant, len) == 0);
}

static bool fits(struct master *m, const struct subscription *s, const struct ledger_commit *c,
	uint32_t *looks)
{
	const struct site *to;

	if ((s->order != 0 && c->order != s->order) ||
		(s->class >= 0 && c->class != (unsigned int)s->class) ||
		(s->from_site[0] != '\0' && strcmp(c->from_site, s->from_site) != 0) ||
		(s->to_site[0] != '\0' && strcmp(c->to_site, s->to_site) != 0) ||
		!(c->ended ? s->orders : s->objects))
		return false;
	if (s->label[0] != '\0') {
		to = site_find(m, c->to_site);
		if (to == NULL || strcmp(to->label, s->label) != 0)
			return false;
	}
	if (c->ended && s->tenant_len == 0 && s->prefix_len == 0)
		return true;
	if (c->ended) {
		*looks += c->objects;
		return ledger_order_is_of(m->ledger, c->order, s->tenant, s->tenant_len, s->prefix,
			s->prefix_len);
	}
	return is_of_tenant(s, &c->object) && c->object.key_len >= s->prefix_len &&
		(s->prefix_len == 0 || memcmp(c->object.key, s->prefix, s->prefix_len) == 0);
}

static bool on_commit(const struct ledger_commit *c, void *ctx)
{
	struct batch *b = ctx;
	struct subscription *s = b->s;

	if (b->bytes >= COMMITS_BATCH_BYTES || b->looks >= COMMITS_TURN_ROWS ||
		(s->end != 0 && c->seq >= s->end))
		return false;
	s->next = c->seq + 1;
	if (!fits(s->client->master, s, c, &b->looks))
		return true;
	put_commit(&b->v, c);
	b->bytes += COMMIT_BYTES + c->object.key_len + c->object.tenant_len;
	return true;
}

static void describe(struct view *v, struct master *m, uint64_t next)
{
	v->reply.has_commits_epoch = v->reply.has_commits_next = v->reply.has_last = true;
	v->reply.commits_epoch = ledger_commit_epoch(m->ledger);
	v->reply.commits_next = next;
}

static void describe_lost(struct view *v, struct master *m)
{
	uint64_t next = ledger_commit_next(m->ledger);
	uint32_t epoch = ledger_commit_epoch(m->ledger);

	describe(v, m, next);
	v->reply.last = true;
	v->reply.has_commits_first = true;
	v->reply.commits_first = ledger_commit_first(m->ledger);
	view_fail(v, ESTALE,
		"these commits are not kept any more, or of another ledger (kept are those from "
		"%08" PRIx32 "/%" PRIu64
		" on): read anew what is there, then go on after %08" PRIx32 "/%" PRIu64,
		epoch, v->reply.commits_first, epoch, next - 1);
}

/* Given up with the connection where memory does not suffice: a hole is never passed over. */
static void send_off(struct client *c, struct view *v)
{
	if (v->failed || rpc_send(c->conn, STRAIT__MSG_TYPE__MSG_REPLY, &v->reply.base) != 0)
		rpc_fail(c->conn, ENOMEM, "the master is out of memory");
	view_fini(v);
}

/* ---- turns ---- */

static void wake(struct master *m, unsigned int ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(m->commits_timer, &tv);
}

static bool is_behind(const struct subscription *s)
{
	return s->next < ledger_commit_next(s->client->master->ledger);
}

/* Nothing of what came was for it, for long: it is told how far it is. */
static bool is_to_hear(const struct subscription *s, uint64_t now_ns)
{
	return s->next != s->told && now_ns - s->told_ns >= PROGRESS_MS * UINT64_C(1000000);
}

/* One reply at most. Rows read. The subscription may be gone afterwards: *ended. */
static uint32_t serve(struct subscription *s, uint32_t most, uint64_t now_ns, bool *ended)
{
	struct client *c = s->client;
	struct master *m = c->master;
	struct batch b = { .s = s };
	bool failed;
	int rc;

	view_init(&b.v);
	rc = ledger_commits(m->ledger, s->next, most < BATCH ? most : BATCH, on_commit, &b);
	failed = rc < 0 && b.v.reply.n_commits == 0;
	*ended = failed || (s->end != 0 && s->next >= s->end);
	if (failed) {
		if (rc == -ESTALE)
			describe_lost(&b.v, m);
		else
			view_fail(&b.v, EIO, "ledger: %.200s", ledger_error(m->ledger));
	} else {
		describe(&b.v, m, s->next);
		b.v.reply.last = *ended;
	}
	if (*ended || b.v.reply.n_commits > 0 || is_to_hear(s, now_ns)) {
		s->told = s->next;
		s->told_ns = now_ns;
		send_off(c, &b.v);
	} else {
		view_fini(&b.v);
	}
	return (rc > 0 ? (uint32_t)rc : 1) + b.looks;
}

static void turn(struct master *m)
{
	uint32_t left = COMMITS_TURN_ROWS, n = m->subscriptions_count;
	unsigned int again_ms = 0;
	uint64_t now_ns = clock_now_ns();
	struct subscription *s;

	/* Whoever was served waits behind the others. */
	while (n-- > 0 && left > 0 && (s = TAILQ_FIRST(&m->subscriptions)) != NULL) {
		bool ended = false;

		TAILQ_REMOVE(&m->subscriptions, s, entry);
		TAILQ_INSERT_TAIL(&m->subscriptions, s, entry);
		while (!ended && left > 0 && (is_behind(s) || is_to_hear(s, now_ns)) &&
			rpc_queued_bytes(s->client->conn) < COMMITS_QUEUE) {
			uint32_t rows = serve(s, left, now_ns, &ended);

			left -= rows < left ? rows : left;
		}
		if (ended)
			commits_stop(s->client);
		else if (s->next != s->told)
			again_ms = PROGRESS_MS;
	}
	if (left == 0)
		again_ms = AGAIN_MS;
	if (again_ms > 0)
		wake(m, again_ms);
}

static void timer_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	turn(arg);
}

static void drain(struct rpc_conn *conn, void *ctx)
{
	struct client *c = ctx;

	(void)conn;
	if (c->commits != NULL && is_behind(c->commits))
		wake(c->master, 0);
}

void commits_committed(struct master *m)
{
	if (!TAILQ_EMPTY(&m->subscriptions))
		wake(m, 0);
}

/* ---- begin and end ---- */

int commits_create(struct master *m)
{
	m->commits_timer = evtimer_new(m->base, timer_cb, m);
	return m->commits_timer != NULL ? 0 : -ENOMEM;
}

void commits_destroy(struct master *m)
{
	if (m->commits_timer != NULL)
		event_free(m->commits_timer);
	m->commits_timer = NULL;
}

void commits_stop(struct client *c)
{
	struct subscription *s = c->commits;

	if (s == NULL)
		return;
	TAILQ_REMOVE(&c->master->subscriptions, s, entry);
	c->master->subscriptions_count--;
	c->commits = NULL;
	free(s->prefix);
	free(s);
}

static int take_name(const char *name, char *out, size_t len)
{
	return name == NULL || (size_t)snprintf(out, len, "%s", name) < len ? 0 : -EINVAL;
}

static int take_wanted(struct subscription *s, const Strait__Request *r)
{
	const Strait__CommitsWanted *w = r->commits;

	s->class = r->has_class_ ? (int)(r->class_ & 0xff) : -1;
	s->order = r->has_order ? r->order : 0;
	s->objects = w == NULL || !w->no_objects;
	s->orders = w == NULL || !w->no_orders;
	if (take_name(r->from_site, s->from_site, sizeof(s->from_site)) < 0 ||
		take_name(r->to_site, s->to_site, sizeof(s->to_site)) < 0 ||
		take_name(r->label, s->label, sizeof(s->label)) < 0)
		return -EINVAL;
	if (w == NULL)
		return 0;
	if (w->tenant.len > sizeof(s->tenant) || w->key_prefix.len > STRAIT_KEY_BYTES_MAX)
		return -EINVAL;
	memcpy(s->tenant, w->tenant.data != NULL ? w->tenant.data : s->tenant, w->tenant.len);
	s->tenant_len = w->tenant.len;
	if (w->key_prefix.len > 0) {
		s->prefix = malloc(w->key_prefix.len);
		if (s->prefix == NULL)
			return -ENOMEM;
		memcpy(s->prefix, w->key_prefix.data, w->key_prefix.len);
		s->prefix_len = w->key_prefix.len;
	}
	return 0;
}

/* A tenant's certificate says whose commits they are, whatever the request says. */
static int restrict_to(struct subscription *s, const struct rpc_identity *id)
{
	size_t len = strlen(id->name);

	if (strcmp(id->role, "tenant") != 0)
		return 0;
	if (s->tenant_len != 0 && (s->tenant_len != len || memcmp(s->tenant, id->name, len) != 0))
		return -EACCES;
	if (strcmp(id->site, "-") != 0) {
		if (s->to_site[0] != '\0' && strcmp(s->to_site, id->site) != 0)
			return -EACCES;
		snprintf(s->to_site, sizeof(s->to_site), "%s", id->site);
	}
	memcpy(s->tenant, id->name, len);
	s->tenant_len = len;
	return 0;
}

static uint32_t count_of_tenant(const struct master *m, const struct rpc_identity *id)
{
	const struct subscription *s;
	uint32_t n = 0;

	TAILQ_FOREACH(s, &m->subscriptions, entry)
		n += strcmp(rpc_peer(s->client->conn)->role, "tenant") == 0 &&
			strcmp(rpc_peer(s->client->conn)->name, id->name) == 0;
	return n;
}

/* Where it begins. -ESTALE: that is not there. */
static int take_position(struct subscription *s, struct master *m, const Strait__CommitsWanted *w)
{
	uint64_t next = ledger_commit_next(m->ledger), first = ledger_commit_first(m->ledger);

	s->end = w == NULL || !w->follow ? next : 0;
	s->next = next;
	if (w == NULL || !w->has_seq)
		return 0;
	if (w->seq != 0 && !w->has_epoch)
		return -EINVAL;
	s->next = w->seq != 0 ? w->seq : first;
	return s->next < first || s->next > next ||
			(w->has_epoch && w->epoch != ledger_commit_epoch(m->ledger))
		? -ESTALE
		: 0;
}

static int prepare(struct subscription *s, struct client *c, const Strait__Request *r, char *why,
	size_t len)
{
	const struct rpc_identity *id = rpc_peer(c->conn);
	int rc;

	if (c->master->subscriptions_count >= COMMITS_MAX ||
		(strcmp(id->role, "tenant") == 0 &&
			count_of_tenant(c->master, id) >= COMMITS_TENANT_MAX)) {
		snprintf(why, len, "too many subscriptions: at most %d, %d of a tenant",
			COMMITS_MAX, COMMITS_TENANT_MAX);
		return -EBUSY;
	}
	rc = take_wanted(s, r);
	if (rc == 0)
		rc = restrict_to(s, id);
	if (rc == 0)
		rc = take_position(s, c->master, r->commits);
	if (rc == -EACCES)
		snprintf(why, len,
			"this certificate is of tenant %s%s%s: commits of others are "
			"not for it",
			id->name, strcmp(id->site, "-") != 0 ? " at site " : "",
			strcmp(id->site, "-") != 0 ? id->site : "");
	else if (rc != 0)
		snprintf(why, len, "%s",
			rc == -ENOMEM ? "the master is out of memory"
				      : "a name is too long, or a seq has no epoch");
	return rc;
}

int commits_start(struct client *c, const Strait__Request *r, char *why, size_t len)
{
	struct subscription *s = calloc(1, sizeof(*s));
	struct master *m = c->master;
	struct view v;
	bool ended;
	int rc;

	if (s == NULL) {
		snprintf(why, len, "the master is out of memory");
		return -ENOMEM;
	}
	s->client = c;
	rc = prepare(s, c, r, why, len);
	view_init(&v);
	if (rc == -ESTALE) {
		describe_lost(&v, m);
		send_off(c, &v);
	}
	if (rc != 0) {
		free(s->prefix);
		free(s);
		return rc;
	}
	s->told = s->next;
	s->told_ns = clock_now_ns();
	c->commits = s;
	m->subscriptions_count++;
	TAILQ_INSERT_TAIL(&m->subscriptions, s, entry);
	log_debug("master", "commits followed by=%s role=%s from=%" PRIu64, rpc_peer(c->conn)->name,
		rpc_peer(c->conn)->role, s->next);
	describe(&v, m, s->next);
	v.reply.has_commits_first = true;
	v.reply.commits_first = ledger_commit_first(m->ledger);
	ended = s->end != 0 && s->next >= s->end;
	v.reply.last = ended;
	send_off(c, &v);
	if (ended) {
		commits_stop(c);
		return 0;
	}
	rpc_set_drain(c->conn, COMMITS_QUEUE / 2, drain);
	wake(m, 0);
	return 0;
}
