/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/links.h"
#include "control/ctl/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* site list|show|add|del, edge list|show|drain|undrain, status: what the master knows. */

static const char *rate_text(uint64_t bps, char buf[static UNITS_TEXT_MAX])
{
	return bps != 0 ? units_format_rate(bps, buf) : "-";
}

static void print_sites(const Strait__Reply *r)
{
	static const char *const columns[] = { "SITE", "LABEL", ">EDGES", ">UP", ">DRAINING",
		">ORDERS", ">BACKLOG", ">CAP", "FROM", NULL };
	struct table *t = table_create(columns);
	char cap[UNITS_TEXT_MAX], left[UNITS_TEXT_MAX];

	for (size_t i = 0; i < r->n_sites; i++) {
		const Strait__SiteInfo *s = r->sites[i];

		table_cell(t, "%s", s->name);
		table_cell(t, "%s", s->label != NULL && s->label[0] != '\0' ? s->label : "-");
		table_cell(t, "%u", s->edges);
		table_cell(t, "%u", s->edges_up);
		table_cell(t, "%u", s->edges_draining);
		table_cell(t, "%" PRIu64, s->orders);
		table_cell(t, "%s", units_format_bytes(s->backlog_bytes, left));
		table_cell(t, "%s", rate_text(s->cap_bps, cap));
		table_cell(t, "%s", s->configured ? "configuration" : "straitctl");
	}
	table_print(t);
}

static json_t *sites_json(const Strait__Reply *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_sites; i++)
		json_array_append_new(list, json_site(r->sites[i]));
	return list;
}

static json_t *edges_json(const Strait__Reply *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_edges; i++)
		json_array_append_new(list, json_edge(r->edges[i]));
	return list;
}

static const char *edge_state(const Strait__EdgeInfo *e)
{
	static const char *const away[][2] = { { "gone", "gone, draining" },
		{ "lost", "lost, draining" }, { "refused", "refused, draining" } };

	if (!e->connected)
		return away[e->refused != NULL ? 2 : e->lost][e->draining];
	if (print_trouble(e) != NULL)
		return e->draining ? "trouble, draining" : "trouble";
	return e->state != NULL ? e->state : "connected";
}

static void print_edges(const Strait__Reply *r)
{
	static const char *const columns[] = { "SITE", "EDGE", "STATE", "SINCE", ">LINKS UP",
		">ORDERS", ">BACKLOG", ">SHARE", "MANAGEMENT", "PROGRAM", NULL };
	struct table *t = table_create(columns);
	char when[TIME_TEXT_MAX], text[UNITS_TEXT_MAX];

	for (size_t i = 0; i < r->n_edges; i++) {
		const Strait__EdgeInfo *e = r->edges[i];
		size_t up = 0, n = e->report != NULL ? e->report->n_links : 0;

		for (size_t k = 0; k < n; k++)
			up += e->report->links[k]->up;
		table_cell(t, "%s", e->site);
		table_cell(t, "%s", e->name);
		table_cell(t, "%s", edge_state(e));
		table_cell(t, "%s",
			print_time(e->connected ? e->connected_since_ms : e->last_seen_ms, when));
		table_cell(t, "%zu/%zu", up, n);
		table_cell(t, "%" PRIu64, e->orders);
		table_cell(t, "%s", units_format_bytes(e->backlog_bytes, text));
		table_cell(t, "%s", rate_text(e->share_bps, text));
		table_cell(t, "%s", e->mgmt_address != NULL ? e->mgmt_address : "-");
		table_cell(t, "%s", e->program != NULL ? e->program : "-");
	}
	table_print(t);
	for (size_t i = 0; i < r->n_edges; i++) {
		const Strait__EdgeInfo *e = r->edges[i];

		if (e->refused != NULL)
			printf("REFUSED %s/%s: %s\n", e->site, e->name, e->refused);
		if (print_trouble(e) != NULL)
			printf("TROUBLE %s/%s: %s\n", e->site, e->name, print_trouble(e));
	}
}

static bool on_sites(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;

	if (s->ctl->json)
		s->exit = print_json(sites_json(r), false);
	else
		print_sites(r);
	return false;
}

static bool on_edges(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;

	if (s->ctl->json)
		s->exit = print_json(edges_json(r), false);
	else
		print_edges(r);
	if (r->text != NULL)
		fprintf(stderr, "straitctl: %s\n", r->text);
	return false;
}

static bool on_nothing(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;

	(void)r;
	if (s->ctl->json)
		s->exit = print_json(json_object(), false);
	return false;
}

int cmd_site_list(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__SITE_LIST;
	return ctl_ask(ctl, &req, on_sites);
}

int cmd_site_show(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;
	int rc;

	req.verb = STRAIT__REQUEST__VERB__SITE_LIST;
	req.name = ctl->argv[0];
	rc = ctl_ask(ctl, &req, on_sites);
	if (rc != CTL_OK || ctl->json)
		return rc;
	/* a site nobody has registered for has no edges to list, which is no error */
	req.verb = STRAIT__REQUEST__VERB__EDGE_LIST;
	rc = ctl_ask(ctl, &req, on_edges);
	return rc == CTL_REFUSED ? CTL_OK : rc;
}

int cmd_site_add(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;
	const char *cap = ctl_option(ctl, "cap");
	char err[160];

	req.verb = STRAIT__REQUEST__VERB__SITE_ADD;
	req.name = ctl->argv[0];
	req.label = (char *)ctl_option(ctl, "label");
	if (cap != NULL && units_parse_rate(cap, &req.cap_bps, err, sizeof(err)) != 0)
		return ctl_fail(CTL_USAGE, "--cap: %s", err);
	if (cap != NULL && req.cap_bps == 0)
		return ctl_fail(CTL_USAGE, "--cap: 0 would mean no cap; leave it out");
	req.has_cap_bps = cap != NULL;
	return ctl_ask(ctl, &req, on_sites);
}

int cmd_site_del(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__SITE_DEL;
	req.name = ctl->argv[0];
	return ctl_ask(ctl, &req, on_nothing);
}

int cmd_edge_list(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__EDGE_LIST;
	return ctl_ask(ctl, &req, on_edges);
}

static int drain(struct ctl *ctl, bool on)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = on ? STRAIT__REQUEST__VERB__EDGE_DRAIN : STRAIT__REQUEST__VERB__EDGE_UNDRAIN;
	req.name = ctl->argv[0];
	req.has_hand_over = on;
	req.hand_over = on && ctl_option(ctl, "hand-over") != NULL;
	return ctl_ask(ctl, &req, on_edges);
}

int cmd_edge_drain(struct ctl *ctl)
{
	return drain(ctl, true);
}

int cmd_edge_undrain(struct ctl *ctl)
{
	return drain(ctl, false);
}

static void print_counters(const char *title, Strait__Counter *const *list, size_t n)
{
	if (n == 0)
		return;
	printf("%s\n", title);
	for (size_t i = 0; i < n; i++)
		printf("  %-24s %" PRIu64 "\n", list[i]->name, list[i]->value);
}

static void print_edge(const Strait__EdgeInfo *e)
{
	char since[TIME_TEXT_MAX], used[UNITS_TEXT_MAX], all[UNITS_TEXT_MAX], title[200];

	printf("edge        %s/%s\n", e->site, e->name);
	printf("state       %s since %s\n", edge_state(e),
		print_time(e->connected ? e->connected_since_ms : e->last_seen_ms, since));
	if (e->draining)
		puts("draining    as an operator said (straitctl edge undrain)");
	printf("orders      %" PRIu64 ", %s left\n", e->orders,
		units_format_bytes(e->backlog_bytes, used));
	if (e->has_share_bps)
		printf("share       %s of the caps it shares\n",
			units_format_rate(e->share_bps, used));
	printf("management  %s\n", e->mgmt_address != NULL ? e->mgmt_address : "-");
	printf("program     %s\n", e->program != NULL ? e->program : "-");
	if (e->refused != NULL)
		printf("refused     %s\n", e->refused);
	if (print_trouble(e) != NULL)
		printf("trouble     %s\n", print_trouble(e));
	for (size_t i = 0; i < e->n_pool_sites; i++)
		printf("%s%s%s", i == 0 ? "pools of    " : ", ", e->pool_sites[i],
			i + 1 == e->n_pool_sites ? "\n" : "");
	if (e->report == NULL)
		return;
	if (e->report->pool != NULL)
		printf("pool        %s: %s of %s used, %" PRIu64 " objects, %" PRIu64
		       " evictions\n",
			e->report->pool->path != NULL ? e->report->pool->path : "-",
			units_format_bytes(e->report->pool->used_bytes, used),
			units_format_bytes(e->report->pool->capacity_bytes, all),
			e->report->pool->objects, e->report->pool->evictions);
	putchar('\n');
	links_print(&e, 1);
	queues_print(e);
	workers_print(e);
	for (size_t i = 0; i < e->report->n_links; i++) {
		const Strait__LinkReport *l = e->report->links[i];

		snprintf(title, sizeof(title), "\ncounters of the link to %s/%s", l->peer_site,
			l->peer_edge);
		print_counters(title, l->counters, l->n_counters);
	}
	print_counters("\ncounters of the edge", e->report->counters, e->report->n_counters);
}

static bool on_edge(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;

	if (s->ctl->json) {
		s->exit =
			print_json(r->n_edges == 1 ? json_edge(r->edges[0]) : edges_json(r), false);
		return false;
	}
	for (size_t i = 0; i < r->n_edges; i++) {
		if (i > 0)
			putchar('\n');
		print_edge(r->edges[i]);
	}
	return false;
}

int cmd_edge_show(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__EDGE_SHOW;
	req.name = ctl->argv[0];
	return ctl_ask(ctl, &req, on_edge);
}

static int status_json(const Strait__Reply *r)
{
	json_t *o = json_object(), *orders = json_object();

	json_object_set_new(o, "program", json_string(r->program != NULL ? r->program : ""));
	json_object_set_new(o, "term", json_integer((json_int_t)r->term));
	json_object_set_new(o, "uptime_ms", json_integer((json_int_t)r->uptime_ms));
	if (r->text != NULL)
		json_object_set_new(o, "trouble", json_string(r->text));
	for (size_t i = 0; i < r->n_counters; i++)
		json_object_set_new(orders, r->counters[i]->name,
			json_integer((json_int_t)r->counters[i]->value));
	json_object_set_new(o, "orders", orders);
	json_object_set_new(o, "sites", sites_json(r));
	json_object_set_new(o, "edges", edges_json(r));
	return print_json(o, false);
}

static bool on_status(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;
	char up[UNITS_TEXT_MAX];

	if (s->ctl->json) {
		s->exit = status_json(r);
		return false;
	}
	printf("%s, term %" PRIu64 ", up %s\n", r->program != NULL ? r->program : "master", r->term,
		units_format_duration(r->uptime_ms * 1000000, up));
	if (r->text != NULL)
		printf("TROUBLE: %s\n", r->text);
	printf("orders:");
	for (size_t i = 0; i < r->n_counters; i++)
		printf(" %" PRIu64 " %s%s", r->counters[i]->value, r->counters[i]->name,
			i + 1 < r->n_counters ? "," : "\n");
	putchar('\n');
	print_sites(r);
	if (r->n_edges == 0)
		return false;
	putchar('\n');
	print_edges(r);
	putchar('\n');
	links_print((const Strait__EdgeInfo *const *)r->edges, r->n_edges);
	return false;
}

int cmd_status(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__STATUS;
	return ctl_ask(ctl, &req, on_status);
}
