/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void slots_are_distinct_bounded_and_reusable(void **state)
{
	struct scratch s;
	uint16_t slots[10];

	(void)state;
	assert_int_equal(scratch_init(&s, 10, 1432), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 10; i++) {
			slots[i] = scratch_get(&s);
			assert_int_not_equal(slots[i], SCRATCH_NONE);
			memset(scratch_bytes(&s, slots[i]), i, 1432);
		}
		assert_int_equal(scratch_get(&s), SCRATCH_NONE);
		assert_int_equal(s.used, 10);
		for (int i = 0; i < 10; i++) {
			const uint8_t *p = scratch_bytes(&s, slots[i]);

			assert_int_equal((uintptr_t)p % 64, 0);
			assert_true(p[0] == i && p[1431] == i);
			scratch_put(&s, slots[i]);
		}
		assert_int_equal(s.used, 0);
	}
	scratch_fini(&s);
}

static void sizes_out_of_range_are_refused(void **state)
{
	struct scratch s;

	(void)state;
	assert_int_equal(scratch_init(&s, 0, 1432), -EINVAL);
	assert_int_equal(scratch_init(&s, SCRATCH_SLOTS_MAX + 1, 1432), -EINVAL);
	assert_int_equal(scratch_init(&s, 1, 0), -EINVAL);
	assert_int_equal(scratch_init(&s, SCRATCH_SLOTS_MAX, 64), 0);
	scratch_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_distinct_bounded_and_reusable),
		cmocka_unit_test(sizes_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
