/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <string.h>

/*
 * Control frames. Nothing is sent once and hoped for: what needs an answer has a due time that
 * moves by one RTO whenever it is sent and goes away when the answer came; answers are given again
 * whenever the question comes again.
 */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* OPEN is what the receiver's scratch waits for: repeat it fast at first, then once an RTO. */
static uint64_t open_repeat_ns(const struct session *s, unsigned int sends)
{
	uint64_t rto = session_rto_ns(s);

	switch (sends) {
	case 1:
		return min_u64(NS_PER_MS, rto);
	case 2:
		return min_u64(s->tx.rtt.smoothed_ns / 4 + NS_PER_MS, rto);
	default:
		return rto;
	}
}

static void write_withdraw(struct session *s, struct frame_writer *w, struct tx_transfer *t)
{
	if (frame_withdraw_begin(w, t->id) < 0)
		return;
	for (uint32_t i = 0; i < t->objects; i++)
		if (t->object[i].state == TX_OBJECT_GONE &&
			frame_objects_item(w, i, t->object[i].status) < 0)
			break;
	frame_list_end(w);
	t->withdraw_due_ns = s->now_ns + session_rto_ns(s);
}

void control_open_frame(const struct session *s, const struct tx_transfer *t, struct frame_open *o)
{
	*o = (struct frame_open){
		.transfer = t->id,
		.order = t->order,
		.stream_bytes = t->stream[STRAIT_STREAM_OBJECTS].part.bytes,
		.manifest_bytes = t->manifest_bytes,
		.objects = t->objects,
		.symbol_bytes = t->symbol_bytes,
		.class_ = t->class_,
		.report_interval_us =
			(uint32_t)(s->tx.rtt.smoothed_ns / REPORTS_A_ROUND / NS_PER_US),
		.deadline_ms = t->deadline_ms,
	};
}

static void write_tx(struct session *s, struct frame_writer *w, struct tx_transfer *t)
{
	if (s->up && !t->open_answered && s->now_ns >= t->open_due_ns) {
		struct frame_open o;

		control_open_frame(s, t, &o);
		if (frame_put_open(w, &o) == 0) {
			t->opened = true;
			if (t->open_sends < UINT8_MAX)
				t->open_sends++;
			t->open_due_ns = s->now_ns + open_repeat_ns(s, t->open_sends);
		}
	}
	if (t->log_ack_due && frame_put_object_ack(w, t->id, t->log_next) == 0)
		t->log_ack_due = false;
	if (t->n_gone > 0 && s->now_ns >= t->withdraw_due_ns && t->opened)
		write_withdraw(s, w, t);
}

static void write_closing(struct session *s, struct frame_writer *w)
{
	for (uint32_t i = 0; i < s->tx.n_closing;) {
		if (s->now_ns < s->tx.closing[i].due_ns) {
			i++;
			continue;
		}
		/* A receiver that never saw the OPEN would not know what credit comes back. */
		if (s->tx.closing[i].open.transfer != 0 &&
			frame_put_open(w, &s->tx.closing[i].open) < 0)
			return;
		if (frame_put_close(w, s->tx.closing[i].id, s->tx.closing[i].status) < 0)
			return;
		/* Without end: a receiver that missed it would keep the transfer for good. */
		s->tx.closing[i].due_ns = s->now_ns + (session_rto_ns(s) << s->tx.closing[i].tries);
		if (s->tx.closing[i].tries < CLOSE_BACKOFF_MAX)
			s->tx.closing[i].tries++;
		i++;
	}
}

/* In the middle of a transfer nobody waits for a status. */
static bool log_is_idle(const struct rx_transfer *t)
{
	return t->log_len < t->open.objects && t->open.class_ != STRAIT_CLASS_URGENT;
}

static bool log_is_long(const struct rx_transfer *t)
{
	return log_is_idle(t) && t->log_len - t->log_acked > LOG_FEW;
}

/* It goes with the next report then. */
static bool log_waits(const struct session *s, const struct rx_transfer *t)
{
	return log_is_idle(t) && s->rx.pending && !report_is_due(s);
}

static bool log_is_due(const struct session *s, const struct rx_transfer *t)
{
	return t->log_len > t->log_acked && !log_waits(s, t) &&
		(t->log_sent < t->log_len || s->now_ns >= t->log_due_ns);
}

static void write_log(struct session *s, struct frame_writer *w, struct rx_transfer *t)
{
	uint32_t from = t->log_acked, at, once = t->log_sent;
	uint64_t rto = session_rto_ns(s), wait = s->tx.rtt.smoothed_ns;

	/*
	 * Short logs go out whole each time, so that a lost frame is made good by the next one; in
	 * the middle, when they are many, two frames have each, and more only after an RTO.
	 */
	if (t->log_len - from > LOG_REPEAT_MAX && s->now_ns < t->log_due_ns)
		from = t->log_sent;
	else if (log_is_long(t) && s->now_ns < t->log_due_ns && t->log_once > from)
		from = t->log_once;
	at = from;
	/* Not answered again and again: the path may carry less than is thought. */
	if (t->log_tries > LOG_TRIES_LARGE && w->cap > STRAIT_SYMBOL_BYTES_MIN &&
		w->len < STRAIT_SYMBOL_BYTES_MIN)
		w->cap = STRAIT_SYMBOL_BYTES_MIN;

	if (frame_object_begin(w, t->open.transfer, from) < 0)
		return;
	while (at < t->log_len && frame_objects_item(w, t->log[at].object, t->log[at].status) == 0)
		at++;
	frame_list_end(w);
	if (at > t->log_sent) {
		t->log_once = once;
		t->log_sent = at;
	} else if (from == t->log_acked && t->log_sent - at > LOG_REPEAT_MAX) {
		/* A frame was lost, and what followed it is not taken: go on from here. */
		t->log_once = from;
		t->log_sent = at;
	}
	if (at > t->log_top) {
		t->log_top = at;
		t->log_tries = 0;
	}
	if (from != t->log_acked && log_is_idle(t))
		return;
	/* The order ends when the sender has read this: repeat it fast at first. */
	wait = t->log_tries < 3 && !log_is_long(t) ? (wait >> (3 - t->log_tries)) + NS_PER_MS : rto;
	t->log_due_ns = s->now_ns + min_u64(wait, rto);
	if (t->log_tries < UINT8_MAX)
		t->log_tries++;
}

static void write_rx(struct session *s, struct frame_writer *w)
{
	struct receiver *r = &s->rx;

	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		struct rx_slot *slot = &r->slots[i];

		if (!slot->used)
			continue;
		if (slot->open_ack_due &&
			frame_put_open_ack(w, slot->id, STRAIT_STATUS_PENDING) == 0)
			slot->open_ack_due = false;
		if (slot->t != NULL && log_is_due(s, slot->t))
			write_log(s, w, slot->t);
	}
	for (uint32_t i = 0; i < r->n_refused && i < REFUSED_MAX; i++)
		if (r->refused[i].due &&
			frame_put_open_ack(w, r->refused[i].id, r->refused[i].status) == 0)
			r->refused[i].due = false;
	while (r->n_close_acks > 0 &&
		frame_put_close_ack(w, r->close_acks[r->n_close_acks - 1]) == 0)
		r->n_close_acks--;
}

size_t control_send(struct session *s, uint8_t *buf, size_t cap)
{
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	uint8_t *body = buf + STRAIT_HEADER_BYTES;
	struct sent_packet *sent;
	struct frame_writer w;
	size_t room = cap - STRAIT_OVERHEAD_BYTES;

	if (s->control_idle_ns > s->now_ns)
		return 0;
	if (room > session_control_bytes(s))
		room = session_control_bytes(s);
	frame_writer_init(&w, body, room);
	if (s->response_due && frame_put_token(&w, STRAIT_FRAME_RESPONSE, s->response) == 0)
		s->response_due = false;
	if (!s->up && s->now_ns >= s->challenge_due_ns &&
		frame_put_token(&w, STRAIT_FRAME_CHALLENGE, s->token) == 0)
		s->challenge_due_ns = s->now_ns + session_rto_ns(s);
	if (s->tx.ping_due &&
		frame_put_ping(&w,
			(uint32_t)(s->tx.rtt.smoothed_ns / REPORTS_A_ROUND / NS_PER_US)) == 0) {
		s->tx.ping_due = false;
		COUNT(s, tx_probe);
	}
	if (s->tx.recall_due && frame_put_recall(&w, s->tx.covered + 1) == 0)
		s->tx.recall_due = false;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++)
		if (s->tx.slots[i] != NULL)
			write_tx(s, &w, s->tx.slots[i]);
	write_closing(s, &w);
	write_rx(s, &w);
	if (report_is_due(s))
		report_write(s, &w);
	if (w.len == 0) {
		s->control_idle_ns = control_next_ns(s);
		return 0;
	}
	sentlog_make_room(&s->tx.log, feedback_lost, s);
	sent = sentlog_add(&s->tx.log, s->next_pn, false);
	memset(sent, 0, sizeof(*sent));
	sent->time_ns = s->now_ns;
	sent->kind = SENT_CONTROL;
	COUNT(s, tx_control);
	return session_seal(s, &h, buf, body, w.len);
}

uint64_t control_next_ns(struct session *s)
{
	uint64_t at = UINT64_MAX;

	if (s->control_idle_ns > s->now_ns)
		return s->control_idle_ns;
	if (s->response_due || s->tx.ping_due || s->tx.recall_due || s->rx.n_close_acks > 0)
		return s->now_ns;
	if (!s->up)
		at = s->challenge_due_ns;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		const struct tx_transfer *t = s->tx.slots[i];
		const struct rx_slot *slot = &s->rx.slots[i];

		if (t != NULL) {
			if (t->log_ack_due)
				return s->now_ns;
			if (!t->open_answered && s->up)
				at = min_u64(at, t->open_due_ns);
			if (t->n_gone > 0 && t->opened)
				at = min_u64(at, t->withdraw_due_ns);
		}
		if (slot->used && slot->open_ack_due)
			return s->now_ns;
		if (slot->used && slot->t != NULL && slot->t->log_len > slot->t->log_acked &&
			!log_waits(s, slot->t))
			at = min_u64(at,
				slot->t->log_sent < slot->t->log_len ? s->now_ns
								     : slot->t->log_due_ns);
	}
	for (uint32_t i = 0; i < s->tx.n_closing; i++)
		at = min_u64(at, s->tx.closing[i].due_ns);
	for (uint32_t i = 0; i < s->rx.n_refused && i < REFUSED_MAX; i++)
		if (s->rx.refused[i].due)
			return s->now_ns;
	return min_u64(at, report_next_ns(s));
}

static void on_open_ack(struct session *s, const struct frame_status *f)
{
	struct tx_transfer *t = sender_find(s, f->transfer);

	if (t == NULL || !t->opened)
		return;
	if (!t->open_answered) {
		t->open_answered = true;
		t->tell_opened = true;
		session_tx_event(s, t);
	}
	/* A receiver may also change its mind, when the manifest lies or memory runs out. */
	if (f->status == STRAIT_STATUS_COMMITTED || f->status == STRAIT_STATUS_EXISTS)
		sender_close(s, t, STRAIT_STATUS_MALFORMED, false);
	else if (f->status != STRAIT_STATUS_PENDING)
		sender_close(s, t, f->status, false);
}

static void on_objects(struct session *s, struct frame_objects *f)
{
	struct tx_transfer *t = sender_find(s, f->transfer);
	uint32_t object, at = f->first;
	uint8_t status;

	if (t == NULL && f->transfer != 0 && f->transfer < s->tx.next_id)
		sender_close_again(s, f->transfer);
	if (t == NULL || !t->opened)
		return;
	/* The log is taken in order: entries above a hole come again. */
	while (at <= t->log_next && frame_objects_next(f, &object, &status)) {
		if (at++ < t->log_next)
			continue;
		t->log_next = at;
		if (object < t->objects && status != STRAIT_STATUS_PENDING)
			sender_object_final(s, t, object, status);
	}
	t->log_ack_due = true;
	if (t->objects_final == t->objects)
		sender_close(s, t, STRAIT_STATUS_COMMITTED, true);
}

static void on_object_ack(struct session *s, const struct frame_object_ack *f)
{
	struct rx_slot *slot = receiver_find(s, f->transfer);

	if (slot == NULL || slot->t == NULL || f->next > slot->t->log_top)
		return;
	if (f->next <= slot->t->log_acked)
		return;
	slot->t->log_acked = f->next;
	if (slot->t->log_sent < f->next)
		slot->t->log_sent = f->next;
	/* The path carries what was sent. */
	if (slot->t->log_tries >= LOG_TRIES_LARGE)
		slot->t->log_tries = LOG_TRIES_LARGE - 1;
}

static void on_withdraw(struct session *s, struct frame_objects *f)
{
	struct rx_slot *slot = receiver_find(s, f->transfer);
	uint32_t object;
	uint8_t status;

	if (slot == NULL || slot->t == NULL || !slot->t->begun)
		return;
	while (frame_objects_next(f, &object, &status))
		if (object < slot->t->open.objects)
			receiver_withdraw(s, slot, object, status);
}

static void on_close(struct session *s, const struct frame_status *f)
{
	struct rx_slot *slot = receiver_find(s, f->transfer);

	if (slot != NULL)
		receiver_close(s, slot, f->status);
	else if (!receiver_is_retired(s, f->transfer))
		return; /* all slots were taken when its OPEN came: both come again */
	for (uint32_t i = 0; i < s->rx.n_close_acks; i++)
		if (s->rx.close_acks[i] == f->transfer)
			return;
	if (s->rx.n_close_acks < REFUSED_MAX)
		s->rx.close_acks[s->rx.n_close_acks++] = f->transfer;
}

static void on_close_ack(struct session *s, uint32_t transfer)
{
	for (uint32_t i = 0; i < s->tx.n_closing; i++) {
		if (s->tx.closing[i].id != transfer)
			continue;
		s->tx.closing[i] = s->tx.closing[--s->tx.n_closing];
		return;
	}
}

static void on_credit(struct session *s, const struct frame_credit *f)
{
	struct session_credit *l = &s->tx.limit[f->class_];

	/* Limits only grow: a reordered frame takes nothing back. */
	if (f->bytes > l->bytes)
		l->bytes = f->bytes;
	if (f->objects > l->objects)
		l->objects = f->objects;
	sender_touch(s);
}

static void on_ping(struct session *s, uint32_t interval_us)
{
	report_interval_set(s, interval_us);
	s->rx.pending = s->rx.now = s->rx.need_all = true;
	for (uint32_t i = 0; i < s->rx.n_refused && i < REFUSED_MAX; i++)
		s->rx.refused[i].due = true;
	for (int c = 0; c < STRAIT_CLASS_COUNT; c++)
		s->rx.credit_repeat[c] = 1;
}

static void on_recall(struct session *s, uint64_t from)
{
	struct receiver *r = &s->rx;

	if (r->recalled == 0 || from < r->recall_from)
		r->recall_from = from;
	r->recalled = RECALL_REPORTS;
	r->pending = r->now = true;
}

static void on_challenge(struct session *s, uint64_t token)
{
	/* The peer has the session: no need to wait with the first one of ours. */
	if (!s->up && !s->challenged && s->cfg.direction == STRAIT_DIR_RESPONDER)
		s->challenge_due_ns = s->now_ns;
	s->challenged = true;
	s->response = token;
	s->response_due = true;
}

static void on_response(struct session *s, uint64_t token)
{
	if (s->up || token != s->token)
		return;
	s->up = true;
	s->tell_up = true;
	s->tx.report_ns = s->now_ns;
	/* One report gives the round trip before the first order. */
	s->tx.ping_due = true;
}

static int dispatch(struct session *s, const struct frame *f)
{
	union {
		struct frame_open open;
		struct frame_status status;
		struct frame_report report;
		struct frame_have have;
		struct frame_need need;
		struct frame_credit credit;
		struct frame_objects objects;
		struct frame_object_ack object_ack;
		uint64_t u64;
		uint32_t u32;
	} v;
	int ret = 0;

#define GET(getter, member, action)                                                                \
	ret = getter(f, &v.member);                                                                \
	if (ret == 0)                                                                              \
		action;                                                                            \
	break
	switch (f->type) {
	case STRAIT_FRAME_OPEN:
		GET(frame_get_open, open, ret = receiver_open(s, &v.open));
	case STRAIT_FRAME_OPEN_ACK:
		GET(frame_get_status, status, on_open_ack(s, &v.status));
	case STRAIT_FRAME_REPORT:
		GET(frame_get_report, report, feedback_report(s, &v.report));
	case STRAIT_FRAME_HAVE:
		GET(frame_get_have, have, feedback_have(s, &v.have));
	case STRAIT_FRAME_NEED:
		GET(frame_get_need, need, feedback_need(s, &v.need));
	case STRAIT_FRAME_CREDIT:
		GET(frame_get_credit, credit, on_credit(s, &v.credit));
	case STRAIT_FRAME_OBJECT:
		GET(frame_get_objects, objects, on_objects(s, &v.objects));
	case STRAIT_FRAME_OBJECT_ACK:
		GET(frame_get_object_ack, object_ack, on_object_ack(s, &v.object_ack));
	case STRAIT_FRAME_WITHDRAW:
		GET(frame_get_objects, objects, on_withdraw(s, &v.objects));
	case STRAIT_FRAME_CLOSE:
		GET(frame_get_status, status, on_close(s, &v.status));
	case STRAIT_FRAME_CLOSE_ACK:
		GET(frame_get_close_ack, u32, on_close_ack(s, v.u32));
	case STRAIT_FRAME_CHALLENGE:
		GET(frame_get_token, u64, on_challenge(s, v.u64));
	case STRAIT_FRAME_RESPONSE:
		GET(frame_get_token, u64, on_response(s, v.u64));
	case STRAIT_FRAME_PING:
		GET(frame_get_ping, u32, on_ping(s, v.u32));
	case STRAIT_FRAME_RECALL:
		GET(frame_get_recall, u64, on_recall(s, v.u64));
	case STRAIT_FRAME_PADDING:
		s->rx_probed_ns = s->now_ns;
		break;
	default:
		break; /* a newer version's frame: skipped */
	}
#undef GET
	return ret;
}

int control_recv(struct session *s, const uint8_t *body, size_t len)
{
	struct frame_reader r;
	struct frame f;
	int ret;

	control_touch(s);
	frame_reader_init(&r, body, len);
	while ((ret = frame_next(&r, &f)) == 1) {
		ret = dispatch(s, &f);
		if (ret < 0)
			return ret;
	}
	return ret;
}
