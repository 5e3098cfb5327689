/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <string.h>

/*
 * Life of a transfer at the sender: started, its objects leased, withdrawn and finished, closed.
 */

enum {
	LOOKAHEAD_MIN_BYTES = 16 << 20, /* objects are leased so far ahead of the cursor */
};

struct tx_transfer *sender_find(struct session *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->tx.live; i++)
		if (s->tx.slots[s->tx.order[i]]->id == id)
			return s->tx.slots[s->tx.order[i]];
	return NULL;
}

/* Ask for the objects that come up within the lookahead. */
void sender_want(struct session *s, struct tx_transfer *t)
{
	struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	uint64_t ahead = 2 * sender_bdp_packets(s) * s->cfg.symbol_bytes, at = st->part.bytes;

	if (ahead < LOOKAHEAD_MIN_BYTES)
		ahead = LOOKAHEAD_MIN_BYTES;
	if (st->group_first < st->part.blocks)
		at = partition_offset(&st->part, st->group_first, 0);
	while (t->want < t->objects && t->offsets[t->want] <= at + ahead)
		t->want++;
	if (t->want > t->want_told)
		session_tx_event(s, t);
}

static void object_event(struct session *s, struct tx_transfer *t, uint32_t object)
{
	t->event_queue[(t->event_head + t->event_len++) % t->objects] = object;
	session_tx_event(s, t);
}

/* An object's state changed to GONE or FINAL: bring its started blocks in line. */
void sender_object_over(struct session *s, struct tx_transfer *t, uint32_t object)
{
	struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	uint32_t block = partition_block_of(&st->part, t->offsets[object]);
	uint32_t last = partition_block_of(&st->part, t->offsets[object + 1] - 1);
	bool committed = t->object[object].state == TX_OBJECT_FINAL &&
		t->object[object].status == STRAIT_STATUS_COMMITTED;

	for (; block <= last; block++) {
		struct tx_block *b = &st->blocks[block];
		uint32_t k = partition_k(&st->part, block);

		if (committed) {
			sender_block_done(s, t, STRAIT_STREAM_OBJECTS, block);
			continue;
		}
		if (!(b->flags & TX_BLOCK_STARTED))
			continue;
		tx_block_apply_objects(t, block);
		if (tx_block_is_covered(b, k)) {
			sender_block_done(s, t, STRAIT_STREAM_OBJECTS, block);
			continue;
		}
		sender_block_reopen(s, t, STRAIT_STREAM_OBJECTS, block);
		if (tx_block_deficit(b, k) > 0)
			tx_queue_push(st, block);
	}
	sender_touch(s);
}

void sender_object_final(struct session *s, struct tx_transfer *t, uint32_t object, uint8_t status)
{
	struct tx_object *o = &t->object[object];

	if (o->state == TX_OBJECT_FINAL)
		return;
	if (o->state == TX_OBJECT_GONE)
		t->n_gone--;
	o->state = TX_OBJECT_FINAL;
	o->status = status;
	o->data = NULL;
	t->objects_final++;
	sender_object_over(s, t, object);
	object_event(s, t, object);
}

bool sender_is_before(const struct tx_transfer *a, const struct tx_transfer *b)
{
	uint64_t da = a->deadline_ms != 0 ? a->deadline_ms : UINT64_MAX;
	uint64_t db = b->deadline_ms != 0 ? b->deadline_ms : UINT64_MAX;

	if (a->class_ != b->class_)
		return a->class_ < b->class_;
	return da < db;
}

bool sender_is_of_rank(const struct tx_transfer *a, const struct tx_transfer *b)
{
	return a->class_ == b->class_ && a->deadline_ms == b->deadline_ms;
}

static void order_remove(struct sender *x, uint16_t slot)
{
	uint32_t i = 0;

	while (i < x->live && x->order[i] != slot)
		i++;
	/* A flow's turn is kept by the first of its transfers. */
	if (i + 1 < x->live && x->slots[slot]->flow != 0 &&
		x->slots[x->order[i + 1]]->flow == x->slots[slot]->flow &&
		sender_is_of_rank(x->slots[slot], x->slots[x->order[i + 1]]) &&
		(i == 0 || x->slots[x->order[i - 1]]->flow != x->slots[slot]->flow))
		x->slots[x->order[i + 1]]->turn_bytes = x->slots[slot]->turn_bytes;
	memmove(&x->order[i], &x->order[i + 1], (x->live - i - 1) * sizeof(x->order[0]));
	x->live--;
	x->slots[slot] = NULL;
}

/* Behind its flow, if that has transfers, else behind its rank. */
static void order_add(struct sender *x, struct tx_transfer *t)
{
	uint32_t i = 0, at;

	while (i < x->live && !sender_is_before(t, x->slots[x->order[i]]))
		i++;
	for (at = i; at > 0 && t->flow != 0; at--) {
		const struct tx_transfer *o = x->slots[x->order[at - 1]];

		if (!sender_is_of_rank(o, t))
			break;
		if (o->flow == t->flow) {
			i = at;
			break;
		}
	}
	memmove(&x->order[i + 1], &x->order[i], (x->live - i) * sizeof(x->order[0]));
	x->order[i] = t->slot;
	x->live++;
}

static uint32_t closing_add(struct sender *x, uint32_t id, uint8_t status)
{
	uint32_t i = x->n_closing;

	if (i < CLOSING_MAX) {
		x->n_closing++;
	} else {
		/* The most patient one gives way; sender_close_again() finds it if need be. */
		i = 0;
		for (uint32_t j = 1; j < CLOSING_MAX; j++)
			if (x->closing[j].tries > x->closing[i].tries)
				i = j;
		/* Nobody knows of its OPEN, it seems: who would give its credit back? */
		if (x->closing[i].open.transfer != 0) {
			const struct frame_open *o = &x->closing[i].open;

			x->used[o->class_].bytes -= o->stream_bytes;
			x->used[o->class_].objects -= o->objects;
		}
	}
	x->closing[i].id = id;
	x->closing[i].status = status;
	x->closing[i].tries = 0;
	x->closing[i].due_ns = 0;
	x->closing[i].open.transfer = 0;
	return i;
}

void sender_close_again(struct session *s, uint32_t id)
{
	uint32_t i = 0;

	control_touch(s);
	while (i < s->tx.n_closing && s->tx.closing[i].id != id)
		i++;
	if (i == s->tx.n_closing) {
		closing_add(&s->tx, id, STRAIT_STATUS_RESET);
		return;
	}
	/* The path works and the receiver repeats itself once an RTO: answer each time. */
	s->tx.closing[i].due_ns = s->now_ns;
	s->tx.closing[i].tries = 0;
}

void sender_close(struct session *s, struct tx_transfer *t, uint8_t status, bool tell_peer)
{
	struct sender *x = &s->tx;

	for (uint32_t i = 0; i < t->objects; i++) {
		struct tx_object *o = &t->object[i];

		if (o->state == TX_OBJECT_FINAL)
			continue;
		if (o->state != TX_OBJECT_GONE)
			o->status = status;
		o->state = TX_OBJECT_FINAL;
		o->data = NULL;
		t->objects_final++;
		object_event(s, t, i);
	}
	if (t->opened)
		sender_charge(s, t, tx_transfer_bytes(t), t->objects);
	if (tell_peer && t->opened) {
		uint32_t i = closing_add(x, t->id, status);

		if (!t->open_answered)
			control_open_frame(s, t, &x->closing[i].open);
	}
	order_remove(x, t->slot);
	sender_shares(s);
	t->closed = true;
	t->close_status = status;
	t->tell_closed = true;
	session_tx_event(s, t);
	control_touch(s);
	sender_touch(s);
}

int session_tx_start(struct session *s, uint64_t now_ns, struct tx_transfer *t)
{
	struct sender *x = &s->tx;
	uint16_t slot = 0;

	if (t->symbol_bytes > s->mtu.current)
		return -EMSGSIZE;
	if (s->dead || x->live == SESSION_TRANSFERS_MAX)
		return -ENOSPC;
	while (x->slots[slot] != NULL)
		slot++;
	t->slot = slot;
	t->id = x->next_id++;
	t->open_due_ns = now_ns;
	x->slots[slot] = t;
	t->turn_bytes = sender_turn_bytes(s);
	order_add(x, t);
	sender_shares(s);
	control_touch(s);
	sender_touch(s);
	sender_want(s, t);
	if (t->objects_final == t->objects)
		sender_close(s, t, STRAIT_STATUS_COMMITTED, false);
	return 0;
}

void session_tx_object_ready(struct session *s, struct tx_transfer *t, uint32_t object,
	const uint8_t *data)
{
	if (t->closed || object >= t->objects || t->object[object].state != TX_OBJECT_WAITING)
		return;
	t->object[object].state = TX_OBJECT_READY;
	t->object[object].data = data;
	sender_touch(s);
}

void session_tx_object_gone(struct session *s, struct tx_transfer *t, uint32_t object,
	uint8_t status)
{
	if (t->closed || object >= t->objects || t->object[object].state >= TX_OBJECT_GONE)
		return;
	t->object[object].state = TX_OBJECT_GONE;
	t->object[object].status = status;
	t->object[object].data = NULL;
	t->n_gone++;
	t->withdraw_due_ns = 0;
	sender_object_over(s, t, object);
	control_touch(s);
}

void session_tx_cancel(struct session *s, struct tx_transfer *t, uint8_t status)
{
	if (!t->closed)
		sender_close(s, t, status, true);
}
