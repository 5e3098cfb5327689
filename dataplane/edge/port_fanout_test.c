/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_fanout.h"

#include <linux/if_packet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void defragmentation_is_not_asked_for(void **state)
{
	const uint32_t ids[] = { 0, 1, 0x8000, 0xffff };

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uint32_t plain = ids[i] | PACKET_FANOUT_HASH << 16;
		uint32_t defrag = plain | (uint32_t)PACKET_FANOUT_FLAG_DEFRAG << 16;

		assert_int_equal((uint32_t)port_fanout_without_defrag((int)defrag), plain);
	}
}

static void everything_else_stays(void **state)
{
	const uint32_t all = ~((uint32_t)PACKET_FANOUT_FLAG_DEFRAG << 16);

	(void)state;
	assert_int_equal((uint32_t)port_fanout_without_defrag((int)all), all);
	assert_int_equal(port_fanout_without_defrag(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defragmentation_is_not_asked_for),
		cmocka_unit_test(everything_else_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
