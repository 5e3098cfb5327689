/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/tx_transfer.h"

#include "dataplane/transport/span.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int stream_init(struct tx_stream *s, uint64_t bytes, uint32_t symbol_bytes)
{
	int ret = partition_init(&s->part, bytes, symbol_bytes);

	if (ret < 0)
		return ret;
	s->blocks = calloc(s->part.blocks, sizeof(*s->blocks));
	s->queue = calloc(s->part.blocks, sizeof(*s->queue));
	return s->blocks != NULL && s->queue != NULL ? 0 : -ENOMEM;
}

static int manifest_build(struct tx_transfer *t, const struct tx_params *p)
{
	size_t total = 0, at = 0;

	for (uint32_t i = 0; i < p->objects; i++)
		total += manifest_entry_size(&p->entries[i]);
	if (total > STRAIT_MANIFEST_BYTES_MAX)
		return -E2BIG;
	t->manifest = malloc(total);
	if (t->manifest == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->objects; i++) {
		long n = manifest_entry_encode(&p->entries[i], t->manifest + at, total - at);

		if (n < 0)
			return (int)n;
		at += (size_t)n;
		t->offsets[i + 1] = t->offsets[i] + p->entries[i].length;
		if (p->entries[i].flags & STRAIT_MANIFEST_SKIP) {
			t->object[i].state = TX_OBJECT_FINAL;
			t->object[i].status = STRAIT_STATUS_SKIPPED;
			t->objects_final++;
		}
	}
	t->manifest_bytes = (uint32_t)at;
	return 0;
}

struct tx_transfer *tx_transfer_create(const struct tx_params *p)
{
	struct tx_transfer *t;
	int ret = -ENOMEM;

	if (p->objects == 0 || p->objects > STRAIT_TRANSFER_OBJECTS_MAX ||
		p->class_ >= STRAIT_CLASS_COUNT) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	t->order = p->order;
	t->deadline_ms = p->deadline_ms;
	t->objects = p->objects;
	t->symbol_bytes = p->symbol_bytes;
	t->class_ = p->class_;
	t->user = p->user;
	t->offsets = calloc((size_t)p->objects + 1, sizeof(*t->offsets));
	t->object = calloc(p->objects, sizeof(*t->object));
	t->event_queue = calloc(p->objects, sizeof(*t->event_queue));
	if (t->offsets == NULL || t->object == NULL || t->event_queue == NULL)
		goto err;
	ret = manifest_build(t, p);
	if (ret < 0)
		goto err;
	ret = stream_init(&t->stream[STRAIT_STREAM_OBJECTS], t->offsets[t->objects],
		t->symbol_bytes);
	if (ret < 0)
		goto err;
	ret = stream_init(&t->stream[STRAIT_STREAM_MANIFEST], t->manifest_bytes, t->symbol_bytes);
	if (ret < 0)
		goto err;
	return t;
err:
	tx_transfer_destroy(t);
	errno = -ret;
	return NULL;
}

void tx_transfer_destroy(struct tx_transfer *t)
{
	if (t == NULL)
		return;
	for (int i = 0; i < STRAIT_STREAM_COUNT; i++) {
		free(t->stream[i].blocks);
		free(t->stream[i].queue);
	}
	free(t->manifest);
	free(t->offsets);
	free(t->object);
	free(t->event_queue);
	free(t);
}

void *tx_transfer_user(const struct tx_transfer *t)
{
	return t->user;
}

uint32_t tx_transfer_objects(const struct tx_transfer *t)
{
	return t->objects;
}

uint64_t tx_transfer_bytes(const struct tx_transfer *t)
{
	return t->offsets[t->objects];
}

static int count(const uint64_t bits[2])
{
	return __builtin_popcountll(bits[0]) + __builtin_popcountll(bits[1]);
}

int tx_block_deficit(const struct tx_block *b, uint32_t k)
{
	uint64_t coming[2] = { b->acked[0] | b->flying[0], b->acked[1] | b->flying[1] };
	int have = count(coming);

	if (!(b->flags & TX_BLOCK_NO_ROWS))
		have += b->rows_acked + b->rows_flying;
	return (int)k - have;
}

bool tx_block_is_covered(const struct tx_block *b, uint32_t k)
{
	int have = count(b->acked);

	if (!(b->flags & TX_BLOCK_NO_ROWS))
		have += b->rows_acked;
	return have >= (int)k;
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
