/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/keys.h"
#include "control/ctl/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * replication status, source list, locate, fetch, backfill: what the master knows of the sites by
 * the word of their site masters, and what it does about it.
 */

static const char *duration_text(uint64_t ms, char buf[static UNITS_TEXT_MAX])
{
	return ms > 0 ? units_format_duration(ms * 1000000, buf) : "< 1 ms";
}

static const char *age_text(bool known, uint64_t ms, char buf[static UNITS_TEXT_MAX])
{
	return known ? duration_text(ms, buf) : "never";
}

static json_t *known_json(bool known, uint64_t value)
{
	return known ? json_integer((json_int_t)value) : json_null();
}

static uint64_t lag(const Strait__SiteView *s)
{
	return s->report != NULL && s->report->has_seq && s->report->seq > s->seq
		? s->report->seq - s->seq
		: 0;
}

static void print_views(const Strait__Reply *r)
{
	static const char *const columns[] = { "SITE", "LABEL", "SITE MASTER", "VIEW", ">STALENESS",
		">LAG", ">OBJECTS", "SOURCES", NULL };
	struct table *t = table_create(columns);
	char age[UNITS_TEXT_MAX], when[TIME_TEXT_MAX];

	for (size_t i = 0; i < r->n_views; i++) {
		const Strait__SiteView *s = r->views[i];
		size_t n = s->report != NULL ? s->report->n_sources : 0, live = 0;

		for (size_t k = 0; k < n; k++)
			live += strcmp(s->report->sources[k]->state, "live") == 0 ||
				strcmp(s->report->sources[k]->state, "polled") == 0;
		table_cell(t, "%s", s->site);
		table_cell(t, "%s", s->label != NULL && s->label[0] != '\0' ? s->label : "-");
		table_cell(t, "%s",
			s->connected                     ? s->address
				: s->has_left && s->left ? "left"
				: s->has_gone_since_ms   ? "gone"
							 : "never seen");
		table_cell(t, "%s", s->state);
		table_cell(t, "%s",
			strcmp(s->state, "expired") == 0
				? "-"
				: age_text(s->has_staleness_ms, s->staleness_ms, age));
		if (s->connected && s->report != NULL && s->report->has_seq)
			table_cell(t, "%" PRIu64, lag(s));
		else
			table_cell(t, "-");
		table_cell(t, "%" PRIu64, s->objects);
		if (s->connected)
			table_cell(t, "%zu of %zu live", live, n);
		else
			table_cell(t, "not known");
	}
	table_print(t);
	for (size_t i = 0; i < r->n_views; i++)
		if (!r->views[i]->connected && r->views[i]->has_gone_since_ms)
			printf("GONE %s since %s: %s\n", r->views[i]->site,
				print_time(r->views[i]->gone_since_ms, when),
				r->views[i]->gone_reason);
	for (size_t i = 0; i < r->n_views; i++)
		if (r->views[i]->refused != NULL)
			printf("REFUSED %s: %s\n", r->views[i]->site, r->views[i]->refused);
	for (size_t i = 0; i < r->n_views; i++)
		if (r->views[i]->connected && r->views[i]->report != NULL &&
			r->views[i]->report->trouble != NULL)
			printf("TROUBLE %s: %s\n", r->views[i]->site, r->views[i]->report->trouble);
}

static void print_backlogs(const Strait__Reply *r)
{
	static const char *const columns[] = { "TO", ">WANTED", ">BYTES", ">OLDEST", ">FLYING",
		">IN SETS", ">QUARANTINED", ">ETA", ">EVICTED AT", "TEXT", NULL };
	struct table *t = table_create(columns);
	char bytes[UNITS_TEXT_MAX], oldest[UNITS_TEXT_MAX], eta[UNITS_TEXT_MAX];
	char age[UNITS_TEXT_MAX];

	for (size_t i = 0; i < r->n_backlogs; i++) {
		const Strait__BacklogView *b = r->backlogs[i];

		table_cell(t, "%s", b->to_site);
		table_cell(t, "%" PRIu64, b->objects);
		table_cell(t, "%s", units_format_bytes(b->bytes, bytes));
		table_cell(t, "%s",
			b->has_oldest_ms && b->objects + b->waiting > 0
				? duration_text(b->oldest_ms, oldest)
				: "-");
		table_cell(t, "%" PRIu64, b->flying);
		table_cell(t, "%" PRIu64, b->waiting);
		table_cell(t, "%" PRIu64, b->quarantined);
		table_cell(t, "%s",
			b->has_eta_ms && b->eta_ms > 0 ? duration_text(b->eta_ms, eta) : "-");
		table_cell(t, "%s",
			b->has_eviction_age_ms ? duration_text(b->eviction_age_ms, age) : "-");
		table_cell(t, "%s", b->text != NULL ? b->text : "");
	}
	table_print(t);
}

/* Those that are not over the WAN. */
static void print_ways(const Strait__Reply *r)
{
	bool any = false;

	for (size_t i = 0; i < r->n_links; i++) {
		const Strait__LinkView *l = r->links[i];

		if (!l->allow || l->way == NULL || strcmp(l->way, "wan") == 0)
			continue;
		printf("%s%s %s -> %s%s%s\n", any ? "" : "\n",
			l->local_edge != NULL ? "LOCAL" : "LAN", l->from_site, l->to_site,
			l->local_edge != NULL ? ": copied by " : "",
			l->local_edge != NULL ? l->local_edge : "");
		any = true;
	}
}

/* What the site master said grows old with its report. */
static json_t *source_json(const Strait__SiteView *v, const Strait__SourceInfo *s)
{
	json_t *o = json_object();

	json_object_set_new(o, "site", json_string(v->site));
	json_object_set_new(o, "name", json_string(s->name));
	json_object_set_new(o, "kind", json_string(s->kind));
	json_object_set_new(o, "state", json_string(v->connected ? s->state : "not known"));
	json_object_set_new(o, "age_ms", known_json(s->has_age_ms, s->age_ms + v->report_age_ms));
	json_object_set_new(o, "objects", json_integer((json_int_t)s->objects));
	json_object_set_new(o, "events", json_integer((json_int_t)s->events));
	json_object_set_new(o, "gaps", json_integer((json_int_t)s->gaps));
	json_object_set_new(o, "listings", json_integer((json_int_t)s->listings));
	if (s->trouble != NULL)
		json_object_set_new(o, "trouble", json_string(s->trouble));
	return o;
}

static json_t *sources_json(const Strait__SiteView *s)
{
	json_t *list = json_array();

	for (size_t i = 0; s->report != NULL && i < s->report->n_sources; i++)
		json_array_append_new(list, source_json(s, s->report->sources[i]));
	return list;
}

static json_t *view_json(const Strait__SiteView *s)
{
	json_t *o = json_object();

	json_object_set_new(o, "site", json_string(s->site));
	json_object_set_new(o, "label", json_string(s->label != NULL ? s->label : ""));
	json_object_set_new(o, "connected", json_boolean(s->connected));
	json_object_set_new(o, "state", json_string(s->state));
	if (s->connected && s->address != NULL)
		json_object_set_new(o, "address", json_string(s->address));
	json_object_set_new(o, "staleness_ms", known_json(s->has_staleness_ms, s->staleness_ms));
	if (s->report != NULL && s->report->has_partial)
		json_object_set_new(o, "partial", json_boolean(s->report->partial));
	json_object_set_new(o, "lag_events",
		known_json(s->connected && s->report != NULL && s->report->has_seq, lag(s)));
	json_object_set_new(o, "seq", json_integer((json_int_t)s->seq));
	json_object_set_new(o, "objects", json_integer((json_int_t)s->objects));
	json_object_set_new(o, "snapshots", json_integer((json_int_t)s->snapshots));
	json_object_set_new(o, "snapshots_failed", json_integer((json_int_t)s->failed));
	json_object_set_new(o, "drifts", json_integer((json_int_t)s->drifts));
	json_object_set_new(o, "gaps", json_integer((json_int_t)s->gaps));
	if (s->report != NULL) {
		json_object_set_new(o, "ready", json_boolean(s->connected && s->report->ready));
		json_object_set_new(o, "report_age_ms", json_integer((json_int_t)s->report_age_ms));
		json_object_set_new(o, "memory_bytes",
			json_integer((json_int_t)s->report->memory_bytes));
		json_object_set_new(o, "keys_refused",
			json_integer((json_int_t)s->report->refused));
		json_object_set_new(o, "declined", json_integer((json_int_t)s->report->suppressed));
		if (s->connected && s->report->trouble != NULL)
			json_object_set_new(o, "trouble", json_string(s->report->trouble));
	}
	if (s->has_gone_since_ms) {
		json_object_set_new(o, "gone_since_ms", json_integer((json_int_t)s->gone_since_ms));
		json_object_set_new(o, "gone_reason", json_string(s->gone_reason));
		json_object_set_new(o, "left", json_boolean(s->left));
	}
	if (s->refused != NULL)
		json_object_set_new(o, "refused", json_string(s->refused));
	json_object_set_new(o, "sources", sources_json(s));
	return o;
}

static json_t *backlog_json(const Strait__BacklogView *b)
{
	json_t *o = json_object();

	json_object_set_new(o, "to", json_string(b->to_site));
	json_object_set_new(o, "objects", json_integer((json_int_t)b->objects));
	json_object_set_new(o, "bytes", json_integer((json_int_t)b->bytes));
	json_object_set_new(o, "waiting_in_sets", json_integer((json_int_t)b->waiting));
	json_object_set_new(o, "oldest_ms",
		known_json(b->has_oldest_ms && b->objects + b->waiting > 0, b->oldest_ms));
	json_object_set_new(o, "flying", json_integer((json_int_t)b->flying));
	json_object_set_new(o, "flying_bytes", json_integer((json_int_t)b->flying_bytes));
	json_object_set_new(o, "quarantined", json_integer((json_int_t)b->quarantined));
	json_object_set_new(o, "eta_ms", known_json(b->has_eta_ms && b->eta_ms > 0, b->eta_ms));
	json_object_set_new(o, "eviction_age_ms",
		known_json(b->has_eviction_age_ms, b->eviction_age_ms));
	if (b->text != NULL)
		json_object_set_new(o, "text", json_string(b->text));
	return o;
}

static int status_json(const Strait__Reply *r)
{
	json_t *o = json_object(), *sites = json_array(), *backlogs = json_array();
	json_t *links = json_array();
	json_t *counters = json_object();

	for (size_t i = 0; i < r->n_views; i++)
		json_array_append_new(sites, view_json(r->views[i]));
	for (size_t i = 0; i < r->n_backlogs; i++)
		json_array_append_new(backlogs, backlog_json(r->backlogs[i]));
	for (size_t i = 0; i < r->n_counters; i++)
		json_object_set_new(counters, r->counters[i]->name,
			json_integer((json_int_t)r->counters[i]->value));
	json_object_set_new(o, "sites", sites);
	json_object_set_new(o, "backlogs", backlogs);
	for (size_t i = 0; i < r->n_links; i++)
		json_array_append_new(links, json_policy(r->links[i]));
	json_object_set_new(o, "links", links);
	json_object_set_new(o, "counters", counters);
	return print_json(o, false);
}

static bool on_status(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;

	if (s->ctl->json) {
		s->exit = status_json(r);
		return false;
	}
	print_views(r);
	putchar('\n');
	print_backlogs(r);
	print_ways(r);
	printf("\nsince the master's start:");
	for (size_t i = 0; i < r->n_counters; i++)
		if (r->counters[i]->value > 0)
			printf(" %s %" PRIu64, r->counters[i]->name, r->counters[i]->value);
	putchar('\n');
	return false;
}

static bool on_sources(const Strait__Reply *r, void *ctx)
{
	static const char *const columns[] = { "SITE", "SOURCE", "KIND", "STATE", ">AGE",
		">OBJECTS", ">EVENTS", ">GAPS", ">LISTINGS", "TEXT", NULL };
	struct ctl_sink *s = ctx;
	json_t *list = s->ctl->json ? json_array() : NULL;
	struct table *t = s->ctl->json ? NULL : table_create(columns);
	char age[UNITS_TEXT_MAX];

	for (size_t i = 0; i < r->n_views; i++) {
		const Strait__SiteView *v = r->views[i];

		for (size_t k = 0; v->report != NULL && k < v->report->n_sources; k++) {
			const Strait__SourceInfo *o = v->report->sources[k];

			if (s->ctl->json) {
				json_array_append_new(list, source_json(v, o));
				continue;
			}
			table_cell(t, "%s", v->site);
			table_cell(t, "%s", o->name);
			table_cell(t, "%s", o->kind);
			table_cell(t, "%s", v->connected ? o->state : "not known");
			table_cell(t, "%s",
				age_text(o->has_age_ms, o->age_ms + v->report_age_ms, age));
			table_cell(t, "%" PRIu64, o->objects);
			table_cell(t, "%" PRIu64, o->events);
			table_cell(t, "%" PRIu64, o->gaps);
			table_cell(t, "%" PRIu64, o->listings);
			table_cell(t, "%s", o->trouble != NULL ? o->trouble : "");
		}
	}
	if (s->ctl->json)
		s->exit = print_json(list, false);
	else
		table_print(t);
	return false;
}

static int ask(struct ctl *ctl, ctl_reply_fn fn)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__REPLICATION;
	return ctl_ask(ctl, &req, fn);
}

int cmd_replication_status(struct ctl *ctl)
{
	return ask(ctl, on_status);
}

int cmd_source_list(struct ctl *ctl)
{
	return ask(ctl, on_sources);
}

static void print_names(char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%s%s", i > 0 ? "," : "", names[i]);
	if (n == 0)
		putchar('-');
}

/* Fails unless every key is somewhere, as `exist` does. */
static bool on_located(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;
	json_t *list = s->ctl->json ? json_array() : NULL;

	for (size_t i = 0; i < r->n_located; i++) {
		const Strait__Located *l = r->located[i];
		char *key = print_bytes(l->key.data, l->key.len);

		if (l->n_sites == 0)
			s->exit = CTL_FAILED;
		if (s->ctl->json) {
			json_t *o = json_object();

			json_put_bytes(o, "key", l->key.data, l->key.len);
			json_object_set_new(o, "sites", json_names(l->sites, l->n_sites));
			json_object_set_new(o, "unknown", json_names(l->unknown, l->n_unknown));
			json_array_append_new(list, o);
		} else {
			printf("%s at ", key != NULL ? key : "?");
			print_names(l->sites, l->n_sites);
			if (l->n_unknown > 0) {
				printf(" not known at ");
				print_names(l->unknown, l->n_unknown);
			}
			putchar('\n');
		}
		free(key);
	}
	if (s->ctl->json)
		print_json(list, false);
	return false;
}

static bool on_fetch(const Strait__Reply *r, void *ctx)
{
	static const struct {
		const char *name, *text;
	} kinds[] = {
		{ "wanted", "on their way" },
		{ "there", "there already" },
		{ "barred", "only where no policy lets them come from" },
		{ "unknown", "not known: a site's view is not complete" },
		{ "nowhere", "nowhere" },
	};
	struct ctl_sink *s = ctx;
	json_t *o = s->ctl->json ? json_object() : NULL;
	const char *comma = "";

	for (size_t i = 0; i < r->n_counters; i++) {
		const Strait__Counter *c = r->counters[i];
		const char *text = c->name;

		if (o != NULL)
			json_object_set_new(o, c->name, json_integer((json_int_t)c->value));
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			text = strcmp(kinds[k].name, c->name) == 0 ? kinds[k].text : text;
		if (o != NULL || (c->value == 0 && i > 0))
			continue;
		printf("%s%" PRIu64 " %s", comma, c->value, text);
		comma = ", ";
	}
	if (o != NULL)
		s->exit = print_json(o, false);
	else
		putchar('\n');
	return false;
}

static int with_keys(struct ctl *ctl, Strait__Request *req, ctl_reply_fn fn)
{
	const char *tenant = ctl_option(ctl, "tenant");
	bool hex = ctl_option(ctl, "hex") != NULL;
	Strait__OrderObject *objects = calloc((size_t)ctl->argc + 1, sizeof(*objects));
	Strait__OrderObject **list = calloc((size_t)ctl->argc + 1, sizeof(*list));
	struct keys keys = { 0 };
	int rc = objects != NULL && list != NULL ? CTL_OK : ctl_fail(CTL_FAILED, "out of memory");

	for (int i = 0; rc == CTL_OK && i < ctl->argc; i++)
		rc = keys_add(&keys, ctl->argv[i], strlen(ctl->argv[i]), hex);
	for (size_t i = 0; rc == CTL_OK && i < keys.count; i++) {
		strait__order_object__init(&objects[i]);
		objects[i].key.data = keys.list[i].data;
		objects[i].key.len = keys.list[i].len;
		objects[i].has_tenant = tenant != NULL;
		objects[i].tenant.data = (uint8_t *)(uintptr_t)tenant;
		objects[i].tenant.len = tenant != NULL ? strlen(tenant) : 0;
		list[i] = &objects[i];
	}
	if (rc == CTL_OK) {
		req->n_objects = keys.count;
		req->objects = list;
		rc = ctl_ask(ctl, req, fn);
	}
	keys_free(&keys);
	free(objects);
	free(list);
	return rc;
}

int cmd_locate(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__LOCATE;
	return with_keys(ctl, &req, on_located);
}

int cmd_fetch(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__FETCH;
	req.to_site = (char *)(uintptr_t)ctl_option(ctl, "to");
	if (req.to_site == NULL)
		return ctl_fail(CTL_USAGE, "--to SITE is needed");
	return with_keys(ctl, &req, on_fetch);
}

static bool on_backfill(const Strait__Reply *r, void *ctx)
{
	struct ctl_sink *s = ctx;

	(void)r;
	if (s->ctl->json)
		s->exit = print_json(json_object(), false);
	else
		printf("begun; straitctl replication status shows what becomes wanted\n");
	return false;
}

int cmd_backfill(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__BACKFILL;
	req.from_site = ctl->argv[0];
	return ctl_ask(ctl, &req, on_backfill);
}
