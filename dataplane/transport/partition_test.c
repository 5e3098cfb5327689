/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/partition.h"

#include "tools/link/prng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Walks every symbol in order and checks each accessor against plain counting. */
static void check(uint64_t bytes, uint32_t symbol_bytes)
{
	struct partition p;
	uint64_t symbol = 0, offset = 0;

	assert_int_equal(partition_init(&p, bytes, symbol_bytes), 0);
	assert_true(p.large == p.small || p.large == p.small + 1);
	for (uint32_t b = 0; b < p.blocks; b++) {
		uint32_t k = partition_k(&p, b);

		assert_in_range(k, 1, STRAIT_BLOCK_SYMBOLS_MAX);
		assert_true(partition_first(&p, b) == symbol);
		for (uint32_t esi = 0; esi < k; esi++) {
			uint32_t len = partition_symbol_len(&p, offset);

			assert_true(partition_offset(&p, b, esi) == offset);
			assert_int_equal(partition_block_of(&p, offset), b);
			assert_int_equal(partition_block_of(&p, offset + len - 1), b);
			assert_in_range(len, 1, symbol_bytes);
			if (offset + len < bytes)
				assert_int_equal(len, symbol_bytes);
			offset += len;
			symbol++;
		}
	}
	assert_true(offset == bytes);
	assert_true(symbol == p.symbols);
	assert_true(partition_first(&p, p.blocks) == p.symbols);
}

static void every_byte_has_exactly_one_place(void **state)
{
	struct prng r;

	(void)state;
	for (uint64_t symbols = 1; symbols < 600; symbols++) {
		check(symbols * 512, 512);
		check(symbols * 512 - 511, 512);
	}
	prng_init(&r, 1, 0);
	for (int i = 0; i < 100; i++)
		check(1 + prng_below(&r, 20000000),
			STRAIT_SYMBOL_BYTES_MIN + (uint32_t)prng_below(&r, 8000));
}

static void large_blocks_come_first(void **state)
{
	struct partition p;

	(void)state;
	/* 257 symbols: 3 blocks, 86 + 86 + 85 (RFC 5052 section 9.1). */
	assert_int_equal(partition_init(&p, 257 * 1432, 1432), 0);
	assert_int_equal(p.blocks, 3);
	assert_int_equal(p.large, 86);
	assert_int_equal(p.small, 85);
	assert_int_equal(p.n_large, 2);
	assert_int_equal(partition_k(&p, 1), 86);
	assert_int_equal(partition_k(&p, 2), 85);
}

static void equal_blocks_have_one_size(void **state)
{
	struct partition p;

	(void)state;
	assert_int_equal(partition_init(&p, 256 * 1432, 1432), 0);
	assert_int_equal(p.blocks, 2);
	assert_int_equal(p.large, 128);
	assert_int_equal(p.small, 128);
	assert_int_equal(p.n_large, 0);
}

static void limits_are_refused_not_wrapped(void **state)
{
	const uint64_t most = 512ULL * STRAIT_BLOCK_SYMBOLS_MAX * UINT32_MAX;
	struct partition p;

	(void)state;
	assert_int_equal(partition_init(&p, 0, 1432), -EINVAL);
	assert_int_equal(partition_init(&p, 1, STRAIT_SYMBOL_BYTES_MIN - 1), -EINVAL);
	assert_int_equal(partition_init(&p, 1, STRAIT_SYMBOL_BYTES_MAX + 1), -EINVAL);
	assert_int_equal(partition_init(&p, most, 512), 0);
	assert_int_equal(p.blocks, UINT32_MAX);
	assert_int_equal(partition_block_of(&p, most - 1), UINT32_MAX - 1);
	assert_int_equal(partition_init(&p, most + 1, 512), -EOVERFLOW);
	assert_int_equal(partition_init(&p, UINT64_MAX, 512), -EOVERFLOW);
	assert_int_equal(partition_init(&p, UINT64_MAX, STRAIT_SYMBOL_BYTES_MAX), -EOVERFLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_has_exactly_one_place),
		cmocka_unit_test(large_blocks_come_first),
		cmocka_unit_test(equal_blocks_have_one_size),
		cmocka_unit_test(limits_are_refused_not_wrapped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
