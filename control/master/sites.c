/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/master/master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct site *site_find(struct master *m, const char *name)
{
	struct site *s;

	TAILQ_FOREACH(s, &m->sites, entry)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

struct site *site_put(struct master *m, const char *name, const char *label, uint64_t cap_bps)
{
	struct site *s = site_find(m, name), *at;

	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return NULL;
		snprintf(s->name, sizeof(s->name), "%s", name);
		TAILQ_FOREACH(at, &m->sites, entry)
			if (strcmp(at->name, name) > 0)
				break;
		if (at != NULL)
			TAILQ_INSERT_BEFORE(at, s, entry);
		else
			TAILQ_INSERT_TAIL(&m->sites, s, entry);
	}
	snprintf(s->label, sizeof(s->label), "%s", label != NULL ? label : "");
	s->cap_bps = cap_bps;
	return s;
}

void site_remove(struct master *m, struct site *s)
{
	TAILQ_REMOVE(&m->sites, s, entry);
	free(s);
}

static int edge_order(const struct edge *e, const char *site, const char *name)
{
	int by_site = strcmp(e->site, site);

	return by_site != 0 ? by_site : strcmp(e->name, name);
}

struct edge *edge_find(struct master *m, const char *site, const char *name)
{
	struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry)
		if (edge_order(e, site, name) == 0)
			return e;
	return NULL;
}

struct edge *edge_put(struct master *m, const char *site, const char *name)
{
	struct edge *e = edge_find(m, site, name), *at;

	if (e != NULL)
		return e;
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return NULL;
	snprintf(e->site, sizeof(e->site), "%s", site);
	snprintf(e->name, sizeof(e->name), "%s", name);
	snprintf(e->full, sizeof(e->full), "%s/%s", e->site, e->name);
	e->shares.site = e->site;
	e->shares.name = e->name;
	shares_add(&m->shares, &e->shares, clock_now_ns());
	TAILQ_FOREACH(at, &m->edges, entry)
		if (edge_order(at, site, name) > 0)
			break;
	if (at != NULL)
		TAILQ_INSERT_BEFORE(at, e, entry);
	else
		TAILQ_INSERT_TAIL(&m->edges, e, entry);
	return e;
}

static void load_site(const struct ledger_site *in, void *ctx)
{
	struct master *m = ctx;
	struct site *s = site_put(m, in->name, in->label, in->cap_bps);

	if (s != NULL)
		s->stored = true;
}

static void load_edge(const struct ledger_edge *in, void *ctx)
{
	struct master *m = ctx;
	struct edge *e = edge_put(m, in->site, in->name);

	if (e == NULL)
		return;
	snprintf(e->mgmt_address, sizeof(e->mgmt_address), "%s", in->mgmt_address);
	snprintf(e->program, sizeof(e->program), "%s", in->program);
	e->last_seen_ms = in->last_seen_ms;
	e->draining = (in->flags & LEDGER_EDGE_DRAINING) != 0;
	e->left = (in->flags & LEDGER_EDGE_LEFT) != 0;
	e->shares.lost = e->shares.fenced = (in->flags & LEDGER_EDGE_LOST) != 0;
	e->shares.known = e->left;
}

int sites_load(struct master *m)
{
	int rc = ledger_sites(m->ledger, load_site, m);

	if (rc == 0)
		rc = ledger_edges(m->ledger, load_edge, m);
	sites_configure(m);
	return rc;
}

void sites_configure(struct master *m)
{
	struct site *s, *next;

	TAILQ_FOREACH(s, &m->sites, entry)
		s->configured = false;
	for (unsigned int i = 0; i < m->cfg->sites_count; i++) {
		const struct master_site_config *in = &m->cfg->sites[i];

		s = site_put(m, in->name, in->label, in->cap_bps);
		if (s != NULL)
			s->configured = true;
	}
	for (s = TAILQ_FIRST(&m->sites); s != NULL; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->configured || s->stored)
			continue;
		log_info("master", "site is no longer configured site=%s", s->name);
		site_remove(m, s);
	}
	for (unsigned int i = 0; i < m->cfg->links_count; i++) {
		const struct master_link_config *l = &m->cfg->links[i];

		if (site_find(m, l->from) == NULL || site_find(m, l->to) == NULL)
			log_warn("master", "link of an unknown site from=%s to=%s", l->from, l->to);
	}
}

void sites_free(struct master *m)
{
	struct site *s;
	struct edge *e;

	while ((s = TAILQ_FIRST(&m->sites)) != NULL)
		site_remove(m, s);
	while ((e = TAILQ_FIRST(&m->edges)) != NULL) {
		TAILQ_REMOVE(&m->edges, e, entry);
		if (e->report != NULL)
			strait__edge_report__free_unpacked(e->report, NULL);
		free(e);
	}
}

bool edge_takes(const struct edge *e)
{
	return e->client != NULL && !e->leaving && !e->draining;
}

static bool edge_is_in_trouble(const struct edge *e)
{
	return e->report != NULL && e->report->trouble != NULL;
}

size_t sites_edges(void *ctx, const char *site, const char **names, size_t max)
{
	struct master *m = ctx;
	struct edge *e;
	size_t n = 0;

	if (site_find(m, site) == NULL)
		return 0;
	/* who is in trouble would refuse: only where nobody else is there to say why */
	for (int trouble = 0; trouble < 2 && n == 0; trouble++)
		TAILQ_FOREACH(e, &m->edges, entry)
			if (n < max && strcmp(e->site, site) == 0 && edge_takes(e) &&
				edge_is_in_trouble(e) == (trouble == 1))
				names[n++] = e->name;
	return n;
}

const char *sites_edge(struct master *m, const char *site)
{
	const char *name;

	return sites_edges(m, site, &name, 1) > 0 ? name : NULL;
}

const char *sites_why(void *ctx, const char *site)
{
	const char *why = NULL;
	struct master *m = ctx;
	struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry) {
		if (strcmp(e->site, site) != 0 || e->client == NULL)
			continue;
		if (e->draining)
			return "those that are connected drain (straitctl edge undrain)";
		why = e->leaving ? "those that are connected stop" : why;
	}
	return why;
}

struct edge *edge_of(struct master *m, const char *site, const char *name)
{
	struct edge *e;

	if (strchr(name, '/') == NULL)
		return edge_find(m, site, name);
	TAILQ_FOREACH(e, &m->edges, entry)
		if (strcmp(e->full, name) == 0)
			return e;
	return NULL;
}

static const struct master_site_config *configured(const struct master *m, const char *site)
{
	for (unsigned int i = 0; i < m->cfg->sites_count; i++)
		if (strcmp(m->cfg->sites[i].name, site) == 0)
			return &m->cfg->sites[i];
	return NULL;
}

/* Whether the site's pools_at names the edge. */
static bool is_pools_at(const struct master *m, const char *site, const char *full)
{
	const struct master_site_config *s = configured(m, site);

	for (unsigned int k = 0; s != NULL && k < s->pools_at_count; k++)
		if (strcmp(s->pools_at[k], full) == 0)
			return true;
	return false;
}

bool sites_allow_pools(const struct master *m, const struct edge *e, const char *site)
{
	return is_pools_at(m, site, e->full);
}

static bool has_pools(const struct master *m, const struct edge *e, const char *site)
{
	if (strcmp(e->site, site) == 0)
		return true;
	for (uint32_t i = 0; i < e->pool_site_count; i++)
		if (strcmp(e->pool_sites[i], site) == 0)
			return sites_allow_pools(m, e, site);
	return false;
}

/* The policy's word, or the labels'. */
static bool is_lan(const struct master *m, const struct site *from, const struct site *to)
{
	const struct master_policy_config *p = policy_find(m, from, to);

	if (from == NULL || to == NULL)
		return false;
	if (p != NULL && p->profile != NULL)
		return p->lan;
	return from->label[0] != '\0' && strcmp(from->label, to->label) == 0;
}

enum order_way sites_way(void *ctx, const char *from, const char *to, const char **edge)
{
	struct master *m = ctx;
	const struct edge *e;

	if (!is_lan(m, site_find(m, from), site_find(m, to)))
		return ORDER_WAN;
	TAILQ_FOREACH(e, &m->edges, entry) {
		if (!edge_takes(e) || !has_pools(m, e, from) || !has_pools(m, e, to))
			continue;
		*edge = e->full;
		return ORDER_LOCAL;
	}
	return ORDER_LAN;
}

bool sites_reach(struct master *m, const char *from, const char *to)
{
	const char *edge;

	return sites_way(m, from, to, &edge) == ORDER_LOCAL ||
		(sites_edge(m, from) != NULL && sites_edge(m, to) != NULL);
}

/* Its pools are at edges of other sites, and it never had one of its own. */
static bool is_guest(const struct master *m, const char *site)
{
	const struct master_site_config *s = configured(m, site);
	const struct edge *e;

	if (s == NULL || s->pools_at_count == 0)
		return false;
	TAILQ_FOREACH(e, &m->edges, entry)
		if (strcmp(e->site, site) == 0)
			return false;
	return true;
}

static bool is_edge_for(const struct master *m, const char *site, const char *full)
{
	size_t n = strlen(site);

	return (strncmp(full, site, n) == 0 && full[n] == '/') || is_pools_at(m, site, full);
}

bool sites_may_reach(struct master *m, const char *from, const char *to)
{
	const char *const ends[] = { from, to };

	if (!is_guest(m, from) && !is_guest(m, to))
		return true;
	for (int i = 0; i < 2 && is_lan(m, site_find(m, from), site_find(m, to)); i++) {
		const struct master_site_config *s = configured(m, ends[i]);

		for (unsigned int k = 0; s != NULL && k < s->pools_at_count; k++)
			if (is_edge_for(m, from, s->pools_at[k]) &&
				is_edge_for(m, to, s->pools_at[k]))
				return true;
	}
	return false;
}

bool sites_has_edge(struct master *m, const char *site)
{
	const struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry)
		if (e->client != NULL && has_pools(m, e, site))
			return true;
	return false;
}

static uint64_t lower_cap(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

const struct master_policy_config *policy_find(const struct master *m, const struct site *from,
	const struct site *to)
{
	for (unsigned int i = 0; i < m->cfg->policies_count && from != NULL && to != NULL; i++) {
		const struct master_policy_config *p = &m->cfg->policies[i];

		if (master_policy_means(p->from, from->name, from->label) &&
			master_policy_means(p->to, to->name, to->label))
			return p;
	}
	return NULL;
}

uint64_t sites_pair_cap(struct master *m, const struct site *from, const struct site *to)
{
	const struct master_policy_config *policy = policy_find(m, from, to);
	uint64_t cap = policy != NULL ? policy->cap_bps : 0;

	for (unsigned int i = 0; i < m->cfg->links_count && from != NULL && to != NULL; i++) {
		const struct master_link_config *l = &m->cfg->links[i];

		if (strcmp(l->from, from->name) == 0 && strcmp(l->to, to->name) == 0)
			cap = lower_cap(cap, l->cap_bps);
	}
	return cap;
}

uint64_t sites_cap(struct master *m, const char *from, const char *to)
{
	const struct site *a = site_find(m, from), *b = site_find(m, to);
	uint64_t cap = sites_pair_cap(m, a, b);

	/* Those of sites are of their lines to the WAN. */
	if (!is_lan(m, a, b))
		cap = lower_cap(cap,
			lower_cap(a != NULL ? a->cap_bps : 0, b != NULL ? b->cap_bps : 0));
	return cap;
}
