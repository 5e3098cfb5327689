/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <string.h>

enum { REKEY_S = 60 };

/* A side that was probed so long ago may be probed again soon. */
#define PROBED_NS (500 * NS_PER_MS)

uint64_t session_rto_ns(const struct session *s)
{
	const struct rtt *r = &s->tx.rtt;
	uint64_t spread = 4 * r->variation_ns;
	uint64_t rto = r->smoothed_ns + 2 * s->rx.interval_ns;

	/* A side that only receives has few samples: its variation says little. */
	rto += spread < r->smoothed_ns ? spread : r->smoothed_ns;

	if (!r->measured)
		rto = s->cfg.rtt_hint_ns + s->cfg.rtt_hint_ns / 2;
	return rto < 5 * NS_PER_MS ? 5 * NS_PER_MS : rto;
}

static void clock_advance(struct session *s, uint64_t now_ns)
{
	if (s->started_ns == 0) {
		s->started_ns = now_ns;
		s->authentic_ns = now_ns;
		s->generation_ns = now_ns;
		s->challenge_due_ns = now_ns;
		/*
		 * The initiator may not have read SESSION_ACCEPT yet. Its own CHALLENGE says that
		 * it has, and brings ours forward.
		 */
		if (s->cfg.direction == STRAIT_DIR_RESPONDER)
			s->challenge_due_ns += session_rto_ns(s);
		s->tx.report_ns = now_ns;
	}
	if (now_ns > s->now_ns)
		s->now_ns = now_ns;
}

/* Enter the next key generation, when it is time and the peer is known to follow. */
static void generation_roll(struct session *s)
{
	uint64_t g = s->tx_keys.slot.generation;

	if (s->next_pn >> STRAIT_GENERATION_SHIFT > g) {
		/* The caller made sure that generation g was acknowledged. */
		if (key_tx_advance(&s->tx_keys) == 0)
			COUNT(s, tx_generations);
		s->generation_ns = s->now_ns;
		return;
	}
	if (s->now_ns - s->generation_ns < REKEY_S * NS_PER_S || !s->tx.any_acked ||
		s->tx.acked_generation != g || s->next_pn == g << STRAIT_GENERATION_SHIFT)
		return;
	if (key_tx_advance(&s->tx_keys) < 0)
		return;
	COUNT(s, tx_generations);
	s->next_pn = (g + 1) << STRAIT_GENERATION_SHIFT;
	s->generation_ns = s->now_ns;
}

/* Packet numbers left in this generation, when the next may not be entered yet. */
static uint64_t numbers_left(const struct session *s)
{
	uint64_t g = s->tx_keys.slot.generation;

	if (s->tx.any_acked && s->tx.acked_generation >= g)
		return UINT64_MAX;
	return ((g + 1) << STRAIT_GENERATION_SHIFT) - s->next_pn;
}

bool session_may_send_data(struct session *s)
{
	return s->up && !s->dead && !mtu_holds(&s->mtu) && numbers_left(s) > CONTROL_RESERVE;
}

size_t session_control_bytes(const struct session *s)
{
	uint16_t n = s->cfg.symbol_bytes < MTU_BASE_BYTES ? s->cfg.symbol_bytes : MTU_BASE_BYTES;

	/* While either side looks for what passes, nothing must depend on more than the least. */
	if (s->mtu.confirming || s->now_ns < s->rx_probed_ns + PROBED_NS)
		return STRAIT_SYMBOL_BYTES_MIN;
	if (s->mtu.current < n)
		n = s->mtu.current;
	return s->rx_path_bytes < n ? s->rx_path_bytes : n;
}

static void mtu_times(const struct session *s, struct mtu_times *t)
{
	t->now = s->now_ns;
	t->rtt = s->tx.rtt.smoothed_ns;
	t->rto = session_rto_ns(s);
	t->pto = feedback_pto_ns(s);
	t->packet = s->tx.rate.rate_bps == 0
		? 0
		: (s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES + session_line_overhead(s)) * 8 *
			NS_PER_S / s->tx.rate.rate_bps;
}

void session_packets_acked(struct session *s, uint64_t low, uint64_t high)
{
	struct mtu_times t;

	if (!s->mtu.confirming && s->mtu.probe_bytes == 0)
		return;
	mtu_times(s, &t);
	mtu_acked(&s->mtu, low, high, &t);
	s->mtu_idle_ns = 0;
}

/*
 * The path carries another size now. Transfers whose symbols no longer fit are closed, here and at
 * the peer; their owner opens the orders again. What the black hole took says nothing about loss.
 */
static void path_changed(struct session *s)
{
	s->tell_path = true;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++)
		if (s->tx.slots[i] != NULL && s->tx.slots[i]->symbol_bytes > s->mtu.current)
			sender_close(s, s->tx.slots[i], STRAIT_STATUS_RESET, true);
	if (s->mtu.current >= s->path_before)
		goto out;
	COUNT(s, tx_mtu_falls);
	s->tx.window_lost = s->loss_before.lost;
	s->tx.window_total = s->loss_before.total;
out:
	s->path_before = s->mtu.current;
}

/* A probe of the path MTU when one is due, else 0. */
static size_t mtu_send(struct session *s, uint8_t *buf, size_t cap)
{
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL, .flags = STRAIT_FLAG_REPORT };
	uint8_t *body = buf + STRAIT_HEADER_BYTES;
	struct sent_packet *sent;
	struct frame_writer w;
	struct mtu_times t;
	uint16_t bytes;

	if (!s->up || s->mtu_idle_ns > s->now_ns)
		return 0;
	if (s->cfg.direction == STRAIT_DIR_INITIATOR || s->tx.live > 0)
		mtu_start(&s->mtu, s->now_ns);
	mtu_times(s, &t);
	bytes = mtu_probe(&s->mtu, &t);
	if (mtu_poll(&s->mtu))
		path_changed(s);
	if (bytes == 0) {
		/* What happens until then can only make it later, or sets this to 0. */
		s->mtu_idle_ns = mtu_next_ns(&s->mtu, &t);
		return 0;
	}
	frame_writer_init(&w, body, cap - STRAIT_OVERHEAD_BYTES);
	if (frame_put_padding(&w, bytes) < 0)
		return 0;
	sentlog_make_room(&s->tx.log, feedback_lost, s);
	sent = sentlog_add(&s->tx.log, s->next_pn, false);
	memset(sent, 0, sizeof(*sent));
	sent->time_ns = s->now_ns;
	sent->kind = SENT_CONTROL;
	mtu_probe_sent(&s->mtu, s->next_pn, s->now_ns);
	COUNT(s, tx_control);
	COUNT(s, tx_mtu_probes);
	return session_seal(s, &h, buf, body, w.len);
}

static uint64_t mtu_next(const struct session *s)
{
	struct mtu_times t;

	if (!s->up)
		return UINT64_MAX;
	if (s->mtu_idle_ns > s->now_ns)
		return s->mtu_idle_ns;
	if (s->mtu.state == MTU_DISABLED && s->mtu.n_ladder > 0 &&
		(s->cfg.direction == STRAIT_DIR_INITIATOR || s->tx.live > 0))
		return s->now_ns;
	mtu_times(s, &t);
	return mtu_next_ns(&s->mtu, &t);
}

size_t session_seal(struct session *s, struct packet_header *h, uint8_t *buf, const uint8_t *src,
	size_t len)
{
	uint8_t nonce[STRAIT_IV_BYTES];

	h->session = s->cfg.peer_session;
	h->queue = s->cfg.queue;
	h->packet_number = s->next_pn++;
	packet_header_encode(h, buf);
	key_nonce(s->tx_keys.slot.iv, h->packet_number, nonce);
	aead_seal(&s->tx_keys.slot.aead, nonce, buf, STRAIT_HEADER_BYTES, src, len,
		buf + STRAIT_HEADER_BYTES, buf + STRAIT_HEADER_BYTES + len);
	return STRAIT_OVERHEAD_BYTES + len;
}

size_t session_send(struct session *s, uint64_t now_ns, uint8_t *buf, size_t cap)
{
	size_t len;

	clock_advance(s, now_ns);
	if (s->dead || cap < (size_t)s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES)
		return 0;
	feedback_timer(s);
	if (pacer_next_ns(&s->pacer) > now_ns || numbers_left(s) == 0)
		return 0;
	generation_roll(s);
	len = control_send(s, buf, cap);
	if (len == 0)
		len = mtu_send(s, buf, cap);
	if (len == 0)
		len = sender_send(s, buf, cap);
	if (len == 0)
		return 0;
	COUNT(s, tx_packets);
	COUNT_ADD(s, tx_bytes, len);
	pacer_take(&s->pacer, now_ns, (uint32_t)len + session_line_overhead(s));
	return len;
}

unsigned int session_send_burst(struct session *s, uint64_t now_ns, struct session_packet *p,
	unsigned int n, size_t cap)
{
	const uint32_t full = s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES;
	unsigned int done = 0;

	clock_advance(s, now_ns);
	if (cap < full)
		return 0;
	while (done < n && !s->dead) {
		struct session_packet *first = &p[done];
		unsigned int made;

		feedback_timer(s);
		if (pacer_next_ns(&s->pacer) > now_ns || numbers_left(s) == 0)
			break;
		generation_roll(s);
		s->tx.more = first + 1;
		first->len = control_send(s, first->buf, cap);
		if (first->len == 0)
			first->len = mtu_send(s, first->buf, cap);
		if (first->len == 0) {
			/* The first is allowed, so at least one is. */
			s->tx.more_room = pacer_count(&s->pacer, now_ns,
						  full + session_line_overhead(s), n - done) -
				1;
			first->len = sender_send(s, first->buf, cap);
			s->tx.more_room = 0;
		}
		if (first->len == 0)
			break;
		made = (unsigned int)(s->tx.more - first);
		COUNT_ADD(s, tx_packets, made);
		COUNT_ADD(s, tx_bytes, first->len + s->tx.more_bytes);
		pacer_take(&s->pacer, now_ns,
			(uint32_t)(first->len + s->tx.more_bytes) +
				made * session_line_overhead(s));
		s->tx.more_bytes = 0;
		done += made;
	}
	return done;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t session_next(struct session *s, uint64_t now_ns)
{
	uint64_t work, pace;

	clock_advance(s, now_ns);
	if (s->dead)
		return UINT64_MAX;
	work = min_u64(mtu_next(s), min_u64(control_next_ns(s), sender_next_ns(s)));
	pace = pacer_next_ns(&s->pacer);
	if (work < pace)
		work = pace;
	return min_u64(work,
		min_u64(feedback_next_ns(s), s->authentic_ns + s->cfg.idle_timeout_ns));
}

uint64_t session_slack_ns(const struct session *s)
{
	return s->pacer.burst_ns / 2;
}

static int open_control(struct session *s, const struct packet_header *h, struct key_slot *key,
	const uint8_t *packet, size_t len)
{
	size_t n = len - STRAIT_OVERHEAD_BYTES;
	uint8_t nonce[STRAIT_IV_BYTES];

	if (n > STRAIT_SYMBOL_BYTES_MAX) {
		COUNT(s, rx_length);
		return -EMSGSIZE;
	}
	key_nonce(key->iv, h->packet_number, nonce);
	if (aead_open(&key->aead, nonce, packet, STRAIT_HEADER_BYTES, packet + STRAIT_HEADER_BYTES,
		    n, packet + len - STRAIT_TAG_BYTES, s->rx.bounce) < 0) {
		COUNT(s, rx_auth);
		return -EBADMSG;
	}
	if (!pnwindow_mark(&s->rx.window, h->packet_number)) {
		COUNT(s, rx_replay);
		return -EALREADY;
	}
	key_rx_used(&s->rx_keys, h->packet_number >> STRAIT_GENERATION_SHIFT);
	s->authentic_ns = s->now_ns;
	COUNT(s, rx_packets);
	COUNT_ADD(s, rx_bytes, len);
	if (s->rx.window.newest == h->packet_number)
		s->rx.newest_ns = s->now_ns;
	report_control_seen(s);
	if (h->flags & STRAIT_FLAG_REPORT)
		s->rx.pending = s->rx.now = true;
	if (control_recv(s, s->rx.bounce, n) < 0) {
		COUNT(s, rx_frame);
		return -EPROTO;
	}
	COUNT(s, rx_control);
	return 0;
}

int session_recv(struct session *s, uint64_t now_ns, const uint8_t *packet, size_t len)
{
	struct packet_header h;
	struct key_slot *key;
	int ret;

	clock_advance(s, now_ns);
	if (s->dead)
		return -ESHUTDOWN;
	ret = packet_header_decode(packet, len, &h);
	if (ret < 0) {
		if (ret == -EMSGSIZE)
			COUNT(s, rx_short);
		else
			COUNT(s, rx_version);
		return ret;
	}
	if (h.session != s->cfg.own_session) {
		COUNT(s, rx_session);
		return -ENOENT;
	}
	if (h.queue != s->cfg.queue) {
		COUNT(s, rx_queue);
		return -ECHRNG;
	}
	key = key_rx_find(&s->rx_keys, h.packet_number >> STRAIT_GENERATION_SHIFT);
	if (key == NULL) {
		COUNT(s, rx_generation);
		return -EKEYEXPIRED;
	}
	if (h.type == STRAIT_PACKET_CONTROL)
		return open_control(s, &h, key, packet, len);
	return receiver_symbol(s, &h, key, packet, len);
}

void session_tx_event(struct session *s, struct tx_transfer *t)
{
	if (t->linked)
		return;
	t->linked = true;
	t->event_next = NULL;
	*s->tx_events_tail = t;
	s->tx_events_tail = &t->event_next;
}

void session_rx_event(struct session *s, struct rx_transfer *t)
{
	if (t->linked)
		return;
	t->linked = true;
	t->event_next = NULL;
	*s->rx_events_tail = t;
	s->rx_events_tail = &t->event_next;
}

/* One event of a transfer; NONE when it has no more. */
static void tx_poll(struct tx_transfer *t, struct session_event *ev)
{
	ev->tx = t;
	if (t->tell_opened) {
		t->tell_opened = false;
		ev->type = SESSION_EVENT_TX_OPENED;
		ev->status = t->close_status;
	} else if (t->want_told < t->want && !t->closed) {
		t->want_told = t->want;
		ev->type = SESSION_EVENT_TX_WANT;
		ev->object = t->want;
	} else if (t->event_len > 0) {
		ev->type = SESSION_EVENT_TX_OBJECT;
		ev->object = t->event_queue[t->event_head];
		ev->status = t->object[ev->object].status;
		t->event_head = (t->event_head + 1) % t->objects;
		t->event_len--;
	} else if (t->tell_closed) {
		t->tell_closed = false;
		ev->type = SESSION_EVENT_TX_CLOSED;
		ev->status = t->close_status;
	}
}

static void rx_poll(struct rx_transfer *t, struct session_event *ev)
{
	ev->rx = t;
	if (t->closed) {
		/* What happened to single objects no longer matters: all that is unfinished ends
		 * with it. */
		t->tell_manifest = false;
		t->event_len = 0;
	}
	if (t->tell_manifest) {
		t->tell_manifest = false;
		ev->type = SESSION_EVENT_RX_MANIFEST;
	} else if (t->event_len > 0) {
		uint32_t e = t->event_queue[t->event_head];
		const struct rx_object *o = &t->object[e >> 1];

		t->event_head = (t->event_head + 1) % t->open.objects;
		t->event_len--;
		ev->object = e >> 1;
		if (e & 1) {
			ev->type = SESSION_EVENT_RX_WITHDRAWN;
			ev->status = o->status;
		} else {
			ev->type = SESSION_EVENT_RX_OBJECT;
			ev->status = rx_object_is_right(t, ev->object) ? STRAIT_STATUS_COMMITTED
								       : STRAIT_STATUS_DIGEST;
		}
	} else if (t->tell_closed) {
		t->tell_closed = false;
		ev->type = SESSION_EVENT_RX_CLOSED;
		ev->status = t->close_status;
	}
}

static bool open_poll(struct session *s, struct session_event *ev)
{
	if (!s->rx.any_untold)
		return false;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		struct rx_slot *slot = &s->rx.slots[i];

		if (!slot->used || slot->told)
			continue;
		slot->told = true;
		ev->type = SESSION_EVENT_RX_OPEN;
		ev->open = slot->open;
		return true;
	}
	s->rx.any_untold = false;
	return false;
}

bool session_poll(struct session *s, struct session_event *ev)
{
	memset(ev, 0, sizeof(*ev));
	if (s->tell_up) {
		s->tell_up = false;
		ev->type = SESSION_EVENT_UP;
		return true;
	}
	if (s->tell_path) {
		s->tell_path = false;
		ev->type = SESSION_EVENT_PATH;
		ev->object = s->mtu.current;
		return true;
	}
	while (s->tx_events != NULL) {
		struct tx_transfer *t = s->tx_events;

		tx_poll(t, ev);
		if (ev->type != SESSION_EVENT_NONE && ev->type != SESSION_EVENT_TX_CLOSED)
			return true;
		s->tx_events = t->event_next;
		if (s->tx_events == NULL)
			s->tx_events_tail = &s->tx_events;
		t->linked = false;
		if (ev->type != SESSION_EVENT_NONE)
			return true;
	}
	while (s->rx_events != NULL) {
		struct rx_transfer *t = s->rx_events;

		rx_poll(t, ev);
		if (ev->type != SESSION_EVENT_NONE && ev->type != SESSION_EVENT_RX_CLOSED)
			return true;
		s->rx_events = t->event_next;
		if (s->rx_events == NULL)
			s->rx_events_tail = &s->rx_events;
		t->linked = false;
		if (ev->type != SESSION_EVENT_NONE)
			return true;
	}
	if (open_poll(s, ev))
		return true;
	if (s->tell_dead) {
		s->tell_dead = false;
		ev->type = SESSION_EVENT_DEAD;
		return true;
	}
	return false;
}

void session_reset(struct session *s, uint8_t status)
{
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		if (s->tx.slots[i] != NULL)
			sender_close(s, s->tx.slots[i], status, false);
		if (s->rx.slots[i].used)
			receiver_close(s, &s->rx.slots[i], status);
	}
	s->tx.n_closing = 0;
}

void session_pace(struct session *s)
{
	if (s->tx.rate.rate_bps != s->pacer.rate_bps)
		pacer_set_rate(&s->pacer, s->now_ns, s->tx.rate.rate_bps,
			s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES + session_line_overhead(s));
}

void session_set_cap(struct session *s, uint64_t now_ns, uint64_t cap_bps)
{
	clock_advance(s, now_ns);
	s->cfg.cap_bps = cap_bps;
	rate_set_cap(&s->tx.rate, cap_bps);
	session_pace(s);
}

void session_stats(const struct session *s, struct session_stats *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->counters, s->counters, sizeof(out->counters));
	out->srtt_ns = s->tx.rtt.measured ? s->tx.rtt.smoothed_ns : 0;
	out->min_rtt_ns = s->tx.rtt.measured ? s->tx.rtt.min_ns : 0;
	out->loss = s->tx.loss;
	out->cap_bps = s->cfg.cap_bps;
	out->outstanding_bytes = s->tx.log.n_out * s->cfg.symbol_bytes;
	out->delivered_bytes = s->tx.delivered_bytes;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		const struct tx_transfer *t = s->tx.slots[i];

		if (t != NULL)
			out->backlog_bytes += t->stream[STRAIT_STREAM_OBJECTS].part.bytes -
				t->stream[STRAIT_STREAM_OBJECTS].bytes_done;
	}
	out->path_bytes = s->mtu.current;
	out->up = s->up;
	out->dead = s->dead;
}
