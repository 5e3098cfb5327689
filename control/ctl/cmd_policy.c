/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * policy list: which policy counts from where to where, and all that it says. A master that is
 * older than this program tells less, which is not shown as if it were none.
 */

static bool is_told(const Strait__LinkView *l)
{
	return l->has_after;
}

static json_t *limit_json(uint64_t value)
{
	return value > 0 ? json_integer((json_int_t)value) : json_null();
}

json_t *json_policy(const Strait__LinkView *l)
{
	json_t *o = json_object();

	json_object_set_new(o, "from", json_string(l->from_site));
	json_object_set_new(o, "to", json_string(l->to_site));
	json_object_set_new(o, "policy", l->policy != NULL ? json_string(l->policy) : json_null());
	json_object_set_new(o, "allow", json_boolean(l->allow));
	json_object_set_new(o, "class", json_string(print_class(l->class_)));
	json_object_set_new(o, "cap_bps", json_integer((json_int_t)l->cap_bps));
	if (l->way != NULL)
		json_object_set_new(o, "way", json_string(l->way));
	if (l->local_edge != NULL)
		json_object_set_new(o, "local_edge", json_string(l->local_edge));
	if (!is_told(l))
		return o;
	json_object_set_new(o, "after", json_integer((json_int_t)l->after));
	json_object_set_new(o, "least_bytes", limit_json(l->least_bytes));
	json_object_set_new(o, "most_bytes", limit_json(l->most_bytes));
	json_object_set_new(o, "ttl_ms", limit_json(l->ttl_ms));
	json_object_set_new(o, "ttl_by_eviction_age", json_boolean(l->ttl_by_age));
	json_object_set_new(o, "pause_below_ms", limit_json(l->pause_below_ms));
	json_object_set_new(o, "tenants",
		l->n_tenants > 0 ? json_names(l->tenants, l->n_tenants) : json_null());
	json_object_set_new(o, "profile",
		l->profile != NULL ? json_string(l->profile) : json_null());
	if (l->text != NULL)
		json_object_set_new(o, "text", json_string(l->text));
	return o;
}

static void sizes_cell(struct table *t, const Strait__LinkView *l)
{
	char least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];

	units_format_bytes(l->least_bytes, least);
	units_format_bytes(l->most_bytes, most);
	if (l->least_bytes > 0 && l->most_bytes > 0)
		table_cell(t, "%s to %s", least, most);
	else if (l->least_bytes > 0)
		table_cell(t, "from %s", least);
	else if (l->most_bytes > 0)
		table_cell(t, "to %s", most);
	else
		table_cell(t, "any");
}

static void tenants_cell(struct table *t, const Strait__LinkView *l)
{
	char text[1024];
	size_t at = 0;

	if (l->n_tenants == 0) {
		table_cell(t, "all");
		return;
	}
	/* -o json names those that are too many for a line */
	for (size_t i = 0; i < l->n_tenants && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i > 0 ? "," : "",
			l->tenants[i]);
	table_cell(t, "%s", text);
}

static void limits_cells(struct table *t, const Strait__LinkView *l)
{
	char ttl[UNITS_TEXT_MAX], pause[UNITS_TEXT_MAX];

	if (!l->allow || !is_told(l)) {
		for (int i = 0; i < 5; i++)
			table_cell(t, "-");
		return;
	}
	table_cell(t, "%" PRIu32, l->after);
	sizes_cell(t, l);
	table_cell(t, "%s",
		l->ttl_by_age           ? "eviction-age"
			: l->ttl_ms > 0 ? units_format_duration(l->ttl_ms * 1000000, ttl)
					: "never");
	table_cell(t, "%s",
		l->pause_below_ms > 0 ? units_format_duration(l->pause_below_ms * 1000000, pause)
				      : "never");
	tenants_cell(t, l);
}

static bool on_policies(const Strait__Reply *r, void *ctx)
{
	static const char *const columns[] = { "FROM", "TO", "POLICY", "ALLOW", "CLASS", "WAY",
		">CAP", ">AFTER", "SIZES", ">TTL", ">PAUSE BELOW", "TENANTS", "TEXT", NULL };
	struct ctl_sink *s = ctx;
	json_t *list = s->ctl->json ? json_array() : NULL;
	struct table *t = s->ctl->json ? NULL : table_create(columns);
	char cap[UNITS_TEXT_MAX];

	for (size_t i = 0; i < r->n_links; i++) {
		const Strait__LinkView *l = r->links[i];

		if (s->ctl->json) {
			json_array_append_new(list, json_policy(l));
			continue;
		}
		table_cell(t, "%s", l->from_site);
		table_cell(t, "%s", l->to_site);
		table_cell(t, "%s", l->policy != NULL ? l->policy : "none");
		table_cell(t, "%s", l->allow ? "yes" : "no");
		table_cell(t, "%s", l->allow ? print_class(l->class_) : "-");
		table_cell(t, "%s%s%s", l->way != NULL ? l->way : "-",
			l->local_edge != NULL ? " at " : "",
			l->local_edge != NULL ? l->local_edge : "");
		table_cell(t, "%s", l->cap_bps > 0 ? units_format_rate(l->cap_bps, cap) : "-");
		limits_cells(t, l);
		table_cell(t, "%s", l->text != NULL ? l->text : "");
	}
	if (s->ctl->json)
		s->exit = print_json(list, false);
	else
		table_print(t);
	return false;
}

int cmd_policy_list(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__REPLICATION;
	return ctl_ask(ctl, &req, on_policies);
}
