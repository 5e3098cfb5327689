/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/master/replication.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A view whose last complete moment is longer ago answers nothing. */
#define FRESH_NS UINT64_C(30000000000)

static const char *state_name(const struct replication_slot *slot, const struct federation_site *s)
{
	if (slot->expired)
		return "expired";
	switch (s->reader.replica.state) {
	case REPLICA_LOADING:
		return "loading";
	case REPLICA_LIVE:
		return "live";
	case REPLICA_STALE:
		return "stale";
	default:
		return "empty";
	}
}

/* The report belongs to the slot. */
static void view_slot(struct view *v, struct master *m, const struct replication_slot *s,
	const struct federation_site *fs, uint64_t now_ns)
{
	Strait__SiteView *out = view_append(v, &v->reply.views, &v->reply.n_views, sizeof(*out));
	const struct replica *replica = &fs->reader.replica;
	const struct site *site = site_find(m, s->site);

	if (out == NULL)
		return;
	strait__site_view__init(out);
	out->site = view_dup(v, s->site);
	out->label = view_dup(v, site != NULL ? site->label : "");
	out->state = view_dup(v, state_name(s, fs));
	out->has_connected = out->has_since_ms = out->has_epoch = out->has_seq = true;
	out->connected = s->client != NULL;
	out->since_ms = s->since_ms;
	out->address = view_dup(v, s->address);
	out->program = view_dup(v, s->program);
	out->epoch = replica->epoch;
	out->seq = replica->next > 0 ? replica->next - 1 : 0;
	out->has_objects = out->has_snapshots = out->has_failed = true;
	out->objects = replica->sums->total.count;
	out->has_staleness_ms = replica->ever_live && fs->reader.current_ns > 0;
	out->staleness_ms = (now_ns - fs->reader.current_ns) / 1000000;
	out->snapshots = replica->snapshots;
	out->failed = replica->failed;
	out->has_drifts = out->has_gaps = true;
	out->drifts = replica->drifts;
	out->gaps = replica->gaps;
	out->report = s->report;
	out->has_report_age_ms = s->report != NULL;
	out->report_age_ms = (now_ns - s->report_ns) / 1000000;
	if (s->client == NULL && s->gone_ms > 0) {
		out->has_gone_since_ms = out->has_left = true;
		out->gone_since_ms = s->gone_ms;
		out->gone_reason = view_dup(v, s->gone);
		out->left = s->left;
	}
	if (s->refused[0] != '\0' && now_ns - s->refused_ns < MASTER_REFUSED_MS * UINT64_C(1000000))
		out->refused = view_dup(v, s->refused);
}

/* Rounded up, as 0 would mean never. */
static uint64_t limit_ms(uint64_t ns)
{
	return ns / 1000000 + (ns % 1000000 > 0);
}

static void view_limits(struct view *v, Strait__LinkView *out, const struct master *m,
	const struct master_policy_config *p)
{
	uint64_t mask;

	out->has_after = out->has_least_bytes = out->has_most_bytes = true;
	out->after = (uint32_t)p->after;
	out->least_bytes = p->least_bytes;
	out->most_bytes = p->most_bytes;
	out->has_ttl_ms = out->has_ttl_by_age = out->has_pause_below_ms = true;
	out->ttl_ms = limit_ms(p->ttl_ns);
	out->ttl_by_age = p->ttl_by_age;
	out->pause_below_ms = limit_ms(p->pause_below_ns);
	for (unsigned int i = 0; i < p->tenants_count; i++)
		view_add_name(v, &out->tenants, &out->n_tenants, p->tenants[i]);
	if (p->profile != NULL)
		out->profile = view_dup(v, p->profile);
	if (p->allowed && !replication_policy_tenants(m->replication, p, &mask))
		out->text = view_dup(v, "no site that was here has a tenant it names");
}

static void view_policy(struct view *v, struct master *m, const char *from, const char *to)
{
	Strait__LinkView *out = view_append(v, &v->reply.links, &v->reply.n_links, sizeof(*out));
	const struct master_policy_config *p = policy_find(m, site_find(m, from), site_find(m, to));
	const char *edge = NULL;
	char name[600];

	if (out == NULL)
		return;
	strait__link_view__init(out);
	out->from_site = view_dup(v, from);
	out->to_site = view_dup(v, to);
	out->has_allow = out->has_class_ = out->has_cap_bps = true;
	out->allow = p != NULL && p->allowed;
	out->class_ = p != NULL ? p->shipping_class : STRAIT_CLASS_BULK;
	out->cap_bps = sites_cap(m, from, to);
	out->way = view_dup(v,
		order_way_name(sites_may_reach(m, from, to) ? sites_way(m, from, to, &edge)
							    : ORDER_WAY_NONE));
	if (edge != NULL)
		out->local_edge = view_dup(v, edge);
	if (p == NULL)
		return;
	snprintf(name, sizeof(name), "%.255s -> %.255s", p->from, p->to);
	out->policy = view_dup(v, name);
	view_limits(v, out, m, p);
}

/* Of a site of which no edge takes orders: why. "": one does, or another's does it. */
static void explain_edges(struct master *m, const char *site, const char *whose, char *buf,
	size_t len)
{
	const char *why = sites_why(m, site);

	buf[0] = '\0';
	if (!sites_has_edge(m, site))
		snprintf(buf, len, "no edge of %s is connected", whose);
	else if (sites_edge(m, site) == NULL && why != NULL)
		snprintf(buf, len, "no edge of %s takes orders: %s", whose, why);
}

/* Nothing can come from any site that what is wanted is to come from: why not from one of them. */
static void explain_sources(struct master *m, uint16_t to, uint32_t from, char *buf, size_t len)
{
	const struct replication *r = m->replication;
	char whose[ORDERBOOK_SITE_MAX + 8];

	buf[0] = '\0';
	for (uint16_t i = 0; i < INDEX_SITES; i++)
		if ((from >> i & 1) != 0 && r->f->site[i].open &&
			sites_reach(m, r->slot[i].site, r->slot[to].site))
			return;
	for (uint16_t i = 0; i < INDEX_SITES && buf[0] == '\0'; i++) {
		if ((from >> i & 1) == 0)
			continue;
		snprintf(whose, sizeof(whose), "site %s", r->slot[i].site);
		if (!r->f->site[i].open)
			snprintf(buf, len, "the site master of %s is not connected", whose);
		else
			explain_edges(m, r->slot[i].site, whose, buf, len);
	}
	if (from != 0 && buf[0] == '\0')
		snprintf(buf, len, "no edge that takes orders has pools of both sites");
}

/* What an edge of the site says is wrong with it. NULL: nothing, or another of its is well. */
static const char *trouble_of(const struct master *m, const char *site)
{
	const char *trouble = NULL;
	const struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry) {
		if (strcmp(e->site, site) != 0 || !edge_takes(e))
			continue;
		if (e->report == NULL || e->report->trouble == NULL)
			return NULL;
		trouble = e->report->trouble;
	}
	return trouble;
}

/* Of what is to come from those sites all waits for an edge's fault, or will. */
static void explain_fault(const struct master *m, uint16_t to, uint32_t from, char *buf, size_t len)
{
	const struct replication *r = m->replication;
	const char *there = trouble_of(m, r->slot[to].site);

	buf[0] = '\0';
	if (there != NULL)
		snprintf(buf, len, "trouble of its edge: %s", there);
	for (uint16_t i = 0; i < INDEX_SITES && there == NULL && from != 0; i++) {
		const char *why;

		if ((from >> i & 1) == 0)
			continue;
		why = trouble_of(m, r->slot[i].site);
		if (why == NULL && !federation_is_at_fault(r->f, i, to)) {
			buf[0] = '\0';
			return;
		}
		if (why != NULL)
			snprintf(buf, len, "trouble of the edge of site %s: %s", r->slot[i].site,
				why);
		else
			snprintf(buf, len,
				"waits as the last order from site %s was refused by an edge, "
				"failed in one or reached none (straitctl order list)",
				r->slot[i].site);
	}
}

/* Why nothing goes to a site although something is wanted there; "": it does, or nothing is. */
static void explain(struct master *m, uint16_t slot, uint32_t from, char *buf, size_t len)
{
	const struct replication_slot *s = &m->replication->slot[slot];
	const struct federation_site *fs = &m->replication->f->site[slot];
	char there[200], sources[200], fault[600];

	explain_edges(m, s->site, "it", there, sizeof(there));
	explain_sources(m, slot, from, sources, sizeof(sources));
	explain_fault(m, slot, from, fault, sizeof(fault));
	buf[0] = '\0';
	if (s->client == NULL)
		snprintf(buf, len, "its site master is not connected");
	else if (there[0] != '\0')
		snprintf(buf, len, "%s", there);
	else if (sources[0] != '\0')
		snprintf(buf, len, "%s", sources);
	else if (m->ledger_trouble[0] != '\0')
		snprintf(buf, len, "%s", m->ledger_trouble);
	else if (fault[0] != '\0')
		snprintf(buf, len, "%s", fault);
	else if (fs->flow.paused)
		snprintf(buf, len, "waits after failures");
	else if (fs->flow.bulk_held)
		snprintf(buf, len, "bulk waits: objects there are evicted after %.0f s",
			(double)fs->eviction_age_ns * 1e-9);
}

static void view_backlog(struct view *v, struct master *m, uint16_t slot, uint64_t now_ns)
{
	const struct federation *f = m->replication->f;
	const struct replication_slot *s = &m->replication->slot[slot];
	const struct federation_flow *w = &f->site[slot].flow;
	Strait__BacklogView *out =
		view_append(v, &v->reply.backlogs, &v->reply.n_backlogs, sizeof(*out));
	struct wanted_stats st;
	char text[700];

	if (out == NULL)
		return;
	wanted_stats_get(planner_wanted(f->planner, slot), &st);
	strait__backlog_view__init(out);
	out->to_site = view_dup(v, s->site);
	out->has_objects = out->has_bytes = out->has_waiting = true;
	out->objects = st.objects;
	out->bytes = st.bytes;
	out->waiting = st.waiting;
	out->has_oldest_ms = st.oldest_ns > 0;
	out->oldest_ms = st.oldest_ns > 0 ? (now_ns - st.oldest_ns) / 1000000 : 0;
	out->has_flying = out->has_flying_bytes = out->has_quarantined = true;
	out->flying = w->flying;
	out->flying_bytes = w->flying_bytes;
	out->quarantined = federation_quarantined(f, slot, clock_unix_ms() / 1000);
	out->has_eviction_age_ms = f->site[slot].eviction_age_ns > 0;
	out->eviction_age_ms = f->site[slot].eviction_age_ns / 1000000;
	explain(m, slot, st.from, text, sizeof(text));
	/* What stands still has no end in sight. */
	out->has_eta_ms = text[0] == '\0' && federation_eta_ms(f, slot, &out->eta_ms);
	out->text = text[0] != '\0' ? view_dup(v, text) : NULL;
}

void view_replication(struct view *v, struct master *m)
{
	const struct replication *r = m->replication;
	uint64_t now_ns = clock_now_ns();
	struct federation_flow sum = { 0 };
	struct planner_stats ps;

	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		const struct federation_flow *w = &r->f->site[i].flow;

		if (!r->slot[i].used)
			continue;
		view_slot(v, m, &r->slot[i], &r->f->site[i], now_ns);
		view_backlog(v, m, i, now_ns);
		for (uint16_t k = 0; k < INDEX_SITES; k++)
			if (k != i && r->slot[k].used)
				view_policy(v, m, r->slot[i].site, r->slot[k].site);
		sum.brought += w->brought;
		sum.brought_bytes += w->brought_bytes;
		sum.here += w->here;
		sum.declined += w->declined;
		sum.gone += w->gone;
		sum.failed += w->failed;
		sum.expired += w->expired;
		sum.quarantined += w->quarantined;
	}
	planner_stats_get(r->f->planner, &ps);
	view_counter(v, "events", ps.events);
	view_counter(v, "echoes", ps.echoes);
	view_counter(v, "suppressed", ps.suppressed);
	view_counter(v, "filtered", ps.filtered);
	view_counter(v, "unasked", ps.unasked);
	view_counter(v, "fixed", ps.fixed);
	view_counter(v, "refused", ps.refused);
	view_counter(v, "orders", r->orders);
	view_counter(v, "brought", sum.brought);
	view_counter(v, "brought_bytes", sum.brought_bytes);
	view_counter(v, "here", sum.here);
	view_counter(v, "declined", sum.declined);
	view_counter(v, "gone", sum.gone);
	view_counter(v, "failed", sum.failed);
	view_counter(v, "expired", sum.expired);
	view_counter(v, "quarantined", sum.quarantined);
}

static bool no_secret(struct view *v)
{
	view_fail(v, ENOKEY,
		"this master has no secret, so it cannot tell a key's digest: set secret in its "
		"configuration");
	return false;
}

enum presence { PRESENT, ABSENT, UNKNOWN };

/* Whether a site has what the index says value of. */
static enum presence presence_at(const struct replication *r, uint16_t slot, uint64_t value,
	uint64_t now_ns)
{
	const struct federation_site *s = &r->f->site[slot];
	const Strait__SiteReport *report = r->slot[slot].report;

	if (s->reader.replica.state != REPLICA_LIVE || now_ns - s->reader.current_ns > FRESH_NS ||
		report == NULL || !report->ready)
		return UNKNOWN;
	if ((value & INDEX_PRESENT(slot)) != 0)
		return PRESENT;
	return report->has_partial && report->partial ? UNKNOWN : ABSENT;
}

static bool locate_one(struct view *v, struct master *m, const Strait__OrderObject *o)
{
	const struct replication *r = m->replication;
	Strait__Located *out;
	struct digest128 d;
	uint64_t value, now_ns = clock_now_ns();
	int rc = replication_digest(r, o, &d);

	if (rc == -ENOKEY)
		return no_secret(v);
	if (rc < 0) {
		view_fail(v, EINVAL, "a key or tenant of bad length");
		return false;
	}
	out = view_append(v, &v->reply.located, &v->reply.n_located, sizeof(*out));
	if (out == NULL)
		return false;
	strait__located__init(out);
	out->key.data = malloc(o->key.len);
	if (out->key.data == NULL) {
		v->failed = true;
		return false;
	}
	memcpy(out->key.data, o->key.data, o->key.len);
	out->key.len = o->key.len;
	value = index_value(planner_index(r->f->planner), d);
	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		enum presence there;

		if (!r->slot[i].used)
			continue;
		there = presence_at(r, i, value, now_ns);
		if (there == PRESENT)
			view_add_name(v, &out->sites, &out->n_sites, r->slot[i].site);
		else if (there == UNKNOWN)
			view_add_name(v, &out->unknown, &out->n_unknown, r->slot[i].site);
	}
	return true;
}

void view_locate(struct view *v, struct master *m, const Strait__Request *r)
{
	for (size_t i = 0; i < r->n_objects; i++)
		if (!locate_one(v, m, r->objects[i]))
			return;
}

enum { FETCH_WANTED, FETCH_THERE, FETCH_BARRED, FETCH_UNKNOWN, FETCH_NOWHERE, FETCH_COUNT };

/* Why nothing comes of what a site is to get. */
static int fetch_not(const struct replication *r, uint16_t to, struct digest128 d)
{
	uint64_t value = index_value(planner_index(r->f->planner), d), now_ns = clock_now_ns();
	int why = FETCH_NOWHERE;

	if ((value & INDEX_PRESENT(to)) != 0)
		return FETCH_THERE;
	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		enum presence there;

		if (i == to || !r->slot[i].used)
			continue;
		there = presence_at(r, i, value, now_ns);
		if (there == PRESENT)
			return FETCH_BARRED;
		why = there == UNKNOWN ? FETCH_UNKNOWN : why;
	}
	return why;
}

/* Whether a policy lets anything go from there to any site. */
static bool is_source(struct master *m, uint16_t from)
{
	const struct replication *r = m->replication;

	for (uint16_t to = 0; to < INDEX_SITES; to++) {
		const struct master_policy_config *p;

		if (to == from || !r->slot[to].used)
			continue;
		p = policy_find(m, site_find(m, r->slot[from].site),
			site_find(m, r->slot[to].site));
		if (p != NULL && p->allowed)
			return true;
	}
	return false;
}

void view_backfill(struct view *v, struct master *m, const Strait__Request *r)
{
	int slot = r->from_site != NULL ? replication_slot(m->replication, r->from_site) : -1;
	int rc;

	if (slot < 0) {
		view_fail(v, ENOENT, "no such site, or it is not followed");
		return;
	}
	if (!is_source(m, (uint16_t)slot)) {
		view_fail(v, EPERM, "no policy lets anything come from site %s, so nothing would",
			r->from_site);
		return;
	}
	rc = federation_backfill(m->replication->f, (uint16_t)slot);
	if (rc == -EALREADY)
		view_fail(v, EALREADY, "a backfill of site %s is going on", r->from_site);
	else if (rc < 0)
		view_fail(v, ENOTCONN, "the site master of %s is not connected", r->from_site);
	else
		log_info("replication", "backfill site=%s", r->from_site);
}

void view_fetch(struct view *v, struct master *m, const Strait__Request *r)
{
	struct replication *repl = m->replication;
	int slot = r->to_site != NULL ? replication_slot(repl, r->to_site) : -1;
	static const char *const names[] = { "wanted", "there", "barred", "unknown", "nowhere" };
	uint64_t counts[FETCH_COUNT] = { 0 };

	if (slot < 0) {
		view_fail(v, ENOENT, "no such site, or it is not followed");
		return;
	}
	for (size_t i = 0; i < r->n_objects; i++) {
		const Strait__OrderObject *o = r->objects[i];
		struct digest128 d;
		bool coming;
		int tenant, what, rc = replication_digest(repl, o, &d);

		if (rc == -ENOKEY) {
			no_secret(v);
			return;
		}
		tenant = rc == 0 && o->tenant.len > 0
			? replication_tenant_find(repl, (const char *)o->tenant.data, o->tenant.len)
			: replication_tenant_find(repl, "default", 7);
		if (rc < 0) {
			view_fail(v, EINVAL, "a key or tenant of bad length");
			return;
		}
		if (tenant < 0) {
			view_fail(v, ENOENT, "no site that was here has tenant %.*s",
				o->tenant.len > 0 ? (int)o->tenant.len : 7,
				o->tenant.len > 0 ? (const char *)o->tenant.data : "default");
			return;
		}
		coming = federation_asked(repl->f, (uint16_t)slot, d, (uint16_t)tenant, true,
			clock_now_ns(), clock_unix_ms() / 1000);
		what = coming ? FETCH_WANTED : fetch_not(repl, (uint16_t)slot, d);
		counts[what]++;
		if (what != FETCH_WANTED && what != FETCH_THERE)
			failed_fetch(m, slot, o);
	}
	for (int i = 0; i < FETCH_COUNT; i++)
		view_counter(v, names[i], counts[i]);
}

void view_replication_fini(struct view *v)
{
	Strait__Reply *r = &v->reply;

	for (size_t i = 0; i < r->n_views; i++) {
		free(r->views[i]->site);
		free(r->views[i]->label);
		free(r->views[i]->state);
		free(r->views[i]->address);
		free(r->views[i]->program);
		free(r->views[i]->refused);
		free(r->views[i]->gone_reason);
		free(r->views[i]);
	}
	for (size_t i = 0; i < r->n_links; i++) {
		free(r->links[i]->from_site);
		free(r->links[i]->to_site);
		free(r->links[i]->policy);
		free(r->links[i]->way);
		free(r->links[i]->local_edge);
		for (size_t k = 0; k < r->links[i]->n_tenants; k++)
			free(r->links[i]->tenants[k]);
		free(r->links[i]->tenants);
		free(r->links[i]->profile);
		free(r->links[i]->text);
		free(r->links[i]);
	}
	for (size_t i = 0; i < r->n_backlogs; i++) {
		free(r->backlogs[i]->to_site);
		free(r->backlogs[i]->text);
		free(r->backlogs[i]);
	}
	for (size_t i = 0; i < r->n_located; i++) {
		for (size_t k = 0; k < r->located[i]->n_sites; k++)
			free(r->located[i]->sites[k]);
		for (size_t k = 0; k < r->located[i]->n_unknown; k++)
			free(r->located[i]->unknown[k]);
		free(r->located[i]->sites);
		free(r->located[i]->unknown);
		free(r->located[i]->key.data);
		free(r->located[i]);
	}
	free(r->views);
	free(r->links);
	free(r->backlogs);
	free(r->located);
}
