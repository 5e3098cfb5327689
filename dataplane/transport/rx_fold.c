/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_fold.h"

#include "dataplane/transport/span.h"

#include <string.h>

enum {
	/* Cycles a symbol: each row summed on the way; a block read again, by symbols. */
	ROW_CYCLES = 16,
	AGAIN_CYCLES = 200,
	TURN_SYMBOLS = 256, /* after so many it is decided whether blocks come interleaved: */
	TURNS = 64,         /* ... one in four is of another block than the one before */
};

static struct rx_fold *place(struct rx_folds *f, const struct rx_transfer *t, uint32_t block)
{
	/* Blocks in flight of a transfer follow each other; two transfers may share the places. */
	return &f->slots[(block + t->open.transfer * (RX_FOLDS / 2)) % RX_FOLDS];
}

static struct rx_fold *find(struct rx_folds *f, const struct rx_transfer *t, uint32_t block)
{
	struct rx_fold *x;

	if (f->stride == 0)
		return NULL;
	x = place(f, t, block);
	return x->transfer == t->open.transfer && x->block == block ? x : NULL;
}

/* A place for a block that has none. NULL: another block has it. */
static struct rx_fold *take(struct rx_folds *f, const struct rx_transfer *t, uint32_t block)
{
	const struct partition *part = &t->stream[STRAIT_STREAM_OBJECTS].part;
	struct rx_fold *x = place(f, t, block);

	if (x->transfer != 0 || part->symbol_bytes > f->stride)
		return NULL;
	if (f->tables.len != part->symbol_bytes) {
		if (f->used > 0)
			return NULL;
		fold_init(&f->tables, part->symbol_bytes);
	}
	memset(x, 0, sizeof(*x));
	x->transfer = t->open.transfer;
	x->block = block;
	x->rows = f->rows;
	/* Interleaved blocks take turns, lest all be added in the same moment. */
	x->goal = (uint8_t)(1 + block % FOLD_TOGETHER);
	f->used++;
	return x;
}

static void release(struct rx_folds *f, struct rx_fold *x)
{
	x->transfer = 0;
	f->used--;
}

/* Add what waits; to the digest alone without `sum`. */
static void add(struct rx_folds *f, struct rx_fold *x, uint32_t k, bool sum)
{
	uint8_t *rows = f->row_bytes + (size_t)(x - f->slots) * FOLD_ROWS_MAX * f->stride;
	uint8_t *dst[FOLD_ROWS_MAX];

	for (uint32_t r = 0; r < FOLD_ROWS_MAX; r++)
		dst[r] = rows + (size_t)r * f->stride;
	fold_add(&f->tables, k, x->waiting, x->column, x->src, sum ? x->rows : 0, dst, !x->begun,
		&x->digest);
	x->begun = x->begun || sum;
	for (uint32_t i = 0; i < x->waiting; i++)
		x->in[x->column[i] / 64] |= UINT64_C(1) << (x->column[i] % 64);
	x->waiting = 0;
	x->goal = FOLD_TOGETHER;
}

/* Add whatever is present and not yet in. */
static void add_present(struct rx_folds *f, struct rx_fold *x, struct rx_transfer *t,
	uint32_t block, uint8_t *gather, bool sum)
{
	const struct partition *part = &t->stream[STRAIT_STREAM_OBJECTS].part;
	const struct rx_block *b = &t->stream[STRAIT_STREAM_OBJECTS].blocks[block];
	uint32_t k = partition_k(part, block);

	if (x->waiting > 0)
		add(f, x, k, sum);
	for (uint32_t word = 0; word < 2; word++)
		for (uint64_t left = b->present[word] & ~x->in[word]; left != 0; left &= left - 1) {
			uint32_t esi = 64 * word + (uint32_t)__builtin_ctzll(left);
			uint64_t at = partition_offset(part, block, esi);

			x->src[x->waiting] = rx_symbol_gather(t, STRAIT_STREAM_OBJECTS, at,
				partition_symbol_len(part, at),
				gather + (size_t)x->waiting * part->symbol_bytes);
			x->column[x->waiting++] = (uint8_t)esi;
			if (x->waiting == FOLD_TOGETHER)
				add(f, x, k, sum);
		}
	if (x->waiting > 0)
		add(f, x, k, sum);
}

/*
 * Another block of the transfer begins. What this one lacks is rebuilt from rows still to come, for
 * which it is read now, as long as it is cached.
 */
static void leave(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint8_t *gather)
{
	const struct rx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	const struct rx_block *b = &st->blocks[block];
	uint32_t lacking;
	struct rx_fold *x;

	if (b->flags & (RX_BLOCK_COMPLETE | RX_BLOCK_NO_DECODE))
		return;
	lacking = rx_block_lacking(b, partition_k(&st->part, block));
	if (lacking == 0 || lacking > FOLD_ROWS_MAX)
		return;
	x = take(f, t, block);
	if (x == NULL)
		return;
	x->rows = (uint8_t)lacking;
	add_present(f, x, t, block, gather, true);
}

static void turn(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint8_t *gather)
{
	if (block != f->last_block || t->open.transfer != f->last_transfer) {
		f->turns++;
		if (f->stride > 0 && !f->interleaved && t->open.transfer == f->last_transfer)
			leave(f, t, f->last_block, gather);
		f->last_transfer = t->open.transfer;
		f->last_block = block;
	}
	if (++f->symbols < TURN_SYMBOLS)
		return;
	f->interleaved = f->turns >= TURNS;
	f->symbols = f->turns = 0;
}

void rx_fold_symbol(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint32_t esi,
	const uint8_t *src, uint8_t *gather)
{
	const struct rx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	struct rx_fold *x;

	turn(f, t, block, gather);
	if (f->stride == 0 || st->blocks[block].flags & RX_BLOCK_NO_DECODE)
		return;
	x = f->used > 0 ? find(f, t, block) : NULL;
	if (x == NULL && f->interleaved)
		x = take(f, t, block);
	if (x == NULL)
		return;
	x->src[x->waiting] = src;
	x->column[x->waiting++] = (uint8_t)esi;
	if (x->waiting >= x->goal)
		add(f, x, partition_k(&st->part, block), true);
}

uint32_t rx_fold_sums(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint8_t *gather,
	const uint8_t **sums)
{
	struct rx_fold *x = find(f, t, block);
	uint8_t *rows;

	if (x == NULL || x->rows == 0)
		return 0;
	add_present(f, x, t, block, gather, true);
	if (!x->begun)
		return 0; /* nothing came but rows */
	rows = f->row_bytes + (size_t)(x - f->slots) * FOLD_ROWS_MAX * f->stride;
	for (uint32_t r = 0; r < x->rows; r++)
		sums[r] = rows + (size_t)r * f->stride;
	return x->rows;
}

/* As many rows as cost least, if the blocks to come lack what those of late did. */
static void review(struct rx_folds *f)
{
	uint32_t more = f->blocks - f->lacked[0], least = UINT32_MAX;

	for (uint32_t r = 0; r <= FOLD_ROWS_MAX; r++) {
		uint32_t cost = r * ROW_CYCLES * f->blocks + more * AGAIN_CYCLES;

		if (cost < least) {
			least = cost;
			f->rows = (uint8_t)r;
		}
		more -= f->lacked[r + 1];
	}
	f->blocks = 0;
	for (uint32_t r = 0; r < FOLD_ROWS_MAX + 2; r++) {
		f->lacked[r] /= 2;
		f->blocks += f->lacked[r];
	}
}

/* The block lies in one object, with full symbols only. */
static bool is_single(struct rx_transfer *t, uint32_t block)
{
	struct rx_stream *st = &t->stream[STRAIT_STREAM_OBJECTS];
	uint64_t at = partition_offset(&st->part, block, 0);
	uint64_t end = partition_offset(&st->part, block, partition_k(&st->part, block));
	uint32_t i;

	if (end > st->part.bytes)
		return false;
	i = span_find(t->offsets, t->open.objects, at, &st->hint);
	return end <= t->offsets[i + 1] && t->object[i].state == RX_OBJECT_PLACED;
}

bool rx_fold_end(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint32_t lacked,
	uint64_t *digest)
{
	const struct rx_block *b = &t->stream[STRAIT_STREAM_OBJECTS].blocks[block];
	struct rx_fold *x = find(f, t, block);
	bool whole = false;

	if (x != NULL) {
		whole = !(b->flags & RX_BLOCK_NO_DECODE) && is_single(t, block);
		if (whole) {
			add_present(f, x, t, block, NULL, false);
			*digest = fold_digest(&x->digest);
		}
		release(f, x);
	}
	if (f->stride > 0 && b->flags & RX_BLOCK_TAIL) {
		f->lacked[lacked <= FOLD_ROWS_MAX ? lacked : FOLD_ROWS_MAX + 1]++;
		if (++f->blocks >= 2 * RX_FOLD_REVIEW)
			review(f);
	}
	return whole;
}

void rx_folds_close(struct rx_folds *f, uint32_t transfer)
{
	if (f->last_transfer == transfer)
		f->last_transfer = 0;
	for (uint32_t i = 0; f->used > 0 && i < RX_FOLDS; i++)
		if (f->slots[i].transfer == transfer)
			release(f, &f->slots[i]);
}
