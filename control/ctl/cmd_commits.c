/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/keys.h"
#include "control/ctl/print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * commits: what was committed, in order, and with --follow what is. A place in that order is told
 * as EPOCH/SEQ; --since takes it and goes on after it.
 */

enum { GONE_MS = 30000, AGAIN_US = 200000, POSITION_MAX = 40 };

struct follow {
	struct ctl *ctl;
	Strait__Request req;
	Strait__CommitsWanted wanted;
	uint64_t count; /* to print yet; 0: all */
	bool heard, begun, done;
};

static const char *position(uint32_t epoch, uint64_t seq, char buf[static POSITION_MAX])
{
	snprintf(buf, POSITION_MAX, "%08" PRIx32 "/%" PRIu64, epoch, seq);
	return buf;
}

static json_t *commit_json(uint32_t epoch, const Strait__Commit *c)
{
	json_t *o = json_object();
	char at[POSITION_MAX];

	json_object_set_new(o, "position", json_string(position(epoch, c->seq, at)));
	json_object_set_new(o, "time_ms", json_integer((json_int_t)c->time_ms));
	json_object_set_new(o, "order", json_integer((json_int_t)c->order));
	json_object_set_new(o, "from", json_string(c->from_site));
	json_object_set_new(o, "to", json_string(c->to_site));
	json_object_set_new(o, "class", json_string(print_class(c->class_)));
	if (c->has_key) {
		json_put_bytes(o, "key", c->key.data, c->key.len);
		if (c->has_tenant)
			json_put_bytes(o, "tenant", c->tenant.data, c->tenant.len);
		if (c->has_length)
			json_object_set_new(o, "bytes", json_integer((json_int_t)c->length));
		json_object_set_new(o, "existed", json_boolean(c->existed));
		return o;
	}
	json_object_set_new(o, "state", json_string(c->state != NULL ? c->state : ""));
	json_object_set_new(o, "objects", json_integer(c->objects));
	json_object_set_new(o, "committed", json_integer(c->committed));
	json_object_set_new(o, "existed", json_integer(c->existed_objects));
	json_object_set_new(o, "failed", json_integer(c->failed));
	json_object_set_new(o, "bytes", json_integer((json_int_t)c->bytes));
	return o;
}

static void print_what(const Strait__Commit *c)
{
	char *key, *tenant;

	if (!c->has_key) {
		printf("order %s: %u of %u objects are there, %u failed", c->state,
			c->committed + c->existed_objects, c->objects, c->failed);
		return;
	}
	key = print_bytes(c->key.data, c->key.len);
	tenant = c->has_tenant ? print_bytes(c->tenant.data, c->tenant.len) : NULL;
	printf("%s%s%s%s", key != NULL ? key : "?", tenant != NULL ? " of tenant " : "",
		tenant != NULL ? tenant : "", c->existed ? " (was there)" : "");
	free(key);
	free(tenant);
}

static void print_commit(uint32_t epoch, const Strait__Commit *c)
{
	char at[POSITION_MAX], when[TIME_TEXT_MAX], bytes[UNITS_TEXT_MAX];
	bool known = c->has_key ? c->has_length : c->has_bytes;

	printf("%-18s %s %6" PRIu64 " %s > %s %-6s %9s  ", position(epoch, c->seq, at),
		print_time(c->time_ms, when), c->order, c->from_site, c->to_site,
		print_class(c->class_),
		known ? units_format_bytes(c->has_key ? c->length : c->bytes, bytes) : "-");
	print_what(c);
	putchar('\n');
}

static bool on_reply(const Strait__Reply *r, void *ctx)
{
	struct follow *f = ctx;

	f->heard = f->begun = true;
	for (size_t i = 0; i < r->n_commits && !f->done; i++) {
		if (f->ctl->json)
			print_json(commit_json(r->commits_epoch, r->commits[i]), true);
		else
			print_commit(r->commits_epoch, r->commits[i]);
		f->done = f->count > 0 && --f->count == 0;
	}
	fflush(stdout);
	/* where to go on, should the master go away */
	f->wanted.has_epoch = f->wanted.has_seq = true;
	f->wanted.epoch = r->commits_epoch;
	f->wanted.seq = r->commits_next;
	return !f->done && !r->last;
}

static int take_since(struct follow *f)
{
	const char *text = ctl_option(f->ctl, "since");
	unsigned long epoch;
	uint64_t seq;
	char *end;

	if (text == NULL) {
		f->wanted.has_seq = !f->wanted.follow;
		return CTL_OK;
	}
	f->wanted.has_seq = true;
	if (strcmp(text, "first") == 0)
		return CTL_OK;
	errno = 0;
	epoch = strtoul(text, &end, 16);
	if (errno != 0 || end == text || *end != '/' || epoch == 0 || epoch > UINT32_MAX ||
		ctl_parse_u64(end + 1, &seq) != 0 || seq == UINT64_MAX)
		return ctl_fail(CTL_USAGE,
			"--since takes what a commit is listed with, like 3f2a91bc/17, or first");
	f->wanted.has_epoch = true;
	f->wanted.epoch = (uint32_t)epoch;
	f->wanted.seq = seq + 1;
	return CTL_OK;
}

static int take_only(struct follow *f)
{
	const char *text = ctl_option(f->ctl, "only");

	if (text == NULL)
		return CTL_OK;
	if (strcmp(text, "objects") != 0 && strcmp(text, "orders") != 0)
		return ctl_fail(CTL_USAGE, "--only must be objects or orders");
	f->wanted.has_no_objects = f->wanted.has_no_orders = true;
	f->wanted.no_objects = strcmp(text, "orders") == 0;
	f->wanted.no_orders = !f->wanted.no_objects;
	return CTL_OK;
}

static int take_number(const struct ctl *ctl, const char *name, uint64_t *out, bool *has)
{
	const char *text = ctl_option(ctl, name);

	*has = text != NULL;
	if (text == NULL || (ctl_parse_u64(text, out) == 0 && *out > 0))
		return CTL_OK;
	return ctl_fail(CTL_USAGE, "--%s must be a number from 1", name);
}

static int take_options(struct follow *f, struct keys *keys)
{
	struct ctl *ctl = f->ctl;
	const char *prefix = ctl_option(ctl, "prefix"), *tenant = ctl_option(ctl, "tenant");
	bool has, has_order;
	int rc;

	f->wanted.has_follow = true;
	f->wanted.follow = ctl_option(ctl, "follow") != NULL;
	f->req.from_site = (char *)(uintptr_t)ctl_option(ctl, "from");
	f->req.to_site = (char *)(uintptr_t)ctl_option(ctl, "to");
	f->req.label = (char *)(uintptr_t)ctl_option(ctl, "label");
	f->wanted.has_tenant = tenant != NULL;
	if (tenant != NULL)
		f->wanted.tenant =
			(ProtobufCBinaryData){ strlen(tenant), (uint8_t *)(uintptr_t)tenant };
	rc = take_number(ctl, "order", &f->req.order, &has_order);
	f->req.has_order = has_order;
	if (rc == CTL_OK)
		rc = take_number(ctl, "count", &f->count, &has);
	if (rc == CTL_OK)
		rc = take_since(f);
	if (rc == CTL_OK)
		rc = ctl_take_class(ctl, &f->req);
	if (rc == CTL_OK)
		rc = take_only(f);
	if (rc == CTL_OK && prefix != NULL) {
		rc = keys_add(keys, prefix, strlen(prefix), ctl_option(ctl, "hex") != NULL);
		f->wanted.has_key_prefix = rc == CTL_OK;
		if (rc == CTL_OK)
			f->wanted.key_prefix =
				(ProtobufCBinaryData){ keys->list[0].len, keys->list[0].data };
	}
	return rc;
}

/* Goes on where it was for up to GONE_MS without the master, if that was there before. */
static int run(struct follow *f, uint64_t limit_ms, char *why)
{
	uint64_t started_ms = clock_now_ns() / 1000000, gone_ms = started_ms;

	for (;;) {
		uint64_t now_ms = clock_now_ns() / 1000000, used_ms = now_ms - started_ms;
		int rc;

		if (limit_ms != 0 && used_ms >= limit_ms) {
			snprintf(why, CTL_TEXT_MAX, "timed out");
			return CTL_TIMEOUT;
		}
		f->heard = false;
		rc = ctl_call_quiet(f->ctl, &f->req, on_reply, f,
			limit_ms != 0 ? limit_ms - used_ms : 0, why);
		now_ms = clock_now_ns() / 1000000;
		if (f->heard)
			gone_ms = now_ms;
		if (rc != CTL_UNREACHABLE || !f->begun || !f->wanted.follow ||
			now_ms - gone_ms > GONE_MS)
			return rc;
		usleep(AGAIN_US);
	}
}

int cmd_commits(struct ctl *ctl)
{
	struct follow f = { .ctl = ctl,
		.req = STRAIT__REQUEST__INIT,
		.wanted = STRAIT__COMMITS_WANTED__INIT };
	char why[CTL_TEXT_MAX] = "";
	struct keys keys = { 0 };
	uint64_t limit_ms;
	int rc = ctl_timeout_ms(ctl, 0, &limit_ms);

	f.req.verb = STRAIT__REQUEST__VERB__COMMITS;
	f.req.commits = &f.wanted;
	if (rc == CTL_OK)
		rc = take_options(&f, &keys);
	if (rc == CTL_OK)
		rc = run(&f, limit_ms, why);
	keys_free(&keys);
	return rc == CTL_OK || why[0] == '\0' ? rc : ctl_fail((enum ctl_exit)rc, "%s", why);
}
