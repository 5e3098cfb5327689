/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/tx_transfer.h"

#include "dataplane/transport/bits.h"
#include "dataplane/transport/span.h"

#include <string.h>

static int count(const uint64_t bits[2])
{
	return (int)(bits_count(bits[0]) + bits_count(bits[1]));
}

int tx_block_deficit(const struct tx_block *b, uint32_t k)
{
	uint64_t coming[2] = { b->acked[0] | b->flying[0], b->acked[1] | b->flying[1] };
	int have = count(coming);

	if (!(b->flags & TX_BLOCK_NO_ROWS))
		have += b->rows_acked + b->rows_flying;
	return (int)k - have;
}

void tx_block_assume(struct tx_block *b, uint32_t k, uint32_t missing)
{
	int more = tx_block_deficit(b, k) - (int)missing;

	if (b->flags & TX_BLOCK_NO_ROWS)
		return;
	for (uint32_t esi = 0; esi < k && more > 0; esi++) {
		uint64_t bit = UINT64_C(1) << (esi % 64);

		if ((b->acked[esi / 64] | b->flying[esi / 64]) & bit)
			continue;
		b->flying[esi / 64] |= bit;
		more--;
	}
}

bool tx_block_is_covered(const struct tx_block *b, uint32_t k)
{
	const uint64_t most = ~UINT64_C(0);

	/* Asked for every acknowledged packet: most often without counting. */
	if (b->rows_acked == 0 || b->flags & TX_BLOCK_NO_ROWS)
		return k <= 64 ? (~b->acked[0] & most >> (64 - k)) == 0
			       : b->acked[0] == most && (~b->acked[1] & most >> (128 - k)) == 0;
	return count(b->acked) + b->rows_acked >= (int)k;
}

int tx_block_lost_symbol(const struct tx_block *b, uint32_t k)
{
	for (uint32_t w = 0; w < 2; w++) {
		uint64_t open = ~(b->acked[w] | b->flying[w]);
		uint32_t esi;

		if (open == 0)
			continue;
		esi = w * 64 + (uint32_t)__builtin_ctzll(open);
		return esi < k ? (int)esi : -1;
	}
	return -1;
}

void tx_block_objects(struct tx_transfer *t, uint32_t block, uint32_t *first, uint32_t *last)
{
	struct tx_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	uint64_t at = partition_offset(&s->part, block, 0);
	uint64_t end = partition_offset(&s->part, block, partition_k(&s->part, block));

	if (end > s->part.bytes)
		end = s->part.bytes;
	*first = span_find(t->offsets, t->objects, at, &s->hint);
	*last = *first;
	while (t->offsets[*last + 1] < end)
		(*last)++;
}

bool tx_block_is_readable(struct tx_transfer *t, uint32_t block)
{
	uint32_t first, last;

	tx_block_objects(t, block, &first, &last);
	for (uint32_t i = first; i <= last; i++)
		if (t->object[i].data == NULL)
			return false;
	return true;
}

bool tx_symbols_are_readable(struct tx_transfer *t, uint32_t block, uint32_t esi, uint32_t n)
{
	struct tx_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	uint64_t at = partition_offset(&s->part, block, esi);
	uint64_t end = at + (uint64_t)n * s->part.symbol_bytes;
	uint32_t i = span_find(t->offsets, t->objects, at, &s->hint);

	for (; i < t->objects && t->offsets[i] < end; i++)
		if (t->object[i].data == NULL)
			return false;
	return true;
}

bool tx_block_is_settled(struct tx_transfer *t, uint32_t block)
{
	uint32_t first, last;

	if (t->n_gone == 0)
		return true;
	tx_block_objects(t, block, &first, &last);
	for (uint32_t i = first; i <= last; i++)
		if (t->object[i].state == TX_OBJECT_GONE)
			return false;
	return true;
}

static bool is_over(const struct tx_object *o)
{
	return o->state == TX_OBJECT_GONE || o->state == TX_OBJECT_FINAL;
}

/* The receiver keeps the bytes of objects it committed, so rows over them still decode. */
static bool is_unstored(const struct tx_object *o)
{
	return is_over(o) && o->status != STRAIT_STATUS_COMMITTED;
}

void tx_block_apply_objects(struct tx_transfer *t, uint32_t block)
{
	struct tx_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	struct tx_block *b = &s->blocks[block];
	uint32_t k = partition_k(&s->part, block), first, last;
	bool any = false;

	tx_block_objects(t, block, &first, &last);
	for (uint32_t i = first; i <= last; i++) {
		if (is_unstored(&t->object[i]))
			b->flags |= TX_BLOCK_NO_ROWS;
		any = any || is_over(&t->object[i]);
	}
	if (!any)
		return;
	for (uint32_t esi = 0; esi < k; esi++) {
		uint64_t at = partition_offset(&s->part, block, esi);
		uint64_t end = at + partition_symbol_len(&s->part, at);
		uint32_t i = span_find(t->offsets, t->objects, at, &s->hint);
		bool over = true;

		for (; i < t->objects && t->offsets[i] < end; i++)
			over = over && is_over(&t->object[i]);
		if (over)
			b->acked[esi / 64] |= UINT64_C(1) << (esi % 64);
	}
}

const uint8_t *tx_symbol(struct tx_transfer *t, uint8_t stream, uint32_t block, uint32_t esi,
	bool padded, uint8_t *bounce)
{
	struct tx_stream *s = &t->stream[stream];
	uint64_t at = partition_offset(&s->part, block, esi);
	uint32_t len = partition_symbol_len(&s->part, at), done = 0, i;

	if (stream == STRAIT_STREAM_MANIFEST) {
		if (len == s->part.symbol_bytes || !padded)
			return t->manifest + at;
		memcpy(bounce, t->manifest + at, len);
		memset(bounce + len, 0, s->part.symbol_bytes - len);
		return bounce;
	}
	i = span_find(t->offsets, t->objects, at, &s->hint);
	if (at + len <= t->offsets[i + 1] && t->object[i].data != NULL &&
		(len == s->part.symbol_bytes || !padded))
		return t->object[i].data + (at - t->offsets[i]);
	while (done < len) {
		uint64_t in = at + done - t->offsets[i];
		uint64_t left = t->offsets[i + 1] - (at + done);
		uint32_t n = left < len - done ? (uint32_t)left : len - done;

		if (t->object[i].data != NULL)
			memcpy(bounce + done, t->object[i].data + in, n);
		else
			memset(bounce + done, 0, n);
		done += n;
		i++;
	}
	memset(bounce + len, 0, s->part.symbol_bytes - len);
	return bounce;
}

void tx_queue_push(struct tx_stream *s, uint32_t block)
{
	if (s->blocks[block].flags & TX_BLOCK_QUEUED)
		return;
	s->blocks[block].flags |= TX_BLOCK_QUEUED;
	s->queue[(uint32_t)(((uint64_t)s->queue_head + s->queue_len) % s->part.blocks)] = block;
	s->queue_len++;
}

void tx_queue_insert(struct tx_stream *s, uint32_t block)
{
	if (s->queue_len == 0 || block > s->queue[s->queue_head]) {
		tx_queue_push(s, block);
		return;
	}
	if (s->blocks[block].flags & TX_BLOCK_QUEUED)
		return;
	s->blocks[block].flags |= TX_BLOCK_QUEUED;
	s->queue_head = (s->queue_head > 0 ? s->queue_head : s->part.blocks) - 1;
	s->queue[s->queue_head] = block;
	s->queue_len++;
}

bool tx_queue_peek(const struct tx_stream *s, uint32_t *block)
{
	if (s->queue_len == 0)
		return false;
	*block = s->queue[s->queue_head];
	return true;
}

bool tx_queue_pop(struct tx_stream *s, uint32_t *block)
{
	if (!tx_queue_peek(s, block))
		return false;
	s->queue_head = (s->queue_head + 1) % s->part.blocks;
	s->queue_len--;
	s->blocks[*block].flags &= (uint8_t)~TX_BLOCK_QUEUED;
	return true;
}
