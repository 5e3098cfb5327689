/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/content.h"
#include "tools/sim/endpoint.h"
#include "tools/sim/light.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void object_key(const struct world *w, uint32_t object, uint8_t *buf)
{
	const struct world_object *o = &w->objects[object];

	content_fill(~o->content, buf, o->key_len);
	snprintf((char *)buf, KEY_BYTES_MIN, "%08" PRIx32, object);
	buf[KEY_BYTES_MIN - 1] = ':';
}

uint32_t object_of_key(const struct world *w, const uint8_t *key, size_t len)
{
	uint8_t want[STRAIT_KEY_BYTES_MAX];
	char hex[KEY_BYTES_MIN] = "";
	unsigned long object;
	char *end;

	if (len < KEY_BYTES_MIN)
		return UINT32_MAX;
	memcpy(hex, key, KEY_BYTES_MIN - 1);
	object = strtoul(hex, &end, 16);
	if (*end || object >= w->nobjects || w->objects[object].key_len != len)
		return UINT32_MAX;
	object_key(w, (uint32_t)object, want);
	return memcmp(want, key, len) == 0 ? (uint32_t)object : UINT32_MAX;
}

int source_start(struct world *w, struct world_transfer *t)
{
	static const uint8_t tenant[] = "sim";
	struct manifest_entry *entries;
	struct tx_params params = { 0 };
	uint8_t *keys;
	int rc = -ENOMEM;

	entries = calloc(t->count, sizeof(*entries));
	keys = malloc((size_t)t->count * STRAIT_KEY_BYTES_MAX);
	if (!entries || !keys)
		goto out;
	for (uint32_t i = 0; i < t->count; i++) {
		struct world_object *o = &w->objects[t->first + i];
		struct manifest_entry *e = &entries[i];

		e->tenant = tenant;
		e->tenant_len = sizeof(tenant) - 1;
		e->key = keys + (size_t)i * STRAIT_KEY_BYTES_MAX;
		e->key_len = o->key_len;
		object_key(w, t->first + i, keys + (size_t)i * STRAIT_KEY_BYTES_MAX);
		e->length = o->length;
		if (o->with_digest) {
			e->flags |= STRAIT_MANIFEST_DIGEST;
			e->digest = o->digest;
		}
		if (o->tx_status != STRAIT_STATUS_PENDING)
			e->flags |= STRAIT_MANIFEST_SKIP;
	}
	params.order = (uint64_t)(t - w->transfers) + 1;
	params.class_ = t->class_;
	params.lan = w->cfg.lan;
	params.flow = t->flow;
	params.deadline_ms = t->deadline_ms;
	params.symbol_bytes = w->path_bytes;
	params.objects = t->count;
	params.entries = entries;
	params.user = t;
	t->tx = tx_transfer_create(&params);
	if (!t->tx) {
		rc = -errno;
		goto out;
	}
	t->ready = 0;
	t->opened = false;
	rc = session_tx_start(w->session[WORLD_SOURCE], w->now_ns, t->tx);
	t->waiting = rc == -ENOSPC;
	if (rc < 0) {
		tx_transfer_destroy(t->tx);
		t->tx = NULL;
	}
out:
	free(keys);
	free(entries);
	return rc;
}

static void object_release(struct world_object *o)
{
	if (!o->src_shared)
		free(o->src);
	o->src = NULL;
	o->src_shared = false;
}

/* A lie is told in a copy of its own. */
static bool object_fill(const struct world *w, struct world_object *o)
{
	if (w->cfg.light && !o->lie) {
		o->src = (uint8_t *)light_bytes(o->content, o->length);
		o->src_shared = true;
		return o->src != NULL;
	}
	o->src = malloc(o->length);
	if (!o->src)
		return false;
	if (w->cfg.light)
		memcpy(o->src, light_bytes(o->content, o->length), o->length);
	else
		content_fill(o->content, o->src, o->length);
	return true;
}

static void object_lease(struct world *w, struct world_transfer *t, uint32_t i)
{
	struct world_object *o = &w->objects[t->first + i];
	struct session *s = w->session[WORLD_SOURCE];

	if (o->tx_status != STRAIT_STATUS_PENDING)
		return;
	if (o->gone) {
		session_tx_object_gone(s, t->tx, i, o->gone);
		return;
	}
	if (!object_fill(w, o)) {
		world_fail(w, "no memory for an object of %" PRIu64 " bytes", o->length);
		return;
	}
	if (o->lie)
		o->src[o->length / 2] ^= 0x10;
	session_tx_object_ready(s, t->tx, i, o->src);
}

static void object_end(struct world *w, struct world_transfer *t, uint32_t i, uint8_t status)
{
	struct world_object *o;

	if (i >= t->count) {
		world_fail(w, "TX_OBJECT for object %u of %u", i, t->count);
		return;
	}
	o = &w->objects[t->first + i];
	if (o->tx_status != STRAIT_STATUS_PENDING) {
		/* One that was skipped may be told again; any other status is final once. */
		if (status != STRAIT_STATUS_SKIPPED)
			world_fail(w, "object %u ended as %s after %s", t->first + i,
				strait_status_name(status), strait_status_name(o->tx_status));
		return;
	}
	if (status == STRAIT_STATUS_PENDING)
		world_fail(w, "object %u ended as PENDING", t->first + i);
	o->tx_status = status;
	object_release(o);
}

/* The session closed it with RESET: its symbols are too large for the path. Order it again. */
static void transfer_reopen(struct world *w, struct world_transfer *t)
{
	int rc;

	w->reopened++;
	for (uint32_t i = t->first; i < t->first + t->count; i++)
		if (w->objects[i].tx_status == STRAIT_STATUS_RESET)
			w->objects[i].tx_status = STRAIT_STATUS_PENDING;
	t->closed = false;
	rc = source_start(w, t);
	if (rc < 0 && rc != -ENOSPC)
		world_fail(w, "a transfer could not be opened again: %s", strerror(-rc));
}

static void transfer_end(struct world *w, struct world_transfer *t, uint8_t status)
{
	for (uint32_t i = 0; i < t->count; i++)
		object_release(&w->objects[t->first + i]);
	tx_transfer_destroy(t->tx);
	t->tx = NULL;
	t->closed = true;
	t->closed_ns = w->now_ns;
	t->close_status = status;
	w->closings++;
	if (status == STRAIT_STATUS_RESET && !w->resetting && !w->dead[WORLD_SOURCE])
		transfer_reopen(w, t);
	for (uint32_t i = 0; i < w->ntransfers; i++)
		if (w->transfers[i].waiting) {
			source_start(w, &w->transfers[i]);
			break;
		}
}

void source_event(struct world *w, const struct session_event *ev)
{
	struct world_transfer *t = ev->tx ? tx_transfer_user(ev->tx) : NULL;

	if (ev->type == SESSION_EVENT_UP || ev->type == SESSION_EVENT_DEAD)
		return;
	if (ev->type == SESSION_EVENT_PATH) {
		w->path_bytes = (uint16_t)ev->object;
		return;
	}
	if (!t || t->tx != ev->tx) {
		world_fail(w, "event %d of a transfer the source does not have", ev->type);
		return;
	}
	switch (ev->type) {
	case SESSION_EVENT_TX_OPENED:
		t->opened = true;
		t->open_status = ev->status;
		break;
	case SESSION_EVENT_TX_WANT:
		if (ev->object > t->count)
			world_fail(w, "TX_WANT up to %u of %u", ev->object, t->count);
		for (; t->ready < ev->object && t->ready < t->count; t->ready++)
			object_lease(w, t, t->ready);
		break;
	case SESSION_EVENT_TX_OBJECT:
		object_end(w, t, ev->object, ev->status);
		break;
	case SESSION_EVENT_TX_CLOSED:
		transfer_end(w, t, ev->status);
		break;
	default:
		world_fail(w, "event %d at the source", ev->type);
	}
}

void source_drop(struct world *w)
{
	for (uint32_t i = 0; i < w->ntransfers; i++) {
		tx_transfer_destroy(w->transfers[i].tx);
		w->transfers[i].tx = NULL;
	}
	for (uint32_t i = 0; i < w->nobjects; i++)
		object_release(&w->objects[i]);
}
