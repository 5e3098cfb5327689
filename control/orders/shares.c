/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/shares.h"

#include <stdlib.h>
#include <string.h>

/* A group for each flow's every cap: none goes without. */
enum { FLOWS_MAX = 1024, GROUPS_MAX = CAP_GROUPS * FLOWS_MAX };

enum group_kind { LINK, OUT, IN };

/* What one cap is of. */
struct group_key {
	enum group_kind kind;
	const char *from, *to; /* NULL: any */
};

/* The flows that count, and their caps. */
struct division {
	struct shares_flow *of[FLOWS_MAX];
	struct cap_grant *grants[FLOWS_MAX];
	struct cap_flow flows[FLOWS_MAX];
	uint64_t told_before[FLOWS_MAX];
	struct cap_group groups[GROUPS_MAX];
	struct group_key keys[GROUPS_MAX];
	size_t n, groups_n;
};

void shares_init(struct shares *s, const struct shares_ops *ops, void *ctx, uint64_t now_ns)
{
	*s = (struct shares){ .ops = ops, .ctx = ctx, .started_ns = now_ns };
	TAILQ_INIT(&s->edges);
	TAILQ_INIT(&s->flows);
}

static void flow_del(struct shares *s, struct shares_flow *f)
{
	TAILQ_REMOVE(&s->flows, f, entry);
	free(f);
}

void shares_fini(struct shares *s)
{
	struct shares_flow *f;

	while ((f = TAILQ_FIRST(&s->flows)) != NULL)
		flow_del(s, f);
	TAILQ_INIT(&s->edges);
}

void shares_add(struct shares *s, struct shares_edge *e, uint64_t now_ns)
{
	e->known = true;
	e->down_ns = now_ns;
	TAILQ_INSERT_TAIL(&s->edges, e, entry);
}

struct shares_flow *shares_find(const struct shares *s, const struct shares_edge *from,
	const struct shares_edge *to)
{
	struct shares_flow *f;

	TAILQ_FOREACH(f, &s->flows, entry)
		if (f->from == from && f->to == to)
			return f;
	return NULL;
}

struct shares_flow *shares_get(struct shares *s, struct shares_edge *from, struct shares_edge *to)
{
	struct shares_flow *f = shares_find(s, from, to);

	if (f != NULL)
		return f;
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	f->from = from;
	f->to = to;
	TAILQ_INSERT_TAIL(&s->flows, f, entry);
	return f;
}

/* ---- who wants what ---------------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Nothing that nobody knows of goes from this edge to the site (NULL: any). */
static bool is_settled(const struct shares *s, const struct shares_edge *e, const char *to,
	uint64_t now_ns)
{
	const struct shares_edge *t;

	if (e->known || now_ns - s->started_ns >= SHARES_SILENT_NS)
		return true;
	if (!e->fenced)
		return false;
	TAILQ_FOREACH(t, &s->edges, entry) {
		if (!t->connected || !t->takes || is_same(t->site, e->site) ||
			(to != NULL && !is_same(t->site, to)))
			continue;
		if (t->fences_seq == 0 || t->acked_seq < t->fences_seq)
			return false;
	}
	return true;
}

/* Somebody may be sending, and nobody knows what. */
static bool is_frozen(const struct shares *s, const struct group_key *k, uint64_t now_ns)
{
	const struct shares_edge *e;

	TAILQ_FOREACH(e, &s->edges, entry) {
		bool counts = k->kind == IN
			? !is_same(e->site, k->to) && now_ns - s->started_ns < s->unknown_ns
			: is_same(e->site, k->from);

		if (counts && !is_settled(s, e, k->to, now_ns))
			return true;
	}
	return false;
}

static uint16_t group_get(const struct shares *s, struct division *d, struct group_key k,
	uint64_t cap_bps, uint64_t now_ns)
{
	size_t i;

	if (cap_bps == 0)
		return CAP_NO_GROUP;
	for (i = 0; i < d->groups_n; i++)
		if (d->keys[i].kind == k.kind && is_same(d->keys[i].from, k.from) &&
			is_same(d->keys[i].to, k.to))
			return (uint16_t)i;
	d->keys[i] = k;
	d->groups[i] = (struct cap_group){ .cap_bps = cap_bps, .frozen = is_frozen(s, &k, now_ns) };
	d->groups_n++;
	return (uint16_t)i;
}

static uint64_t want(const struct shares *s, const struct shares_flow *f, uint64_t now_ns)
{
	uint64_t told = f->grant.told_bps, used;

	/* of a whole second with this share, and of a report that knows it */
	if (told == 0 || told == CAP_NONE ||
		now_ns - f->raised_ns < SHARES_WANT_NS + 2 * s->report_ns ||
		!s->ops->used(s->ctx, f, &used) || used >= told - told / 8)
		return CAP_NONE;
	return used + used / 4 + CAP_LEAST_BPS;
}

static void divide(struct shares *s, struct division *d, uint64_t now_ns)
{
	struct shares_flow *f;

	d->n = d->groups_n = 0;
	TAILQ_FOREACH(f, &s->flows, entry) {
		const char *from = f->from->site, *to = f->to->site;
		struct cap_flow *c = &d->flows[d->n];
		struct shares_caps caps = { 0 };

		/* it can be told nothing, and has nothing */
		if (d->n == FLOWS_MAX || (!f->from->connected && f->grant.bound_bps == 0))
			continue;
		s->ops->caps(s->ctx, from, to, &caps);
		*c = (struct cap_flow){ .active = f->shipments > 0 && f->from->connected,
			.want_bps = want(s, f, now_ns) };
		c->group[0] = group_get(s, d, (struct group_key){ LINK, from, to }, caps.link_bps,
			now_ns);
		c->group[1] = group_get(s, d, (struct group_key){ OUT, from, NULL }, caps.out_bps,
			now_ns);
		c->group[2] =
			group_get(s, d, (struct group_key){ IN, NULL, to }, caps.in_bps, now_ns);
		d->told_before[d->n] = f->grant.told_bps;
		d->grants[d->n] = &f->grant;
		d->of[d->n++] = f;
	}
	cap_share(d->flows, d->n, d->groups, d->groups_n);
	(void)cap_grant_plan(d->grants, d->flows, d->n, d->groups, d->groups_n);
	for (size_t i = 0; i < d->n; i++) {
		if (d->grants[i]->told_bps > d->told_before[i])
			d->of[i]->raised_ns = now_ns;
		if (d->grants[i]->told_seq == 0 && d->grants[i]->told_bps != 0)
			d->of[i]->from->dirty = true;
	}
}

/* ---- messages ---------------------------------------------------------------------------- */

static void send(struct shares *s, struct shares_edge *e, uint64_t now_ns)
{
	struct shares_flow *f;

	e->dirty = false;
	e->sent_ns = now_ns;
	e->seq++;
	if (e->fences_seq == 0)
		e->fences_seq = e->seq;
	TAILQ_FOREACH(f, &s->flows, entry) {
		if (f->from == e && f->grant.told_bps != 0)
			cap_grant_told(&f->grant, e->seq);
		if (f->to == e && f->from->fenced && f->fence_seq == 0)
			f->fence_seq = e->seq;
	}
	s->ops->send(s->ctx, e);
}

void shares_update(struct shares *s, uint64_t now_ns)
{
	static struct division d;
	struct shares_flow *f, *next;
	struct shares_edge *e;

	for (f = TAILQ_FIRST(&s->flows); f != NULL; f = next) {
		next = TAILQ_NEXT(f, entry);
		if (f->from->connected)
			continue;
		if (now_ns - f->from->down_ns >= SHARES_SILENT_NS &&
			!(f->to->connected && s->ops->hears(s->ctx, f)))
			cap_grant_set(&f->grant, 0);
		if (f->grant.bound_bps == 0 && f->shipments == 0)
			flow_del(s, f);
	}
	divide(s, &d, now_ns);
	TAILQ_FOREACH(e, &s->edges, entry)
		if (e->connected && e->takes &&
			(e->dirty ||
				(e->acked_seq < e->seq && now_ns - e->sent_ns >= SHARES_RESEND_NS)))
			send(s, e, now_ns);
}

/* ---- what edges say ---------------------------------------------------------------------- */

static void fences_changed(struct shares *s)
{
	struct shares_edge *e;

	TAILQ_FOREACH(e, &s->edges, entry) {
		e->dirty = true;
		e->fences_seq = 0;
	}
}

void shares_connected(struct shares *s, struct shares_edge *e, bool takes)
{
	struct shares_flow *f;

	e->was_known = e->known;
	e->connected = e->known = true;
	e->takes = takes;
	e->lost = false;
	e->seq = e->acked_seq = e->fences_seq = 0;
	e->dirty = true;
	TAILQ_FOREACH(f, &s->flows, entry)
		f->was_over = f->from == e ? f->grant.bound_bps == 0 : f->was_over;
	shares_ended(s, e);
	TAILQ_FOREACH(f, &s->flows, entry)
		if (f->to == e)
			f->fence_seq = 0; /* numbers of its messages begin again */
	/* its caps cannot be changed but by orders */
	if (e->fenced && !takes) {
		e->fenced = false;
		fences_changed(s);
	}
}

void shares_had(struct shares *s, struct shares_edge *from, struct shares_edge *to, uint64_t bps)
{
	struct shares_flow *f = shares_find(s, from, to);
	bool over = f == NULL || f->was_over;

	if (f == NULL)
		f = shares_get(s, from, to);
	if (f == NULL)
		return;
	cap_grant_set(&f->grant, bps);
	if (!from->fenced)
		return;
	/* Others may have it by now; as nobody hears it, nothing of it counts. */
	if (!from->was_known)
		over = over && to->connected && to->fences_seq != 0 &&
			to->acked_seq >= to->fences_seq;
	f->grant = (struct cap_grant){ .told_bps = 1, .bound_bps = over ? 1 : bps };
}

void shares_disconnected(struct shares_edge *e, uint64_t now_ns)
{
	e->connected = false;
	e->down_ns = now_ns;
}

void shares_lost(struct shares *s, struct shares_edge *e)
{
	e->lost = e->fenced = true;
	fences_changed(s);
}

void shares_ended(struct shares *s, struct shares_edge *e)
{
	struct shares_flow *f;

	TAILQ_FOREACH(f, &s->flows, entry) {
		if (f->from != e)
			continue;
		cap_grant_set(&f->grant, 0);
		f->fence_seq = 0;
	}
}

void shares_acked(struct shares *s, struct shares_edge *e, uint64_t seq)
{
	struct shares_flow *f;

	if (seq > e->seq)
		return;
	e->acked_seq = seq;
	if (e->fenced && seq > 0) {
		e->fenced = false;
		fences_changed(s);
	}
	TAILQ_FOREACH(f, &s->flows, entry) {
		if (f->from == e)
			cap_grant_acked(&f->grant, seq);
		if (f->to == e && f->from->fenced && !f->from->connected && f->fence_seq != 0 &&
			f->fence_seq <= seq)
			cap_grant_set(&f->grant, 0);
	}
}

uint64_t shares_sum(const struct shares *s, const struct shares_edge *e)
{
	const struct shares_flow *f;
	uint64_t sum = 0;

	TAILQ_FOREACH(f, &s->flows, entry) {
		if (f->from != e)
			continue;
		if (f->grant.told_bps == CAP_NONE)
			return CAP_NONE;
		sum += f->grant.told_bps;
	}
	return sum;
}
