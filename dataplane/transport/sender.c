/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <string.h>

/*
 * What data packet goes next.
 *
 * Transfers in order of class, then deadline. Those of one class and deadline, a rank, take turns:
 * deficit round robin by bytes, so that a small one beside a huge one waits for some packets only.
 * Transfers of one flow (the appends and parts of an order) stand together and have one turn
 * together. Within a transfer: the manifest, then repair, then new source symbols. New symbols go
 * out by groups of blocks. In the middle of a transfer a group is one block and carries no rows: a
 * lost symbol is simply sent again, since there is time. In the last round trip, and for urgent
 * transfers from the start, a group is up to 64 blocks, interleaved symbol by symbol, and rows
 * follow (tail.c). Blocks of an urgent transfer follow each other where losses come singly.
 */

enum { TURN_OVERDRAW_BYTES = 1 << 20 };

/* At the present rate. */
static uint64_t packets_in(const struct session *s, uint64_t ns)
{
	uint64_t line = 8 *
		((uint64_t)s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES + session_line_overhead(s));

	return (uint64_t)((double)s->tx.rate.rate_bps / (double)line * ((double)ns * 1e-9));
}

uint64_t sender_bdp_packets(const struct session *s)
{
	return packets_in(s, s->tx.rtt.smoothed_ns);
}

static uint64_t blocks_left(const struct tx_stream *s)
{
	return s->part.blocks - s->group_first;
}

bool sender_is_late(const struct session *s, const struct tx_transfer *t)
{
	const struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	/* Of a round trip's packets, those that are its share. */
	uint64_t bdp = sender_bdp_packets(s) / (t->sharers > 1 ? t->sharers : 1);

	if (t->lan)
		return false;
	return t->class_ == STRAIT_CLASS_URGENT ||
		blocks_left(st) * st->part.large <= bdp + bdp / 4 + st->part.large;
}

bool sender_plans_rows(const struct session *s, const struct tx_transfer *t, uint8_t stream)
{
	return stream == STRAIT_STREAM_MANIFEST ? !t->lan : sender_is_late(s, t);
}

bool sender_is_drained(const struct tx_transfer *t)
{
	for (int i = 0; i < STRAIT_STREAM_COUNT; i++)
		if (blocks_left(&t->stream[i]) > 0 || t->stream[i].queue_len > 0 ||
			t->stream[i].tail_at < t->stream[i].group_first)
			return false;
	return true;
}

void sender_block_repair(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block)
{
	struct tx_block *b = &t->stream[stream].blocks[block];

	if (!(b->flags & TX_BLOCK_REPAIRED)) {
		b->flags |= TX_BLOCK_REPAIRED;
		COUNT(s, tx_repair_rounds);
	}
	tx_queue_insert(&t->stream[stream], block);
}

static uint64_t block_bytes(const struct partition *p, uint32_t block)
{
	uint64_t at = partition_offset(p, block, 0);
	uint64_t end = partition_offset(p, block, partition_k(p, block));

	return (end < p->bytes ? end : p->bytes) - at;
}

void sender_block_done(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block)
{
	struct tx_stream *st = &t->stream[stream];

	if (st->blocks[block].flags & TX_BLOCK_DONE)
		return;
	st->blocks[block].flags |= TX_BLOCK_DONE;
	st->blocks_done++;
	if (stream == STRAIT_STREAM_OBJECTS) {
		st->bytes_done += block_bytes(&st->part, block);
		s->tx.delivered_bytes += block_bytes(&st->part, block);
	}
}

void sender_block_reopen(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block)
{
	struct tx_stream *st = &t->stream[stream];

	if (!(st->blocks[block].flags & TX_BLOCK_DONE))
		return;
	st->blocks[block].flags &= (uint8_t)~TX_BLOCK_DONE;
	st->blocks_done--;
	if (stream == STRAIT_STREAM_OBJECTS) {
		st->bytes_done -= block_bytes(&st->part, block);
		s->tx.delivered_bytes -= block_bytes(&st->part, block);
	}
}

void sender_charge(struct session *s, struct tx_transfer *t, uint64_t bytes, uint32_t objects)
{
	s->tx.used[t->class_].bytes += bytes - t->credit_bytes;
	s->tx.used[t->class_].objects += objects - t->credit_objects;
	t->credit_bytes = bytes;
	t->credit_objects = objects;
}

/*
 * Credit never stops the block with the first object that is not final: a credit smaller than one
 * block, or than the objects in it, slows a transfer to a block a round trip but does not wedge it.
 */
static bool is_oldest(struct tx_transfer *t, uint32_t object)
{
	while (t->final_floor < t->objects && t->object[t->final_floor].state == TX_OBJECT_FINAL)
		t->final_floor++;
	return object <= t->final_floor;
}

/* How many blocks from group_first on may start: bytes leased, credit left. */
static uint32_t group_limit(struct session *s, struct tx_transfer *t, uint32_t want)
{
	struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	const struct session_credit *limit = &s->tx.limit[t->class_];
	struct session_credit *used = &s->tx.used[t->class_];
	uint32_t n = 0;

	t->blocked_credit = t->blocked_source = false;
	for (; n < want; n++) {
		uint32_t block = st->group_first + n, first, last;
		uint64_t end =
			partition_offset(&st->part, block, 0) + block_bytes(&st->part, block);

		tx_block_objects(t, block, &first, &last);
		if ((used->bytes + (end - t->credit_bytes) > limit->bytes ||
			    used->objects + (last + 1 - t->credit_objects) > limit->objects) &&
			!(n == 0 && is_oldest(t, first))) {
			t->blocked_credit = true;
			break;
		}
		for (; first <= last && t->object[first].state != TX_OBJECT_WAITING; first++)
			;
		if (first <= last || !tx_block_is_settled(t, block)) {
			t->blocked_source = true;
			break;
		}
		sender_charge(s, t, end, last + 1);
	}
	return n;
}

/*
 * Blocks whose symbols take turns: as many as there is room for, unless losses come singly. In the
 * last round trip of others than urgent transfers they always do: what is lost there and not yet
 * known to be must not be all of one block, which would get too few rows.
 */
static uint32_t turn_depth(const struct session *s, const struct tx_transfer *t)
{
	return t->class_ == STRAIT_CLASS_URGENT && bursts_are_none(&s->tx.bursts, s->tx.loss)
		? 1
		: ROW_CACHE_BLOCKS;
}

/*
 * Blocks that are sent before their rows are. The later a row is made the more is known of what it
 * is for; but where the path is as long as all of them are, nothing would be, and each is complete
 * sooner by itself. Not so the last ones: they are whole before all their rows are sent, if these
 * take turns. Bursts are for the rows of many to repair.
 */
static uint32_t group_size(const struct session *s, const struct tx_transfer *t,
	const struct tx_stream *st)
{
	const uint64_t most = ROW_CACHE_BLOCKS * STRAIT_BLOCK_SYMBOLS_MAX;
	bool alone = turn_depth(s, t) == 1 && packets_in(s, s->tx.rtt.min_ns) >= most &&
		blocks_left(st) > ROW_CACHE_BLOCKS;

	return alone ? 1 : ROW_CACHE_BLOCKS;
}

static bool group_begin(struct session *s, struct tx_transfer *t, uint8_t stream)
{
	struct tx_stream *st = &t->stream[stream];
	bool late = sender_plans_rows(s, t, stream);
	uint32_t n = late ? group_size(s, t, st) : 1;

	if (n > blocks_left(st))
		n = (uint32_t)blocks_left(st);
	if (stream == STRAIT_STREAM_OBJECTS) {
		sender_want(s, t);
		n = group_limit(s, t, n);
	}
	if (n == 0) {
		if (t->blocked_credit)
			COUNT(s, tx_blocked_credit);
		if (t->blocked_source)
			COUNT(s, tx_blocked_source);
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t block = st->group_first + i, k = partition_k(&st->part, block);
		struct tx_block *b = &st->blocks[block];

		b->flags |= TX_BLOCK_STARTED;
		if (stream == STRAIT_STREAM_OBJECTS)
			tx_block_apply_objects(t, block);
		if (tx_block_is_covered(b, k))
			sender_block_done(s, t, stream, block);
		if (late)
			b->flags |= TX_BLOCK_TAIL | TX_BLOCK_UNCLOSED;
		/* Rows may grow beside the symbols when they are still cached in the end. */
		if (late && st->group_first + n - st->tail_at <= ROW_CACHE_BLOCKS)
			b->planned = (uint8_t)tail_growing(s, t, stream, block);
	}
	/* Blocks without rows leave nothing to close, nor to review. */
	if (!late && st->tail_at == st->group_first)
		st->tail_at += n;
	if (!late && st->review_at == st->group_first)
		st->review_at += n;
	st->group_count = n;
	st->group_esi = st->group_at = st->turn_first = 0;
	st->turn_depth = turn_depth(s, t);
	st->group_most = st->part.large;
	return true;
}

static uint8_t packet_type(uint8_t stream)
{
	return stream == STRAIT_STREAM_MANIFEST ? STRAIT_PACKET_MANIFEST : STRAIT_PACKET_DATA;
}

/* Seal one symbol and note it in the log and in its block. */
static size_t symbol_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi, const uint8_t *bytes, uint32_t len, uint8_t flags, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	struct tx_block *b = &st->blocks[block];
	struct packet_header h = {
		.type = packet_type(stream),
		.flags = flags | (b->flags & TX_BLOCK_TAIL ? STRAIT_FLAG_TAIL : 0),
		.esi = (uint8_t)esi,
		.transfer = t->id,
		.block = block,
	};
	struct sent_packet *sent;
	bool source = esi < partition_k(&st->part, block);

	sentlog_make_room(&s->tx.log, feedback_lost, s);
	sent = sentlog_add(&s->tx.log, s->next_pn, true);
	sent->time_ns = s->now_ns;
	sent->transfer = t->id;
	sent->block = block;
	sent->slot = t->slot;
	sent->kind = source ? SENT_SOURCE : SENT_REPAIR;
	sent->stream = stream;
	sent->esi = (uint8_t)esi;
	sent->epoch = b->epoch;
	sent->bytes = (uint16_t)len;
	session_data_sent(s, len);
	b->last_pn = s->next_pn;
	if (source)
		b->flying[esi / 64] |= UINT64_C(1) << (esi % 64);
	else
		b->rows_flying++;
	if (source && (b->sent[esi / 64] >> (esi % 64) & 1))
		COUNT(s, tx_resend);
	else if (source)
		COUNT(s, tx_source);
	if (source)
		b->sent[esi / 64] |= UINT64_C(1) << (esi % 64);
	t->rescue_due_ns = s->now_ns + s->tx.rtt.smoothed_ns / 8;
	return session_seal(s, &h, buf, bytes, len);
}

/* The bytes of a repair symbol, made in batches and cached. NULL: cannot be made. */
static const uint8_t *row_bytes(struct session *s, struct tx_transfer *t, uint8_t stream,
	uint32_t block, uint32_t row, uint32_t batch)
{
	struct tx_stream *st = &t->stream[stream];
	uint8_t *at;
	struct row_cache *c = rows_cache(s, t, block, &at);
	size_t symbol = st->part.symbol_bytes;
	const uint8_t *src[STRAIT_BLOCK_SYMBOLS_MAX];
	uint32_t k = partition_k(&st->part, block);
	uint8_t *dst[RS_BATCH_ROWS];

	if (c->transfer == t->id && c->block == block && c->stream == stream && row >= c->first &&
		row < (uint32_t)c->first + c->rows)
		return at + (row - c->first) * symbol;
	if (stream == STRAIT_STREAM_OBJECTS && !tx_block_is_readable(t, block))
		return NULL;
	if (batch > RS_BATCH_ROWS)
		batch = RS_BATCH_ROWS;
	if (batch == 0)
		batch = 1;
	if (k + row + batch > STRAIT_ESI_COUNT)
		batch = STRAIT_ESI_COUNT - k - row;
	for (uint32_t j = 0; j < k; j++)
		src[j] = tx_symbol(t, stream, block, j, true, s->tx.gather_bytes + j * symbol);
	for (uint32_t r = 0; r < batch; r++)
		dst[r] = at + r * symbol;
	if (rs_encode(&s->tx.rs, k, row, batch, symbol, src, dst) < 0)
		return NULL;
	c->transfer = t->id;
	c->block = block;
	c->stream = stream;
	c->first = (uint8_t)row;
	c->rows = (uint8_t)batch;
	c->growing = 0;
	return at;
}

static size_t source_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi, uint8_t flags, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	uint64_t at = partition_offset(&st->part, block, esi);

	return symbol_send(s, t, stream, block, esi,
		tx_symbol(t, stream, block, esi, false, s->tx.gather_bytes),
		partition_symbol_len(&st->part, at), flags, buf);
}

size_t sender_row_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t batch, uint8_t flags, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	struct tx_block *b = &st->blocks[block];
	uint32_t k = partition_k(&st->part, block);
	const uint8_t *bytes;

	if (b->flags & TX_BLOCK_NO_ROWS || k + b->next_row >= STRAIT_ESI_COUNT)
		return 0;
	bytes = row_bytes(s, t, stream, block, b->next_row, batch);
	if (bytes == NULL)
		return 0;
	COUNT(s, tx_repair);
	return symbol_send(s, t, stream, block, k + b->next_row++, bytes, st->part.symbol_bytes,
		flags, buf);
}

/*
 * Rows follow a group at once where every object counts by itself. At the end of an order they wait
 * until all source symbols are out: the later a row is made, the more is known of what it is for.
 */
static bool rows_wait(const struct tx_transfer *t, uint8_t stream)
{
	return stream == STRAIT_STREAM_OBJECTS && t->class_ != STRAIT_CLASS_URGENT &&
		blocks_left(&t->stream[stream]) > 0;
}

/*
 * Close the block again when the others are: its repair goes out without margin now, and by then
 * more is known of that than could be guessed.
 */
static void rows_put_off(struct tx_stream *st, uint32_t block)
{
	st->blocks[block].flags |= TX_BLOCK_UNCLOSED;
	if (block < st->tail_at)
		st->tail_at = block;
	if (block < st->review_at)
		st->review_at = block;
}

/* One packet of repair for the block at the head of the queue; 0: nothing to repair. */
static size_t repair_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	bool late, wait;
	uint32_t block;

	if (st->queue_len == 0)
		return 0;
	late = sender_plans_rows(s, t, stream);
	wait = late && st->tail_count == 0 && rows_wait(t, stream);
	while (tx_queue_peek(st, &block)) {
		struct tx_block *b = &st->blocks[block];
		uint32_t k = partition_k(&st->part, block);
		int deficit = tx_block_deficit(b, k), lost;
		size_t len = 0;
		uint8_t flags;

		if (b->flags & TX_BLOCK_DONE || (b->repair_left == 0 && deficit <= 0) ||
			(stream == STRAIT_STREAM_OBJECTS && !tx_block_is_settled(t, block))) {
			b->repair_left = 0;
			tx_queue_pop(st, &block);
			continue;
		}
		if (b->repair_left == 0) {
			uint32_t n = (uint32_t)deficit;

			if (late && !wait)
				n += tail_margin(s, n);
			b->repair_left = n > 128 ? 128 : (uint8_t)n;
		}
		if (late)
			b->flags |= TX_BLOCK_TAIL;
		if (wait)
			rows_put_off(st, block);
		flags = b->repair_left == 1 && !wait ? STRAIT_FLAG_END_OF_BLOCK : 0;
		lost = tx_block_lost_symbol(b, k);
		if ((late && !wait) || lost < 0)
			len = sender_row_send(s, t, stream, block, b->repair_left, flags, buf);
		/* In a block still being sent that may be one whose first turn has not come. */
		if (len == 0 && lost >= 0)
			len = source_send(s, t, stream, block, (uint32_t)lost, flags, buf);
		if (len == 0) {
			/* Everything is in flight: what gets lost of it queues the block again. */
			b->repair_left = 0;
			tx_queue_pop(st, &block);
			continue;
		}
		b->repair_left--;
		/*
		 * In the middle one block after another, the first one first: what comes before is
		 * useful sooner. In the tail in turn, so that one burst does not hit one block.
		 */
		if (late || (b->repair_left == 0 && tx_block_deficit(b, k) <= 0)) {
			tx_queue_pop(st, &block);
			if (b->repair_left > 0 || tx_block_deficit(b, k) > 0)
				tx_queue_push(st, block);
		}
		return len;
	}
	return 0;
}

/* The next source symbol of the current group; 0: the group is finished. */
static size_t group_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	uint32_t block, esi;
	size_t len;

	while (group_next(t, stream, &block, &esi)) {
		len = run_send(s, t, stream, block, esi, buf);
		if (len != 0)
			return len;
	}
	/* What is lost by now of blocks that get no rows. */
	for (uint32_t i = 0; i < st->group_count; i++) {
		struct tx_block *b = &st->blocks[st->group_first + i];

		block = st->group_first + i;
		if (!(b->flags & (TX_BLOCK_DONE | TX_BLOCK_UNCLOSED)) &&
			tx_block_deficit(b, partition_k(&st->part, block)) > 0)
			sender_block_repair(s, t, stream, block);
	}
	st->group_first += st->group_count;
	st->group_count = 0;
	if (stream == STRAIT_STREAM_OBJECTS && blocks_left(st) == 0)
		sender_shares(s); /* the others have more from now on */
	return 0;
}

static size_t stream_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint8_t *buf)
{
	struct tx_stream *st = &t->stream[stream];
	size_t len = repair_send(s, t, stream, buf);

	while (len == 0) {
		if (st->tail_count > 0)
			len = tail_send(s, t, stream, buf);
		else if (st->group_count > 0)
			len = group_send(s, t, stream, buf);
		else if (!rows_wait(t, stream) && tail_begin(s, t, stream))
			continue;
		else if ((blocks_left(st) == 0 || !group_begin(s, t, stream)) &&
			!tail_begin(s, t, stream))
			break;
	}
	if (len == 0)
		len = repair_send(s, t, stream, buf); /* what the end of a group found short */
	return len;
}

static bool is_of_flow(const struct tx_transfer *a, const struct tx_transfer *b)
{
	return a == b || (a->flow != 0 && a->flow == b->flow && sender_is_of_rank(a, b));
}

void sender_shares(struct session *s)
{
	struct sender *x = &s->tx;

	for (uint32_t first = 0, end; first < x->live; first = end) {
		const struct tx_transfer *head = x->slots[x->order[first]], *last = NULL;
		uint32_t flows = 0;

		for (end = first; end < x->live; end++) {
			const struct tx_transfer *t = x->slots[x->order[end]];

			if (!sender_is_of_rank(head, t))
				break;
			if (blocks_left(&t->stream[STRAIT_STREAM_OBJECTS]) == 0)
				continue;
			flows += last == NULL || !is_of_flow(last, t);
			last = t;
		}
		for (uint32_t i = first; i < end; i++)
			x->slots[x->order[i]]->sharers = flows;
	}
}

/*
 * The transfer at place i of x->order sent len bytes. When its turn is over its flow goes behind
 * the others of its rank; a turn that ended late is shorter the next time. The rows at the end of a
 * group are not torn apart, since they were made together and are cached until the last is sent.
 */
static void turn_take(struct session *s, uint32_t i, size_t len)
{
	struct sender *x = &s->tx;
	const struct tx_transfer *t = x->slots[x->order[i]];
	const struct tx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	uint16_t flow[SESSION_TRANSFERS_MAX];
	uint32_t first = i, end = i + 1, last;
	int64_t *turn;

	while (first > 0 && is_of_flow(t, x->slots[x->order[first - 1]]))
		first--;
	turn = &x->slots[x->order[first]]->turn_bytes;
	*turn -= (int64_t)len;
	if (*turn > 0 || (st->tail_count > 1 && *turn > -(int64_t)TURN_OVERDRAW_BYTES))
		return;
	*turn += sender_turn_bytes(s);
	while (end < x->live && is_of_flow(t, x->slots[x->order[end]]))
		end++;
	for (last = end; last < x->live && sender_is_of_rank(t, x->slots[x->order[last]]); last++)
		;
	if (last == end)
		return;
	memcpy(flow, &x->order[first], (end - first) * sizeof(flow[0]));
	memmove(&x->order[first], &x->order[end], (last - end) * sizeof(flow[0]));
	memcpy(&x->order[last - (end - first)], flow, (end - first) * sizeof(flow[0]));
}

size_t sender_send(struct session *s, uint8_t *buf, size_t cap)
{
	struct sender *x = &s->tx;
	size_t len;

	(void)cap; /* session_send() made sure that a symbol fits */
	if (x->idle || feedback_is_silent(s) || !session_may_send_data(s))
		return 0;
	if (sentlog_full(&x->log)) {
		COUNT(s, tx_blocked_log);
		x->idle = true;
		/* Nor is there room for rows; the next report makes some. */
		if (feedback_is_overdue(s))
			x->doubted = true;
		return 0;
	}
	for (uint32_t i = 0; i < x->live; i++) {
		struct tx_transfer *t = x->slots[x->order[i]];

		if (!t->opened)
			continue;
		len = stream_send(s, t, STRAIT_STREAM_MANIFEST, buf);
		if (len == 0)
			len = stream_send(s, t, STRAIT_STREAM_OBJECTS, buf);
		if (len == 0)
			continue;
		turn_take(s, i, len + x->more_bytes);
		return len;
	}
	len = tail_speculate(s, buf);
	x->idle = len == 0;
	return len;
}

uint64_t sender_next_ns(struct session *s)
{
	if (s->tx.idle || feedback_is_silent(s) || s->tx.live == 0 || !session_may_send_data(s))
		return UINT64_MAX;
	return s->now_ns;
}
