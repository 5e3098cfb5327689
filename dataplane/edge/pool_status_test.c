/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/pool_status.h"

#include <strait/status.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_lease_tells_absent_from_replaced(void **state)
{
	(void)state;
	assert_int_equal(pool_lease_status(-ENOENT, STRAIT_STATUS_NOT_FOUND),
		STRAIT_STATUS_NOT_FOUND);
	assert_int_equal(pool_lease_status(-ENOENT, STRAIT_STATUS_EVICTED), STRAIT_STATUS_EVICTED);
	assert_int_equal(pool_lease_status(-ESTALE, STRAIT_STATUS_NOT_FOUND),
		STRAIT_STATUS_EVICTED);
	assert_int_equal(pool_lease_status(-EFBIG, 0), STRAIT_STATUS_TOO_LARGE);
	assert_int_equal(pool_lease_status(-ENXIO, 0), STRAIT_STATUS_REFUSED);
	assert_int_equal(pool_lease_status(-EIO, 0), STRAIT_STATUS_INTERNAL);
}

static void a_reservation_tells_full_from_busy_from_there(void **state)
{
	(void)state;
	assert_int_equal(pool_reserve_status(-EEXIST), STRAIT_STATUS_EXISTS);
	assert_int_equal(pool_reserve_status(-ENOSPC), STRAIT_STATUS_FULL);
	assert_int_equal(pool_reserve_status(-EFBIG), STRAIT_STATUS_TOO_LARGE);
	assert_int_equal(pool_reserve_status(-EBUSY), STRAIT_STATUS_BUSY);
	assert_int_equal(pool_reserve_status(-ETIMEDOUT), STRAIT_STATUS_BUSY);
	assert_int_equal(pool_reserve_status(-EINVAL), STRAIT_STATUS_REFUSED);
	assert_int_equal(pool_reserve_status(-ENXIO), STRAIT_STATUS_REFUSED);
	assert_int_equal(pool_reserve_status(-EIO), STRAIT_STATUS_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_tells_absent_from_replaced),
		cmocka_unit_test(a_reservation_tells_full_from_busy_from_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
