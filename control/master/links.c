/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/links.h"

#include "control/base/clock.h"
#include "control/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS UINT64_C(1000000)

enum { FLOWS_MAX = 1024, GROUPS_MAX = 512 };

enum group_kind { LINK, OUT, IN };

/* What one cap is of. */
struct group_key {
	enum group_kind kind;
	const struct site *from, *to;
};

/* The flows that count, and their caps. */
struct division {
	struct link_flow *of[FLOWS_MAX];
	struct cap_grant *grants[FLOWS_MAX];
	struct cap_flow flows[FLOWS_MAX];
	uint64_t told_before[FLOWS_MAX];
	struct cap_group groups[GROUPS_MAX];
	struct group_key keys[GROUPS_MAX];
	size_t n, groups_n;
};

static struct link_flow *flow_find(const struct master *m, const struct edge *from,
	const struct edge *to)
{
	struct link_flow *f;

	TAILQ_FOREACH(f, &m->flows, entry)
		if (f->from == from && f->to == to)
			return f;
	return NULL;
}

static struct link_flow *flow_get(struct master *m, struct edge *from, struct edge *to)
{
	struct link_flow *f = flow_find(m, from, to);

	if (f != NULL || from == NULL || to == NULL)
		return f;
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	f->from = from;
	f->to = to;
	TAILQ_INSERT_TAIL(&m->flows, f, entry);
	return f;
}

static struct link_flow *flow_of(struct master *m, const struct shipment *s)
{
	return flow_get(m, edge_find(m, s->order->from_site, s->from_edge),
		edge_find(m, s->order->to_site, s->to_edge));
}

static void count_shipments(struct master *m)
{
	struct link_flow *f;

	TAILQ_FOREACH(f, &m->flows, entry)
		f->shipments = 0;
	for (const struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		const struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order) {
			if (s->open == 0 || shipment_is_local(s))
				continue;
			f = flow_of(m, s);
			if (f != NULL)
				f->shipments++;
		}
	}
}

/* ---- who wants what ---------------------------------------------------------------------- */

/* An edge that may be sending, and what, is not known. */
static bool is_unknown(const struct master *m, const struct edge *e, uint64_t now_ns)
{
	return !e->known && now_ns - m->started_ns < m->cfg->edge_lost_ms * MS_NS;
}

static bool is_frozen(const struct master *m, const struct group_key *k, uint64_t now_ns)
{
	const struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry) {
		bool is_from = k->from != NULL && strcmp(e->site, k->from->name) == 0;
		bool is_to = k->to != NULL && strcmp(e->site, k->to->name) == 0;

		if (is_unknown(m, e, now_ns) && (k->kind == IN ? !is_to : is_from))
			return true;
	}
	return false;
}

static uint16_t group_get(struct master *m, struct division *d, struct group_key k,
	uint64_t cap_bps, uint64_t now_ns)
{
	size_t i;

	if (cap_bps == 0)
		return CAP_NO_GROUP;
	for (i = 0; i < d->groups_n; i++)
		if (d->keys[i].kind == k.kind && d->keys[i].from == k.from && d->keys[i].to == k.to)
			return (uint16_t)i;
	if (i == GROUPS_MAX)
		return CAP_NO_GROUP;
	d->keys[i] = k;
	d->groups[i] = (struct cap_group){ .cap_bps = cap_bps, .frozen = is_frozen(m, &k, now_ns) };
	d->groups_n++;
	return (uint16_t)i;
}

static uint64_t want(const struct master *m, const struct link_flow *f, uint64_t now_ns)
{
	const Strait__EdgeReport *r = f->from->report;
	uint64_t told = f->grant.told_bps;

	/* of a whole second with this share, and of a report that knows it */
	if (r == NULL || told == 0 || told == CAP_NONE ||
		now_ns - f->raised_ns < (1000 + 2 * m->cfg->report_ms) * MS_NS)
		return CAP_NONE;
	for (size_t i = 0; i < r->n_links; i++) {
		const Strait__LinkReport *l = r->links[i];

		if (!l->has_used_bps || !l->up || strcmp(l->peer_site, f->to->site) != 0 ||
			strcmp(l->peer_edge, f->to->name) != 0)
			continue;
		if (l->used_bps >= told - told / 8)
			return CAP_NONE;
		return l->used_bps + l->used_bps / 4 + CAP_LEAST_BPS;
	}
	return CAP_NONE;
}

static void divide(struct master *m, struct division *d, uint64_t now_ns)
{
	struct link_flow *f;

	d->n = d->groups_n = 0;
	TAILQ_FOREACH(f, &m->flows, entry) {
		const struct site *a = site_find(m, f->from->site), *b = site_find(m, f->to->site);
		struct cap_flow *c = &d->flows[d->n];
		const char *edge;
		bool wan;

		/* it can be told nothing, and has nothing */
		if (d->n == FLOWS_MAX || (f->from->client == NULL && f->grant.bound_bps == 0))
			continue;
		wan = sites_way(m, f->from->site, f->to->site, &edge) == ORDER_WAN;
		*c = (struct cap_flow){ .active = f->shipments > 0 && f->from->client != NULL,
			.want_bps = want(m, f, now_ns) };
		c->group[0] = group_get(m, d, (struct group_key){ LINK, a, b },
			sites_pair_cap(m, a, b), now_ns);
		c->group[1] = group_get(m, d, (struct group_key){ OUT, a, NULL },
			wan && a != NULL ? a->cap_bps : 0, now_ns);
		c->group[2] = group_get(m, d, (struct group_key){ IN, NULL, b },
			wan && b != NULL ? b->cap_bps : 0, now_ns);
		d->told_before[d->n] = f->grant.told_bps;
		d->grants[d->n] = &f->grant;
		d->of[d->n++] = f;
	}
	cap_share(d->flows, d->n, d->groups, d->groups_n);
	(void)cap_grant_plan(d->grants, d->flows, d->n, d->groups, d->groups_n);
}

/* ---- messages ---------------------------------------------------------------------------- */

static size_t fill_links(struct master *m, struct edge *e, Strait__EdgeLink *links,
	Strait__EdgeLink **pointers)
{
	struct link_flow *f;
	size_t n = 0;

	TAILQ_FOREACH(f, &m->flows, entry) {
		if (f->from != e || f->grant.told_bps == 0 || n == FLOWS_MAX)
			continue;
		strait__edge_link__init(&links[n]);
		links[n].to_site = f->to->site;
		links[n].to_edge = f->to->name;
		links[n].cap_bps = f->grant.told_bps != CAP_NONE ? f->grant.told_bps : 0;
		pointers[n] = &links[n];
		n++;
	}
	return n;
}

static size_t fill_fenced(struct master *m, const struct edge *e, char **names)
{
	struct edge *other;
	size_t n = 0;

	TAILQ_FOREACH(other, &m->edges, entry)
		if (other->lost && strcmp(other->site, e->site) != 0 && n < FLOWS_MAX)
			names[n++] = other->full;
	return n;
}

static void send_links(struct master *m, struct edge *e, uint64_t now_ns)
{
	static Strait__EdgeLink links[FLOWS_MAX];
	static Strait__EdgeLink *pointers[FLOWS_MAX];
	static char *fenced[FLOWS_MAX];
	Strait__EdgeLinks msg = STRAIT__EDGE_LINKS__INIT;
	struct link_flow *f;

	e->links.dirty = false;
	e->links.sent_ns = now_ns;
	msg.term = m->term;
	msg.seq = ++e->links.seq;
	msg.n_links = fill_links(m, e, links, pointers);
	msg.links = pointers;
	msg.n_fenced = fill_fenced(m, e, fenced);
	msg.fenced = fenced;
	TAILQ_FOREACH(f, &m->flows, entry) {
		if (f->from == e && f->grant.told_bps != 0)
			cap_grant_told(&f->grant, msg.seq);
		if (f->to == e && f->from->lost && f->fence_seq == 0)
			f->fence_seq = msg.seq;
	}
	(void)rpc_send(e->client->conn, STRAIT__MSG_TYPE__MSG_EDGE_LINKS, &msg.base);
}

/* Shipments that waited for a share of their link. */
static void start_waiting(struct master *m, struct link_flow *f)
{
	f->waiting = false;
	for (struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order)
			if (s->open > 0 && !s->is_new && !shipment_is_local(s) &&
				flow_of(m, s) == f)
				edges_start(m, s);
	}
}

void links_update(struct master *m)
{
	static struct division d;
	uint64_t now_ns = clock_now_ns();
	struct link_flow *f, *next;
	struct edge *e;

	if (TAILQ_EMPTY(&m->edges))
		return;
	count_shipments(m);
	divide(m, &d, now_ns);
	for (size_t i = 0; i < d.n; i++) {
		if (d.grants[i]->told_bps > d.told_before[i])
			d.of[i]->raised_ns = now_ns;
		if (d.grants[i]->told_seq == 0 && d.grants[i]->told_bps != 0)
			d.of[i]->from->links.dirty = true;
	}
	TAILQ_FOREACH(e, &m->edges, entry) {
		struct edge_links *l = &e->links;

		if (e->client != NULL && l->takes &&
			(l->dirty ||
				(l->acked_seq < l->seq &&
					now_ns - l->sent_ns >= LINKS_RESEND_MS * MS_NS)))
			send_links(m, e, now_ns);
	}
	for (f = TAILQ_FIRST(&m->flows); f != NULL; f = next) {
		next = TAILQ_NEXT(f, entry);
		if (f->from->client == NULL && f->grant.bound_bps != 0 &&
			now_ns - f->from->down_ns >= MASTER_SILENT_MS * MS_NS)
			cap_grant_set(&f->grant, 0);
		if (f->waiting && f->grant.told_bps != 0)
			start_waiting(m, f);
		if (f->from->client == NULL && f->grant.bound_bps == 0 && f->shipments == 0) {
			TAILQ_REMOVE(&m->flows, f, entry);
			free(f);
		}
	}
}

uint64_t links_share(struct master *m, const struct shipment *s)
{
	struct link_flow *f = flow_of(m, s);

	if (f == NULL)
		return 0;
	f->waiting = f->grant.told_bps == 0;
	return f->grant.told_bps;
}

/* ---- what edges say ---------------------------------------------------------------------- */

void links_registered(struct master *m, struct edge *e, const Strait__EdgeRegister *msg)
{
	struct link_flow *f;
	struct edge *other;

	e->links = (struct edge_links){ .takes = msg->has_takes_links && msg->takes_links,
		.dirty = true };
	e->known = true;
	links_ended(m, e);
	TAILQ_FOREACH(f, &m->flows, entry)
		if (f->to == e)
			f->fence_seq = 0; /* numbers of its messages begin again */
	for (size_t i = 0; i < msg->n_links; i++) {
		const Strait__EdgeLink *l = msg->links[i];

		f = flow_get(m, e, edge_find(m, l->to_site, l->to_edge));
		if (f != NULL)
			cap_grant_set(&f->grant, l->cap_bps != 0 ? l->cap_bps : CAP_NONE);
	}
	/* it may have been fenced */
	TAILQ_FOREACH(other, &m->edges, entry)
		other->links.dirty = true;
}

void links_acked(struct master *m, struct edge *e, uint64_t seq)
{
	struct link_flow *f;

	if (seq > e->links.seq)
		return;
	e->links.acked_seq = seq;
	TAILQ_FOREACH(f, &m->flows, entry) {
		if (f->from == e)
			cap_grant_acked(&f->grant, seq);
		if (f->to == e && f->fence_seq != 0 && f->fence_seq <= seq && f->from->lost) {
			if (f->grant.bound_bps != 0)
				log_info("master", "edge=%s is fenced by edge=%s", f->from->full,
					e->full);
			cap_grant_set(&f->grant, 0);
		}
	}
}

void links_ended(struct master *m, struct edge *e)
{
	struct link_flow *f;

	TAILQ_FOREACH(f, &m->flows, entry) {
		if (f->from != e)
			continue;
		cap_grant_set(&f->grant, 0);
		f->fence_seq = 0;
	}
}

void links_reached(struct master *m, const struct shipment *s, bool reached)
{
	struct link_flow *f = shipment_is_local(s) ? NULL : flow_of(m, s);

	if (f != NULL)
		f->avoid_until_ns = reached ? 0 : clock_now_ns() + MASTER_AVOID_MS * MS_NS;
}

bool links_avoid(void *ctx, const char *from_site, const char *from, const char *to_site,
	const char *to)
{
	struct master *m = ctx;
	const struct link_flow *f =
		flow_find(m, edge_find(m, from_site, from), edge_find(m, to_site, to));

	return f != NULL && clock_now_ns() < f->avoid_until_ns;
}

uint64_t links_sum(const struct master *m, const struct edge *e)
{
	const struct link_flow *f;
	uint64_t sum = 0;

	TAILQ_FOREACH(f, &m->flows, entry) {
		if (f->from != e)
			continue;
		if (f->grant.told_bps == CAP_NONE)
			return CAP_NONE;
		sum += f->grant.told_bps;
	}
	return sum;
}

void links_free(struct master *m)
{
	struct link_flow *f;

	while ((f = TAILQ_FIRST(&m->flows)) != NULL) {
		TAILQ_REMOVE(&m->flows, f, entry);
		free(f);
	}
}
