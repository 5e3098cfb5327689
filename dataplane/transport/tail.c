/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

/*
 * Rows for what must not wait for a repair round: the end of an order, urgent transfers, manifests.
 *
 * Rows are made late, when as much as possible is known of the block: what it needs is its missing
 * symbols, minus what is in flight, plus rows enough that all of that together falls short only as
 * often as the target allows. The whole tail of a line shares one target, so that a long line does
 * not nearly always have some block that waits. Reports that come meanwhile are looked at in the
 * same way: a block that is now likely to fall short gets more rows at once.
 *
 * An order shorter than a round trip is sent before anything is known of the loss. What the line
 * could carry until the first report comes is then used for rows against a loss worse than assumed:
 * they delay nothing, as they go out only when there is nothing else.
 */

enum {
	MEASURED_PACKETS = 2000, /* after so many the loss is known */
	GUESS_TIMES = 6,         /* it may be so many times the prior until then */
	GUESS_SHARE = 9,         /* urgent blocks get at most a ninth of their symbols as rows */
};

static const struct redundancy *level(const struct session *s, const struct tx_transfer *t,
	uint8_t stream)
{
	uint64_t blocks = sender_bdp_packets(s) / STRAIT_BLOCK_SYMBOLS_MAX + 1;

	if (stream == STRAIT_STREAM_MANIFEST || t->class_ == STRAIT_CLASS_URGENT)
		return &s->tx.redundancy[REDUNDANCY_LEVEL_URGENT];
	return &s->tx.redundancy[redundancy_level_of(blocks)];
}

/* Symbols the receiver needs of what is in flight and to be sent. */
static uint32_t need(const struct tx_block *b, uint32_t k)
{
	int in_flight = __builtin_popcountll(b->flying[0] & ~b->acked[0]) +
		__builtin_popcountll(b->flying[1] & ~b->acked[1]) + b->rows_flying;
	int n = tx_block_deficit(b, k) + in_flight;

	return n > 0 ? (uint32_t)n : 0;
}

static uint32_t rows_for(const struct tx_stream *st, uint32_t block, const struct redundancy *r,
	double loss)
{
	const struct tx_block *b = &st->blocks[block];
	uint32_t k = partition_k(&st->part, block), n = need(b, k);
	int rows, most = (int)(STRAIT_ESI_COUNT - k) - b->next_row;

	if (n == 0 || b->flags & (TX_BLOCK_DONE | TX_BLOCK_NO_ROWS))
		return 0;
	rows = tx_block_deficit(b, k) + (int)redundancy_rows(r, n < 128 ? n : 128, loss);
	if (rows > most)
		rows = most;
	return rows > 0 ? (uint32_t)rows : 0;
}

uint32_t tail_rows(const struct session *s, const struct tx_transfer *t, uint8_t stream,
	uint32_t block)
{
	return rows_for(&t->stream[stream], block, level(s, t, stream), s->tx.loss);
}

uint32_t tail_growing(const struct session *s, const struct tx_transfer *t, uint8_t stream,
	uint32_t block)
{
	const struct tx_block *b = &t->stream[stream].blocks[block];
	uint32_t k = partition_k(&t->stream[stream].part, block), n = need(b, k), rows;
	uint32_t most = STRAIT_ESI_COUNT - k - b->next_row;

	if (n == 0 || b->flags & (TX_BLOCK_DONE | TX_BLOCK_NO_ROWS))
		return 0;
	rows = redundancy_rows(level(s, t, stream), n < 128 ? n : 128, s->tx.loss);
	if (rows > 0)
		rows += (uint32_t)(1.5 * s->tx.loss * n);
	return rows < most ? rows : most;
}

uint32_t tail_margin(const struct session *s, uint32_t n)
{
	return redundancy_rows(&s->tx.redundancy[REDUNDANCY_LEVEL_URGENT], n, s->tx.loss);
}

/* No rows are left to send for the block: from now on its losses are repaired. */
static void block_close(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block)
{
	struct tx_stream *st = &t->stream[stream];
	struct tx_block *b = &st->blocks[block];

	b->planned = 0;
	b->flags &= (uint8_t)~TX_BLOCK_UNCLOSED;
	if (!(b->flags & TX_BLOCK_DONE) && tx_block_deficit(b, partition_k(&st->part, block)) > 0)
		sender_block_repair(s, t, stream, block);
}

bool tail_begin(struct session *s, struct tx_transfer *t, uint8_t stream)
{
	struct tx_stream *st = &t->stream[stream];

	while (st->tail_at < st->group_first) {
		uint32_t n = st->group_first - st->tail_at, rows = 0;

		if (n > ROW_CACHE_BLOCKS)
			n = ROW_CACHE_BLOCKS;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t block = st->tail_at + i;
			struct tx_block *b = &st->blocks[block];

			if (!(b->flags & TX_BLOCK_UNCLOSED))
				continue;
			b->planned = (uint8_t)tail_rows(s, t, stream, block);
			rows += b->planned;
			if (b->planned == 0)
				block_close(s, t, stream, block);
		}
		if (rows > 0) {
			st->tail_count = n;
			st->tail_pos = 0;
			return true;
		}
		st->tail_at += n;
	}
	return false;
}

size_t tail_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	bool any = true;

	for (; any; st->tail_pos = 0) {
		any = st->tail_pos > 0; /* a round already begun had something */
		while (st->tail_pos < st->tail_count) {
			uint32_t block = st->tail_at + st->tail_pos++;
			struct tx_block *b = &st->blocks[block];
			size_t len = 0;

			if (b->planned == 0)
				continue;
			any = true;
			if (!(b->flags & TX_BLOCK_DONE) &&
				(stream == STRAIT_STREAM_MANIFEST || tx_block_is_settled(t, block)))
				len = sender_row_send(s, t, stream, block, b->planned,
					b->planned == 1 ? STRAIT_FLAG_END_OF_BLOCK : 0, buf);
			if (len == 0 || --b->planned == 0)
				block_close(s, t, stream, block);
			if (len != 0)
				return len;
		}
	}
	st->tail_at += st->tail_count;
	st->tail_count = 0;
	return 0;
}

static void review(struct session *s, struct tx_transfer *t, uint8_t stream)
{
	struct tx_stream *st = &t->stream[stream];
	const struct redundancy *loose = &s->tx.redundancy[REDUNDANCY_LEVEL_LOOSE];

	while (st->review_at < st->tail_at && st->blocks[st->review_at].flags & TX_BLOCK_DONE)
		st->review_at++;
	for (uint32_t block = st->review_at; block < st->tail_at; block++) {
		struct tx_block *b = &st->blocks[block];

		if (!(b->flags & TX_BLOCK_TAIL) || b->flags & (TX_BLOCK_DONE | TX_BLOCK_QUEUED) ||
			rows_for(st, block, loose, s->tx.loss) == 0)
			continue;
		b->repair_left = (uint8_t)tail_rows(s, t, stream, block);
		tx_queue_push(st, block);
	}
}

void tail_review(struct session *s)
{
	for (uint32_t i = 0; i < s->tx.live; i++)
		for (uint8_t st = 0; st < STRAIT_STREAM_COUNT; st++)
			review(s, s->tx.slots[s->tx.order[i]], st);
}

/* What the loss may be, as far as is known. */
static double loss_feared(const struct session *s)
{
	double unknown = 1 - s->tx.window_total / MEASURED_PACKETS;
	double feared = GUESS_TIMES * s->cfg.loss_prior * unknown;

	return feared > s->tx.loss ? feared : s->tx.loss;
}

/* Rows that a block gets on a guess. */
static uint32_t guess_rows(const struct session *s, const struct tx_transfer *t, uint32_t block)
{
	const struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	const struct tx_block *b = &st->blocks[block];
	uint32_t k = partition_k(&st->part, block);

	if (t->lan || (!(b->flags & TX_BLOCK_TAIL) && !s->tx.doubted))
		return 0;
	if (t->class_ == STRAIT_CLASS_URGENT && b->next_row >= k / GUESS_SHARE)
		return 0;
	return rows_for(st, block, &s->tx.redundancy[REDUNDANCY_LEVEL_LOOSE], loss_feared(s));
}

/* A row of the next block in turn, 64 blocks at a time: that many rows are cached. */
static size_t guess(struct session *s, struct tx_transfer *t, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];

	if (st->guess_at < st->review_at && !s->tx.doubted)
		st->guess_at = st->review_at;
	while (st->guess_at < st->tail_at) {
		uint32_t n = st->tail_at - st->guess_at;

		if (n > ROW_CACHE_BLOCKS)
			n = ROW_CACHE_BLOCKS;
		for (uint32_t tried = 0; tried < n; tried++) {
			uint32_t block = st->guess_at + st->guess_pos++ % n;
			uint32_t rows = guess_rows(s, t, block);
			size_t len;

			if (rows == 0)
				continue;
			st->blocks[block].flags |= TX_BLOCK_TAIL;
			len = sender_row_send(s, t, STRAIT_STREAM_OBJECTS, block, rows,
				rows == 1 ? STRAIT_FLAG_END_OF_BLOCK : 0, buf);
			if (len != 0)
				return len;
		}
		st->guess_at += n;
		st->guess_pos = 0;
	}
	return 0;
}

/* Nobody says what is missing: all that is not known to be whole gets rows, once a silence. */
static void doubt(struct session *s)
{
	s->tx.doubted = true;
	for (uint32_t i = 0; i < s->tx.live; i++) {
		struct tx_stream *st = &s->tx.slots[s->tx.order[i]]->stream[STRAIT_STREAM_OBJECTS];

		st->guess_at = st->have_floor;
		st->guess_pos = 0;
	}
}

size_t tail_speculate(struct session *s, uint8_t *buf)
{
	if (!s->tx.doubted && feedback_is_overdue(s))
		doubt(s);
	if (!s->tx.doubted &&
		(s->tx.window_total >= MEASURED_PACKETS || loss_feared(s) <= s->tx.loss))
		return 0;
	for (uint32_t i = 0; i < s->tx.live; i++) {
		struct tx_transfer *t = s->tx.slots[s->tx.order[i]];
		size_t len;

		if (!t->opened || t->blocked_credit || t->blocked_source)
			continue;
		len = guess(s, t, buf);
		if (len != 0)
			return len;
	}
	return 0;
}
