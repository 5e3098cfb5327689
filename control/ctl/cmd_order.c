/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/keys.h"
#include "control/ctl/print.h"
#include "control/ctl/watch.h"

#include <strait/status.h>
#include <strait/wire.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sink {
	struct ctl *ctl;
	int exit;
	uint64_t order;
	bool silent, objects;
};

static void print_orders(const Strait__Reply *r)
{
	static const char *const columns[] = { ">ORDER", "FROM", "TO", "WAY", "CLASS", "STATE",
		">OBJECTS", ">OK", ">FAILED", ">BYTES", ">RATE", "CREATED", "TEXT", NULL };
	char bytes[UNITS_TEXT_MAX], rate[UNITS_TEXT_MAX], when[TIME_TEXT_MAX];
	struct table *t = table_create(columns);

	for (size_t i = 0; i < r->n_orders; i++) {
		const Strait__OrderInfo *o = r->orders[i];

		table_cell(t, "%" PRIu64, o->order);
		table_cell(t, "%s", o->from_site);
		table_cell(t, "%s", o->to_site);
		table_cell(t, "%s", o->way != NULL ? o->way : "-");
		table_cell(t, "%s", print_class(o->class_));
		table_cell(t, "%s%s", o->state, print_open(o));
		table_cell(t, "%u", o->objects);
		table_cell(t, "%u", o->committed + o->existed);
		table_cell(t, "%u", o->failed);
		table_cell(t, "%s", units_format_bytes(o->bytes_done, bytes));
		table_cell(t, "%s", units_format_rate(o->goodput_bps, rate));
		table_cell(t, "%s", print_time(o->created_ms, when));
		table_cell(t, "%s", o->text != NULL ? o->text : "");
	}
	table_print(t);
}

static bool on_orders(const Strait__Reply *r, void *ctx)
{
	struct sink *s = ctx;
	json_t *list;

	if (!s->ctl->json) {
		print_orders(r);
		return false;
	}
	list = json_array();
	for (size_t i = 0; i < r->n_orders; i++)
		json_array_append_new(list, json_order(r->orders[i]));
	s->exit = print_json(list, false);
	return false;
}

static void print_objects(const Strait__OrderInfo *o)
{
	static const char *const columns[] = { "KEY", "STATUS", ">BYTES", "MEANING", NULL };
	struct table *t = table_create(columns);

	for (size_t i = 0; i < o->n_detail; i++) {
		const Strait__OrderObject *d = o->detail[i];
		char *key = print_bytes(d->key.data, d->key.len);

		table_cell(t, "%s", key != NULL ? key : "?");
		table_cell(t, "%s", strait_status_name(d->status));
		if (d->has_length)
			table_cell(t, "%" PRIu64, d->length);
		else
			table_cell(t, "-");
		table_cell(t, "%s", strait_status_text(d->status));
		free(key);
	}
	table_print(t);
}

static bool on_order(const Strait__Reply *r, void *ctx)
{
	struct sink *s = ctx;

	if (r->n_orders != 1) {
		s->exit = ctl_fail(CTL_FAILED, "the master's answer has no order");
		return false;
	}
	s->order = r->orders[0]->order;
	if (s->silent)
		return false;
	if (s->ctl->json) {
		s->exit = print_json(json_order(r->orders[0]), false);
		return false;
	}
	print_orders(r);
	if (s->objects) {
		putchar('\n');
		print_objects(r->orders[0]);
	}
	return false;
}

static bool on_submitted(const Strait__Reply *r, void *ctx)
{
	struct sink *s = ctx;

	if (s->silent || s->ctl->json)
		return on_order(r, ctx);
	if (r->n_orders == 1)
		printf("order %" PRIu64 " %s%s\n", r->orders[0]->order, r->orders[0]->state,
			print_open(r->orders[0]));
	return false;
}

/*
 * ---- submit
 * ----------------------------------------------------------------------------------------
 */

static int take_order(const struct ctl *ctl, Strait__Request *req)
{
	req->has_order = true;
	if (ctl_parse_u64(ctl->argv[0], &req->order) != 0)
		return ctl_fail(CTL_USAGE, "\"%s\" is not an order number", ctl->argv[0]);
	return CTL_OK;
}

static int take_keys(struct ctl *ctl, struct keys *keys)
{
	char separator = ctl_option(ctl, "null") != NULL ? '\0' : '\n';
	bool hex = ctl_option(ctl, "hex") != NULL;
	const char *text;
	int rc = CTL_OK;

	for (size_t i = 0; rc == CTL_OK && (text = ctl_option_nth(ctl, "object", i)) != NULL; i++)
		rc = keys_add(keys, text, strlen(text), hex);
	for (int i = 0; rc == CTL_OK && i < ctl->argc; i++)
		rc = keys_add(keys, ctl->argv[i], strlen(ctl->argv[i]), hex);
	for (size_t i = 0; rc == CTL_OK && (text = ctl_option_nth(ctl, "keys-file", i)) != NULL;
		i++)
		rc = keys_add_file(keys, text, separator, hex);
	if (rc == CTL_OK && keys->count == 0 && ctl_option(ctl, "open") == NULL)
		return ctl_fail(CTL_USAGE,
			"no keys: give them as arguments, with --object or with "
			"--keys-file");
	return rc;
}

static int take_options(struct ctl *ctl, Strait__Request *req)
{
	const char *deadline = ctl_option(ctl, "deadline"), *bytes = ctl_option(ctl, "bytes");
	char err[160];
	uint64_t ns;

	req->verb = STRAIT__REQUEST__VERB__ORDER_SUBMIT;
	req->from_site = (char *)ctl_option(ctl, "from");
	req->to_site = (char *)ctl_option(ctl, "to");
	req->idempotency_key = (char *)ctl_option(ctl, "idempotency-key");
	if (bytes != NULL) {
		if (units_parse_bytes(bytes, &req->bytes, err, sizeof(err)) != 0)
			return ctl_fail(CTL_USAGE, "--bytes: %s", err);
		req->has_bytes = true;
	}
	req->has_open = req->open = ctl_option(ctl, "open") != NULL;
	if (req->from_site == NULL || req->to_site == NULL)
		return ctl_fail(CTL_USAGE, "--from SITE and --to SITE are needed");
	if (deadline != NULL) {
		if (units_parse_duration(deadline, &ns, err, sizeof(err)) != 0)
			return ctl_fail(CTL_USAGE, "--deadline: %s", err);
		if (ns < 1000000)
			return ctl_fail(CTL_USAGE,
				"--deadline: from now, so it must be 1ms or more");
		req->has_deadline_ms = true;
		req->deadline_ms = clock_unix_ms() + ns / 1000000;
	}
	req->has_class_ = true;
	req->class_ = STRAIT_CLASS_NORMAL;
	return ctl_take_class(ctl, req);
}

/* The request with these keys. */
static int send_keys(struct ctl *ctl, Strait__Request *req, const struct keys *keys,
	ctl_reply_fn on_reply, struct sink *sink)
{
	const char *tenant = ctl_option(ctl, "tenant");
	Strait__OrderObject *objects = calloc(keys->count + 1, sizeof(*objects));
	Strait__OrderObject **pointers = calloc(keys->count + 1, sizeof(*pointers));
	int rc = CTL_FAILED;

	if (objects == NULL || pointers == NULL) {
		ctl_fail(CTL_FAILED, "out of memory");
		goto out;
	}
	for (size_t i = 0; i < keys->count; i++) {
		strait__order_object__init(&objects[i]);
		objects[i].key.data = keys->list[i].data;
		objects[i].key.len = keys->list[i].len;
		if (tenant != NULL) {
			objects[i].has_tenant = true;
			objects[i].tenant.data = (uint8_t *)tenant;
			objects[i].tenant.len = strlen(tenant);
		}
		pointers[i] = &objects[i];
	}
	req->n_objects = keys->count;
	req->objects = pointers;
	rc = ctl_call(ctl, req, on_reply, sink);
out:
	free(objects);
	free(pointers);
	return rc;
}

int cmd_order_submit(struct ctl *ctl)
{
	bool wait = ctl_option(ctl, "wait") != NULL;
	struct sink sink = { .ctl = ctl, .exit = CTL_OK, .silent = wait };
	Strait__Request req = STRAIT__REQUEST__INIT;
	struct keys keys = { 0 };
	int rc = take_options(ctl, &req);

	if (rc == CTL_OK)
		rc = take_keys(ctl, &keys);
	if (rc == CTL_OK)
		rc = send_keys(ctl, &req, &keys, on_submitted, &sink);
	keys_free(&keys);
	if (rc != CTL_OK)
		return rc;
	return wait && sink.exit == CTL_OK ? watch_order(ctl, sink.order) : sink.exit;
}

/*
 * ---- the others
 * ------------------------------------------------------------------------------------
 */

static bool on_appended(const Strait__Reply *r, void *ctx)
{
	struct sink *s = ctx;

	if (s->ctl->json)
		return on_order(r, ctx);
	if (r->n_orders == 1)
		printf("order %" PRIu64 " has %u objects after append %u\n", r->orders[0]->order,
			r->orders[0]->objects, r->orders[0]->appends);
	return false;
}

int cmd_order_append(struct ctl *ctl)
{
	const char *number = ctl_option(ctl, "number");
	struct sink sink = { .ctl = ctl, .exit = CTL_OK };
	Strait__Request req = STRAIT__REQUEST__INIT;
	struct keys keys = { 0 };
	uint64_t n = 0;
	int rc = take_order(ctl, &req);

	req.verb = STRAIT__REQUEST__VERB__ORDER_APPEND;
	if (rc == CTL_OK && number != NULL) {
		if (ctl_parse_u64(number, &n) != 0 || n == 0 || n > UINT32_MAX)
			rc = ctl_fail(CTL_USAGE, "--number must be a number from 1");
		req.has_append = true;
		req.append = (uint32_t)n;
	}
	ctl->argc--; /* the others are keys */
	ctl->argv++;
	if (rc == CTL_OK)
		rc = take_keys(ctl, &keys);
	if (rc == CTL_OK)
		rc = send_keys(ctl, &req, &keys, on_appended, &sink);
	keys_free(&keys);
	return rc != CTL_OK ? rc : sink.exit;
}

int cmd_order_seal(struct ctl *ctl)
{
	bool wait = ctl_option(ctl, "wait") != NULL;
	struct sink sink = { .ctl = ctl, .exit = CTL_OK, .silent = wait };
	Strait__Request req = STRAIT__REQUEST__INIT;
	int rc = take_order(ctl, &req);

	if (rc != CTL_OK)
		return rc;
	req.verb = STRAIT__REQUEST__VERB__ORDER_SEAL;
	rc = ctl_call(ctl, &req, on_order, &sink);
	if (rc != CTL_OK || sink.exit != CTL_OK)
		return rc != CTL_OK ? rc : sink.exit;
	return wait ? watch_order(ctl, req.order) : CTL_OK;
}

int cmd_order_list(struct ctl *ctl)
{
	const char *limit = ctl_option(ctl, "limit");
	struct sink sink = { .ctl = ctl, .exit = CTL_OK };
	Strait__Request req = STRAIT__REQUEST__INIT;
	uint64_t n;
	int rc;

	req.verb = STRAIT__REQUEST__VERB__ORDER_LIST;
	if (limit != NULL) {
		if (ctl_parse_u64(limit, &n) != 0 || n == 0 || n > UINT32_MAX)
			return ctl_fail(CTL_USAGE, "--limit must be a number from 1");
		req.has_limit = true;
		req.limit = (uint32_t)n;
	}
	rc = ctl_call(ctl, &req, on_orders, &sink);
	return rc != CTL_OK ? rc : sink.exit;
}

int cmd_order_show(struct ctl *ctl)
{
	struct sink sink = { .ctl = ctl, .exit = CTL_OK };
	Strait__Request req = STRAIT__REQUEST__INIT;
	int rc = take_order(ctl, &req);

	if (rc != CTL_OK)
		return rc;
	sink.objects = ctl_option(ctl, "objects") != NULL;
	req.verb = STRAIT__REQUEST__VERB__ORDER_SHOW;
	req.has_no_objects = true;
	req.no_objects = !sink.objects;
	rc = ctl_call(ctl, &req, on_order, &sink);
	return rc != CTL_OK ? rc : sink.exit;
}

int cmd_order_cancel(struct ctl *ctl)
{
	struct sink sink = { .ctl = ctl, .exit = CTL_OK };
	Strait__Request req = STRAIT__REQUEST__INIT;
	int rc = take_order(ctl, &req);

	if (rc != CTL_OK)
		return rc;
	req.verb = STRAIT__REQUEST__VERB__ORDER_CANCEL;
	rc = ctl_call(ctl, &req, on_order, &sink);
	return rc != CTL_OK ? rc : sink.exit;
}

int cmd_order_watch(struct ctl *ctl)
{
	Strait__Request req = STRAIT__REQUEST__INIT;
	int rc = take_order(ctl, &req);

	return rc != CTL_OK ? rc : watch_order(ctl, req.order);
}
