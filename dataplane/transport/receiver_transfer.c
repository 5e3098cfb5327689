/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <string.h>

/*
 * Life of a transfer at the receiver: opened, attached, begun, its objects placed and finished,
 * closed.
 * Frames of the peer (receiver_*) and answers of the control thread (session_rx_*) meet here.
 */

static void list_free(struct session *s, uint16_t *head)
{
	while (*head != SCRATCH_NONE) {
		uint16_t slot = *head;

		*head = s->rx.early.slots[slot].next;
		scratch_put(&s->rx.early, slot);
	}
}

static void block_full(void *ctx, struct rx_transfer *t, uint32_t block)
{
	receiver_settle(ctx, t, STRAIT_STREAM_OBJECTS, block);
}

static void refused_note(struct session *s, uint32_t id, uint8_t status)
{
	struct receiver *r = &s->rx;
	uint32_t i = r->n_refused++ % REFUSED_MAX;

	r->refused[i].id = id;
	r->refused[i].status = status;
	r->refused[i].due = true;
	control_touch(s);
}

/* An OPEN for a transfer that ended: repeat the answer it had. */
static void open_again(struct session *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->rx.n_refused && i < REFUSED_MAX; i++) {
		if (s->rx.refused[i].id != id)
			continue;
		s->rx.refused[i].due = true;
		return;
	}
}

int receiver_open(struct session *s, const struct frame_open *o)
{
	struct receiver *r = &s->rx;
	struct rx_slot *slot = receiver_find(s, o->transfer);
	uint16_t *link = &r->stray;
	uint32_t i;

	if (slot != NULL) {
		slot->open_ack_due = slot->t != NULL;
		return 0;
	}
	if (!receiver_id_is_near(r, o->transfer))
		return -EPROTO;
	if (receiver_is_retired(s, o->transfer)) {
		open_again(s, o->transfer);
		return 0;
	}
	if (o->symbol_bytes > s->cfg.symbol_bytes) {
		session_rx_refuse(s, o->transfer, STRAIT_STATUS_MALFORMED);
		return 0;
	}
	s->rx_path_bytes = o->symbol_bytes;
	i = o->transfer % SESSION_TRANSFERS_MAX;
	if (r->slots[i].used)
		for (i = 0; i < SESSION_TRANSFERS_MAX && r->slots[i].used; i++)
			;
	if (i == SESSION_TRANSFERS_MAX)
		return 0; /* all slots live: the OPEN comes again */
	slot = &r->slots[i];
	memset(slot, 0, sizeof(*slot));
	slot->used = r->any_untold = true;
	slot->id = o->transfer;
	slot->early = SCRATCH_NONE;
	slot->open = (struct session_open){
		.transfer = o->transfer,
		.order = o->order,
		.stream_bytes = o->stream_bytes,
		.manifest_bytes = o->manifest_bytes,
		.objects = o->objects,
		.symbol_bytes = o->symbol_bytes,
		.class_ = o->class_,
		.deadline_ms = o->deadline_ms,
	};
	report_interval_set(s, o->report_interval_us);
	receiver_id_seen(r, o->transfer);
	while (*link != SCRATCH_NONE) {
		uint16_t at = *link;
		struct scratch_slot *m = &r->early.slots[at];

		if (m->transfer != o->transfer) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		m->next = slot->early;
		slot->early = at;
	}
	return 0;
}

void session_rx_refuse(struct session *s, uint32_t transfer, uint8_t status)
{
	struct rx_slot *slot = receiver_find(s, transfer);

	COUNT(s, rx_open_refused);
	receiver_retire(s, transfer);
	refused_note(s, transfer, status);
	if (slot != NULL)
		receiver_close(s, slot, status);
}

int session_rx_attach(struct session *s, uint64_t now_ns, struct rx_transfer *t)
{
	struct rx_slot *slot = receiver_find(s, t->open.transfer);

	(void)now_ns;
	if (slot == NULL || slot->t != NULL || s->dead)
		return -ESTALE;
	slot->t = t;
	slot->open_ack_due = true;
	t->slot = (uint16_t)(slot - s->rx.slots);
	control_touch(s);
	receiver_drain(s, slot);
	return 0;
}

static struct rx_slot *slot_of(struct session *s, struct rx_transfer *t)
{
	return t->closed ? NULL : &s->rx.slots[t->slot];
}

static void object_resolve(struct session *s, struct rx_transfer *t, uint32_t object,
	uint8_t status)
{
	struct rx_object *o = &t->object[object];
	uint64_t len = t->offsets[object + 1] - t->offsets[object];

	o->status = status;
	t->resolved_bytes += len;
	t->resolved_objects++;
	s->rx.resolved[t->open.class_].bytes += len;
	s->rx.resolved[t->open.class_].objects++;
	/* New credit: the next report carries it, and soon. */
	s->rx.pending = true;
	control_touch(s);
}

void session_rx_begin(struct session *s, uint64_t now_ns, struct rx_transfer *t)
{
	struct rx_slot *slot = slot_of(s, t);

	(void)now_ns;
	if (slot == NULL || t->begun)
		return;
	t->begun = true;
	for (uint32_t i = 0; i < t->open.objects; i++) {
		if (!(t->object[i].flags & STRAIT_MANIFEST_SKIP))
			continue;
		object_resolve(s, t, i, STRAIT_STATUS_SKIPPED);
		rx_object_drop(t, i, block_full, s);
	}
	receiver_drain(s, slot);
}

void session_rx_object_place(struct session *s, uint64_t now_ns, struct rx_transfer *t,
	uint32_t object)
{
	struct rx_slot *slot = slot_of(s, t);
	struct rx_object *o;
	struct rx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	uint32_t last;

	(void)now_ns;
	if (slot == NULL || object >= t->open.objects)
		return;
	o = &t->object[object];
	if (o->state != RX_OBJECT_UNPLACED || o->data == NULL)
		return;
	last = rx_object_last_block(t, object);
	o->state = RX_OBJECT_PLACED;
	if (o->resumed) {
		rx_object_apply_resume(t, object, block_full, s);
		s->rx.pending = true; /* tell the sender before it sends it all again */
		s->rx.now = true;
		st->changed = true;
		if (last + 1 > st->touched)
			st->touched = last + 1;
	}
	receiver_drain(s, slot);
	/* Rows may have waited for this object's memory. */
	receiver_settle(s, t, STRAIT_STREAM_OBJECTS, o->first_block);
	if (last != o->first_block)
		receiver_settle(s, t, STRAIT_STREAM_OBJECTS, last);
	control_touch(s);
}

void session_rx_object_finish(struct session *s, struct rx_transfer *t, uint32_t object,
	uint8_t status)
{
	struct rx_object *o;

	if (slot_of(s, t) == NULL || object >= t->open.objects || status == STRAIT_STATUS_PENDING)
		return;
	o = &t->object[object];
	if (o->told)
		return;
	o->told = true;
	if (o->status == STRAIT_STATUS_PENDING || o->withdrawn)
		object_resolve(s, t, object, status);
	t->log[t->log_len].object = object;
	t->log[t->log_len++].status = status;
	if (o->state == RX_OBJECT_UNPLACED || o->state == RX_OBJECT_PLACED)
		rx_object_drop(t, object, block_full, s);
	receiver_drain(s, &s->rx.slots[t->slot]);
	control_touch(s);
}

void receiver_withdraw(struct session *s, struct rx_slot *slot, uint32_t object, uint8_t status)
{
	struct rx_transfer *t = slot->t;
	struct rx_object *o = &t->object[object];

	if (o->withdrawn || o->told || o->state == RX_OBJECT_COMPLETE ||
		o->state == RX_OBJECT_DROPPED)
		return;
	o->withdrawn = true;
	o->status = status;
	rx_object_drop(t, object, block_full, s);
	t->event_queue[(t->event_head + t->event_len++) % t->open.objects] = object << 1 | 1;
	session_rx_event(s, t);
}

void receiver_close(struct session *s, struct rx_slot *slot, uint8_t status)
{
	struct rx_transfer *t = slot->t;
	struct session_credit *resolved = &s->rx.resolved[slot->open.class_];

	receiver_retire(s, slot->id);
	list_free(s, &slot->early);
	rx_folds_close(&s->rx.folds, slot->id);
	slot->used = false;
	slot->t = NULL;
	resolved->bytes += slot->open.stream_bytes - (t != NULL ? t->resolved_bytes : 0);
	resolved->objects += slot->open.objects - (t != NULL ? t->resolved_objects : 0);
	s->rx.pending = true;
	control_touch(s);
	if (t == NULL)
		return;
	for (int st = 0; st < STRAIT_STREAM_COUNT; st++)
		for (uint32_t i = 0; i < t->stream[st].part.blocks; i++)
			receiver_rows_free(s, &t->stream[st].blocks[i]);
	t->closed = true;
	t->close_status = status;
	t->tell_closed = true;
	session_rx_event(s, t);
}
