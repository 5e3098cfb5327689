/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <string.h>

/*
 * Where an authentic symbol goes.
 *
 * The AEAD open is the only copy: it writes into the object itself when the transfer is live, the
 * slot is empty and the length is exactly the slot's. GCM writes plaintext before it knows the tag,
 * but an empty slot is read by nobody until it is marked, and it is marked only after the tag held.
 *
 * A packet number is recorded (and so reported as received) only when the symbol was stored, was
 * there already or is not needed. What is dropped for lack of room stays unreported and counts as
 * lost.
 */

struct rx_slot *receiver_find(struct session *s, uint32_t id)
{
	/* Ids are given in sequence and few are live: the likely slot first. */
	struct rx_slot *guess = &s->rx.slots[id % SESSION_TRANSFERS_MAX];

	if (guess->used && guess->id == id)
		return guess;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++)
		if (s->rx.slots[i].used && s->rx.slots[i].id == id)
			return &s->rx.slots[i];
	return NULL;
}

/* Ids far above any opened cannot be honest; ids far below were closed long ago. */
bool receiver_id_is_near(const struct receiver *r, uint32_t id)
{
	return id != 0 && id <= (uint64_t)r->newest_id + RETIRED_IDS / 2;
}

bool receiver_is_retired(const struct session *s, uint32_t id)
{
	const struct receiver *r = &s->rx;

	if (id == 0 || id + (uint64_t)RETIRED_IDS / 2 <= r->newest_id)
		return true;
	return r->retired[id % RETIRED_IDS / 64] >> (id % 64) & 1;
}

void receiver_id_seen(struct receiver *r, uint32_t id)
{
	/* Ids entering the bitmap's upper half are fresh. */
	for (uint64_t i = (uint64_t)r->newest_id + 1; i <= id; i++) {
		uint64_t fresh = i + RETIRED_IDS / 2;

		r->retired[fresh % RETIRED_IDS / 64] &= ~(UINT64_C(1) << (fresh % 64));
	}
	if (id > r->newest_id)
		r->newest_id = id;
}

void receiver_retire(struct session *s, uint32_t id)
{
	if (!receiver_id_is_near(&s->rx, id) || receiver_is_retired(s, id))
		return;
	receiver_id_seen(&s->rx, id);
	s->rx.retired[id % RETIRED_IDS / 64] |= UINT64_C(1) << (id % 64);
}

void receiver_rows_free(struct session *s, struct rx_block *b)
{
	while (b->row != RX_NO_ROW) {
		uint16_t slot = b->row;

		b->row = s->rx.rows.slots[slot].next;
		scratch_put(&s->rx.rows, slot);
	}
	b->rows = 0;
}

static void object_done(void *ctx, struct rx_transfer *t, uint32_t object)
{
	struct session *s = ctx;

	if (!rx_object_is_right(t, object))
		COUNT(s, rx_digest);
	t->event_queue[(t->event_head + t->event_len++) % t->open.objects] = object << 1;
	session_rx_event(s, t);
}

/* `lacked` of its source symbols were rebuilt. */
static void block_done(struct session *s, struct rx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t lacked)
{
	uint64_t digest;
	bool known = stream == STRAIT_STREAM_OBJECTS &&
		rx_fold_end(&s->rx.folds, t, block, lacked, &digest);

	receiver_rows_free(s, &t->stream[stream].blocks[block]);
	rx_block_complete(t, stream, block, known ? &digest : NULL, object_done, s);
	if (stream == STRAIT_STREAM_MANIFEST &&
		t->stream[stream].floor == t->stream[stream].part.blocks && !t->manifest_told) {
		t->manifest_told = t->tell_manifest = true;
		session_rx_event(s, t);
	}
}

/* Solve the block from its rows: e missing symbols from any e of them. */
static void block_decode(struct session *s, struct rx_transfer *t, uint8_t stream, uint32_t block)
{
	struct rx_stream *st = &t->stream[stream];
	struct rx_block *b = &st->blocks[block];
	uint32_t k = partition_k(&st->part, block), symbol = st->part.symbol_bytes, n = 0;
	uint8_t *src[STRAIT_BLOCK_SYMBOLS_MAX], *rows[STRAIT_ESI_COUNT];
	uint8_t esi[STRAIT_ESI_COUNT];
	const uint8_t *sums[FOLD_ROWS_MAX];
	uint64_t present[2];
	bool scattered[STRAIT_BLOCK_SYMBOLS_MAX] = { false };
	uint32_t n_sums = 0, summed = 0, lacking = rx_block_lacking(b, k);
	int rebuilt;

	if (stream == STRAIT_STREAM_OBJECTS)
		n_sums = rx_fold_sums(&s->rx.folds, t, block, s->rx.gather_bytes, sums);
	for (uint16_t slot = b->row; slot != RX_NO_ROW; slot = s->rx.rows.slots[slot].next) {
		esi[n] = s->rx.rows.slots[slot].esi;
		summed += esi[n] - k < n_sums;
		rows[n++] = scratch_bytes(&s->rx.rows, slot);
	}
	for (uint32_t j = 0; j < k; j++) {
		uint64_t at = partition_offset(&st->part, block, j);
		uint32_t len = partition_symbol_len(&st->part, at);
		uint8_t *bounce = s->rx.gather_bytes + (size_t)j * symbol;

		if (b->present[j / 64] >> (j % 64) & 1) {
			if (summed < lacking)
				src[j] = rx_symbol_gather(t, stream, at, len, bounce);
		} else if (len != symbol ||
			rx_symbol_place(t, stream, at, len, &src[j]) != RX_PLACE_DIRECT) {
			src[j] = bounce;
			scattered[j] = true;
		}
	}
	memcpy(present, b->present, sizeof(present));
	rebuilt = rs_decode_summed(&s->rx.rs, k, symbol, src, present, esi, rows, n, sums, n_sums);
	if (rebuilt < 0)
		return;
	for (uint32_t j = 0; j < k; j++) {
		uint64_t at = partition_offset(&st->part, block, j);

		if (scattered[j])
			rx_symbol_scatter(t, stream, at, partition_symbol_len(&st->part, at),
				src[j]);
		b->present[j / 64] |= UINT64_C(1) << (j % 64);
	}
	COUNT(s, rx_decoded_blocks);
	COUNT_ADD(s, rx_decoded_symbols, (uint64_t)rebuilt);
	block_done(s, t, stream, block, (uint32_t)rebuilt);
}

static bool has_all(const struct rx_block *b, uint32_t k)
{
	uint64_t low = k < 64 ? (UINT64_C(1) << k) - 1 : ~UINT64_C(0);
	uint64_t high = k < 128 ? k > 64 ? (UINT64_C(1) << (k - 64)) - 1 : 0 : ~UINT64_C(0);

	return b->present[0] == low && b->present[1] == high;
}

/* A symbol or a placement arrived: complete or decode the block if that is possible now. */
void receiver_settle(struct session *s, struct rx_transfer *t, uint8_t stream, uint32_t block)
{
	struct rx_stream *st = &t->stream[stream];
	struct rx_block *b = &st->blocks[block];
	uint32_t k = partition_k(&st->part, block);

	/* Most symbols come before the last, and without rows that is quickly seen. */
	if (b->rows == 0 && !has_all(b, k))
		return;
	if (b->flags & RX_BLOCK_COMPLETE || rx_block_missing(b, k) > 0)
		return;
	if (stream == STRAIT_STREAM_OBJECTS && !rx_block_is_placed(t, block))
		return;
	if (rx_block_is_full(b, k))
		block_done(s, t, stream, block, 0);
	else
		block_decode(s, t, stream, block);
}

/* Note that a packet of the block came; ask for a report when the block ended short. */
static void block_touch(struct session *s, struct rx_transfer *t, uint8_t stream, uint32_t block,
	uint8_t flags)
{
	struct rx_stream *st = &t->stream[stream];
	struct rx_block *b = &st->blocks[block];

	b->flags |= RX_BLOCK_TOUCHED;
	if (flags & STRAIT_FLAG_TAIL)
		b->flags |= RX_BLOCK_TAIL;
	if (block >= st->touched)
		st->touched = block + 1;
	if (!(flags & STRAIT_FLAG_TAIL) || !(flags & STRAIT_FLAG_END_OF_BLOCK))
		return;
	if (block >= st->ended)
		st->ended = block + 1;
	if (st->floor < st->ended) {
		s->rx.now = true;
		control_touch(s);
	}
}

enum verdict {
	VERDICT_SOURCE, /* store at dst */
	VERDICT_SCATTER,
	VERDICT_ROW,
	VERDICT_EARLY,     /* scratch */
	VERDICT_DUPLICATE, /* the slot is taken */
	VERDICT_UNNEEDED,  /* the block is complete, or the object is not stored */
	VERDICT_CLOSED,
	VERDICT_BLOCK,
	VERDICT_LENGTH,
};

struct target {
	struct rx_slot *slot;
	struct rx_transfer *t;
	uint64_t at;
	uint32_t id, block, len;
	uint8_t stream, esi, flags;
	uint8_t *dst;
};

static bool row_is_stored(struct session *s, const struct rx_block *b, uint8_t esi)
{
	for (uint16_t slot = b->row; slot != RX_NO_ROW; slot = s->rx.rows.slots[slot].next)
		if (s->rx.rows.slots[slot].esi == esi)
			return true;
	return false;
}

/* Decide where the symbol goes; nothing is changed yet, the packet may be forged. */
static enum verdict judge(struct session *s, struct target *g)
{
	struct rx_stream *st;
	struct rx_block *b;
	uint32_t k;

	if (g->slot == NULL || g->slot->t == NULL) {
		if (g->len > s->cfg.symbol_bytes)
			return VERDICT_LENGTH;
		return g->slot == NULL &&
				(receiver_is_retired(s, g->id) ||
					!receiver_id_is_near(&s->rx, g->id))
			? VERDICT_CLOSED
			: VERDICT_EARLY;
	}
	g->t = g->slot->t;
	st = &g->t->stream[g->stream];
	if (g->block >= st->part.blocks)
		return VERDICT_BLOCK;
	k = partition_k(&st->part, g->block);
	b = &st->blocks[g->block];
	if (g->esi >= STRAIT_ESI_COUNT)
		return VERDICT_BLOCK;
	if (g->esi >= k) {
		if (g->len != st->part.symbol_bytes)
			return VERDICT_LENGTH;
		if (b->flags & (RX_BLOCK_COMPLETE | RX_BLOCK_NO_DECODE))
			return VERDICT_UNNEEDED;
		if (g->stream == STRAIT_STREAM_OBJECTS && !g->t->begun)
			return VERDICT_EARLY;
		return row_is_stored(s, b, g->esi) ? VERDICT_DUPLICATE : VERDICT_ROW;
	}
	g->at = partition_offset(&st->part, g->block, g->esi);
	if (g->len != partition_symbol_len(&st->part, g->at))
		return VERDICT_LENGTH;
	if (b->flags & RX_BLOCK_COMPLETE)
		return VERDICT_UNNEEDED;
	if (b->present[g->esi / 64] >> (g->esi % 64) & 1)
		return VERDICT_DUPLICATE;
	if (g->stream == STRAIT_STREAM_OBJECTS && !g->t->begun)
		return VERDICT_EARLY;
	switch (rx_symbol_place(g->t, g->stream, g->at, g->len, &g->dst)) {
	case RX_PLACE_DIRECT:
		return VERDICT_SOURCE;
	case RX_PLACE_SCATTER:
		return VERDICT_SCATTER;
	case RX_PLACE_DISCARD:
		return VERDICT_UNNEEDED;
	case RX_PLACE_WAIT:
		break;
	}
	return VERDICT_EARLY;
}

/* The symbol's bytes are at g->dst (SOURCE) or at bytes: make it count. */
static void symbol_store(struct session *s, struct target *g, enum verdict v, const uint8_t *bytes)
{
	struct rx_block *b = &g->t->stream[g->stream].blocks[g->block];

	block_touch(s, g->t, g->stream, g->block, g->flags);
	if (v == VERDICT_ROW) {
		uint16_t slot = scratch_get(&s->rx.rows);
		uint8_t *row = scratch_bytes(&s->rx.rows, slot);

		if (bytes != row)
			memcpy(row, bytes, g->len);
		s->rx.rows.slots[slot].esi = g->esi;
		s->rx.rows.slots[slot].next = b->row;
		b->row = slot;
		b->rows++;
		COUNT(s, rx_repair);
	} else {
		if (v == VERDICT_SCATTER)
			rx_symbol_scatter(g->t, g->stream, g->at, g->len, bytes);
		else if (bytes != g->dst)
			memcpy(g->dst, bytes, g->len);
		b->present[g->esi / 64] |= UINT64_C(1) << (g->esi % 64);
		COUNT(s, rx_source);
		/* Rows come only for what somebody waits for; the rest comes block by block. */
		if (v == VERDICT_SOURCE && g->flags & STRAIT_FLAG_TAIL &&
			g->stream == STRAIT_STREAM_OBJECTS && g->len == s->cfg.symbol_bytes)
			rx_fold_symbol(&s->rx.folds, g->t, g->block, g->esi, g->dst,
				s->rx.gather_bytes);
	}
	receiver_settle(s, g->t, g->stream, g->block);
}

/*
 * A slot for a symbol that waits. Symbols of transfers that nobody opened, and perhaps never will,
 * give way to those of one that is open; they were acknowledged, and NEED asks for them again.
 */
static uint16_t early_get(struct session *s, uint32_t transfer)
{
	struct receiver *r = &s->rx;

	if (r->early.free == SCRATCH_NONE && r->stray != SCRATCH_NONE &&
		receiver_find(s, transfer) != NULL) {
		uint16_t slot = r->stray;

		r->stray = r->early.slots[slot].next;
		scratch_put(&r->early, slot);
		COUNT(s, rx_scratch_full);
	}
	return scratch_get(&r->early);
}

/* Keep a symbol in scratch until its transfer or object has a place. */
static bool early_keep(struct session *s, const struct packet_header *h, const uint8_t *bytes,
	uint32_t len)
{
	uint16_t slot = early_get(s, h->transfer);
	struct rx_slot *owner = receiver_find(s, h->transfer);
	uint16_t *head = owner != NULL ? &owner->early : &s->rx.stray;
	struct scratch_slot *m;

	if (slot == SCRATCH_NONE) {
		COUNT(s, rx_scratch_full);
		return false;
	}
	m = &s->rx.early.slots[slot];
	m->packet_number = h->packet_number;
	m->transfer = h->transfer;
	m->block = h->block;
	m->len = (uint16_t)len;
	m->stream =
		h->type == STRAIT_PACKET_MANIFEST ? STRAIT_STREAM_MANIFEST : STRAIT_STREAM_OBJECTS;
	m->esi = h->esi;
	m->flags = h->flags;
	m->next = *head;
	*head = slot;
	memcpy(scratch_bytes(&s->rx.early, slot), bytes, len);
	COUNT(s, rx_early);
	return true;
}

/* Try again what waits in the slot's scratch. */
void receiver_drain(struct session *s, struct rx_slot *slot)
{
	uint16_t list = slot->early;

	slot->early = SCRATCH_NONE;
	while (list != SCRATCH_NONE) {
		uint16_t at = list;
		struct scratch_slot *m = &s->rx.early.slots[at];
		struct target g = {
			.slot = slot,
			.block = m->block,
			.len = m->len,
			.stream = m->stream,
			.esi = m->esi,
			.flags = m->flags,
			.id = m->transfer,
		};
		enum verdict v = judge(s, &g);

		list = m->next;
		if (v == VERDICT_EARLY || (v == VERDICT_ROW && s->rx.rows.free == SCRATCH_NONE)) {
			m->next = slot->early;
			slot->early = at;
			continue;
		}
		if (v == VERDICT_SOURCE || v == VERDICT_SCATTER || v == VERDICT_ROW)
			symbol_store(s, &g, v, scratch_bytes(&s->rx.early, at));
		else if (v == VERDICT_BLOCK || v == VERDICT_LENGTH)
			COUNT(s, rx_block);
		scratch_put(&s->rx.early, at);
	}
}

static void mark_received(struct session *s, const struct packet_header *h)
{
	struct receiver *r = &s->rx;

	pnwindow_mark(&r->window, h->packet_number);
	if (r->window.newest == h->packet_number)
		r->newest_ns = s->now_ns;
	if (!r->pending || h->flags & STRAIT_FLAG_REPORT)
		control_touch(s);
	r->pending = r->data_pending = true;
	if (h->flags & STRAIT_FLAG_REPORT)
		r->now = true;
}

static int refuse(struct session *s, enum verdict v)
{
	switch (v) {
	case VERDICT_CLOSED:
		COUNT(s, rx_transfer);
		return -ENOENT;
	case VERDICT_BLOCK:
		COUNT(s, rx_block);
		return -ERANGE;
	default:
		COUNT(s, rx_length);
		return -EMSGSIZE;
	}
}

/*
 * Blocks that come interleaved are as many streams of writes, more than the processor foresees: 920
 * cycles a packet of 1,432 bytes with 64 blocks in turn, 850 when asked for like this. One block
 * after the other it follows well, and asking costs 6 %, so it is not done then; nor with symbols
 * of pages, where what is asked for displaces what is in use. Asking for the packets too does harm
 * in all cases.
 */
enum { AHEAD_BYTES_MAX = 2048 };

void session_recv_ahead(struct session *s, const uint8_t *packet, size_t len)
{
	const struct rx_slot *slot;
	struct packet_header h;
	struct rx_stream *st;
	uint64_t at;
	uint32_t n;
	uint8_t *dst;

	if (len > AHEAD_BYTES_MAX || !s->rx.folds.interleaved ||
		packet_header_decode(packet, len, &h) < 0 || h.type != STRAIT_PACKET_DATA ||
		!(h.flags & STRAIT_FLAG_TAIL))
		return;
	slot = receiver_find(s, h.transfer);
	if (slot == NULL || slot->t == NULL || !slot->t->begun)
		return;
	st = &slot->t->stream[STRAIT_STREAM_OBJECTS];
	if (h.block >= st->part.blocks || h.esi >= partition_k(&st->part, h.block))
		return;
	at = partition_offset(&st->part, h.block, h.esi);
	n = partition_symbol_len(&st->part, at);
	if (rx_symbol_place(slot->t, STRAIT_STREAM_OBJECTS, at, n, &dst) != RX_PLACE_DIRECT)
		return;
	for (uint32_t i = 0; i < n; i += 64)
		__builtin_prefetch(dst + i, 1);
}

int receiver_symbol(struct session *s, const struct packet_header *h, struct key_slot *key,
	const uint8_t *packet, size_t len)
{
	struct target g = {
		.slot = receiver_find(s, h->transfer),
		.block = h->block,
		.len = (uint32_t)(len - STRAIT_OVERHEAD_BYTES),
		.stream = h->type == STRAIT_PACKET_MANIFEST ? STRAIT_STREAM_MANIFEST
							    : STRAIT_STREAM_OBJECTS,
		.esi = h->esi,
		.flags = h->flags,
		.id = h->transfer,
	};
	uint8_t nonce[STRAIT_IV_BYTES], *dst = s->rx.bounce;
	enum verdict v;

	if (g.len > STRAIT_SYMBOL_BYTES_MAX) {
		COUNT(s, rx_length);
		return -EMSGSIZE;
	}
	v = judge(s, &g);
	if (v == VERDICT_SOURCE)
		dst = g.dst;
	else if (v == VERDICT_ROW && s->rx.rows.free != SCRATCH_NONE)
		dst = scratch_bytes(&s->rx.rows, s->rx.rows.free); /* taken if it is authentic */
	key_nonce(key->iv, h->packet_number, nonce);
	if (aead_open(&key->aead, nonce, packet, STRAIT_HEADER_BYTES, packet + STRAIT_HEADER_BYTES,
		    g.len, packet + len - STRAIT_TAG_BYTES, dst) < 0) {
		COUNT(s, rx_auth);
		return -EBADMSG;
	}
	/* An empty slot takes its symbol at any age; everything else is filtered by packet
	 * number. */
	if (v != VERDICT_SOURCE && v != VERDICT_SCATTER && v != VERDICT_ROW &&
		!pnwindow_is_new(&s->rx.window, h->packet_number)) {
		COUNT(s, rx_replay);
		return -EALREADY;
	}
	key_rx_used(&s->rx_keys, h->packet_number >> STRAIT_GENERATION_SHIFT);
	s->authentic_ns = s->now_ns;
	switch (v) {
	case VERDICT_SOURCE:
	case VERDICT_SCATTER:
		symbol_store(s, &g, v, dst);
		break;
	case VERDICT_ROW:
		if (s->rx.rows.free == SCRATCH_NONE) {
			COUNT(s, rx_rows_full);
			return -ENOBUFS;
		}
		symbol_store(s, &g, v, dst);
		break;
	case VERDICT_EARLY:
		if (!early_keep(s, h, dst, g.len))
			return -ENOBUFS;
		break;
	case VERDICT_DUPLICATE:
		COUNT(s, rx_duplicate);
		block_touch(s, g.t, g.stream, g.block, g.flags);
		break;
	case VERDICT_UNNEEDED:
		COUNT(s, rx_unneeded);
		block_touch(s, g.t, g.stream, g.block, g.flags);
		break;
	default:
		return refuse(s, v);
	}
	COUNT(s, rx_packets);
	COUNT_ADD(s, rx_bytes, len);
	s->rx.data_bytes += len + session_line_overhead(s);
	mark_received(s, h);
	return 0;
}
