/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/print.h"

#include "control/ctl/ctl.h"

#include <strait/status.h>

#include <libsmartcols/libsmartcols.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct table {
	struct libscols_table *t;
	struct libscols_line *line;
	size_t columns, next;
};

struct table *table_create(const char *const *columns)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->t = scols_new_table();
	for (; t->t != NULL && *columns != NULL; columns++, t->columns++) {
		bool right = (*columns)[0] == '>';

		scols_table_new_column(t->t, *columns + right, 0, right ? SCOLS_FL_RIGHT : 0);
	}
	return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	if (t == NULL || t->t == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (t->next == 0)
		t->line = scols_table_new_line(t->t, NULL);
	if (t->line != NULL)
		scols_line_set_data(t->line, t->next, text);
	t->next = (t->next + 1) % t->columns;
}

/* libsmartcols prints nothing of a table without lines; people expect the header. */
static void print_header(const struct table *t)
{
	for (size_t i = 0; i < t->columns; i++) {
		struct libscols_column *c = scols_table_get_column(t->t, i);

		printf("%s%s", scols_cell_get_data(scols_column_get_header(c)),
			i + 1 < t->columns ? " " : "\n");
	}
}

void table_print(struct table *t)
{
	if (t == NULL || t->t == NULL) {
		free(t);
		ctl_fail(CTL_FAILED, "out of memory");
		return;
	}
	if (t->line == NULL)
		print_header(t);
	else
		scols_print_table(t->t);
	scols_unref_table(t->t);
	free(t);
}

int print_json(json_t *value, bool compact)
{
	int rc = value == NULL ||
		json_dumpf(value, stdout, compact ? JSON_COMPACT : JSON_INDENT(2)) != 0;

	json_decref(value);
	putchar('\n');
	if (compact)
		fflush(stdout);
	return rc == 0 ? CTL_OK : ctl_fail(CTL_FAILED, "cannot write JSON");
}

static char *to_hex(const void *data, size_t len)
{
	const unsigned char *p = data;
	char *hex = malloc(2 * len + 1);

	if (hex == NULL)
		return NULL;
	hex[0] = '\0';
	for (size_t i = 0; i < len; i++)
		sprintf(hex + 2 * i, "%02x", p[i]);
	return hex;
}

void json_put_bytes(json_t *object, const char *name, const void *data, size_t len)
{
	json_t *text = json_stringn(data, len);
	char *hex, hex_name[64];

	if (text != NULL) {
		json_object_set_new(object, name, text);
		return;
	}
	hex = to_hex(data, len);
	snprintf(hex_name, sizeof(hex_name), "%s_hex", name);
	if (hex != NULL)
		json_object_set_new(object, hex_name, json_string(hex));
	free(hex);
}

char *print_bytes(const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t i;

	for (i = 0; i < len; i++)
		if (!isprint(p[i]))
			break;
	if (i == len)
		return strndup(data, len);
	return to_hex(data, len);
}

const char *print_time(uint64_t unix_ms, char buf[static TIME_TEXT_MAX])
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;

	if (unix_ms == 0 || localtime_r(&s, &tm) == NULL ||
		strftime(buf, TIME_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		return "-";
	return buf;
}

const char *print_open(const Strait__OrderInfo *o)
{
	return o->opened != NULL && strcmp(o->opened, "open") == 0 ? ", open" : "";
}

const char *print_class(unsigned int class)
{
	static const char *const names[] = { "urgent", "normal", "bulk" };

	return class < 3 ? names[class] : "unknown";
}

/*
 * ---- messages as JSON
 * ------------------------------------------------------------------------------
 */

static void put_number(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void put_text(json_t *object, const char *name, const char *value)
{
	json_object_set_new(object, name, value != NULL ? json_string(value) : json_null());
}

json_t *json_site(const Strait__SiteInfo *s)
{
	json_t *o = json_object();

	put_text(o, "site", s->name);
	put_text(o, "label", s->label);
	put_number(o, "edges", s->edges);
	put_number(o, "edges_up", s->edges_up);
	put_number(o, "edges_draining", s->edges_draining);
	put_number(o, "orders", s->orders);
	put_number(o, "backlog_bytes", s->backlog_bytes);
	put_number(o, "cap_bps", s->cap_bps);
	json_object_set_new(o, "configured", json_boolean(s->configured));
	return o;
}

static json_t *counters(Strait__Counter *const *list, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; i < n; i++)
		put_number(o, list[i]->name, list[i]->value);
	return o;
}

static json_t *json_queue(const Strait__QueueReport *q)
{
	json_t *o = json_object();

	put_number(o, "queue", q->queue);
	json_object_set_new(o, "up", json_boolean(q->up));
	put_number(o, "cap_bps", q->cap_bps);
	put_number(o, "srtt_us", q->srtt_us);
	json_object_set_new(o, "loss", json_real(q->loss));
	put_number(o, "backlog_bytes", q->backlog_bytes);
	put_number(o, "delivered_bytes", q->delivered_bytes);
	put_number(o, "tx_packets", q->tx_packets);
	put_number(o, "rx_packets", q->rx_packets);
	return o;
}

json_t *json_link(const Strait__LinkReport *l)
{
	json_t *o = json_object(), *queues;

	put_text(o, "peer_site", l->peer_site);
	put_text(o, "peer_edge", l->peer_edge);
	json_object_set_new(o, "up", json_boolean(l->up));
	put_number(o, "cap_bps", l->cap_bps);
	put_number(o, "goodput_bps", l->goodput_bps);
	put_number(o, "srtt_us", l->srtt_us);
	put_number(o, "min_rtt_us", l->min_rtt_us);
	json_object_set_new(o, "loss", json_real(l->loss));
	put_number(o, "backlog_bytes", l->backlog_bytes);
	put_number(o, "delivered_bytes", l->delivered_bytes);
	if (l->has_expected_bps)
		put_number(o, "expected_bps", l->expected_bps);
	if (l->goodput_bps > 0)
		json_object_set_new(o, "eta_seconds",
			json_real((double)l->backlog_bytes * 8 / (double)l->goodput_bps));
	json_object_set_new(o, "counters", counters(l->counters, l->n_counters));
	if (l->n_queues == 0)
		return o;
	queues = json_array();
	for (size_t i = 0; i < l->n_queues; i++)
		json_array_append_new(queues, json_queue(l->queues[i]));
	json_object_set_new(o, "queues", queues);
	return o;
}

static json_t *json_pool(const Strait__PoolReport *p)
{
	json_t *o = json_object();

	put_text(o, "path", p->path);
	put_number(o, "capacity_bytes", p->capacity_bytes);
	put_number(o, "used_bytes", p->used_bytes);
	put_number(o, "objects", p->objects);
	put_number(o, "evictions", p->evictions);
	return o;
}

static json_t *json_workers(const Strait__EdgeReport *r)
{
	json_t *workers = json_array();

	for (size_t i = 0; i < r->n_workers; i++) {
		json_t *o = json_object();

		put_number(o, "worker", r->workers[i]->worker);
		json_object_set_new(o, "counters",
			counters(r->workers[i]->counters, r->workers[i]->n_counters));
		json_array_append_new(workers, o);
	}
	return workers;
}

json_t *json_names(char *const *list, size_t n)
{
	json_t *out = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(out, json_string(list[i]));
	return out;
}

const char *print_trouble(const Strait__EdgeInfo *e)
{
	return e->connected && e->report != NULL ? e->report->trouble : NULL;
}

json_t *json_edge(const Strait__EdgeInfo *e)
{
	json_t *o = json_object(), *links = json_array();

	put_text(o, "site", e->site);
	put_text(o, "edge", e->name);
	json_object_set_new(o, "connected", json_boolean(e->connected));
	put_text(o, "state", e->state);
	json_object_set_new(o, "draining", json_boolean(e->draining));
	json_object_set_new(o, "lost", json_boolean(e->lost));
	put_number(o, "orders", e->orders);
	put_number(o, "backlog_bytes", e->backlog_bytes);
	if (e->has_share_bps)
		put_number(o, "share_bps", e->share_bps);
	put_text(o, "mgmt_address", e->mgmt_address);
	put_text(o, "program", e->program);
	if (e->has_connected_since_ms)
		put_number(o, "connected_since_ms", e->connected_since_ms);
	put_number(o, "last_seen_ms", e->last_seen_ms);
	if (e->refused != NULL)
		put_text(o, "refused", e->refused);
	if (print_trouble(e) != NULL)
		put_text(o, "trouble", print_trouble(e));
	if (e->n_pool_sites > 0)
		json_object_set_new(o, "pool_sites", json_names(e->pool_sites, e->n_pool_sites));
	for (size_t i = 0; e->report != NULL && i < e->report->n_links; i++)
		json_array_append_new(links, json_link(e->report->links[i]));
	json_object_set_new(o, "links", links);
	if (e->report != NULL) {
		json_object_set_new(o, "counters",
			counters(e->report->counters, e->report->n_counters));
		if (e->report->n_workers > 0)
			json_object_set_new(o, "workers", json_workers(e->report));
		if (e->report->pool != NULL)
			json_object_set_new(o, "pool", json_pool(e->report->pool));
	}
	return o;
}

static json_t *json_object_detail(const Strait__OrderObject *d)
{
	json_t *o = json_object();

	json_put_bytes(o, "key", d->key.data, d->key.len);
	if (d->has_tenant)
		json_put_bytes(o, "tenant", d->tenant.data, d->tenant.len);
	put_text(o, "status", strait_status_name(d->status));
	if (d->has_length)
		put_number(o, "length", d->length);
	return o;
}

json_t *json_order(const Strait__OrderInfo *in)
{
	json_t *o = json_object(), *detail;

	put_number(o, "order", in->order);
	put_text(o, "from", in->from_site);
	put_text(o, "to", in->to_site);
	put_text(o, "class", print_class(in->class_));
	put_text(o, "state", in->state);
	if (in->way != NULL)
		put_text(o, "way", in->way);
	if (in->n_edges > 0)
		json_object_set_new(o, "edges", json_names(in->edges, in->n_edges));
	put_number(o, "objects", in->objects);
	put_number(o, "committed", in->committed);
	put_number(o, "existed", in->existed);
	put_number(o, "failed", in->failed);
	put_number(o, "bytes_done", in->bytes_done);
	put_number(o, "bytes_total", in->bytes_total);
	put_number(o, "goodput_bps", in->goodput_bps);
	put_number(o, "created_ms", in->created_ms);
	if (in->has_finished_ms)
		put_number(o, "finished_ms", in->finished_ms);
	if (in->has_deadline_ms)
		put_number(o, "deadline_ms", in->deadline_ms);
	put_text(o, "text", in->text);
	json_object_set_new(o, "open", json_boolean(print_open(in)[0] != '\0'));
	if (in->opened != NULL) {
		put_text(o, "opened", in->opened);
		put_number(o, "appends", in->appends);
	}
	if (in->n_detail == 0)
		return o;
	detail = json_array();
	for (size_t i = 0; i < in->n_detail; i++)
		json_array_append_new(detail, json_object_detail(in->detail[i]));
	json_object_set_new(o, "detail", detail);
	return o;
}
