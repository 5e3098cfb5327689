/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/master/commits.h"
#include "control/master/master.h"
#include "control/master/replication.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void view_init(struct view *v)
{
	memset(v, 0, sizeof(*v));
	strait__reply__init(&v->reply);
}

/* Strings of a view are its own, so that a live order may end while a reply is built. */
char *view_dup(struct view *v, const char *text)
{
	char *copy = strdup(text);

	if (copy == NULL)
		v->failed = true;
	return copy;
}

void view_add_name(struct view *v, char ***list, size_t *n, const char *name)
{
	char **bigger = realloc(*list, (*n + 1) * sizeof(*bigger));

	if (bigger == NULL) {
		v->failed = true;
		return;
	}
	*list = bigger;
	bigger[*n] = view_dup(v, name);
	*n += bigger[*n] != NULL;
}

void view_dup_bytes(struct view *v, ProtobufCBinaryData *out, const void *data, size_t len)
{
	out->data = malloc(len + 1);
	if (out->data == NULL) {
		v->failed = true;
		return;
	}
	if (len > 0)
		memcpy(out->data, data, len);
	out->len = len;
}

static void free_order(Strait__OrderInfo *o)
{
	for (size_t i = 0; i < o->n_detail; i++) {
		free(o->detail[i]->key.data);
		free(o->detail[i]->tenant.data);
		free(o->detail[i]);
	}
	free(o->detail);
	free(o->from_site);
	free(o->to_site);
	free(o->state);
	free(o->text);
	free(o->opened);
	free(o->way);
	for (size_t i = 0; i < o->n_edges; i++)
		free(o->edges[i]);
	free(o->edges);
	free(o);
}

void view_fini(struct view *v)
{
	for (size_t i = 0; i < v->reply.n_orders; i++)
		free_order(v->reply.orders[i]);
	for (size_t i = 0; i < v->reply.n_sites; i++) {
		free(v->reply.sites[i]->name);
		free(v->reply.sites[i]->label);
		free(v->reply.sites[i]);
	}
	for (size_t i = 0; i < v->reply.n_edges; i++) {
		free(v->reply.edges[i]->site);
		free(v->reply.edges[i]->name);
		free(v->reply.edges[i]->mgmt_address);
		free(v->reply.edges[i]->program);
		free(v->reply.edges[i]->refused);
		free(v->reply.edges[i]->state);
		for (size_t k = 0; k < v->reply.edges[i]->n_pool_sites; k++)
			free(v->reply.edges[i]->pool_sites[k]);
		free(v->reply.edges[i]->pool_sites);
		free(v->reply.edges[i]); /* its report belongs to the edge */
	}
	for (size_t i = 0; i < v->reply.n_counters; i++) {
		free(v->reply.counters[i]->name);
		free(v->reply.counters[i]);
	}
	view_replication_fini(v);
	view_commits_fini(v);
	free(v->reply.orders);
	free(v->reply.sites);
	free(v->reply.edges);
	free(v->reply.counters);
}

void view_fail(struct view *v, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
	v->reply.code = err;
	v->reply.text = v->text;
}

/* Room for one more pointer; the array doubles at powers of two. */
void *view_append(struct view *v, void *array, size_t *n, size_t size)
{
	void ***a = array;
	void *item = calloc(1, size);

	if (item != NULL && (*n & (*n - 1)) == 0) {
		void **bigger = realloc(*a, (*n == 0 ? 1 : *n * 2) * sizeof(*bigger));

		if (bigger == NULL) {
			free(item);
			item = NULL;
		} else {
			*a = bigger;
		}
	}
	if (item == NULL) {
		v->failed = true;
		return NULL;
	}
	(*a)[(*n)++] = item;
	return item;
}

/*
 * ---- orders
 * ----------------------------------------------------------------------------------------
 */

static void set_bytes(Strait__OrderInfo *out, uint64_t done, uint64_t total)
{
	out->has_bytes_done = out->has_bytes_total = true;
	out->bytes_done = done;
	out->bytes_total = total;
}

/* What the ledger's row does not know of an order that is not finished. */
static void overlay(struct view *v, Strait__OrderInfo *out, const struct order *o)
{
	uint64_t done, total;
	const struct shipment *s;

	if (order_is_final(o)) /* not committed: nobody may hear of the end yet */
		return;
	order_progress(o, &done, &total);
	set_bytes(out, done, total);
	out->committed = o->committed;
	out->existed = o->existed;
	out->failed = o->failed;
	out->goodput_bps = o->rate.bps;
	free(out->state);
	out->state = view_dup(v, order_state_name(o->state));
	free(out->text);
	out->text = view_dup(v, o->text);
	TAILQ_FOREACH(s, &o->shipments, of_order) {
		char text[2 * ORDERBOOK_EDGE_MAX + 4];

		if (s->open == 0)
			continue;
		snprintf(text, sizeof(text), "%s > %s", s->from_edge, s->to_edge);
		view_add_name(v, &out->edges, &out->n_edges, text);
	}
}

struct order_sink {
	struct view *v;
	struct master *m;
};

static void on_order(const struct ledger_order *in, void *ctx)
{
	struct order_sink *sink = ctx;
	struct view *v = sink->v;
	Strait__OrderInfo *out;
	const struct order *live;

	out = view_append(v, &v->reply.orders, &v->reply.n_orders, sizeof(*out));
	if (out == NULL)
		return;
	strait__order_info__init(out);
	out->order = in->id;
	out->from_site = view_dup(v, in->from_site);
	out->to_site = view_dup(v, in->to_site);
	out->state = view_dup(v, order_state_name((enum order_state)in->state));
	out->text = view_dup(v, in->text);
	out->class_ = in->class;
	out->objects = in->objects;
	if (in->way != ORDER_WAY_NONE)
		out->way = view_dup(v, order_way_name(in->way));
	if (in->opened != ORDER_CLOSED) {
		out->opened = view_dup(v, order_opened_name((enum order_opened)in->opened));
		out->has_appends = true;
		out->appends = in->appends;
	}
	out->has_created_ms = true;
	out->created_ms = in->created_ms;
	out->has_finished_ms = in->finished_ms != 0;
	out->finished_ms = in->finished_ms;
	out->has_deadline_ms = in->deadline_ms != 0;
	out->deadline_ms = in->deadline_ms;
	out->has_committed = out->has_existed = out->has_failed = out->has_goodput_bps = true;
	out->committed = in->committed;
	out->existed = in->existed;
	out->failed = in->failed;
	set_bytes(out, in->bytes, in->bytes);
	if (in->finished_ms > in->created_ms && in->committed > 0) {
		uint64_t bytes = in->existed == 0 ? in->bytes
						  : ledger_carried_bytes(sink->m->ledger, in->id);

		out->goodput_bps = bytes * 8000 / (in->finished_ms - in->created_ms);
	}
	live = orderbook_find(sink->m->book, in->id);
	if (live != NULL && in->finished_ms == 0)
		overlay(v, out, live);
}

struct object_sink {
	struct view *v;
	Strait__OrderInfo *order;
};

static void on_object(const struct ledger_object *in, void *ctx)
{
	struct object_sink *sink = ctx;
	Strait__OrderInfo *o = sink->order;
	Strait__OrderObject *out;

	out = view_append(sink->v, &o->detail, &o->n_detail, sizeof(*out));
	if (out == NULL)
		return;
	strait__order_object__init(out);
	view_dup_bytes(sink->v, &out->key, in->key, in->key_len);
	view_dup_bytes(sink->v, &out->tenant, in->tenant, in->tenant_len);
	out->has_tenant = in->tenant_len > 0;
	out->has_status = true;
	out->status = in->status;
	out->has_length = in->length != 0;
	out->length = in->length;
}

int view_order(struct view *v, struct master *m, uint64_t id, bool with_objects)
{
	struct order_sink sink = { v, m };
	struct object_sink objects = { v, NULL };
	int rc = ledger_order(m->ledger, id, on_order, &sink);

	if (rc != 0 || !with_objects || v->reply.n_orders == 0)
		return rc;
	objects.order = v->reply.orders[v->reply.n_orders - 1];
	return ledger_objects(m->ledger, id, on_object, &objects);
}

int view_orders(struct view *v, struct master *m, uint32_t limit)
{
	struct order_sink sink = { v, m };

	return ledger_orders(m->ledger, limit, on_order, &sink);
}

/*
 * ---- sites and edges
 * -------------------------------------------------------------------------------
 */

void view_site(struct view *v, struct master *m, const struct site *s)
{
	Strait__SiteInfo *out = view_append(v, &v->reply.sites, &v->reply.n_sites, sizeof(*out));
	const struct edge *e;
	uint64_t orders, bytes;

	if (out == NULL)
		return;
	strait__site_info__init(out);
	out->name = view_dup(v, s->name);
	out->label = view_dup(v, s->label);
	out->has_edges_draining = out->has_orders = out->has_backlog_bytes = true;
	out->has_edges = out->has_edges_up = out->has_cap_bps = out->has_configured = true;
	out->cap_bps = s->cap_bps;
	out->configured = s->configured;
	TAILQ_FOREACH(e, &m->edges, entry) {
		if (strcmp(e->site, s->name) != 0)
			continue;
		edge_load(m, e, &orders, &bytes);
		out->edges++;
		out->edges_up += e->client != NULL;
		out->edges_draining += e->client != NULL && !edge_takes(e);
		out->orders += orders;
		out->backlog_bytes += bytes;
	}
}

void view_edge(struct view *v, const struct master *m, const struct edge *e)
{
	Strait__EdgeInfo *out = view_append(v, &v->reply.edges, &v->reply.n_edges, sizeof(*out));
	uint64_t share = shares_sum(&m->shares, &e->shares);

	if (out == NULL)
		return;
	strait__edge_info__init(out);
	out->site = view_dup(v, e->site);
	out->name = view_dup(v, e->name);
	out->mgmt_address = view_dup(v, e->mgmt_address);
	out->program = view_dup(v, e->program);
	out->has_connected = true;
	out->connected = e->client != NULL;
	out->has_connected_since_ms = out->connected;
	out->connected_since_ms = e->since_ms;
	out->has_last_seen_ms = e->last_seen_ms != 0;
	out->last_seen_ms = out->connected ? clock_unix_ms() : e->last_seen_ms;
	if (e->refused[0] != '\0' && clock_unix_ms() - e->refused_ms < MASTER_REFUSED_MS)
		out->refused = view_dup(v, e->refused);
	out->report = e->report;
	out->state = view_dup(v, edge_state(m, e));
	out->has_draining = out->has_orders = out->has_backlog_bytes = out->has_lost = true;
	out->draining = e->draining;
	out->lost = e->shares.lost;
	edge_load(m, e, &out->orders, &out->backlog_bytes);
	out->has_share_bps = share != 0 && share != CAP_NONE;
	out->share_bps = share;
	for (uint32_t i = 0; i < e->pool_site_count; i++) {
		char text[ORDERBOOK_SITE_MAX + 40];

		snprintf(text, sizeof(text), "%s%s", e->pool_sites[i],
			sites_allow_pools(m, e, e->pool_sites[i]) ? "" : " (not in its pools_at)");
		view_add_name(v, &out->pool_sites, &out->n_pool_sites, text);
	}
}

void view_counter(struct view *v, const char *name, uint64_t value)
{
	Strait__Counter *out =
		view_append(v, &v->reply.counters, &v->reply.n_counters, sizeof(*out));

	if (out == NULL)
		return;
	strait__counter__init(out);
	out->name = view_dup(v, name);
	out->value = value;
}
