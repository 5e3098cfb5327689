/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/tx_transfer.h"

#include "dataplane/transport/rx_transfer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * Both ends of a transfer without packets: what the sender reads as symbols, scattered at the
 * receiver, gives the same objects, whatever the object sizes; and both agree on which symbols
 * nobody needs.
 */

enum { T = 512, N = 40 };

struct pair {
	uint64_t len[N];
	uint8_t *bytes[N], *out[N];
	struct tx_transfer *tx;
	struct rx_transfer *rx;
	uint32_t done;
};

static void pair_create(struct pair *p, uint64_t seed)
{
	struct manifest_entry e[N] = { 0 };
	char key[N][16];
	struct tx_params params = { .order = 1,
		.class_ = 1,
		.symbol_bytes = T,
		.objects = N,
		.entries = e };
	struct session_open open = { .transfer = 1, .objects = N, .symbol_bytes = T, .class_ = 1 };

	memset(p, 0, sizeof(*p));
	for (int i = 0; i < N; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		p->len[i] = 1 + (seed >> 33) % (i % 3 == 0 ? 40000 : i % 3 == 1 ? 700 : 3);
		p->bytes[i] = malloc(p->len[i]);
		p->out[i] = calloc(1, p->len[i]);
		for (uint64_t j = 0; j < p->len[i]; j++)
			p->bytes[i][j] = (uint8_t)(j * 31 + (uint64_t)i * 7 + (seed >> 20));
		snprintf(key[i], sizeof(key[i]), "k%d", i);
		e[i] = (struct manifest_entry){ .key = (uint8_t *)key[i],
			.key_len = (uint16_t)strlen(key[i]),
			.length = p->len[i] };
		open.stream_bytes += p->len[i];
	}
	p->tx = tx_transfer_create(&params);
	assert_non_null(p->tx);
	open.manifest_bytes = p->tx->manifest_bytes;
	p->rx = rx_transfer_create(&open, NULL);
	assert_non_null(p->rx);
	memcpy(p->rx->manifest, p->tx->manifest, p->tx->manifest_bytes);
	assert_int_equal(rx_transfer_load_objects(p->rx), 0);
	for (uint32_t i = 0; i < N; i++) {
		p->tx->object[i].state = TX_OBJECT_READY;
		p->tx->object[i].data = p->bytes[i];
	}
}

static void pair_place(struct pair *p, uint32_t i)
{
	assert_int_equal(rx_object_prepare(p->rx, i, p->out[i], NULL, false), 0);
	p->rx->object[i].state = RX_OBJECT_PLACED;
}

static void pair_destroy(struct pair *p)
{
	tx_transfer_destroy(p->tx);
	rx_transfer_destroy(p->rx);
	for (int i = 0; i < N; i++) {
		free(p->bytes[i]);
		free(p->out[i]);
	}
}

static void object_done(void *ctx, struct rx_transfer *t, uint32_t object)
{
	struct pair *p = ctx;

	(void)t;
	assert_memory_equal(p->bytes[object], p->out[object], p->len[object]);
	p->done++;
}

static void block_full(void *ctx, struct rx_transfer *t, uint32_t block)
{
	rx_block_complete(t, STRAIT_STREAM_OBJECTS, block, NULL, object_done, ctx);
}

/* Carry every symbol that both sides want across. */
static void pair_ship(struct pair *p)
{
	struct tx_stream *st = &p->tx->stream[STRAIT_STREAM_OBJECTS];
	uint8_t bounce[T], *dst;

	for (uint32_t b = 0; b < st->part.blocks; b++) {
		uint32_t k = partition_k(&st->part, b);
		struct rx_block *rb = &p->rx->stream[STRAIT_STREAM_OBJECTS].blocks[b];

		tx_block_apply_objects(p->tx, b);
		for (uint32_t esi = 0; esi < k; esi++) {
			uint64_t at = partition_offset(&st->part, b, esi);
			uint32_t len = partition_symbol_len(&st->part, at);
			bool skipped = st->blocks[b].acked[esi / 64] >> (esi % 64) & 1;
			enum rx_placement where =
				rx_symbol_place(p->rx, STRAIT_STREAM_OBJECTS, at, len, &dst);

			/* The rule that both sides must share. */
			assert_int_equal(skipped, where == RX_PLACE_DISCARD);
			if (skipped)
				continue;
			rx_symbol_scatter(p->rx, STRAIT_STREAM_OBJECTS, at, len,
				tx_symbol(p->tx, STRAIT_STREAM_OBJECTS, b, esi, false, bounce));
			rb->present[esi / 64] |= UINT64_C(1) << (esi % 64);
		}
		assert_true(rx_block_is_full(rb, k));
		if (!(rb->flags & RX_BLOCK_COMPLETE))
			block_full(p, p->rx, b);
	}
}

static void symbols_carry_objects_of_any_size(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct pair p;

		pair_create(&p, seed);
		for (uint32_t i = 0; i < N; i++)
			pair_place(&p, i);
		pair_ship(&p);
		assert_int_equal(p.done, N);
		assert_int_equal(p.rx->stream[STRAIT_STREAM_OBJECTS].floor,
			p.rx->stream[STRAIT_STREAM_OBJECTS].part.blocks);
		pair_destroy(&p);
	}
}

static void both_sides_agree_on_symbols_of_objects_not_stored(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct pair p;
		uint32_t stored = 0;

		pair_create(&p, seed);
		for (uint32_t i = 0; i < N; i++) {
			if ((seed * 7 + i * i) % 3 == 0) {
				p.tx->object[i].state = TX_OBJECT_FINAL;
				p.tx->object[i].status = STRAIT_STATUS_FULL;
				p.tx->object[i].data = NULL;
				continue;
			}
			pair_place(&p, i);
			stored++;
		}
		for (uint32_t i = 0; i < N; i++)
			if (p.tx->object[i].state == TX_OBJECT_FINAL)
				rx_object_drop(p.rx, i, block_full, &p);
		pair_ship(&p);
		assert_int_equal(p.done, stored);
		pair_destroy(&p);
	}
}

static void deficit_counts_what_is_there_and_what_flies(void **state)
{
	struct tx_block b = { 0 };

	(void)state;
	assert_int_equal(tx_block_deficit(&b, 100), 100);
	assert_int_equal(tx_block_lost_symbol(&b, 100), 0);
	b.flying[0] = ~UINT64_C(0);
	b.flying[1] = (UINT64_C(1) << 36) - 1;
	assert_int_equal(tx_block_deficit(&b, 100), 0);
	assert_int_equal(tx_block_lost_symbol(&b, 100), -1);
	b.flying[1] &= ~UINT64_C(1); /* symbol 64 lost */
	assert_int_equal(tx_block_deficit(&b, 100), 1);
	assert_int_equal(tx_block_lost_symbol(&b, 100), 64);
	b.rows_flying = 1;
	assert_int_equal(tx_block_deficit(&b, 100), 0);
	b.flags |=
		TX_BLOCK_NO_ROWS; /* rows do not help a receiver that does not keep the symbols */
	assert_int_equal(tx_block_deficit(&b, 100), 1);
	b.acked[0] = b.acked[1] = ~UINT64_C(0);
	assert_true(tx_block_is_covered(&b, 100));
}

/* The receiver lacks 3, but reports that told which were lost: rows make up for any. */
static void what_the_receiver_counts_itself_is_not_sent_again(void **state)
{
	struct tx_block b = { .acked = { 0xff } };

	(void)state;
	tx_block_assume(&b, 100, 3);
	assert_int_equal(tx_block_deficit(&b, 100), 3);
	assert_int_equal(b.acked[0], 0xff);
	assert_false(tx_block_is_covered(&b, 100));
	tx_block_assume(&b, 100, 5); /* never fewer than are known to be there */
	assert_int_equal(tx_block_deficit(&b, 100), 3);
	b.flying[0] = b.flying[1] = 0;
	b.flags = TX_BLOCK_NO_ROWS; /* it must be known which */
	tx_block_assume(&b, 100, 3);
	assert_int_equal(tx_block_deficit(&b, 100), 92);
}

/* What became of each symbol of a block, kept one by one. */
enum fate { UNSENT, FLYING, FORGOTTEN, LOST, ACKED };

static uint32_t random_next(uint64_t *seed, uint32_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % n;
}

static void block_agrees(const struct tx_block *b, uint32_t k, const enum fate *source,
	const enum fate *row)
{
	int there = 0, coming = 0, first_lost = -1;

	for (uint32_t i = 0; i < k; i++) {
		there += source[i] == ACKED;
		coming += source[i] == FLYING;
		if (source[i] != ACKED && source[i] != FLYING && first_lost < 0)
			first_lost = (int)i;
	}
	for (uint32_t i = 0; i < 255 - k; i++) {
		there += row[i] == ACKED;
		coming += row[i] == FLYING;
	}
	assert_int_equal(tx_block_deficit(b, k), (int)k - there - coming);
	assert_int_equal(tx_block_is_covered(b, k), there >= (int)k);
	assert_int_equal(tx_block_lost_symbol(b, k), first_lost);
}

/* A block's arithmetic, as sender.c and feedback.c move it, against single symbols. */
static void random_events_agree_with_single_symbols(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 200; round++) {
		enum fate source[128] = { UNSENT }, row[255] = { UNSENT };
		uint32_t k = 1 + random_next(&seed, 128), rows = 0;
		struct tx_block b = { 0 };

		for (int step = 0; step < 600; step++) {
			uint32_t esi = random_next(&seed, k), r;
			uint64_t bit = UINT64_C(1) << (esi % 64);

			switch (random_next(&seed, 12)) {
			case 0 ... 3: /* sent, or sent again */
				if (source[esi] == ACKED || source[esi] == FLYING)
					break;
				source[esi] = FLYING;
				b.flying[esi / 64] |= bit;
				break;
			case 4 ... 5: /* acknowledged, perhaps late */
				if (source[esi] == UNSENT || source[esi] == ACKED)
					break;
				b.acked[esi / 64] |= bit;
				b.flying[esi / 64] &= ~bit;
				source[esi] = ACKED;
				break;
			case 6: /* lost */
				if (source[esi] != FLYING)
					break;
				b.flying[esi / 64] &= ~bit;
				source[esi] = LOST;
				break;
			case 7 ... 8: /* another row */
				if (rows == 255 - k || rows == 120)
					break;
				row[rows++] = FLYING;
				b.rows_flying++;
				break;
			case 9: /* ... arrived */
				if (rows == 0 || row[r = random_next(&seed, rows)] != FLYING)
					break;
				row[r] = ACKED;
				b.rows_flying--;
				b.rows_acked++;
				break;
			case 10: /* ... was lost */
				if (rows == 0 || row[r = random_next(&seed, rows)] != FLYING)
					break;
				row[r] = LOST;
				b.rows_flying--;
				break;
			default: /* a new epoch: nothing sent before counts as on its way */
				if (random_next(&seed, 10) != 0)
					break;
				b.epoch++;
				b.flying[0] = b.flying[1] = 0;
				b.rows_flying = 0;
				for (uint32_t i = 0; i < k; i++)
					source[i] = source[i] == FLYING ? FORGOTTEN : source[i];
				for (uint32_t i = 0; i < rows; i++)
					row[i] = row[i] == FLYING ? FORGOTTEN : row[i];
			}
			block_agrees(&b, k, source, row);
		}
	}
}

/* The receiver's: a symbol counts once, rows make up for as many missing ones. */
static void what_is_missing_agrees_with_a_plain_set(void **state)
{
	uint64_t seed = 9;

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint32_t k = 1 + random_next(&seed, 128);
		bool there[128] = { false };
		struct rx_block b = { .row = RX_NO_ROW };

		for (int step = 0; step < 300; step++) {
			uint32_t esi = random_next(&seed, k), n = 0;

			if (random_next(&seed, 4) == 0 && b.rows < 120)
				b.rows++;
			else
				there[esi] = true;
			if (there[esi])
				b.present[esi / 64] |= UINT64_C(1) << (esi % 64);
			for (uint32_t i = 0; i < k; i++)
				n += there[i];
			assert_int_equal(rx_block_is_full(&b, k), n == k);
			assert_int_equal(rx_block_missing(&b, k),
				n + b.rows >= k ? 0 : k - n - b.rows);
		}
	}
}

static void repair_queue_holds_each_block_once(void **state)
{
	struct pair p;
	struct tx_stream *st;
	uint32_t block, n = 0;

	(void)state;
	pair_create(&p, 3);
	st = &p.tx->stream[STRAIT_STREAM_OBJECTS];
	assert_false(tx_queue_pop(st, &block));
	for (int round = 0; round < 3; round++)
		for (uint32_t b = 0; b < st->part.blocks; b++)
			tx_queue_push(st, b);
	while (tx_queue_pop(st, &block))
		assert_int_equal(block, n++);
	assert_int_equal(n, st->part.blocks);
	pair_destroy(&p);
}

static void earlier_block_goes_before_the_head_of_the_repair_queue(void **state)
{
	static const uint32_t inserted[] = { 1, 2, 1, 0, 2, 0 }, want[] = { 0, 1, 2 };
	struct pair p;
	struct tx_stream *st;
	uint32_t block;

	(void)state;
	pair_create(&p, 3);
	st = &p.tx->stream[STRAIT_STREAM_OBJECTS];
	assert_true(st->part.blocks >= 3);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(inserted) / sizeof(inserted[0]); i++)
			tx_queue_insert(st, inserted[i]);
		for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
			assert_true(tx_queue_pop(st, &block));
			assert_int_equal(block, want[i]);
		}
		assert_false(tx_queue_pop(st, &block));
	}
	pair_destroy(&p);
}

static void impossible_transfers_are_refused(void **state)
{
	struct manifest_entry e = { .key = (const uint8_t *)"k", .key_len = 1, .length = 10 };
	struct tx_params p = { .class_ = 1, .symbol_bytes = T, .objects = 1, .entries = &e };
	struct session_open open = { .objects = 1, .symbol_bytes = T, .stream_bytes = 10 };

	(void)state;
	p.objects = 0;
	assert_null(tx_transfer_create(&p));
	assert_int_equal(errno, EINVAL);
	p.objects = 1;
	p.class_ = STRAIT_CLASS_COUNT;
	assert_null(tx_transfer_create(&p));
	p.class_ = 1;
	p.symbol_bytes = 1;
	assert_null(tx_transfer_create(&p));
	p.symbol_bytes = T;
	e.length = 0;
	assert_null(tx_transfer_create(&p));
	open.manifest_bytes = 0;
	assert_null(rx_transfer_create(&open, NULL));
	open.manifest_bytes = 20;
	open.stream_bytes = (uint64_t)STRAIT_OBJECT_BYTES_MAX + 1;
	assert_null(rx_transfer_create(&open, NULL));
}

static void a_manifest_that_lies_is_refused(void **state)
{
	struct pair p;

	(void)state;
	pair_create(&p, 5);
	p.rx->manifest[4] ^= 0x80; /* top byte of the first length */
	assert_int_equal(rx_transfer_load_objects(p.rx), -EPROTO);
	pair_destroy(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_carry_objects_of_any_size),
		cmocka_unit_test(both_sides_agree_on_symbols_of_objects_not_stored),
		cmocka_unit_test(deficit_counts_what_is_there_and_what_flies),
		cmocka_unit_test(what_the_receiver_counts_itself_is_not_sent_again),
		cmocka_unit_test(random_events_agree_with_single_symbols),
		cmocka_unit_test(what_is_missing_agrees_with_a_plain_set),
		cmocka_unit_test(repair_queue_holds_each_block_once),
		cmocka_unit_test(earlier_block_goes_before_the_head_of_the_repair_queue),
		cmocka_unit_test(impossible_transfers_are_refused),
		cmocka_unit_test(a_manifest_that_lies_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
