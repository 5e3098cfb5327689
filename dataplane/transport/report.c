/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

/*
 * What the receiver says about what it has.
 *
 * A report is due when something came since the last one and the sender's interval (a fifth of its
 * round trip) has passed, or at once when asked (PING, the REPORT flag, a tail block that cannot
 * finish). Its ranges reach back over the last REPORT_HISTORY reports, so each packet is reported
 * about sixteen times and any single report may be lost; what is older is covered by HAVE. A report
 * that does not fit one packet goes on in the next.
 */

enum {
	HAVE_ROOM = 200, /* bytes of one report packet that HAVE frames may take */
	NEED_ROOM = 320,
	GENERATION_MASK = (1 << STRAIT_GENERATION_SHIFT) - 1,
	REPORT_REPEATS = 4,    /* each packet is in at least so many reports */
	FEEDBACK_SHARE = 1400, /* feedback is at most this part of the data, repetition included */
	REPORT_LINE_BYTES = STRAIT_OVERHEAD_BYTES + STRAIT_LINE_OVERHEAD_BYTES,
	INTERVAL_US_MIN = 10,      /* a fifth of 50 us */
	INTERVAL_US_MAX = 1000000, /* own repetitions are timed by it too */
	OWN_REPORT_S = 5, /* control packets are reported so often, to let the peer re-key */
};

static uint64_t due_ns(const struct session *s)
{
	const struct receiver *r = &s->rx;

	if (!r->pending)
		return UINT64_MAX;
	return r->last_report_ns + (r->now ? r->interval_ns / 16 : r->interval_ns);
}

bool report_is_due(const struct session *s)
{
	return s->rx.report_open || (s->rx.pending && s->now_ns >= due_ns(s));
}

uint64_t report_next_ns(const struct session *s)
{
	return s->rx.report_open ? s->now_ns : due_ns(s);
}

static void history_push(struct receiver *r, uint64_t now_ns)
{
	if (!r->data_pending || now_ns - r->history_ns < r->interval_ns * 3 / 4)
		return;
	r->history[r->history_len++ % REPORT_HISTORY] = r->window.newest;
	r->history_ns = now_ns;
}

/* Newest packet number at the n-th report before this one. */
static uint64_t history_back(const struct receiver *r, uint32_t n)
{
	return r->history_len < n ? 0 : r->history[(r->history_len - n) % REPORT_HISTORY];
}

/* HAVE of one stream: runs of complete blocks above the floor, as many as fit. */
static void write_have(struct frame_writer *w, struct rx_transfer *t, uint8_t stream)
{
	struct rx_stream *st = &t->stream[stream];
	uint32_t at = st->floor, cursor = st->floor;

	if (frame_have_begin(w, t->open.transfer, stream, st->floor) < 0)
		return;
	while (at < st->touched) {
		uint32_t first, end;

		while (at < st->touched && !(st->blocks[at].flags & RX_BLOCK_COMPLETE))
			at++;
		for (first = at; at < st->part.blocks && st->blocks[at].flags & RX_BLOCK_COMPLETE;)
			at++;
		end = at;
		if (end == first || frame_have_run(w, first - cursor, end - first) < 0)
			break;
		cursor = end;
	}
	frame_list_end(w);
	st->changed = false;
}

/* NEED of one stream: blocks whose planned symbols all came or passed, or all of them when
 * asked. */
static void write_need(struct session *s, struct frame_writer *w, struct rx_transfer *t,
	uint8_t stream)
{
	struct rx_stream *st = &t->stream[stream];
	uint32_t end = s->rx.need_all ? st->part.blocks : st->ended, previous = 0, n = 0;

	if (st->floor >= end ||
		frame_need_begin(w, t->open.transfer, stream, s->rx.window.newest) < 0)
		return;
	for (uint32_t block = st->floor; block < end; block++) {
		const struct rx_block *b = &st->blocks[block];
		uint32_t missing;

		if (b->flags & RX_BLOCK_COMPLETE ||
			(!s->rx.need_all && !(b->flags & RX_BLOCK_TAIL)))
			continue;
		missing = rx_block_missing(b, partition_k(&st->part, block));
		if (missing > 0 && frame_need_block(w, &previous, block, missing) < 0)
			break;
		if (missing > 0 && ++n >= NEED_ROOM / 3)
			break;
	}
	frame_list_end(w);
}

static void write_credit(struct session *s, struct frame_writer *w)
{
	struct receiver *r = &s->rx;

	for (int c = 0; c < STRAIT_CLASS_COUNT; c++) {
		struct frame_credit f = {
			.class_ = (uint8_t)c,
			.bytes = r->window_size[c].bytes + r->resolved[c].bytes,
			.objects = r->window_size[c].objects + r->resolved[c].objects,
		};

		if (f.bytes != r->credit_told[c]) {
			r->credit_told[c] = f.bytes;
			r->credit_repeat[c] = 3;
		}
		if (r->credit_repeat[c] == 0 || frame_put_credit(w, &f) < 0)
			continue;
		r->credit_repeat[c]--;
	}
}

static void write_state(struct session *s, struct frame_writer *w)
{
	struct receiver *r = &s->rx;
	size_t limit = w->cap, first = w->len;

	write_credit(s, w);
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t n = 0; n < SESSION_TRANSFERS_MAX; n++) {
			uint32_t i = (r->state_slot + n) % SESSION_TRANSFERS_MAX;
			struct rx_transfer *t = r->slots[i].used ? r->slots[i].t : NULL;
			size_t room = pass == 0 ? HAVE_ROOM : HAVE_ROOM + NEED_ROOM;

			if (t == NULL)
				continue;
			if (first + room < limit)
				w->cap = first + room;
			for (uint8_t st = 0; st < STRAIT_STREAM_COUNT; st++) {
				if (pass == 0 &&
					(t->stream[st].changed || r->need_all ||
						t->stream[st].repeat > 0)) {
					t->stream[st].repeat = t->stream[st].changed
						? 4
						: t->stream[st].repeat - 1;
					write_have(w, t, st);
				}
				if (pass == 1 && (st == STRAIT_STREAM_MANIFEST || t->begun))
					write_need(s, w, t, st);
			}
		}
	}
	w->cap = limit;
	/* A long list of one transfer's blocks may not keep another's from ever being told. */
	for (uint32_t n = 0; r->need_all && n < SESSION_TRANSFERS_MAX; n++) {
		r->state_slot = (uint8_t)((r->state_slot + 1) % SESSION_TRANSFERS_MAX);
		if (r->slots[r->state_slot].used)
			break;
	}
}

/* Everything from recall_from on that is remembered of the newest packet's generation. */
static void recall(struct receiver *r)
{
	uint64_t newest = r->window.newest, oldest = newest & ~(uint64_t)GENERATION_MASK;

	if (newest - oldest >= r->window.size)
		oldest = newest - r->window.size + 1;
	if (r->recall_from > oldest)
		oldest = r->recall_from;
	if (oldest < r->report_floor)
		r->report_floor = oldest;
	r->report_must = r->report_floor;
	r->recalled--;
}

static void report_start(struct session *s)
{
	struct receiver *r = &s->rx;

	r->report_floor = history_back(r, REPORT_HISTORY);
	r->report_must = history_back(r, REPORT_REPEATS);
	if (r->recalled > 0)
		recall(r);
	r->report_room = r->data_bytes / FEEDBACK_SHARE;
	r->data_bytes = 0;
	r->report_used = 0;
	history_push(r, s->now_ns);
	r->pending = r->data_pending = r->now = false;
	r->last_report_ns = s->now_ns;
	r->report_from = r->window.newest;
	r->report_open = r->window.any;
	r->report_packets = 0;
}

void report_write(struct session *s, struct frame_writer *w)
{
	struct receiver *r = &s->rx;
	struct frame_report f = { .queue = s->cfg.queue };
	size_t used = REPORT_LINE_BYTES;
	uint64_t low, high;
	bool more;

	if (!r->report_open) {
		report_start(s);
		write_state(s, w);
		r->need_all = false;
	}
	used += r->report_used;
	f.newest = r->window.newest;
	f.newest_us = r->newest_ns / NS_PER_US;
	f.delay_us = (uint32_t)((s->now_ns - r->newest_ns) / NS_PER_US);
	more = r->report_open &&
		pnwindow_range_below(&r->window, r->report_from, r->report_floor, &low, &high);
	if (!more) {
		r->report_open = false;
		return;
	}
	f.base = high;
	if (frame_report_begin(w, &f) < 0)
		return; /* no room left: the next packet has */
	while (more) {
		uint64_t next_low, next_high, missing = 0;

		/* What was said before is repeated only within the feedback's share. */
		if (high < r->report_must && used + w->len > r->report_room)
			break;

		more = low > 0 &&
			pnwindow_range_below(&r->window, low - 1, r->report_floor, &next_low,
				&next_high);
		missing = more ? low - 1 - next_high
			       : low - (low < r->report_floor ? low : r->report_floor);
		if (frame_report_range(w, high - low + 1, missing) < 0) {
			r->report_from = high;
			r->report_used = used + w->len;
			frame_list_end(w);
			if (++r->report_packets >= REPORT_PACKETS_MAX)
				r->report_open = false;
			return;
		}
		low = next_low;
		high = next_high;
	}
	frame_list_end(w);
	r->report_open = false;
}

void report_interval_set(struct session *s, uint32_t interval_us)
{
	if (interval_us == 0)
		return;
	if (interval_us < INTERVAL_US_MIN)
		interval_us = INTERVAL_US_MIN;
	if (interval_us > INTERVAL_US_MAX)
		interval_us = INTERVAL_US_MAX;
	s->rx.interval_ns = interval_us * NS_PER_US;
}

void report_control_seen(struct session *s)
{
	if (s->now_ns - s->rx.last_report_ns >= OWN_REPORT_S * NS_PER_S)
		s->rx.pending = true;
}
