/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/audit.h"

#include <strait/wire.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int send(struct audit *a, uint64_t now_ns, uint8_t queue, uint64_t pn, size_t len)
{
	uint8_t packet[STRAIT_HEADER_BYTES] = { 0 };

	packet[STRAIT_OFF_QUEUE] = queue;
	for (int i = 0; i < 8; i++)
		packet[STRAIT_OFF_PACKET_NUMBER + i] = (uint8_t)(pn >> (56 - 8 * i));
	return audit_packet(a, now_ns, packet, len);
}

static void a_number_used_twice_is_found(void **state)
{
	static const uint64_t pns[] = { 0, 1, 65535, 65536, 1 << 23, (1 << 23) + 65536,
		1ULL << 40 };
	struct audit a;

	(void)state;
	audit_init(&a, 0);
	for (uint8_t queue = 0; queue < 3; queue++)
		for (size_t i = sizeof(pns) / sizeof(pns[0]); i-- > 0;)
			assert_int_equal(send(&a, 0, queue, pns[i], 100), 0);
	assert_int_equal(a.repeats, 0);
	assert_int_equal(audit_generation(&a), 1 << 17);
	for (size_t i = 0; i < sizeof(pns) / sizeof(pns[0]); i++) {
		send(&a, 0, 1, pns[i], 100);
		assert_int_equal(a.repeats, i + 1);
	}
	audit_fini(&a);
}

static void a_packet_without_header_is_refused(void **state)
{
	struct audit a;

	(void)state;
	audit_init(&a, 0);
	assert_int_equal(send(&a, 0, 0, 0, STRAIT_HEADER_BYTES - 1), -EINVAL);
	audit_fini(&a);
}

static void excess_over_the_cap_is_the_worst_of_all_intervals(void **state)
{
	struct audit a;

	(void)state;
	/* 8 Gbit/s: a byte a ns. 934 + 66 = 1000 line bytes. */
	audit_init(&a, 8000000000);
	for (uint64_t i = 0; i < 100; i++)
		send(&a, 1000 * i, 0, i, 934);
	assert_true(a.excess_bytes >= 1000 && a.excess_bytes < 1001);
	for (uint64_t i = 0; i < 10; i++)
		send(&a, 200000, 0, 100 + i, 934);
	assert_true(a.excess_bytes >= 10000 && a.excess_bytes < 10001);
	send(&a, 300000, 0, 200, 934);
	assert_true(a.excess_bytes < 10001);
	audit_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_used_twice_is_found),
		cmocka_unit_test(a_packet_without_header_is_refused),
		cmocka_unit_test(excess_over_the_cap_is_the_worst_of_all_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
