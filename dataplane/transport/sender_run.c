/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

/*
 * Source symbols of a group, up to a burst of them at a time, and the rows that grow beside them.
 *
 * A packet costs a seal and what is around it; here the latter is paid once for many: the walk over
 * the group, the log of sent packets, the header. The seal reads from the pool and writes into the
 * packet buffer, which is the only copy.
 *
 * Rows of a block grow some symbols at a time as the block goes out: FOLD symbols are added to all
 * planned rows when the first of them is due, so that they come from memory once, in a row, and are
 * in a near cache when their own turn comes. Blocks of a group begin at different symbols, lest a
 * burst consist of nothing but folding. There is room for RS_BATCH_ROWS rows of ROW_CACHE_BLOCKS
 * blocks, ROW_CACHE_SETS times (6 MB at MTU 1500, of which planned rows touch a part), allocated
 * with the session. A block whose rows are not whole when they are
 * due, since its slot was taken or an object's bytes went away, is encoded anew by row_bytes().
 */

enum {
	FOLD = 8,
	HEADERS_AHEAD = 2,
	/*
	 * The processor's own prefetcher loses its place between bursts and finds it again after
	 * some 8 kB. Larger symbols that follow each other in memory it is best left alone with.
	 */
	PREFETCH_MAX = 4096,
};

struct item {
	struct tx_block *b;
	const uint8_t *src;
	uint8_t *packet;
	uint32_t block, esi, len;
	uint8_t flags;
};

struct row_cache *rows_cache(struct session *s, const struct tx_transfer *t, uint32_t block,
	uint8_t **bytes)
{
	uint32_t i = t->slot % ROW_CACHE_SETS * ROW_CACHE_BLOCKS + block % ROW_CACHE_BLOCKS;

	*bytes = s->tx.cache_bytes + (size_t)i * RS_BATCH_ROWS * s->cfg.symbol_bytes;
	return &s->tx.cache[i];
}

/* A symbol's bytes, where they are or gathered. The common case takes no call. */
static inline const uint8_t *symbol(struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi, bool padded, uint8_t *bounce)
{
	const struct partition *p = &t->stream[stream].part;
	uint64_t at = partition_offset(p, block, esi);
	uint32_t len = partition_symbol_len(p, at);
	const uint8_t *bytes = NULL;

	if (stream == STRAIT_STREAM_OBJECTS && (!padded || len == p->symbol_bytes))
		bytes = tx_symbol_in_place(t, at, len);
	return bytes != NULL ? bytes : tx_symbol(t, stream, block, esi, padded, bounce);
}

/* Add symbols to the block's rows until symbol esi is among them. */
void rows_fold(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi)
{
	struct tx_stream *st = &t->stream[stream];
	uint8_t *bytes;
	struct row_cache *c = rows_cache(s, t, block, &bytes);
	uint32_t k = partition_k(&st->part, block), planned = st->blocks[block].planned;
	uint8_t *dst[RS_BATCH_ROWS];
	const uint8_t *src[FOLD];

	if (c->transfer != t->id || c->block != block || c->stream != stream) {
		if (esi != 0)
			return; /* another block took the slot */
		*c = (struct row_cache){ .transfer = t->id, .block = block, .stream = stream };
		c->first = st->blocks[block].next_row;
		c->growing = (uint8_t)(planned < RS_BATCH_ROWS ? planned : RS_BATCH_ROWS);
		if (k + c->first + c->growing > STRAIT_ESI_COUNT)
			c->growing = 0;
	}
	if (c->growing == 0 || c->folded > esi)
		return;
	for (uint32_t r = 0; r < c->growing; r++)
		dst[r] = bytes + (size_t)r * st->part.symbol_bytes;
	while (c->growing > 0 && c->folded <= esi) {
		uint32_t j = c->folded, n = FOLD - (j + block) % FOLD;

		n = n < k - j ? n : k - j;
		if (stream == STRAIT_STREAM_OBJECTS && !tx_symbols_are_readable(t, block, j, n)) {
			c->growing = 0;
			return;
		}
		for (uint32_t i = 0; i < n; i++)
			src[i] = symbol(t, stream, block, j + i, true,
				s->tx.gather_bytes +
					(size_t)(SESSION_BURST_MAX + i) * s->cfg.symbol_bytes);
		if (rs_encode_update(&s->tx.rs, k, c->first, c->growing, st->part.symbol_bytes, j,
			    n, src, dst, j == 0) < 0) {
			c->growing = 0;
			return;
		}
		c->folded = (uint8_t)(j + n);
		if (c->folded == k) {
			c->rows = c->growing;
			c->growing = 0;
		}
	}
}

/* Behind the group's blocks that are in turn now. */
static inline uint32_t turn_end(const struct tx_stream *st)
{
	uint32_t left = st->group_count - st->turn_first;

	return st->turn_first + (left < st->turn_depth ? left : st->turn_depth);
}

static inline bool next_planned(struct tx_transfer *t, struct tx_stream *st, bool manifest,
	uint32_t *block, uint32_t *esi)
{
	while (st->turn_first < st->group_count) {
		uint32_t end = turn_end(st);

		for (; st->group_esi < st->group_most;
			st->group_esi++, st->group_at = st->turn_first) {
			while (st->group_at < end) {
				const struct tx_block *b;

				*block = st->group_first + st->group_at++;
				*esi = st->group_esi;
				b = &st->blocks[*block];
				if (b->flags & TX_BLOCK_DONE ||
					*esi >= partition_k(&st->part, *block))
					continue;
				if (!manifest && t->n_gone > 0 && !tx_block_is_settled(t, *block))
					continue; /* repaired when the receiver answers */
				return true;
			}
		}
		st->turn_first = st->group_at = end;
		st->group_esi = 0;
	}
	return false;
}

bool group_next(struct tx_transfer *t, uint8_t stream, uint32_t *block, uint32_t *esi)
{
	return next_planned(t, &t->stream[stream], stream == STRAIT_STREAM_MANIFEST, block, esi);
}

/* Packets of this generation's numbers and of the burst that may go out now. */
static uint32_t room(const struct session *s)
{
	uint64_t end = (s->tx_keys.slot.generation + 1) << STRAIT_GENERATION_SHIFT;
	uint64_t left = end - s->next_pn;
	uint32_t n = 1 + s->tx.more_room;

	n = n < SESSION_BURST_MAX ? n : SESSION_BURST_MAX;
	if (n > (s->tx.log.mask + 1) / 16)
		n = (s->tx.log.mask + 1) / 16; /* half of what sentlog_full() left free */
	return left < n && left > 0 ? (uint32_t)left : n;
}

/* The group's next source symbols that are neither there nor on the way, beginning with esi. */
static uint32_t collect(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi, struct item *items)
{
	struct tx_stream *st = &t->stream[stream];
	uint32_t n = 0, again = 0, most = room(s);

	for (;;) {
		struct item *i = &items[n];
		struct tx_block *b = &st->blocks[block];
		uint32_t word = esi / 64;
		uint64_t bit = UINT64_C(1) << (esi % 64);

		if (!((b->acked[word] | b->flying[word]) & bit)) {
			i->b = b;
			i->block = block;
			i->esi = esi;
			i->len = partition_symbol_len(&st->part,
				partition_offset(&st->part, block, esi));
			i->src = symbol(t, stream, block, esi, false,
				s->tx.gather_bytes + (size_t)n * s->cfg.symbol_bytes);
			i->flags = b->flags & TX_BLOCK_TAIL ? STRAIT_FLAG_TAIL : 0;
			if (esi + 1 == partition_k(&st->part, block) &&
				!(b->flags & TX_BLOCK_UNCLOSED))
				i->flags |= STRAIT_FLAG_END_OF_BLOCK;
			b->flying[word] |= bit;
			again += (b->sent[word] & bit) != 0;
			b->sent[word] |= bit;
			n++;
		} else if (b->planned > 0) {
			rows_fold(s, t, stream, block, esi);
		}
		if (n == most ||
			!next_planned(t, st, stream == STRAIT_STREAM_MANIFEST, &block, &esi))
			break;
	}
	COUNT_ADD(s, tx_source, n - again);
	COUNT_ADD(s, tx_resend, again);
	return n;
}

static void prefetch(const uint8_t *p, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += 64)
		__builtin_prefetch(p + at, 0, 3);
}

/*
 * Of every FOLD blocks of a group one folds when its turn comes, see rows_fold(). Each of the FOLD
 * before it asks for one of the symbols, so that they come from memory while others are sealed. A
 * block alone asks for what it folds next: 780 cycles a packet with 4 rows, 1,150 without.
 */
static void prefetch_fold(struct session *s, struct tx_transfer *t, uint8_t stream,
	const struct item *i)
{
	struct tx_stream *st = &t->stream[stream];
	uint32_t step = (i->esi + i->block) % FOLD, block = i->block, esi = i->esi;

	if (st->turn_depth == 1) {
		esi += FOLD;
	} else {
		block += FOLD - step;
		esi += step;
	}
	if (block >= st->group_first + turn_end(st) || esi >= partition_k(&st->part, block))
		return;
	prefetch(symbol(t, stream, block, esi, false,
			 s->tx.gather_bytes +
				 (size_t)(SESSION_BURST_MAX + FOLD) * s->cfg.symbol_bytes),
		st->part.symbol_bytes);
}

/* Note the packets in the log, in their blocks and in the burst. */
static void record(struct session *s, const struct tx_transfer *t, uint8_t stream,
	const struct item *items, uint32_t n)
{
	uint64_t order = sentlog_add_run(&s->tx.log, s->next_pn, n, feedback_lost, s);

	for (uint32_t i = 0; i < n; i++) {
		const struct item *x = &items[i];

		*sentlog_at(&s->tx.log, order + i) = (struct sent_packet){
			.time_ns = s->now_ns,
			.transfer = t->id,
			.block = x->block,
			.slot = t->slot,
			.kind = SENT_SOURCE,
			.stream = stream,
			.esi = (uint8_t)x->esi,
			.epoch = x->b->epoch,
			.bytes = (uint16_t)x->len,
		};
		x->b->last_pn = s->next_pn + i;
		session_data_sent(s, x->len);
		if (i > 0) {
			s->tx.more[i - 1].len = STRAIT_OVERHEAD_BYTES + x->len;
			s->tx.more_bytes += STRAIT_OVERHEAD_BYTES + x->len;
		}
	}
	sentlog_prefetch(&s->tx.log, SESSION_BURST_MAX);
}

struct run {
	struct session *s;
	struct tx_transfer *t;
	uint64_t pn; /* of the first item */
	uint8_t stream;
	const struct item *items;
	uint32_t n;
};

static inline void header_put(const struct run *r, uint32_t i)
{
	const struct packet_header h = {
		.type = r->stream == STRAIT_STREAM_MANIFEST ? STRAIT_PACKET_MANIFEST
							    : STRAIT_PACKET_DATA,
		.queue = r->s->cfg.queue,
		.session = r->s->cfg.peer_session,
		.transfer = r->t->id,
		.packet_number = r->pn + i,
		.flags = r->items[i].flags,
		.esi = (uint8_t)r->items[i].esi,
		.block = r->items[i].block,
	};

	packet_header_put(&h, r->items[i].packet);
}

static void seal_one_by_one(const struct run *r)
{
	struct session *s = r->s;
	struct aead *aead = &s->tx_keys.slot.aead;
	uint8_t nonce[STRAIT_IV_BYTES];

	/* Headers are ahead of the seals that read them, lest those wait for the stores. */
	for (uint32_t i = 0; i < r->n && i < HEADERS_AHEAD; i++)
		header_put(r, i);
	for (uint32_t i = 0; i < r->n; i++) {
		const struct item *x = &r->items[i];
		uint8_t *body = x->packet + STRAIT_HEADER_BYTES;

		if (i + HEADERS_AHEAD < r->n)
			header_put(r, i + HEADERS_AHEAD);
		if (x->b->planned > 0) {
			rows_fold(s, r->t, r->stream, x->block, x->esi);
			prefetch_fold(s, r->t, r->stream, x);
		}
		if (i + 1 < r->n && (x[1].len <= PREFETCH_MAX || x[1].src != x->src + x->len))
			prefetch(x[1].src, x[1].len);
		key_nonce(s->tx_keys.slot.iv, r->pn + i, nonce);
		aead_seal(aead, nonce, x->packet, STRAIT_HEADER_BYTES, x->src, x->len, body,
			body + x->len);
	}
}

static void seal_together(const struct run *r)
{
	struct session *s = r->s;
	struct aead *aead = &s->tx_keys.slot.aead;
	struct aead_job jobs[SESSION_BURST_MAX];

	for (uint32_t i = 0; i < r->n; i++) {
		const struct item *x = &r->items[i];

		header_put(r, i);
		if (x->b->planned > 0)
			rows_fold(s, r->t, r->stream, x->block, x->esi);
		key_nonce(s->tx_keys.slot.iv, r->pn + i, jobs[i].iv);
		jobs[i].aad = x->packet;
		jobs[i].src = x->src;
		jobs[i].len = x->len;
		jobs[i].dst = x->packet + STRAIT_HEADER_BYTES;
		jobs[i].tag = jobs[i].dst + x->len;
	}
	aead->ops->seal_many(aead, jobs, r->n, STRAIT_HEADER_BYTES);
}

size_t run_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi, uint8_t *buf)
{
	struct item items[SESSION_BURST_MAX];
	struct run r = { .s = s, .t = t, .pn = s->next_pn, .stream = stream, .items = items };

	r.n = collect(s, t, stream, block, esi, items);
	if (r.n == 0)
		return 0;
	items[0].packet = buf;
	for (uint32_t i = 1; i < r.n; i++)
		items[i].packet = s->tx.more[i - 1].buf;
	record(s, t, stream, items, r.n);
	if (r.n > 1) { /* without room for more there is no array either */
		s->tx.more += r.n - 1;
		s->tx.more_room -= r.n - 1;
	}
	s->next_pn += r.n;
	t->rescue_due_ns = s->now_ns + s->tx.rtt.smoothed_ns / 8;
	if (s->tx_keys.slot.aead.ops->seal_many != NULL)
		seal_together(&r);
	else
		seal_one_by_one(&r);
	return STRAIT_OVERHEAD_BYTES + items[0].len;
}
