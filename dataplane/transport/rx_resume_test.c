/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_resume.h"

#include "dataplane/transport/session.h"

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

static void state_survives_for_the_same_layout_only(void **state)
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
	for (int field = 0; field < 5; field++) {
		other = layout;
		other.symbol_bytes += field == 0;
		other.stream_bytes += field == 1;
		other.offset += field == 2;
		other.length += field == 3;
		other.digest += field == 4;
		rx_resume_open(area, &layout, false);
		rx_resume_mark(area, 7);
		assert_false(rx_resume_open(area, &other, true));
		assert_false(rx_resume_has(area, 7));
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
		cmocka_unit_test(state_survives_for_the_same_layout_only),
		cmocka_unit_test(a_fresh_object_never_inherits_state),
		cmocka_unit_test(blocks_beyond_the_area_are_simply_not_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
