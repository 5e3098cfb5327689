/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/base/name.h"
#include "control/master/commits.h"
#include "control/master/master.h"
#include "control/master/replication.h"
#include "control/orders/feasible.h"

#include <strait/wire.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 10000 };

static void reply(struct client *c, struct view *v)
{
	Strait__Reply small = STRAIT__REPLY__INIT;
	int rc = v->failed ? -ENOMEM
			   : rpc_send(c->conn, STRAIT__MSG_TYPE__MSG_REPLY, &v->reply.base);

	if (rc == -EMSGSIZE || rc == -ENOMEM) {
		small.code = -rc;
		small.text = rc == -ENOMEM ? "the master is out of memory"
					   : "the answer is over 64 MiB: ask for less";
		rpc_send(c->conn, STRAIT__MSG_TYPE__MSG_REPLY, &small.base);
	}
	view_fini(v);
}

void operator_refuse(struct client *c, int err, const char *text)
{
	struct view v;

	view_init(&v);
	view_fail(&v, err, "%s", text);
	reply(c, &v);
}

/*
 * ---- sites and edges
 * -------------------------------------------------------------------------------
 */

static void status(struct client *c)
{
	struct master *m = c->master;
	uint64_t counts[ORDER_STATE_COUNT];
	const struct site *s;
	const struct edge *e;
	struct view v;

	view_init(&v);
	v.reply.has_term = v.reply.has_uptime_ms = true;
	v.reply.term = m->term;
	v.reply.uptime_ms = (clock_now_ns() - m->started_ns) / 1000000;
	v.reply.program = MASTER_PROGRAM;
	TAILQ_FOREACH(s, &m->sites, entry)
		view_site(&v, m, s);
	TAILQ_FOREACH(e, &m->edges, entry)
		view_edge(&v, m, e);
	if (ledger_counts(m->ledger, counts) == 0)
		for (int i = 0; i < ORDER_STATE_COUNT; i++)
			view_counter(&v, order_state_name((enum order_state)i), counts[i]);
	if (m->ledger_trouble[0] != '\0')
		v.reply.text = m->ledger_trouble;
	reply(c, &v);
}

static void site_list(struct client *c, const char *name)
{
	const struct site *s;
	struct view v;

	view_init(&v);
	TAILQ_FOREACH(s, &c->master->sites, entry)
		if (name == NULL || strcmp(s->name, name) == 0)
			view_site(&v, c->master, s);
	if (name != NULL && v.reply.n_sites == 0)
		view_fail(&v, ENOENT, "no site %.63s", name);
	reply(c, &v);
}

static void site_add(struct client *c, const Strait__Request *r)
{
	struct ledger_site row = { r->name, r->label, r->cap_bps };
	struct master *m = c->master;
	struct site *s;
	char why[256];

	if (r->name == NULL || name_check("site", r->name, why, sizeof(why)) != 0) {
		operator_refuse(c, EINVAL, r->name == NULL ? "name the site" : why);
		return;
	}
	if (r->label != NULL && r->label[0] != '\0' &&
		text_check("label", r->label, MASTER_LABEL_MAX, why, sizeof(why)) != 0) {
		operator_refuse(c, EINVAL, why);
		return;
	}
	s = site_find(m, r->name);
	if (s != NULL && s->configured) {
		operator_refuse(c, EEXIST,
			"this site is in the master's configuration file: change it there");
		return;
	}
	if (ledger_site_put(m->ledger, &row) != 0) {
		operator_refuse(c, EIO, ledger_error(m->ledger));
		return;
	}
	s = site_put(m, r->name, r->label, r->cap_bps);
	if (s == NULL) {
		operator_refuse(c, ENOMEM, "out of memory");
		return;
	}
	s->stored = true;
	replication_configure(m);
	log_info("master", "site added site=%s by=%s", s->name, rpc_peer(c->conn)->name);
	site_list(c, r->name);
}

static const char *site_in_use(struct master *m, const char *name)
{
	const struct order *o;
	const struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry)
		if (e->client != NULL && strcmp(e->site, name) == 0)
			return "an edge of this site is connected: stop it first";
	for (o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live))
		if (strcmp(o->from_site, name) == 0 || strcmp(o->to_site, name) == 0)
			return "unfinished orders go from or to this site: cancel them first";
	return NULL;
}

static void site_del(struct client *c, const char *name)
{
	struct master *m = c->master;
	struct site *s = name != NULL ? site_find(m, name) : NULL;
	const char *why;

	if (s == NULL) {
		operator_refuse(c, ENOENT, "no such site");
		return;
	}
	why = s->configured ? "this site is in the master's configuration file: remove it there"
			    : site_in_use(m, name);
	if (why != NULL) {
		operator_refuse(c, EBUSY, why);
		return;
	}
	if (ledger_site_del(m->ledger, name) == -EIO) {
		operator_refuse(c, EIO, ledger_error(m->ledger));
		return;
	}
	log_info("master", "site deleted site=%s by=%s", name, rpc_peer(c->conn)->name);
	site_remove(m, s);
	replication_configure(m);
	site_list(c, NULL);
}

/* name: NULL for all, "site" or "site/edge"; text: what is to be told besides, or NULL */
static void edge_list(struct client *c, const char *name, char *text)
{
	char full[2 * ORDERBOOK_SITE_MAX + 1];
	const struct edge *e;
	struct view v;

	view_init(&v);
	TAILQ_FOREACH(e, &c->master->edges, entry) {
		snprintf(full, sizeof(full), "%s/%s", e->site, e->name);
		if (name == NULL || strcmp(name, full) == 0 || strcmp(name, e->site) == 0 ||
			strcmp(name, e->name) == 0)
			view_edge(&v, c->master, e);
	}
	if (name != NULL && v.reply.n_edges == 0)
		view_fail(&v, ENOENT, "no edge %.127s has ever registered", name);
	else
		v.reply.text = text;
	reply(c, &v);
}

static void edge_drain_request(struct client *c, const Strait__Request *r)
{
	bool drain = r->verb == STRAIT__REQUEST__VERB__EDGE_DRAIN;
	int rc = r->name != NULL
		? edge_drain(c->master, r->name, drain, r->hand_over, rpc_peer(c->conn)->name)
		: -ENOENT;

	if (rc == -ENOENT && r->name != NULL && strchr(r->name, '/') == NULL)
		operator_refuse(c, ENOENT,
			"no edge of this name has ever registered: say SITE/EDGE");
	else if (rc == -ENOENT)
		operator_refuse(c, ENOENT, "no such edge has ever registered");
	else if (rc == -EEXIST)
		operator_refuse(c, EEXIST,
			"several sites have an edge of this name: say SITE/EDGE");
	else if (rc < 0)
		operator_refuse(c, EIO, ledger_error(c->master->ledger));
	else
		edge_list(c, r->name,
			rc > 0 ? "no other edge of its site takes orders, so nobody takes over: "
				 "what it has goes on, what is new waits"
			       : NULL);
}

/*
 * ---- orders
 * ----------------------------------------------------------------------------------------
 */

static void order_reply(struct client *c, uint64_t id, bool objects)
{
	struct view v;
	int rc;

	view_init(&v);
	rc = view_order(&v, c->master, id, objects);
	if (rc == -ENOENT)
		view_fail(&v, ENOENT, "no order %" PRIu64 " (finished orders are kept for %s)", id,
			c->master->cfg->keep_finished);
	else if (rc != 0)
		view_fail(&v, EIO, "ledger: %.200s", ledger_error(c->master->ledger));
	reply(c, &v);
}

struct known_order {
	const Strait__Request *request;
	size_t skip; /* objects before those to compare */
	size_t next; /* object to compare */
	bool differs;
	bool opened;
	uint32_t number;     /* of the append to compare with, 0: the submission */
	uint32_t first, end; /* its objects; end 0: there is no such append */
};

static void compare_order(const struct ledger_order *in, void *ctx)
{
	struct known_order *k = ctx;
	const Strait__Request *r = k->request;

	/* not the deadline: it is told from now, so that a repetition has another one */
	k->differs = strcmp(in->from_site, r->from_site) != 0 ||
		strcmp(in->to_site, r->to_site) != 0 ||
		in->class != (r->has_class_ ? r->class_ : 1) ||
		(in->opened != ORDER_CLOSED) != (r->has_open && r->open);
	k->opened = in->opened != ORDER_CLOSED;
	k->end = in->objects;
}

static void find_append(uint32_t number, uint32_t first, void *ctx)
{
	struct known_order *k = ctx;

	if (number == k->number)
		k->first = first;
	else if (number == k->number + 1)
		k->end = first;
}

static void compare_open(const struct ledger_order *in, void *ctx)
{
	struct known_order *k = ctx;

	k->opened = in->opened != ORDER_CLOSED;
	k->first = UINT32_MAX;
	k->end = in->objects;
}

static bool is_same_bytes(ProtobufCBinaryData a, const void *data, size_t len)
{
	return a.len == len && (len == 0 || memcmp(a.data, data, len) == 0);
}

static void compare_object(const struct ledger_object *in, void *ctx)
{
	struct known_order *k = ctx;
	const Strait__OrderObject *o;

	if (k->differs || k->next >= k->request->n_objects)
		return;
	if (k->skip > 0) {
		k->skip--;
		return;
	}
	o = k->request->objects[k->next++];
	k->differs = !is_same_bytes(o->key, in->key, in->key_len) ||
		!is_same_bytes(o->tenant, in->tenant, in->tenant_len);
}

/* Whether the request is for anything but this order, which is in the ledger. */
static bool is_different(struct master *m, uint64_t id, const Strait__Request *r)
{
	struct known_order k = { .request = r };

	if (ledger_order(m->ledger, id, compare_order, &k) != 0)
		return false; /* the reply will say what is wrong */
	if (k.opened && ledger_appends(m->ledger, id, find_append, &k) != 0)
		return false;
	k.differs = k.differs || k.end != r->n_objects;
	if (!k.differs)
		ledger_objects(m->ledger, id, compare_object, &k);
	return k.differs;
}

/* The same of one whose commit is under way. */
static bool is_different_live(const struct order *o, const Strait__Request *r)
{
	struct known_order k = { .request = r };
	struct ledger_order row = { .from_site = o->from_site,
		.to_site = o->to_site,
		.objects = o->count,
		.opened = o->opened,
		.class = o->class };

	compare_order(&row, &k);
	if (k.opened)
		order_append_range(o, 0, &k.first, &k.end);
	k.differs = k.differs || k.end != r->n_objects;
	for (uint32_t i = 0; i < o->count && !k.differs; i++) {
		const struct order_object *obj = &o->objects[i];
		struct ledger_object in = { .key = obj->name + obj->tenant_len,
			.key_len = obj->key_len,
			.tenant = obj->name,
			.tenant_len = obj->tenant_len };

		compare_object(&in, &k);
	}
	return k.differs;
}

/* An earlier submission with this key. The same key for something else is a mistake to be told. */
static bool is_repeated(struct client *c, const Strait__Request *r)
{
	struct master *m = c->master;
	const struct order *o;
	char why[160];
	uint64_t id;

	if (r->idempotency_key == NULL || r->idempotency_key[0] == '\0')
		return false;
	o = orderbook_find_idempotent(m->book, r->idempotency_key);
	id = o != NULL ? o->id : ledger_idempotent(m->ledger, r->idempotency_key);
	if (id == 0)
		return false;
	/* until its commit only the book has it */
	if (o != NULL && !o->stored ? is_different_live(o, r) : is_different(m, id, r)) {
		snprintf(why, sizeof(why),
			"this idempotency key is that of order %" PRIu64
			", which has other objects, sites or class: take a new key",
			id);
		operator_refuse(c, EEXIST, why);
	} else if (o != NULL && !o->stored) {
		c->await_order = id;
	} else {
		order_reply(c, id, false);
	}
	return true;
}

static int check_sites(struct client *c, const Strait__Request *r)
{
	const char *const names[] = { r->from_site, r->to_site };
	char why[256];

	for (int i = 0; i < 2; i++) {
		if (names[i] == NULL) {
			operator_refuse(c, EINVAL,
				"an order needs a source and a destination site");
			return -EINVAL;
		}
		if (site_find(c->master, names[i]) == NULL) {
			snprintf(why, sizeof(why),
				"unknown site %.63s: see straitctl site list, or add it with "
				"straitctl site add",
				names[i]);
			operator_refuse(c, ENOENT, why);
			return -ENOENT;
		}
	}
	if (orderbook_count(c->master->book) >= MASTER_ORDERS_LIVE_MAX) {
		operator_refuse(c, EBUSY, "too many unfinished orders: try again later");
		return -EBUSY;
	}
	return 0;
}

/* The request's keys; free() them. NULL: out of memory, and that was answered. */
static struct orderbook_key *take_keys(struct client *c, const Strait__Request *r)
{
	struct orderbook_key *keys = calloc(r->n_objects + 1, sizeof(*keys));

	if (keys == NULL) {
		operator_refuse(c, ENOMEM, "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < r->n_objects; i++)
		keys[i] = (struct orderbook_key){ .key = r->objects[i]->key.data,
			.key_len = r->objects[i]->key.len,
			.tenant = r->objects[i]->tenant.data,
			.tenant_len = r->objects[i]->tenant.len };
	return keys;
}

/* Of a cap, with symbols for an MTU of 1500, less what manifests, rows and control take. */
static uint64_t link_goodput(uint64_t cap_bps)
{
	return (uint64_t)((double)cap_bps * 0.98 * STRAIT_SYMBOL_BYTES_IPV4 /
		(STRAIT_SYMBOL_BYTES_IPV4 + STRAIT_OVERHEAD_BYTES + STRAIT_LINE_OVERHEAD_BYTES));
}

/*
 * What the way from one site to another is good for: that of the edge which can do the most with
 * all that the caps leave it, by what it reported, or by the caps where nobody sent yet.
 */
static void link_of(struct master *m, const Strait__Request *r, uint64_t now_ms,
	struct feasible_link *l)
{
	uint64_t cap_bps = link_goodput(sites_cap(m, r->from_site, r->to_site));
	const struct edge *e;

	*l = (struct feasible_link){ .now_ms = now_ms };
	TAILQ_FOREACH(e, &m->edges, entry) {
		if (strcmp(e->site, r->from_site) != 0 || !edge_takes(e) || e->report == NULL)
			continue;
		for (size_t i = 0; i < e->report->n_links; i++) {
			const Strait__LinkReport *k = e->report->links[i];
			uint64_t bps =
				feasible_rate(cap_bps, k->expected_bps, link_goodput(k->cap_bps));

			if (strcmp(k->peer_site, r->to_site) != 0 || k->expected_bps == 0 ||
				bps <= l->rate_bps)
				continue;
			l->rate_bps = bps;
			l->latency_ms = k->latency_us / 1000;
			l->tail_bytes = (uint64_t)((double)bps / 8e6 * 1.125 * (double)k->srtt_us);
		}
	}
	if (l->rate_bps == 0)
		l->rate_bps = cap_bps;
}

/* An order's bytes that are not there; 0 when nobody knows. */
static uint64_t order_left(const struct order *o)
{
	uint64_t done, total;

	order_progress(o, &done, &total);
	if (total < o->told_bytes)
		total = o->told_bytes;
	return total > done ? total - done : 0;
}

/*
 * Whether the deadline can be met, as far as is known here; the edge knows sizes and looks
 * again.
 */
static bool is_feasible(struct master *m, const Strait__Request *r, uint64_t now_ms, char *why,
	size_t len)
{
	struct feasible_order own = { .bytes = r->has_bytes ? r->bytes : 0,
		.deadline_ms = r->has_deadline_ms ? r->deadline_ms : 0,
		.class = r->has_class_ ? r->class_ : 1 };
	struct feasible_link link;
	const struct order *o;
	struct feasible f;

	if (own.deadline_ms == 0)
		return true;
	link_of(m, r, now_ms, &link);
	feasible_begin(&f, &link, &own);
	for (o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		struct feasible_order other = { .id = o->id,
			.deadline_ms = o->deadline_ms,
			.class = o->class };

		if (strcmp(o->from_site, r->from_site) != 0 || strcmp(o->to_site, r->to_site) != 0)
			continue;
		other.bytes = order_left(o);
		feasible_add(&f, &other);
	}
	return feasible_end(&f, why, len);
}

static void order_submit(struct client *c, const Strait__Request *r)
{
	struct orderbook_spec spec = { .from_site = r->from_site,
		.to_site = r->to_site,
		.class = r->has_class_ ? r->class_ : 1,
		.deadline_ms = r->deadline_ms,
		.idempotency = r->idempotency_key,
		.open = r->has_open && r->open,
		.bytes = r->has_bytes ? r->bytes : 0,
		.count = r->n_objects };
	struct orderbook_key *keys;
	struct order *o;
	char err[320], why[256];

	if (check_sites(c, r) != 0 || is_repeated(c, r))
		return;
	if (!is_feasible(c->master, r, clock_unix_ms(), why, sizeof(why))) {
		snprintf(err, sizeof(err), "the deadline cannot be met: %s", why);
		log_info("master", "order refused from=%s to=%s by=%s: %s", r->from_site,
			r->to_site, rpc_peer(c->conn)->name, err);
		operator_refuse(c, ETIME, err);
		return;
	}
	keys = take_keys(c, r);
	if (keys == NULL)
		return;
	spec.keys = keys;
	o = orderbook_submit(c->master->book, &spec, clock_unix_ms(), err, sizeof(err));
	if (o == NULL) {
		operator_refuse(c, errno, err);
	} else {
		log_info("master",
			"order submitted order=%" PRIu64 " from=%s to=%s objects=%u by=%s", o->id,
			o->from_site, o->to_site, o->count, rpc_peer(c->conn)->name);
		c->await_order = o->id;
		master_changed(c->master);
	}
	free(keys);
}

/*
 * Whether append number r->append of this order, finished or not, is in the ledger as it is
 * here.
 */
static bool is_appended(struct master *m, const Strait__Request *r)
{
	struct known_order k = { .request = r, .number = r->append };
	uint32_t count;

	if (!r->has_append || r->append == 0 ||
		ledger_order(m->ledger, r->order, compare_open, &k) != 0 || !k.opened ||
		ledger_appends(m->ledger, r->order, find_append, &k) != 0 || k.first == UINT32_MAX)
		return false;
	count = k.end - k.first;
	k.skip = k.first;
	k.differs = count != r->n_objects;
	if (!k.differs)
		ledger_objects(m->ledger, r->order, compare_object, &k);
	return !k.differs;
}

static void order_append(struct client *c, const Strait__Request *r)
{
	struct master *m = c->master;
	struct orderbook_key *keys = take_keys(c, r);
	uint32_t taken;
	char err[256];
	int rc;

	if (keys == NULL)
		return;
	rc = orderbook_append(m->book, r->order, r->has_append ? r->append : 0, keys, r->n_objects,
		clock_unix_ms(), &taken, err, sizeof(err));
	free(keys);
	if (rc == -ENOENT && is_appended(m, r)) {
		order_reply(c, r->order, false);
	} else if (rc != 0) {
		operator_refuse(c, -rc, err);
	} else {
		log_info("master", "order appended order=%" PRIu64 " append=%u objects=%zu by=%s",
			r->order, taken, r->n_objects, rpc_peer(c->conn)->name);
		c->await_order = r->order;
		master_changed(m);
	}
}

/* An order that is finished cannot be open: sealing it again is no error. */
static void order_seal(struct client *c, uint64_t id)
{
	if (orderbook_seal(c->master->book, id, clock_unix_ms()) != 0) {
		order_reply(c, id, false);
		return;
	}
	log_info("master", "order sealed order=%" PRIu64 " by=%s", id, rpc_peer(c->conn)->name);
	c->await_order = id;
	master_changed(c->master);
}

static void order_cancel(struct client *c, uint64_t id)
{
	struct master *m = c->master;

	if (orderbook_cancel(m->book, id, clock_unix_ms()) != 0) {
		struct view v;
		int rc;

		view_init(&v);
		rc = view_order(&v, m, id, false);
		if (rc == 0)
			view_fail(&v, EALREADY, "order %" PRIu64 " is finished already", id);
		else
			view_fail(&v, ENOENT, "no order %" PRIu64, id);
		reply(c, &v);
		return;
	}
	log_info("master", "order canceled order=%" PRIu64 " by=%s", id, rpc_peer(c->conn)->name);
	c->await_order = id;
	master_changed(m);
}

/* One reply to a watcher; the last one when the order is final. */
static void watch_reply(struct client *c)
{
	struct view v;

	view_init(&v);
	if (view_order(&v, c->master, c->watch_order, false) != 0)
		view_fail(&v, ENOENT, "no order %" PRIu64, c->watch_order);
	v.reply.has_last = true;
	v.reply.last = v.reply.code != 0 || v.reply.orders[0]->finished_ms != 0;
	if (v.reply.last)
		c->watch_order = 0;
	/* a watcher that does not read gets fewer lines, not a queue of them */
	if (v.reply.last || rpc_queued_bytes(c->conn) < 65536)
		reply(c, &v);
	else
		view_fini(&v);
}

static void order_watch(struct client *c, uint64_t id)
{
	const struct order *o = orderbook_find(c->master->book, id);

	c->watch_order = id;
	if (o == NULL || o->stored)
		watch_reply(c);
}

void operators_committed(struct master *m)
{
	struct client *c;

	LIST_FOREACH(c, &m->clients, entry) {
		uint64_t id = c->await_order;
		const struct order *o;

		if (id != 0) {
			c->await_order = 0;
			order_reply(c, id, false);
		}
		if (c->watch_order == 0)
			continue;
		o = orderbook_find(m->book, c->watch_order);
		if (o == NULL || order_is_final(o))
			watch_reply(c);
	}
}

void operators_watch(struct master *m)
{
	struct client *c;

	LIST_FOREACH(c, &m->clients, entry) {
		const struct order *o;

		if (c->watch_order == 0)
			continue;
		o = orderbook_find(m->book, c->watch_order);
		if (o == NULL || o->stored)
			watch_reply(c);
	}
}

static void replication(struct client *c, const Strait__Request *r)
{
	struct view v;

	view_init(&v);
	if (r->verb == STRAIT__REQUEST__VERB__REPLICATION)
		view_replication(&v, c->master);
	else if (r->verb == STRAIT__REQUEST__VERB__LOCATE)
		view_locate(&v, c->master, r);
	else if (r->verb == STRAIT__REQUEST__VERB__BACKFILL)
		view_backfill(&v, c->master, r);
	else
		view_fetch(&v, c->master, r);
	reply(c, &v);
}

static void commits(struct client *c, const Strait__Request *r)
{
	char why[256];
	int rc = commits_start(c, r, why, sizeof(why));

	if (rc != 0 && rc != -ESTALE)
		operator_refuse(c, -rc, why);
}

static void request(struct client *c, const Strait__Request *r)
{
	struct view v;

	switch (r->verb) {
	case STRAIT__REQUEST__VERB__STATUS:
		status(c);
		break;
	case STRAIT__REQUEST__VERB__SITE_LIST:
		site_list(c, r->name);
		break;
	case STRAIT__REQUEST__VERB__SITE_ADD:
		site_add(c, r);
		break;
	case STRAIT__REQUEST__VERB__SITE_DEL:
		site_del(c, r->name);
		break;
	case STRAIT__REQUEST__VERB__EDGE_LIST:
	case STRAIT__REQUEST__VERB__EDGE_SHOW:
		edge_list(c, r->name, NULL);
		break;
	case STRAIT__REQUEST__VERB__EDGE_DRAIN:
	case STRAIT__REQUEST__VERB__EDGE_UNDRAIN:
		edge_drain_request(c, r);
		break;
	case STRAIT__REQUEST__VERB__ORDER_SUBMIT:
		order_submit(c, r);
		break;
	case STRAIT__REQUEST__VERB__ORDER_LIST:
		view_init(&v);
		if (view_orders(&v, c->master,
			    r->has_limit && r->limit > 0 && r->limit < LIST_MAX ? r->limit
				    : r->limit >= LIST_MAX                      ? LIST_MAX
							   : LIST_DEFAULT) != 0)
			view_fail(&v, EIO, "ledger: %.200s", ledger_error(c->master->ledger));
		reply(c, &v);
		break;
	case STRAIT__REQUEST__VERB__ORDER_SHOW:
		order_reply(c, r->order, !r->no_objects);
		break;
	case STRAIT__REQUEST__VERB__ORDER_APPEND:
		order_append(c, r);
		break;
	case STRAIT__REQUEST__VERB__ORDER_SEAL:
		order_seal(c, r->order);
		break;
	case STRAIT__REQUEST__VERB__ORDER_CANCEL:
		order_cancel(c, r->order);
		break;
	case STRAIT__REQUEST__VERB__ORDER_WATCH:
		order_watch(c, r->order);
		break;
	case STRAIT__REQUEST__VERB__REPLICATION:
	case STRAIT__REQUEST__VERB__LOCATE:
	case STRAIT__REQUEST__VERB__BACKFILL:
	case STRAIT__REQUEST__VERB__FETCH:
		replication(c, r);
		break;
	case STRAIT__REQUEST__VERB__COMMITS:
		commits(c, r);
		break;
	default:
		operator_refuse(c, EOPNOTSUPP,
			"this master does not know the request: is it older?");
		break;
	}
}

int operator_message(struct client *c, uint16_t type, const uint8_t *body, size_t len)
{
	Strait__Request *r;

	if (type != STRAIT__MSG_TYPE__MSG_REQUEST)
		return -EOPNOTSUPP;
	if (c->await_order != 0 || c->watch_order != 0 || c->commits != NULL)
		return rpc_fail(c->conn, EBUSY, "one request at a time");
	r = strait__request__unpack(NULL, len, body);
	if (r == NULL)
		return -EBADMSG;
	if (strcmp(rpc_peer(c->conn)->role, "operator") != 0 &&
		r->verb != STRAIT__REQUEST__VERB__COMMITS)
		operator_refuse(c, EACCES, "a certificate of role tenant may follow commits only");
	else if (!operators_refuse_unwritten(c, r))
		request(c, r);
	strait__request__free_unpacked(r, NULL);
	return 0;
}
