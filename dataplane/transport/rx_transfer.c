/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_transfer.h"

#include "dataplane/fec/digest.h"
#include "dataplane/transport/bits.h"
#include "dataplane/transport/bytes.h"
#include "dataplane/transport/rx_resume.h"
#include "dataplane/transport/span.h"

#include <string.h>

uint64_t rx_object_digest(const struct rx_transfer *t, uint32_t object)
{
	return get_be64(t->manifest + t->manifest_at[object] + STRAIT_MANIFEST_DIGEST_AT);
}

bool rx_object_is_right(const struct rx_transfer *t, uint32_t object)
{
	const struct rx_object *o = &t->object[object];

	return !(o->flags & STRAIT_MANIFEST_DIGEST) ||
		o->digest_so_far == rx_object_digest(t, object);
}

uint32_t rx_symbol_object(struct rx_transfer *t, uint64_t at, uint32_t len, bool *single)
{
	uint32_t i =
		span_find(t->offsets, t->open.objects, at, &t->stream[STRAIT_STREAM_OBJECTS].hint);

	*single = at + len <= t->offsets[i + 1];
	return i;
}

static bool is_stored(const struct rx_object *o)
{
	return o->state == RX_OBJECT_PLACED || o->state == RX_OBJECT_COMPLETE;
}

enum rx_placement rx_symbol_place(struct rx_transfer *t, uint8_t stream, uint64_t at, uint32_t len,
	uint8_t **dst)
{
	bool single, stored = false;
	uint32_t i;

	if (stream == STRAIT_STREAM_MANIFEST) {
		*dst = t->manifest + at;
		return RX_PLACE_DIRECT;
	}
	i = rx_symbol_object(t, at, len, &single);
	if (single) {
		if (t->object[i].state == RX_OBJECT_UNPLACED)
			return RX_PLACE_WAIT;
		if (!is_stored(&t->object[i]))
			return RX_PLACE_DISCARD;
		*dst = t->object[i].data + (at - t->offsets[i]);
		return RX_PLACE_DIRECT;
	}
	for (; i < t->open.objects && t->offsets[i] < at + len; i++) {
		if (t->object[i].state == RX_OBJECT_UNPLACED)
			return RX_PLACE_WAIT;
		stored = stored || is_stored(&t->object[i]);
	}
	return stored ? RX_PLACE_SCATTER : RX_PLACE_DISCARD;
}

/* Walk the objects that [at, at + len) overlaps; copy from src, or to dst when src is NULL. */
static void symbol_copy(struct rx_transfer *t, uint64_t at, uint32_t len, const uint8_t *src,
	uint8_t *dst)
{
	uint32_t i =
		span_find(t->offsets, t->open.objects, at, &t->stream[STRAIT_STREAM_OBJECTS].hint);

	for (uint32_t done = 0; done < len; i++) {
		uint64_t in = at + done - t->offsets[i];
		uint64_t left = t->offsets[i + 1] - (at + done);
		uint32_t n = left < len - done ? (uint32_t)left : len - done;

		if (is_stored(&t->object[i])) {
			if (src != NULL)
				memcpy(t->object[i].data + in, src + done, n);
			else
				memcpy(dst + done, t->object[i].data + in, n);
		}
		done += n;
	}
}

void rx_symbol_scatter(struct rx_transfer *t, uint8_t stream, uint64_t at, uint32_t len,
	const uint8_t *src)
{
	if (stream == STRAIT_STREAM_MANIFEST)
		memcpy(t->manifest + at, src, len);
	else
		symbol_copy(t, at, len, src, NULL);
}

uint8_t *rx_symbol_gather(struct rx_transfer *t, uint8_t stream, uint64_t at, uint32_t len,
	uint8_t *bounce)
{
	uint8_t *p;
	bool full = len == t->open.symbol_bytes;

	if (full && rx_symbol_place(t, stream, at, len, &p) == RX_PLACE_DIRECT)
		return p;
	if (stream == STRAIT_STREAM_MANIFEST)
		memcpy(bounce, t->manifest + at, len);
	else
		symbol_copy(t, at, len, NULL, bounce);
	memset(bounce + len, 0, t->open.symbol_bytes - len);
	return bounce;
}

bool rx_block_is_placed(struct rx_transfer *t, uint32_t block)
{
	struct rx_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	uint64_t at = partition_offset(&s->part, block, 0);
	uint64_t end = partition_offset(&s->part, block, partition_k(&s->part, block));
	uint32_t i = span_find(t->offsets, t->open.objects, at, &s->hint);

	for (; i < t->open.objects && t->offsets[i] < end; i++)
		if (t->object[i].state == RX_OBJECT_UNPLACED)
			return false;
	return true;
}

static uint32_t present_count(const struct rx_block *b)
{
	return bits_count(b->present[0]) + bits_count(b->present[1]);
}

uint32_t rx_block_lacking(const struct rx_block *b, uint32_t k)
{
	return k - present_count(b);
}

bool rx_block_is_full(const struct rx_block *b, uint32_t k)
{
	return present_count(b) == k;
}

uint32_t rx_block_missing(const struct rx_block *b, uint32_t k)
{
	uint32_t have = present_count(b);

	if (!(b->flags & RX_BLOCK_NO_DECODE))
		have += b->rows;
	return have < k ? k - have : 0;
}

void rx_block_complete(struct rx_transfer *t, uint8_t stream, uint32_t block,
	const uint64_t *digest, void (*done)(void *ctx, struct rx_transfer *t, uint32_t object),
	void *ctx)
{
	struct rx_stream *s = &t->stream[stream];
	uint64_t at = partition_offset(&s->part, block, 0);
	uint64_t end = partition_offset(&s->part, block, partition_k(&s->part, block));
	uint32_t i;

	s->blocks[block].flags |= RX_BLOCK_COMPLETE;
	s->changed = true;
	while (s->floor < s->part.blocks && s->blocks[s->floor].flags & RX_BLOCK_COMPLETE)
		s->floor++;
	if (stream == STRAIT_STREAM_MANIFEST)
		return;
	if (end > s->part.bytes)
		end = s->part.bytes;
	i = span_find(t->offsets, t->open.objects, at, &s->hint);
	for (; i < t->open.objects && t->offsets[i] < end; i++) {
		struct rx_object *o = &t->object[i];
		uint64_t from = at > t->offsets[i] ? at : t->offsets[i];
		uint64_t to = end < t->offsets[i + 1] ? end : t->offsets[i + 1];

		if (o->state != RX_OBJECT_PLACED)
			continue;
		if (!rx_resume_has(o->resume, block - o->first_block)) {
			uint64_t piece = digest != NULL
				? *digest
				: digest_bytes(o->data + (from - t->offsets[i]), to - from);

			o->digest_so_far ^= digest_shift(piece, t->offsets[i + 1] - to);
			rx_resume_mark(o->resume, block - o->first_block);
		}
		if (--o->blocks_left == 0) {
			o->state = RX_OBJECT_COMPLETE;
			done(ctx, t, i);
		}
	}
}

void rx_object_drop(struct rx_transfer *t, uint32_t object,
	void (*full)(void *ctx, struct rx_transfer *t, uint32_t block), void *ctx)
{
	struct rx_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	struct rx_object *o = &t->object[object];
	uint32_t last = rx_object_last_block(t, object);

	o->state = RX_OBJECT_DROPPED;
	o->data = NULL;
	o->resume = NULL;
	for (uint32_t block = o->first_block; block <= last; block++) {
		struct rx_block *b = &s->blocks[block];
		uint32_t k = partition_k(&s->part, block);
		uint64_t from = partition_offset(&s->part, block, 0);

		if (b->flags & RX_BLOCK_COMPLETE)
			continue;
		b->flags |= RX_BLOCK_NO_DECODE;
		s->changed = true;
		/* Other symbols of the block are no affair of this object. */
		from = from < t->offsets[object]
			? (t->offsets[object] - from) / s->part.symbol_bytes
			: 0;
		for (uint32_t esi = (uint32_t)from; esi < k; esi++) {
			uint64_t at = partition_offset(&s->part, block, esi);
			uint8_t *dst;

			if (at >= t->offsets[object + 1])
				break;
			if (rx_symbol_place(t, STRAIT_STREAM_OBJECTS, at,
				    partition_symbol_len(&s->part, at), &dst) == RX_PLACE_DISCARD)
				b->present[esi / 64] |= UINT64_C(1) << (esi % 64);
		}
		if (rx_block_is_full(b, k))
			full(ctx, t, block);
	}
}

void rx_object_apply_resume(struct rx_transfer *t, uint32_t object,
	void (*full)(void *ctx, struct rx_transfer *t, uint32_t block), void *ctx)
{
	struct rx_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	struct rx_object *o = &t->object[object];
	uint32_t last = rx_object_last_block(t, object);

	if (!o->resumed)
		return;
	for (uint32_t block = o->first_block; block <= last; block++) {
		struct rx_block *b = &s->blocks[block];
		uint32_t k = partition_k(&s->part, block);

		if (!rx_resume_has(o->resume, block - o->first_block) ||
			b->flags & RX_BLOCK_COMPLETE)
			continue;
		for (uint32_t esi = 0; esi < k; esi++)
			b->present[esi / 64] |= UINT64_C(1) << (esi % 64);
		full(ctx, t, block);
	}
}
