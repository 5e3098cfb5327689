/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <math.h>

/*
 * What the receiver's reports mean to the sender.
 *
 * REPORT is the precise truth about recent packets; HAVE is the cumulative truth about blocks, so
 * that any REPORT may be lost; NEED is the receiver's word that a block is short, acted on without
 * waiting for the reorder window. A peer that acknowledges what was never sent changes nothing.
 */

enum {
	KEEPALIVE_S = 15,
	OVERDUE_REPORTS = 3,
	BLIND_RTTS = 2,           /* data goes on so long after the first probe for a report */
	PROBE_FAST_S = 40,        /* of a silence */
	BACK_WINDOW = 64,         /* packets of the peer after which older counts weigh half */
	LOSS_WINDOW = 20000,      /* packets after which older counts weigh half */
	LOSS_PRIOR_PACKETS = 400, /* weight of the prior */
	GAP_COUNTS = 4,
	HOLE_REPORTS = 12, /* what so many reports leave out, asked so often, is taken as told */
	HOLE_RECALLS = 8,
	LATE_MAX_NS = 25000000,
};

#define BACK_LOSSY 0.05

static struct tx_transfer *entry_transfer(struct session *s, const struct sent_packet *p)
{
	struct tx_transfer *t = s->tx.slots[p->slot];

	return t != NULL && t->id == p->transfer ? t : NULL;
}

/* Data packets are nearly all full. */
static uint64_t line_bytes(const struct session *s)
{
	return s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES + session_line_overhead(s);
}

static void loss_count(struct sender *x, double lost, double total)
{
	x->window_lost += lost;
	x->window_total += total;
	if (x->window_lost < 0)
		x->window_lost = 0;
	if (x->window_total > LOSS_WINDOW) {
		x->window_lost /= 2;
		x->window_total /= 2;
	}
}

/* Mean plus half a deviation: redundancy sized on the mean alone is short half of the time. */
static void loss_update(struct session *s)
{
	struct sender *x = &s->tx;
	double n = x->window_total + LOSS_PRIOR_PACKETS;
	double p = (x->window_lost + s->cfg.loss_prior * LOSS_PRIOR_PACKETS) / n;

	x->loss = p + sqrt(p * (1 - p) / n) / 2;
	if (x->loss > 0.5)
		x->loss = 0.5;
}

/* The same as loss_count(x, 0, 1) n times. */
static void loss_count_arrived(struct sender *x, uint32_t n)
{
	while (n > 0) {
		/* One more than fit below the bound: the counts are halved with it. */
		uint32_t room = (uint32_t)(LOSS_WINDOW - x->window_total) + 1;

		room = room < n ? room : n;
		loss_count(x, 0, room);
		n -= room;
	}
}

/* Redundancy is for what the path loses: a queue that overflows is met with less, not with more. */
static bool loss_is_paths(const struct session *s)
{
	return !rate_loses_itself(&s->tx.rate, s->now_ns);
}

static bool is_of_same_block(const struct sent_packet *a, const struct sent_packet *b)
{
	return a->block == b->block && a->transfer == b->transfer && a->kind == b->kind &&
		a->stream == b->stream && a->epoch == b->epoch;
}

/* n packets of one kind, one block and one epoch, sent one after the other. */
static void block_acked(struct session *s, const struct sent_packet *p, uint32_t n, bool was_lost)
{
	struct tx_transfer *t = entry_transfer(s, p);
	struct tx_block *b;
	bool current;

	if (t == NULL)
		return;
	b = &t->stream[p->stream].blocks[p->block];
	current = p->epoch == b->epoch && !was_lost;
	if (p->kind == SENT_SOURCE) {
		for (uint32_t i = 0; i < n; i++) {
			uint64_t bit = UINT64_C(1) << (p[i].esi % 64);

			b->acked[p[i].esi / 64] |= bit;
			if (current)
				b->flying[p[i].esi / 64] &= ~bit;
		}
	} else {
		b->rows_acked += (uint8_t)n;
		if (current)
			b->rows_flying -= (uint8_t)n;
	}
	if (tx_block_is_covered(b, partition_k(&t->stream[p->stream].part, p->block)))
		sender_block_done(s, t, p->stream, p->block);
}

/*
 * Longer than a round trip it was not on its way, unless the path is short: then the reports that
 * told of it were lost, for as long as a cut lasted.
 */
static void late_learn(struct sender *x, uint64_t late_ns)
{
	if (late_ns > x->rtt.smoothed_ns && late_ns > LATE_MAX_NS)
		return;
	if (late_ns > x->late_ns)
		x->late_ns = late_ns;
}

/* Send times of a run never fall: the first and the last say what a step a packet would. */
static void on_acked(void *ctx, const struct sent_packet *p, uint32_t n, bool was_lost)
{
	struct session *s = ctx;
	struct sender *x = &s->tx;
	uint64_t first_ns = p[0].time_ns, last_ns = p[n - 1].time_ns;

	if (mtu_heeds_data(&s->mtu, last_ns))
		for (uint32_t i = 0; i < n; i++)
			mtu_data_acked(&s->mtu, p[i].bytes, p[i].time_ns);
	if (last_ns > x->rack_ns)
		x->rack_ns = last_ns;
	if (x->late_counts && first_ns < x->rack_before_ns) {
		late_learn(x, x->rack_before_ns - first_ns);
		x->late_packets += n;
	}
	if (was_lost) {
		COUNT_ADD(s, tx_spurious, n);
		for (uint32_t i = 0; i < n; i++)
			loss_count(x, -1, 0);
	} else if (loss_is_paths(s)) {
		loss_count_arrived(x, n);
	}
	for (uint32_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && is_of_same_block(&p[i], &p[end]); end++)
			;
		block_acked(s, &p[i], end - i, was_lost);
	}
}

void feedback_lost(void *ctx, const struct sent_packet *p, bool was_lost)
{
	struct session *s = ctx;
	struct tx_transfer *t = entry_transfer(s, p);
	struct tx_stream *st;
	struct tx_block *b;

	(void)was_lost;
	COUNT(s, tx_lost);
	if (p->bytes > s->mtu.current)
		return; /* went into the black hole, with its transfer */
	bursts_lost(&s->tx.bursts, sentlog_place(&s->tx.log, p),
		tail_margin(s, STRAIT_BLOCK_SYMBOLS_MAX));
	if (loss_is_paths(s))
		loss_count(&s->tx, 1, 1);
	if (t == NULL)
		return;
	st = &t->stream[p->stream];
	b = &st->blocks[p->block];
	if (p->epoch != b->epoch)
		return;
	if (p->kind == SENT_SOURCE)
		b->flying[p->esi / 64] &= ~(UINT64_C(1) << (p->esi % 64));
	else
		b->rows_flying--;
	if (b->flags & TX_BLOCK_UNCLOSED)
		return;
	if (!(b->flags & TX_BLOCK_DONE) &&
		tx_block_deficit(b, partition_k(&st->part, p->block)) > 0)
		sender_block_repair(s, t, p->stream, p->block);
}

/* How much later than a younger packet a packet may arrive before it counts as lost. */
static uint64_t reorder_window_ns(const struct session *s)
{
	const struct sender *x = &s->tx;
	uint64_t learned = x->late_ns + x->late_ns / 4, floor = x->rtt.smoothed_ns / 8;
	bool tail = x->live > 0;

	for (uint32_t i = 0; i < x->live && tail; i++)
		tail = sender_is_late(s, x->slots[x->order[i]]);
	if (tail)
		floor /= 4;
	return learned > floor ? learned : floor;
}

static void late_decay(struct session *s)
{
	struct sender *x = &s->tx;

	if (s->now_ns < x->late_decay_ns)
		return;
	x->late_ns -= x->late_ns / 4;
	x->late_decay_ns = s->now_ns + 8 * x->rtt.smoothed_ns;
}

/* Only packets that reports have spoken of can be missing from them. */
static void detect(struct session *s)
{
	const struct sent_packet *p = sentlog_find(&s->tx.log, s->tx.covered);
	uint64_t window = reorder_window_ns(s), before;

	if (p == NULL || s->tx.rack_ns < window)
		return;
	before = s->tx.rack_ns - window;
	sentlog_detect(&s->tx.log, before < p->time_ns ? before : p->time_ns, feedback_lost, s);
}

/*
 * A frame spoke of [low, base]. A report that spans packets tells of its newest numbers first: what
 * does not join what was told before is kept until the rest has come. A hole that stays though it
 * was asked for counts as told in the end.
 */
static void cover(struct sender *x, uint64_t low, uint64_t base, bool first)
{
	if (base <= x->covered)
		return;
	if (x->above_high != 0 && base + 1 >= x->above_low && low <= x->above_high + 1) {
		low = low < x->above_low ? low : x->above_low;
		base = base > x->above_high ? base : x->above_high;
	}
	if (low > x->covered + 1) {
		x->above_low = low;
		x->above_high = base;
		x->holes += first;
		if (x->holes < HOLE_REPORTS || x->recalls < HOLE_RECALLS)
			return;
		x->guessed = base + 1;
	}
	x->covered = base;
	x->above_low = x->above_high = 0;
	x->holes = x->recalls = 0;
}

/*
 * Two reports came since a hole was left: no packet of a long one is still to come. What the lost
 * ones said is asked for, lest all of it is taken for lost.
 */
static void recall(struct session *s)
{
	struct sender *x = &s->tx;

	if (x->above_high == 0 || x->holes < 2 || s->now_ns < x->recall_due_ns)
		return;
	x->recall_due_ns = s->now_ns + x->rtt.smoothed_ns / 4;
	x->recall_due = true;
	x->recalls++;
	control_touch(s);
}

static uint64_t sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * A newer packet arrived: what its delay and the packets that came with it say about the rate. Of
 * the numbers after the newest of the report before, this packet of the report tells of `told`, of
 * which `received` arrived; it alone counts, so a lost report does not lump two intervals together.
 * `spread` counts the lost ones, but of each gap GAP_COUNTS at most. Those that reports before took
 * for lost and that came since are taken off: on a path that reorders there are as many new ones
 * that are only late.
 */
static void rate_update(struct session *s, const struct frame_report *r, uint64_t sent_ns,
	uint64_t told, uint64_t received, uint64_t spread)
{
	struct sender *x = &s->tx;
	uint64_t sent = r->newest - x->newest_seen, lost = 0, late;
	struct rate_report p = {
		.now_ns = s->now_ns,
		.sent_ns = sent_ns,
		.newest_us = r->newest_us,
		.rtt_ns = x->rtt.smoothed_ns,
		.min_rtt_ns = x->rtt.min_ns,
		.late_ns = x->late_ns,
		.limited = !x->idle,
		.bulk = x->live > 0 && x->slots[x->order[0]]->class_ == STRAIT_CLASS_BULK,
		.urgent = x->live > 0 && x->slots[x->order[0]]->class_ == STRAIT_CLASS_URGENT,
	};

	/* What goes on in the next packet of the report is taken to have fared alike. */
	if (told < sent) {
		received = received * sent / told;
		spread = spread * sent / told;
	}
	/* A re-key skips numbers that nobody lost. */
	if (r->newest >> STRAIT_GENERATION_SHIFT == x->newest_seen >> STRAIT_GENERATION_SHIFT)
		lost = sub(sent - received, mtu_missing(&s->mtu, x->newest_seen + 1, r->newest));
	late = x->late_packets < lost ? x->late_packets : lost;
	x->late_packets = 0;
	p.bytes = (received + late) * line_bytes(s);
	p.lost = (lost - late) * line_bytes(s);
	p.spread_lost = sub(spread, late) * line_bytes(s);
	if ((s->next_pn - 1) >> STRAIT_GENERATION_SHIFT == r->newest >> STRAIT_GENERATION_SHIFT)
		p.flying_bytes = (s->next_pn - r->newest) * line_bytes(s);
	rate_report(&x->rate, &p);
	if (rate_poll_own(&x->rate) && x->window_lost > x->rate.loss * x->window_total)
		x->window_lost = x->rate.loss * x->window_total;
	x->newest_seen = r->newest;
	session_pace(s);
}

/* The peer numbers its packets too: what is missing of them. */
static void back_count(struct session *s)
{
	struct sender *x = &s->tx;
	uint64_t newest = s->rx.window.newest, packets = s->counters[STRAIT_C_rx_packets];

	if (newest > x->back_newest &&
		newest >> STRAIT_GENERATION_SHIFT == x->back_newest >> STRAIT_GENERATION_SHIFT) {
		double sent = (double)(newest - x->back_newest);

		x->back_total += sent;
		x->back_lost += sent - (double)(packets - x->back_packets);
	}
	if (x->back_total > BACK_WINDOW) {
		x->back_total /= 2;
		x->back_lost /= 2;
	}
	x->back_newest = newest;
	x->back_packets = packets;
}

/* Late is what a report left out that spoke of its number, not what lost ones said. */
static void acknowledge(struct session *s, uint64_t low, uint64_t high)
{
	struct sender *x = &s->tx;
	const uint64_t ends[] = { x->guessed, x->covered + 1, UINT64_MAX };

	for (unsigned int i = 0; i < 3 && low <= high; i++) {
		uint64_t last = high < ends[i] ? high : ends[i] - 1;

		if (low >= ends[i])
			continue;
		x->late_counts = i == 1;
		sentlog_ack(&x->log, low, last, on_acked, s);
		low = last + 1;
	}
}

void feedback_report(struct session *s, struct frame_report *r)
{
	struct sender *x = &s->tx;
	const struct sent_packet *p;
	uint64_t cursor = r->base, low, high, sent_ns = 0, received = 0;
	uint64_t above = 0, spread = 0; /* lowest number received so far; losses */
	uint64_t generation = r->newest >> STRAIT_GENERATION_SHIFT;

	if (r->queue != s->cfg.queue || r->newest >= s->next_pn || r->base > r->newest) {
		COUNT(s, rx_frame);
		return;
	}
	if (r->newest_us > x->newest_us_seen) {
		p = sentlog_find(&x->log, r->newest);
		if (p != NULL)
			sent_ns = p->time_ns;
		if (p != NULL && s->now_ns - p->time_ns > r->delay_us * NS_PER_US)
			rtt_sample(&x->rtt, s->now_ns,
				s->now_ns - p->time_ns - r->delay_us * NS_PER_US);
		x->newest_us_seen = r->newest_us;
		x->rack_before_ns = x->rack_ns;
	}
	if (!x->any_acked || generation > x->acked_generation)
		x->acked_generation = generation;
	/* Numbers that a re-key skipped were never sent, whatever is said of them. */
	if (x->newest_seen >> STRAIT_GENERATION_SHIFT < generation)
		x->newest_seen = (generation << STRAIT_GENERATION_SHIFT) - 1;
	x->any_acked = true;
	x->report_ns = s->now_ns;
	x->probing = x->doubted = false;
	p = sentlog_find(&x->log, r->newest);
	if (p != NULL && r->base == r->newest && p->time_ns > x->rack_ns)
		x->rack_ns = p->time_ns; /* a probe counts too: it is not tracked but it arrived */
	while (frame_report_next(r, &cursor, &low, &high)) {
		session_packets_acked(s, low, high);
		acknowledge(s, low, high);
		if (above > high && above > x->newest_seen + 1) {
			uint64_t gap = above - 1 - (high > x->newest_seen ? high : x->newest_seen);

			spread += gap < GAP_COUNTS ? gap : GAP_COUNTS;
		}
		above = low;
		if (high > x->newest_seen)
			received += high - (low > x->newest_seen ? low - 1 : x->newest_seen);
	}
	low = cursor + 1; /* 0 when the ranges reach the first packet */
	cover(x, low, r->base, r->base == r->newest);
	if (r->base == r->newest)
		back_count(s);
	recall(s);
	if (sent_ns != 0 && r->newest > x->newest_seen && r->base == r->newest && low <= r->newest)
		rate_update(s, r, sent_ns,
			r->newest - (low > x->newest_seen ? low - 1 : x->newest_seen), received,
			spread);
	late_decay(s);
	detect(s);
	loss_update(s);
	tail_review(s);
	sender_touch(s);
}

void feedback_have(struct session *s, struct frame_have *h)
{
	struct tx_transfer *t = sender_find(s, h->transfer);
	struct tx_stream *st;
	uint64_t cursor = h->floor;
	uint32_t first, run;

	if (t == NULL || !t->opened)
		return;
	st = &t->stream[h->stream];
	if (h->floor > st->part.blocks)
		return;
	for (; st->have_floor < h->floor; st->have_floor++)
		sender_block_done(s, t, h->stream, st->have_floor);
	while (frame_have_next(h, &cursor, &first, &run)) {
		if (first >= st->part.blocks || run > st->part.blocks - first)
			return;
		for (uint32_t i = 0; i < run; i++)
			sender_block_done(s, t, h->stream, first + i);
	}
	sender_touch(s);
}

/* The receiver says it lacks `missing` symbols of the block and nothing of it is on the way. */
static void block_need(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t missing)
{
	struct tx_stream *st = &t->stream[stream];
	struct tx_block *b = &st->blocks[block];
	uint32_t k = partition_k(&st->part, block), n = missing;

	/* In the middle of a transfer reports say which ones; they may still be on the way. */
	if (stream == STRAIT_STREAM_OBJECTS && !sender_is_late(s, t) && s->tx.covered < b->last_pn)
		return;
	sender_block_reopen(s, t, stream, block);
	b->epoch++;
	b->flying[0] = b->flying[1] = 0;
	b->rows_flying = 0;
	/* Acknowledged but not there: what it counted does not help the receiver. Rows first, then
	 * all. */
	if (tx_block_deficit(b, k) < (int)missing)
		b->rows_acked = 0;
	if (tx_block_deficit(b, k) < (int)missing) {
		b->acked[0] = b->acked[1] = 0;
		if (stream == STRAIT_STREAM_OBJECTS)
			tx_block_apply_objects(t, block);
	}
	tx_block_assume(b, k, missing);
	if (sender_plans_rows(s, t, stream))
		n += tail_margin(s, missing);
	b->repair_left = n > 128 ? 128 : (uint8_t)n;
	sender_block_repair(s, t, stream, block);
}

void feedback_need(struct session *s, struct frame_need *n)
{
	struct tx_transfer *t = sender_find(s, n->transfer);
	const struct sent_packet *newest, *last;
	struct tx_stream *st;
	uint64_t cursor = 0, late = s->tx.late_ns + s->tx.late_ns / 4;
	uint32_t block, missing;

	if (t == NULL || !t->opened || n->newest >= s->next_pn)
		return;
	st = &t->stream[n->stream];
	newest = sentlog_find(&s->tx.log, n->newest);
	if (newest == NULL)
		return;
	while (frame_need_next(n, &cursor, &block, &missing)) {
		const struct tx_block *b;

		if (block >= st->part.blocks || missing > partition_k(&st->part, block))
			return;
		b = &st->blocks[block];
		if (!(b->flags & TX_BLOCK_STARTED) || b->last_pn > n->newest)
			continue;
		if (b->flags & TX_BLOCK_UNCLOSED ||
			(block >= st->group_first && block < st->group_first + st->group_count))
			continue; /* its planned symbols are not all sent */
		last = sentlog_find(&s->tx.log, b->last_pn);
		if (last != NULL && last->time_ns + late > newest->time_ns && late > 0)
			continue; /* reordering was seen: it may just be late */
		block_need(s, t, n->stream, block, missing);
	}
	sender_touch(s);
}

uint64_t feedback_pto_ns(const struct session *s)
{
	const struct rtt *r = &s->tx.rtt;
	uint64_t pto = r->smoothed_ns + r->smoothed_ns / 4 + 4 * r->variation_ns +
		r->smoothed_ns / REPORTS_A_ROUND;

	return pto < 2 * NS_PER_MS ? 2 * NS_PER_MS : pto;
}

static uint64_t silence_since(struct session *s)
{
	uint64_t oldest = sentlog_oldest_ns(&s->tx.log);

	return oldest > s->tx.report_ns ? oldest : s->tx.report_ns;
}

static void ping(struct session *s)
{
	s->tx.ping_due = true;
	control_touch(s);
}

/* From then on reports of what is out are overdue. */
static uint64_t overdue_ns(struct session *s)
{
	const struct sender *x = &s->tx;
	uint64_t oldest = sentlog_oldest_ns(&s->tx.log);
	uint64_t heard = x->report_ns + OVERDUE_REPORTS * x->rtt.smoothed_ns / REPORTS_A_ROUND;

	if (oldest == UINT64_MAX)
		return UINT64_MAX;
	oldest += x->rtt.smoothed_ns * 5 / 4;
	return oldest > heard ? oldest : heard;
}

bool feedback_is_overdue(struct session *s)
{
	return s->now_ns >= overdue_ns(s);
}

bool feedback_is_silent(struct session *s)
{
	return s->tx.probing &&
		s->now_ns >=
		silence_since(s) + feedback_pto_ns(s) + BLIND_RTTS * s->tx.rtt.smoothed_ns;
}

static uint64_t probe_interval_ns(const struct session *s)
{
	uint64_t i = s->tx.rtt.smoothed_ns / 8, least = NS_PER_MS;

	/* Probes and answers may be lost; but a long silence must not fill the log with them. */
	if (s->now_ns - s->tx.report_ns > PROBE_FAST_S * NS_PER_S) {
		i *= 4;
		least *= 4;
	}
	return i < least ? least : i;
}

/* The first question is asked when all should have come; it or its answer may be lost. */
static uint64_t rescue_interval_ns(const struct session *s)
{
	const struct sender *x = &s->tx;
	uint64_t i = x->rtt.smoothed_ns / 4;

	if (x->back_lost < BACK_LOSSY * (x->back_total + BACK_WINDOW / 4))
		return feedback_pto_ns(s);
	return i < NS_PER_MS ? NS_PER_MS : i;
}

/* Everything of a transfer was sent, or it waits for credit: ask the receiver what it lacks. */
static bool wants_rescue(const struct session *s, const struct tx_transfer *t)
{
	return s->up && t->opened &&
		((t->open_answered && sender_is_drained(t)) || t->blocked_credit);
}

void feedback_timer(struct session *s)
{
	struct sender *x = &s->tx;

	if (s->now_ns - s->authentic_ns >= s->cfg.idle_timeout_ns) {
		s->dead = s->tell_dead = true;
		session_reset(s, STRAIT_STATUS_RESET);
		return;
	}
	if (!s->up)
		return;
	if (x->log.n_out > 0 && !x->probing && s->now_ns >= silence_since(s) + feedback_pto_ns(s)) {
		x->probing = true;
		x->probe_due_ns = s->now_ns;
	}
	if (x->idle && !x->doubted && x->live > 0 && feedback_is_overdue(s))
		sender_touch(s);
	if (x->probing && s->now_ns >= x->probe_due_ns) {
		x->probe_due_ns = s->now_ns + probe_interval_ns(s);
		ping(s);
	}
	if (s->now_ns - x->report_ns >= KEEPALIVE_S * NS_PER_S && s->now_ns >= x->keepalive_ns) {
		x->keepalive_ns = s->now_ns + KEEPALIVE_S * NS_PER_S;
		ping(s);
	}
	for (uint32_t i = 0; i < x->live; i++) {
		struct tx_transfer *t = x->slots[x->order[i]];

		if (!wants_rescue(s, t) || s->now_ns < t->rescue_due_ns)
			continue;
		t->rescue_due_ns = s->now_ns + rescue_interval_ns(s);
		ping(s);
	}
}

uint64_t feedback_next_ns(struct session *s)
{
	struct sender *x = &s->tx;
	uint64_t at = x->keepalive_ns > x->report_ns + KEEPALIVE_S * NS_PER_S
		? x->keepalive_ns
		: x->report_ns + KEEPALIVE_S * NS_PER_S;

	if (!s->up)
		return UINT64_MAX;
	if (x->idle && !x->doubted && x->live > 0 && overdue_ns(s) < at)
		at = overdue_ns(s);
	if (x->probing && x->probe_due_ns < at)
		at = x->probe_due_ns;
	if (x->log.n_out > 0 && !x->probing && silence_since(s) + feedback_pto_ns(s) < at)
		at = silence_since(s) + feedback_pto_ns(s);
	for (uint32_t i = 0; i < x->live; i++) {
		const struct tx_transfer *t = x->slots[x->order[i]];

		if (wants_rescue(s, t) && t->rescue_due_ns < at)
			at = t->rescue_due_ns;
	}
	return at;
}
