/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/content.h"
#include "tools/sim/endpoint.h"
#include "tools/sim/light.h"
#include "tools/sim/phases.h"

#include "dataplane/fec/digest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void open_answer(struct world *w, const struct session_event *ev)
{
	struct session *s = w->session[WORLD_SINK];
	struct world_rx *slot = NULL;

	for (size_t i = 0; i < sizeof(w->rx) / sizeof(w->rx[0]) && !slot; i++)
		if (!w->rx[i].rx)
			slot = &w->rx[i];
	if (!slot) {
		session_rx_refuse(s, ev->open.transfer, STRAIT_STATUS_REFUSED);
		return;
	}
	*slot = (struct world_rx){ .world = w, .objects = ev->open.objects };
	slot->rx = rx_transfer_create(&ev->open, slot);
	slot->map = calloc(ev->open.objects, sizeof(*slot->map));
	slot->placed = calloc(ev->open.objects, sizeof(*slot->placed));
	if (!slot->rx || !slot->map || !slot->placed) {
		world_fail(w, "no receiver for %u objects: %s", ev->open.objects, strerror(errno));
		goto fail;
	}
	if (session_rx_attach(s, w->now_ns, slot->rx) == 0)
		return;
fail:
	rx_transfer_destroy(slot->rx);
	free(slot->map);
	free(slot->placed);
	*slot = (struct world_rx){ 0 };
}

static void object_place(struct world *w, struct world_rx *r, uint32_t i)
{
	struct world_object *o = &w->objects[r->map[i]];
	struct session *s = w->session[WORLD_SINK];
	bool resumed = o->dst != NULL;
	uint64_t kept;

	if (r->placed[i])
		return;
	/* An earlier transfer of the order still has it: its CLOSE is on the way. */
	if (o->writer && o->writer != r) {
		r->waiting = true;
		return;
	}
	r->placed[i] = true;
	if (o->published) {
		session_rx_object_finish(s, r->rx, i, STRAIT_STATUS_EXISTS);
		return;
	}
	if (o->refuse) {
		o->rx_status = o->refuse;
		session_rx_object_finish(s, r->rx, i, o->refuse);
		return;
	}
	if (!resumed) {
		o->dst = malloc(o->length);
		o->resume = calloc(1, SESSION_RESUME_BYTES);
		if (!o->dst || !o->resume) {
			world_fail(w, "no memory for an object of %" PRIu64 " bytes", o->length);
			return;
		}
	}
	o->writer = r;
	kept = rx_object_prepare(r->rx, i, o->dst, o->resume, resumed);
	if (kept > o->length)
		world_fail(w, "object %u resumed with more bytes than it has", r->map[i]);
	w->resumed_bytes += kept;
	session_rx_object_place(s, w->now_ns, r->rx, i);
}

static void objects_place(struct world *w, struct world_rx *r)
{
	struct manifest_entry e;

	r->waiting = false;
	for (uint32_t i = 0; i < r->objects; i++)
		if (rx_transfer_entry(r->rx, i, &e) == 0 && !(e.flags & STRAIT_MANIFEST_SKIP))
			object_place(w, r, i);
}

/* It cannot be the source's: an error, unless a test speaks in its name. */
static void manifest_refuse(struct world *w, struct world_rx *r, const char *what)
{
	if (w->cfg.strangers)
		session_rx_refuse(w->session[WORLD_SINK], rx_transfer_open(r->rx)->transfer,
			STRAIT_STATUS_MALFORMED);
	else
		world_fail(w, "%s", what);
}

static void manifest_answer(struct world *w, struct world_rx *r)
{
	struct session *s = w->session[WORLD_SINK];
	struct manifest_entry e;

	if (rx_transfer_load_objects(r->rx) < 0 || rx_transfer_objects(r->rx) != r->objects) {
		manifest_refuse(w, r, "the manifest arrived damaged");
		return;
	}
	for (uint32_t i = 0; i < r->objects; i++) {
		uint32_t object = UINT32_MAX;

		if (rx_transfer_entry(r->rx, i, &e) == 0)
			object = object_of_key(w, e.key, e.key_len);
		if (object == UINT32_MAX || w->objects[object].length != e.length ||
			((e.flags & STRAIT_MANIFEST_DIGEST) &&
				w->objects[object].digest != e.digest)) {
			manifest_refuse(w, r, "a manifest entry is not what the source sent");
			return;
		}
		r->map[i] = object;
	}
	r->loaded = true;
	session_rx_begin(s, w->now_ns, r->rx);
	objects_place(w, r);
}

static void object_forget(struct world_object *o)
{
	free(o->dst);
	o->dst = NULL;
	o->writer = NULL;
	free(o->resume);
	o->resume = NULL;
}

/* Every byte is compared with what the source had, not only with the digest the core checked. */
static void object_verify(struct world *w, struct world_rx *r, uint32_t i, uint8_t status)
{
	struct world_object *o = &w->objects[r->map[i]];
	bool same;

	if (o->published || !o->dst) {
		world_fail(w, "object %u is whole twice", r->map[i]);
		return;
	}
	same = w->cfg.light ? memcmp(o->dst, light_bytes(o->content, o->length), o->length) == 0
			    : content_is(o->content, o->dst, o->length);
	if (status == STRAIT_STATUS_COMMITTED) {
		if (!same && !(o->lie && !o->with_digest))
			world_fail(w, "object %u was called whole with wrong bytes", r->map[i]);
		if (o->with_digest && !w->cfg.light && digest_bytes(o->dst, o->length) != o->digest)
			world_fail(w, "object %u was called whole with a wrong digest", r->map[i]);
		o->published = true;
		w->verified_ns = o->verified_ns = w->now_ns;
		phases_verified(w);
	} else if (status != STRAIT_STATUS_DIGEST) {
		world_fail(w, "object %u is whole as %s", r->map[i], strait_status_name(status));
	} else if (same) {
		world_fail(w, "object %u has a wrong digest with right bytes", r->map[i]);
	}
	o->rx_status = status;
	session_rx_object_finish(w->session[WORLD_SINK], r->rx, i, status);
	object_forget(o);
}

static void object_withdraw(struct world *w, struct world_rx *r, uint32_t i, uint8_t status)
{
	struct world_object *o = &w->objects[r->map[i]];

	if (o->published) {
		world_fail(w, "object %u was withdrawn after it was published", r->map[i]);
		return;
	}
	o->rx_status = status;
	r->placed[i] = true;
	session_rx_object_finish(w->session[WORLD_SINK], r->rx, i, status);
	if (!o->writer || o->writer == r)
		object_forget(o);
}

static void transfer_end(struct world *w, struct world_rx *r, uint8_t status)
{
	/* Only a reset leaves bytes and resume areas behind, for the order to come back to. */
	for (uint32_t i = 0; i < r->objects && r->loaded; i++) {
		struct world_object *o = &w->objects[r->map[i]];

		if (o->writer && o->writer != r)
			continue;
		if (status != STRAIT_STATUS_RESET && !o->published)
			object_forget(o);
		o->writer = NULL;
	}
	rx_transfer_destroy(r->rx);
	free(r->map);
	free(r->placed);
	*r = (struct world_rx){ 0 };
	w->closings++;
	for (size_t i = 0; i < sizeof(w->rx) / sizeof(w->rx[0]); i++)
		if (w->rx[i].rx && w->rx[i].waiting)
			objects_place(w, &w->rx[i]);
}

void sink_event(struct world *w, const struct session_event *ev)
{
	struct world_rx *r = ev->rx ? rx_transfer_user(ev->rx) : NULL;

	if (ev->type == SESSION_EVENT_UP || ev->type == SESSION_EVENT_DEAD ||
		ev->type == SESSION_EVENT_PATH)
		return;
	if (ev->type == SESSION_EVENT_RX_OPEN) {
		open_answer(w, ev);
		return;
	}
	if (!r || r->rx != ev->rx) {
		world_fail(w, "event %d of a transfer the sink does not have", ev->type);
		return;
	}
	if ((ev->type == SESSION_EVENT_RX_OBJECT || ev->type == SESSION_EVENT_RX_WITHDRAWN) &&
		ev->object >= r->objects) {
		world_fail(w, "event %d for object %u of %u", ev->type, ev->object, r->objects);
		return;
	}
	switch (ev->type) {
	case SESSION_EVENT_RX_MANIFEST:
		manifest_answer(w, r);
		break;
	case SESSION_EVENT_RX_OBJECT:
		object_verify(w, r, ev->object, ev->status);
		break;
	case SESSION_EVENT_RX_WITHDRAWN:
		object_withdraw(w, r, ev->object, ev->status);
		break;
	case SESSION_EVENT_RX_CLOSED:
		transfer_end(w, r, ev->status);
		break;
	default:
		world_fail(w, "event %d at the sink", ev->type);
	}
}

void sink_drop(struct world *w)
{
	for (size_t i = 0; i < sizeof(w->rx) / sizeof(w->rx[0]); i++) {
		rx_transfer_destroy(w->rx[i].rx);
		free(w->rx[i].map);
		free(w->rx[i].placed);
		w->rx[i] = (struct world_rx){ 0 };
	}
	for (uint32_t i = 0; i < w->nobjects; i++)
		w->objects[i].writer = NULL;
}
