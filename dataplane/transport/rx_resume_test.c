/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_resume.h"

#include "dataplane/transport/partition.h"
#include "dataplane/transport/session.h"
#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct rx_resume_layout layout = {
	.symbol_bytes = 1432,
	.stream_bytes = 1 << 30,
	.offset = 12345,
	.length = 2 << 20,
	.digest = 42,
};

static void state_survives_for_the_same_object_only(void **state)
{
	_Alignas(8) uint8_t area[SESSION_RESUME_BYTES] = { 0 };
	struct rx_resume_layout other;

	(void)state;
	assert_false(rx_resume_open(area, &layout, true)); /* zeroed area: nothing to resume */
	rx_resume_mark(area, 0);
	rx_resume_mark(area, 1000);
	assert_true(rx_resume_open(area, &layout, true));
	assert_true(rx_resume_has(area, 0) && rx_resume_has(area, 1000));
	assert_false(rx_resume_has(area, 1) || rx_resume_has(area, 999));
	rx_resume_clear(area, 1000);
	assert_false(rx_resume_has(area, 1000));
	for (int field = 0; field < 2; field++) {
		other = layout;
		other.length += field == 0;
		other.digest += field == 1;
		rx_resume_open(area, &layout, false);
		rx_resume_mark(area, 7);
		assert_false(rx_resume_open(area, &other, true));
		assert_false(rx_resume_has(area, 7));
	}
}

/* The oracle: a byte of `there` for each byte of the object. */
static void fill_range(uint8_t *there, const struct rx_resume_layout *l, const struct partition *p,
	uint32_t block, uint8_t value, bool *all)
{
	uint64_t from = partition_offset(p, block, 0);
	uint64_t to = partition_offset(p, block, partition_k(p, block));

	from = from > l->offset ? from - l->offset : 0;
	to = to < l->offset + l->length ? to - l->offset : l->length;
	for (uint64_t i = from; i < to; i++) {
		if (all != NULL)
			*all = *all && there[i];
		else
			there[i] = value;
	}
}

static void layout_draw(struct rx_resume_layout *l, struct prng *rnd)
{
	static const uint32_t symbols[] = { 512, 1160, 1192, 1212, 1412, 1432, 8912, 8932 };

	l->symbol_bytes = prng_chance(rnd, 0.7)
		? symbols[prng_below(rnd, sizeof(symbols) / sizeof(symbols[0]))]
		: 512 + (uint32_t)prng_below(rnd, 8421);
	l->offset = prng_chance(rnd, 0.3) ? 0 : prng_below(rnd, 3000000);
	l->stream_bytes =
		l->offset + l->length + (prng_chance(rnd, 0.3) ? 0 : prng_below(rnd, 3000000));
}

static void another_layout_keeps_exactly_the_blocks_whose_bytes_are_there(void **state)
{
	static uint8_t there[3000000];
	struct prng rnd;
	uint64_t kept = 0;

	(void)state;
	prng_init(&rnd, 1, 0);
	for (int round = 0; round < 300; round++) {
		_Alignas(8) uint8_t area[SESSION_RESUME_BYTES] = { 0 };
		struct rx_resume_layout a = { .length = 1 + prng_below(&rnd, sizeof(there)),
			.digest = 7 };
		struct rx_resume_layout b = a;
		struct partition pa, pb;
		double share = prng_unit(&rnd);
		uint32_t first;

		layout_draw(&a, &rnd);
		layout_draw(&b, &rnd);
		assert_int_equal(partition_init(&pa, a.stream_bytes, a.symbol_bytes), 0);
		assert_int_equal(partition_init(&pb, b.stream_bytes, b.symbol_bytes), 0);
		memset(there, 0, a.length);
		rx_resume_open(area, &a, false);
		first = partition_block_of(&pa, a.offset);
		for (uint32_t i = first; i <= partition_block_of(&pa, a.offset + a.length - 1); i++)
			if (prng_chance(&rnd, share)) {
				rx_resume_mark(area, i - first);
				fill_range(there, &a, &pa, i, 1, NULL);
			}
		assert_true(rx_resume_open(area, &b, true));
		first = partition_block_of(&pb, b.offset);
		for (uint32_t i = first; i <= partition_block_of(&pb, b.offset + b.length - 1);
			i++) {
			bool all = true;

			fill_range(there, &b, &pb, i, 0, &all);
			assert_int_equal(rx_resume_has(area, i - first), all);
			kept += all;
		}
	}
	assert_true(kept > 1000);
}

/* The area is shared memory: a layout in it that cannot be must not be believed. */
static void a_lying_area_is_wiped(void **state)
{
	_Alignas(8) uint8_t area[SESSION_RESUME_BYTES];
	struct rx_resume_layout other = layout;
	static const uint64_t lies[] = { 0, 1, 511, UINT32_MAX, UINT64_MAX };

	(void)state;
	other.symbol_bytes = 1212;
	for (int field = 0; field < 3; field++)
		for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
			memset(area, 0, sizeof(area));
			rx_resume_open(area, &layout, false);
			memset(area + 40, 0xff, SESSION_RESUME_BYTES - 40);
			if (field == 0)
				memcpy(area + 4, &lies[i], 4); /* symbol bytes */
			else
				memcpy(area + 8 * field, &lies[i], 8); /* stream bytes, offset */
			if (rx_resume_open(area, &other, true))
				assert_true(field == 1 ? lies[i] == UINT32_MAX
						       : field == 2 && lies[i] < 512);
			else
				assert_false(rx_resume_has(area, 0));
		}
}

static void a_fresh_object_never_inherits_state(void **state)
{
	_Alignas(8) uint8_t area[SESSION_RESUME_BYTES] = { 0 };

	(void)state;
	rx_resume_open(area, &layout, false);
	rx_resume_mark(area, 3);
	assert_false(rx_resume_open(area, &layout, false));
	assert_false(rx_resume_has(area, 3));
}

static void blocks_beyond_the_area_are_simply_not_remembered(void **state)
{
	_Alignas(8) uint8_t area[SESSION_RESUME_BYTES + 64];

	(void)state;
	memset(area, 0, sizeof(area));
	rx_resume_open(area, &layout, false);
	rx_resume_mark(area, 8 * SESSION_RESUME_BYTES);
	rx_resume_mark(area, UINT32_MAX);
	assert_false(rx_resume_has(area, UINT32_MAX));
	for (size_t i = SESSION_RESUME_BYTES; i < sizeof(area); i++)
		assert_int_equal(area[i], 0);
	rx_resume_mark(NULL, 0);
	rx_resume_clear(NULL, 0);
	assert_false(rx_resume_has(NULL, 0));
	assert_false(rx_resume_open(NULL, &layout, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_survives_for_the_same_object_only),
		cmocka_unit_test(another_layout_keeps_exactly_the_blocks_whose_bytes_are_there),
		cmocka_unit_test(a_lying_area_is_wiped),
		cmocka_unit_test(a_fresh_object_never_inherits_state),
		cmocka_unit_test(blocks_beyond_the_area_are_simply_not_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
