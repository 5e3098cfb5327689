/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_fold.h"

#include "dataplane/fec/digest.h"
#include "dataplane/fec/rs.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
	T = STRAIT_SYMBOL_BYTES_MIN,
	K = 8,
	BLOCKS = 2 * RX_FOLDS + 1,
	ROWS = 6,
};

/* One object of BLOCKS blocks of K symbols: the receiver's side of a transfer, made by hand. */
struct fixture {
	struct rx_folds folds;
	struct rx_transfer t;
	struct rx_block blocks[BLOCKS];
	struct rx_object object;
	uint64_t offsets[2];
	uint8_t *data, *want, gather[K * T];
	struct rs rs;
	struct prng random;
};

static int setup(void **state)
{
	struct fixture *x;
	struct partition *part;
	size_t bytes = (size_t)BLOCKS * K * T;

	if (posix_memalign((void **)&x, 64, sizeof(*x)) != 0)
		return -1;
	memset(x, 0, sizeof(*x));
	prng_init(&x->random, 3, 0);
	rs_init(&x->rs);
	x->data = calloc(1, bytes);
	x->want = malloc(bytes);
	for (size_t i = 0; i < bytes; i++)
		x->want[i] = (uint8_t)prng_next(&x->random);
	x->t.open.transfer = 7;
	x->t.open.symbol_bytes = T;
	x->t.open.objects = 1;
	x->t.offsets = x->offsets;
	x->t.object = &x->object;
	x->offsets[1] = bytes;
	x->object.data = x->data;
	x->object.state = RX_OBJECT_PLACED;
	part = &x->t.stream[STRAIT_STREAM_OBJECTS].part;
	part->bytes = bytes;
	part->symbol_bytes = T;
	part->symbols = BLOCKS * K;
	part->blocks = part->n_large = BLOCKS;
	part->large = part->small = K;
	x->t.stream[STRAIT_STREAM_OBJECTS].blocks = x->blocks;
	for (uint32_t i = 0; i < BLOCKS; i++)
		x->blocks[i].flags = RX_BLOCK_TAIL;
	*state = x;
	return rx_folds_init(&x->folds, T);
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	rx_folds_fini(&x->folds);
	free(x->data);
	free(x->want);
	free(x);
	return 0;
}

static uint8_t *symbol_of(uint8_t *bytes, uint32_t block, uint32_t esi)
{
	return bytes + ((size_t)block * K + esi) * T;
}

/* A symbol arrives; `told`: as those that lie in one piece, and not as one on a seam. */
static void arrive(struct fixture *x, uint32_t block, uint32_t esi, bool told)
{
	memcpy(symbol_of(x->data, block, esi), symbol_of(x->want, block, esi), T);
	x->blocks[block].present[0] |= UINT64_C(1) << esi;
	if (told)
		rx_fold_symbol(&x->folds, &x->t, block, esi, symbol_of(x->data, block, esi),
			x->gather);
}

/*
 * All but the symbols of `lost` arrive, in any order, most of them told. The blocks before are
 * taken to have come interleaved or not. How many were told.
 */
static uint32_t arrive_all(struct fixture *x, uint32_t block, uint32_t lost, bool interleaved)
{
	uint32_t first = (uint32_t)prng_below(&x->random, K), n_told = 0;

	memset(symbol_of(x->data, block, 0), 0, K * T);
	memset(x->blocks[block].present, 0, sizeof(x->blocks[block].present));
	x->folds.interleaved = interleaved;
	x->folds.symbols = x->folds.turns = 0;
	for (uint32_t i = 0; i < K; i++) {
		uint32_t esi = (first + 3 * i) % K;

		if (!(lost >> esi & 1)) {
			bool told = prng_below(&x->random, 8) > 0;

			arrive(x, block, esi, told);
			n_told += told;
		}
	}
	return n_told;
}

/* Decode with rows of the block, the one with index `missing_row` not among them. */
static void decode(struct fixture *x, uint32_t block, uint32_t lost, uint32_t missing_row)
{
	static uint8_t rows[ROWS][T];
	const uint8_t *sums[FOLD_ROWS_MAX], *from[K];
	uint8_t *src[K], *made[ROWS], *used[ROWS], esi[ROWS];
	uint64_t present[2] = { x->blocks[block].present[0], 0 };
	uint32_t n = 0, e = (uint32_t)__builtin_popcount(lost), summed = 0, n_sums;

	for (uint32_t j = 0; j < K; j++)
		from[j] = symbol_of(x->want, block, j);
	for (uint32_t r = 0; r < ROWS; r++) {
		made[r] = rows[r];
		if (r == missing_row)
			continue;
		used[n] = rows[r];
		esi[n++] = (uint8_t)(K + r);
	}
	assert_int_equal(rs_encode(&x->rs, K, 0, ROWS, T, from, made), 0);
	n_sums = rx_fold_sums(&x->folds, &x->t, block, x->gather, sums);
	for (uint32_t i = 0; i < n; i++)
		summed += (uint32_t)esi[i] - K < n_sums;
	/* Nothing that is there may be read where sums suffice. */
	for (uint32_t j = 0; j < K; j++)
		src[j] = lost >> j & 1 || summed < e ? symbol_of(x->data, block, j) : NULL;
	assert_int_equal(rs_decode_summed(&x->rs, K, T, src, present, esi, used, n, sums, n_sums),
		(int)e);
	x->blocks[block].present[0] |= lost;
}

static void every_loss_of_a_block_is_repaired_with_its_digest(void **state)
{
	struct fixture *x = *state;
	uint64_t digest;

	if (x->folds.stride == 0)
		skip();
	for (uint32_t rows = 0; rows <= FOLD_ROWS_MAX; rows++) {
		for (uint32_t lost = 0; lost < 1 << K; lost++) {
			uint32_t block = lost, e = (uint32_t)__builtin_popcount(lost);

			if (e >= ROWS)
				continue;              /* more than the rows can repair */
			x->folds.rows = (uint8_t)rows; /* with 4 or fewer lost and with more */
			arrive_all(x, block, lost, true);
			if (e > 0)
				decode(x, block, lost, (uint32_t)prng_below(&x->random, ROWS));
			assert_true(rx_fold_end(&x->folds, &x->t, block, e, &digest));
			assert_memory_equal(symbol_of(x->data, block, 0),
				symbol_of(x->want, block, 0), K * T);
			assert_int_equal(digest, digest_bytes(symbol_of(x->want, block, 0), K * T));
			assert_int_equal(x->folds.used, 0);
		}
	}
}

static void a_block_is_read_when_the_next_one_begins(void **state)
{
	struct fixture *x = *state;
	const uint8_t *sums[FOLD_ROWS_MAX];
	uint64_t digest;

	if (x->folds.stride == 0)
		skip();
	x->folds.rows = 0; /* how many follows from the block alone */
	for (uint32_t lost = 0; lost < 1 << K; lost++) {
		uint32_t e = (uint32_t)__builtin_popcount(lost), most = FOLD_ROWS_MAX;
		bool read = e > 0 && e <= most;

		if (e >= ROWS)
			continue;
		/* If all that came was on seams nobody knows that it began. */
		read = arrive_all(x, lost, lost, false) > 0 && read;
		assert_int_equal(x->folds.used, 0);
		if (e == 0)
			x->blocks[lost].flags |= RX_BLOCK_COMPLETE;
		arrive(x, BLOCKS - 1, 0, true);
		assert_int_equal(x->folds.used, read);
		if (read)
			assert_int_equal(rx_fold_sums(&x->folds, &x->t, lost, x->gather, sums), e);
		if (e > 0)
			decode(x, lost, lost, e); /* with the first e rows, whose sums suffice */
		assert_int_equal(rx_fold_end(&x->folds, &x->t, lost, e, &digest), read);
		assert_memory_equal(symbol_of(x->data, lost, 0), symbol_of(x->want, lost, 0),
			K * T);
		if (read)
			assert_int_equal(digest, digest_bytes(symbol_of(x->want, lost, 0), K * T));
		assert_int_equal(x->folds.used, 0);
	}
}

static void interleaving_is_noticed_and_its_end(void **state)
{
	struct fixture *x = *state;

	assert_true(x->folds.interleaved); /* not known yet */
	for (uint32_t i = 0; i < 256; i++)
		arrive(x, i / K, i % K, true);
	assert_false(x->folds.interleaved); /* one turn in eight symbols */
	for (uint32_t i = 0; i < 256; i++)
		arrive(x, i % 64, i / 64, true);
	assert_true(x->folds.interleaved);
	/* Bursts of 4 of two transfers in turn are at the limit. */
	for (uint32_t i = 0; i < 256; i++) {
		x->t.open.transfer = 7 + i / 4 % 2;
		arrive(x, 0, i % K, true);
	}
	assert_true(x->folds.interleaved);
	for (uint32_t i = 0; i < 256; i++) {
		x->t.open.transfer = 7 + i / 5 % 2;
		arrive(x, 0, i % K, true);
	}
	assert_false(x->folds.interleaved);
	x->t.open.transfer = 7;
}

static void blocks_of_an_ended_transfer_are_not_read(void **state)
{
	struct fixture *x = *state;

	if (x->folds.stride == 0)
		skip();
	for (uint32_t ends = 0; ends < 2; ends++) {
		arrive_all(x, 3, 1, false);
		arrive(x, 3, 1, true);
		if (ends)
			rx_folds_close(&x->folds, x->t.open.transfer);
		arrive(x, 4, 0, true);
		assert_int_equal(x->folds.used, !ends);
		rx_folds_close(&x->folds, x->t.open.transfer);
	}
}

static void a_block_without_a_place_is_read_again(void **state)
{
	struct fixture *x = *state;
	uint64_t digest;

	if (x->folds.stride == 0)
		skip();
	x->folds.rows = 2;
	for (uint32_t block = 0; block < RX_FOLDS; block++)
		arrive(x, block, 0, true);
	arrive_all(x, RX_FOLDS, 2, true);
	assert_int_equal(x->folds.used, RX_FOLDS);
	decode(x, RX_FOLDS, 2, 0);
	assert_false(rx_fold_end(&x->folds, &x->t, RX_FOLDS, 1, &digest));
	assert_memory_equal(symbol_of(x->data, RX_FOLDS, 0), symbol_of(x->want, RX_FOLDS, 0),
		K * T);
	/* The transfer ends: all places are free again. */
	rx_folds_close(&x->folds, x->t.open.transfer + 1);
	assert_int_equal(x->folds.used, RX_FOLDS);
	rx_folds_close(&x->folds, x->t.open.transfer);
	assert_int_equal(x->folds.used, 0);
}

static void a_block_that_lost_an_object_is_not_read(void **state)
{
	struct fixture *x = *state;
	uint64_t digest;

	if (x->folds.stride == 0)
		skip();
	arrive(x, 3, 0, true);
	arrive(x, 3, 1, true);
	x->object.state = RX_OBJECT_DROPPED;
	x->object.data = NULL; /* reading it would end the test */
	x->blocks[3].flags |= RX_BLOCK_NO_DECODE;
	rx_fold_symbol(&x->folds, &x->t, 3, 2, NULL, x->gather);
	x->blocks[3].present[0] = (1 << K) - 1;
	assert_false(rx_fold_end(&x->folds, &x->t, 3, 0, &digest));
	assert_int_equal(x->folds.used, 0);
	x->object.state = RX_OBJECT_PLACED;
	x->object.data = x->data;
}

static void as_many_rows_are_summed_as_blocks_lack(void **state)
{
	struct fixture *x = *state;
	uint64_t digest;

	if (x->folds.stride == 0)
		skip();
	for (int i = 0; i < 4 * RX_FOLD_REVIEW; i++)
		rx_fold_end(&x->folds, &x->t, 0, 0, &digest);
	assert_int_equal(x->folds.rows, 0);
	for (int i = 0; i < 16 * RX_FOLD_REVIEW; i++)
		rx_fold_end(&x->folds, &x->t, 0, (uint32_t)i % 3, &digest);
	assert_int_equal(x->folds.rows, 2);
	/* More than can be summed: in vain. */
	for (int i = 0; i < 16 * RX_FOLD_REVIEW; i++)
		rx_fold_end(&x->folds, &x->t, 0, 20, &digest);
	assert_int_equal(x->folds.rows, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_loss_of_a_block_is_repaired_with_its_digest,
			setup, teardown),
		cmocka_unit_test_setup_teardown(a_block_is_read_when_the_next_one_begins, setup,
			teardown),
		cmocka_unit_test_setup_teardown(interleaving_is_noticed_and_its_end, setup,
			teardown),
		cmocka_unit_test_setup_teardown(blocks_of_an_ended_transfer_are_not_read, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_block_without_a_place_is_read_again, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_block_that_lost_an_object_is_not_read, setup,
			teardown),
		cmocka_unit_test_setup_teardown(as_many_rows_are_summed_as_blocks_lack, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
