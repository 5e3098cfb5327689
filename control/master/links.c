/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/links.h"

#include "control/base/clock.h"
#include "control/base/log.h"

#include <string.h>

#define MS_NS UINT64_C(1000000)

enum { LINKS_MAX = 1024 }; /* of a message */

static struct edge *edge_in(struct shares_edge *e)
{
	return (struct edge *)((char *)e - offsetof(struct edge, shares));
}

static void on_caps(void *ctx, const char *from, const char *to, struct shares_caps *out)
{
	struct master *m = ctx;
	const struct site *a = site_find(m, from), *b = site_find(m, to);
	const char *edge;

	if (a == NULL || b == NULL)
		return;
	out->link_bps = sites_pair_cap(m, a, b);
	if (sites_way(m, from, to, &edge) != ORDER_WAN)
		return;
	out->out_bps = a->cap_bps;
	out->in_bps = b->cap_bps;
}

static bool on_used(void *ctx, const struct shares_flow *f, uint64_t *bps)
{
	const Strait__EdgeReport *r = edge_in(f->from)->report;

	(void)ctx;
	for (size_t i = 0; r != NULL && i < r->n_links; i++) {
		const Strait__LinkReport *l = r->links[i];

		if (!l->has_used_bps || !l->up || strcmp(l->peer_site, f->to->site) != 0 ||
			strcmp(l->peer_edge, f->to->name) != 0)
			continue;
		*bps = l->used_bps;
		return true;
	}
	return false;
}

static bool on_hears(void *ctx, const struct shares_flow *f)
{
	const Strait__EdgeReport *r = edge_in(f->to)->report;

	(void)ctx;
	for (size_t i = 0; r != NULL && i < r->n_links; i++)
		if (r->links[i]->up && strcmp(r->links[i]->peer_site, f->from->site) == 0 &&
			strcmp(r->links[i]->peer_edge, f->from->name) == 0)
			return true;
	return r == NULL;
}

static void on_send(void *ctx, struct shares_edge *to)
{
	static Strait__EdgeLink links[LINKS_MAX];
	static Strait__EdgeLink *pointers[LINKS_MAX];
	static char *fenced[LINKS_MAX];
	Strait__EdgeLinks msg = STRAIT__EDGE_LINKS__INIT;
	const struct edge *e = edge_in(to);
	const struct shares_flow *f;
	struct master *m = ctx;
	struct edge *other;

	TAILQ_FOREACH(f, &m->shares.flows, entry) {
		Strait__EdgeLink *l = &links[msg.n_links];

		if (f->from != to || f->grant.told_bps == 0 || msg.n_links == LINKS_MAX)
			continue;
		strait__edge_link__init(l);
		l->to_site = (char *)f->to->site;
		l->to_edge = (char *)f->to->name;
		l->cap_bps = f->grant.told_bps != CAP_NONE ? f->grant.told_bps : 0;
		l->has_most_bps = true;
		l->most_bps = sites_cap(m, f->from->site, f->to->site);
		pointers[msg.n_links++] = l;
	}
	TAILQ_FOREACH(other, &m->edges, entry)
		if (other->shares.fenced && strcmp(other->site, e->site) != 0 &&
			msg.n_fenced < LINKS_MAX)
			fenced[msg.n_fenced++] = other->full;
	msg.term = m->term;
	msg.seq = to->seq;
	msg.links = pointers;
	msg.fenced = fenced;
	(void)rpc_send(e->client->conn, STRAIT__MSG_TYPE__MSG_EDGE_LINKS, &msg.base);
}

void links_init(struct master *m)
{
	static const struct shares_ops ops = { on_caps, on_used, on_hears, on_send };

	shares_init(&m->shares, &ops, m, clock_now_ns());
}

void links_fini(struct master *m)
{
	shares_fini(&m->shares);
}

/* By name the first time only: this is asked of every shipment, often. Edges never go. */
static struct edge *edge_known(struct master *m, struct orderbook_edge *e)
{
	if (e->owner == NULL)
		e->owner = edge_find(m, e->site, e->name);
	return e->owner;
}

/* NULL: it is copied, or out of memory. */
static struct shares_flow *flow_of(struct master *m, const struct shipment *s)
{
	struct edge *from, *to;

	if (s->from == NULL || s->to == NULL)
		return NULL;
	from = edge_known(m, s->from);
	to = edge_known(m, s->to);
	return from != NULL && to != NULL ? shares_get(&m->shares, &from->shares, &to->shares)
					  : NULL;
}

/* Shipments that waited for a share of their link. */
static void start_waiting(struct master *m, struct shares_flow *f)
{
	f->waiting = false;
	for (struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order)
			if (s->open > 0 && !s->is_new && flow_of(m, s) == f)
				edges_start(m, s);
	}
}

void links_update(struct master *m)
{
	struct shares_flow *f;

	if (TAILQ_EMPTY(&m->edges))
		return;
	TAILQ_FOREACH(f, &m->shares.flows, entry)
		f->shipments = 0;
	for (const struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		const struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order) {
			f = s->open > 0 ? flow_of(m, s) : NULL;
			if (f != NULL)
				f->shipments++;
		}
	}
	m->shares.unknown_ns = m->cfg->edge_lost_ms * MS_NS;
	m->shares.report_ns = m->cfg->report_ms * MS_NS;
	shares_update(&m->shares, clock_now_ns());
	TAILQ_FOREACH(f, &m->shares.flows, entry)
		if (f->waiting && f->grant.told_bps != 0)
			start_waiting(m, f);
}

uint64_t links_share(struct master *m, const struct shipment *s)
{
	struct shares_flow *f = flow_of(m, s);

	if (f == NULL)
		return 0;
	f->waiting = f->grant.told_bps == 0;
	return f->grant.told_bps;
}

void links_registered(struct master *m, struct edge *e, const Strait__EdgeRegister *msg)
{
	shares_connected(&m->shares, &e->shares, msg->has_takes_links && msg->takes_links);
	for (size_t i = 0; i < msg->n_links; i++) {
		const Strait__EdgeLink *l = msg->links[i];
		struct edge *to = edge_find(m, l->to_site, l->to_edge);

		if (to != NULL)
			shares_had(&m->shares, &e->shares, &to->shares,
				l->cap_bps != 0 ? l->cap_bps : CAP_NONE);
	}
}

void links_reached(struct master *m, const struct shipment *s, bool reached)
{
	struct shares_flow *f = flow_of(m, s);

	if (f != NULL)
		f->avoid_until_ns = reached ? 0 : clock_now_ns() + MASTER_AVOID_MS * MS_NS;
}

bool links_avoid(void *ctx, const char *from_site, const char *from, const char *to_site,
	const char *to)
{
	struct master *m = ctx;
	const struct edge *a = edge_find(m, from_site, from), *b = edge_find(m, to_site, to);
	const struct shares_flow *f =
		a != NULL && b != NULL ? shares_find(&m->shares, &a->shares, &b->shares) : NULL;

	return f != NULL && clock_now_ns() < f->avoid_until_ns;
}
