/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/forge.h"

#include <strait/wire.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { UDP = 34, PAYLOAD = 42, LEN = 42 + STRAIT_OVERHEAD_BYTES + STRAIT_SYMBOL_BYTES_IPV4 };

static void frame_make(uint8_t *f)
{
	memset(f, 0, LEN);
	f[12] = 0x08;
	f[14] = 0x45;
	f[23] = 17;
	f[UDP + 4] = (LEN - UDP) >> 8;
	f[UDP + 5] = (LEN - UDP) & 0xff;
	f[UDP + 6] = 0xab;
	f[PAYLOAD] = STRAIT_WIRE_VERSION << 4 | STRAIT_PACKET_DATA;
}

static void only_data_packets_are_taken(void **state)
{
	uint8_t f[LEN];

	(void)state;
	frame_make(f);
	assert_true(wan_frame_is_data(f, LEN));
	assert_false(wan_frame_is_data(f, LEN - 1));
	f[PAYLOAD] = STRAIT_WIRE_VERSION << 4 | STRAIT_PACKET_CONTROL;
	assert_false(wan_frame_is_data(f, LEN));
	frame_make(f);
	f[23] = 6;
	assert_false(wan_frame_is_data(f, LEN));
	frame_make(f);
	f[21] = 1; /* fragment offset */
	assert_false(wan_frame_is_data(f, LEN));
	frame_make(f);
	f[14] = 0x44;
	assert_false(wan_frame_is_data(f, LEN));
	for (size_t len = 0; len < 100; len++)
		assert_false(wan_frame_is_data(f, len));
}

static void headers_end_where_they_should(void **state)
{
	uint8_t f[LEN];

	(void)state;
	frame_make(f);
	assert_int_equal(wan_frame_payload(f, LEN), PAYLOAD);
	f[23] = 1;
	assert_int_equal(wan_frame_payload(f, LEN), UDP);
	f[12] = 0x86;
	assert_int_equal(wan_frame_payload(f, LEN), 14);
	assert_int_equal(wan_frame_payload(f, 10), 10);
}

static void forged_packets_differ_and_keep_their_way(void **state)
{
	uint8_t f[LEN], g[LEN];
	struct prng rnd;
	unsigned int header_changed = 0;

	(void)state;
	prng_init(&rnd, 1, 0);
	frame_make(f);
	for (int i = 0; i < 1000; i++) {
		memcpy(g, f, LEN);
		wan_frame_forge(g, LEN, &rnd);
		assert_memory_equal(g, f, UDP + 6);
		assert_int_equal(g[UDP + 6] | g[UDP + 7], 0);
		/* Version, type, queue and session stay. */
		assert_memory_equal(g + PAYLOAD, f + PAYLOAD, STRAIT_OFF_ESI);
		assert_memory_equal(g + PAYLOAD + STRAIT_OFF_SESSION,
			f + PAYLOAD + STRAIT_OFF_SESSION, 4);
		assert_memory_not_equal(g + PAYLOAD, f + PAYLOAD, LEN - PAYLOAD);
		header_changed += memcmp(g + PAYLOAD, f + PAYLOAD, STRAIT_HEADER_BYTES) != 0;
	}
	assert_in_range(header_changed, 400, 600);
}

static void over_ipv6_a_forged_packet_has_a_right_checksum(void **state)
{
	enum { UDP6 = 54, LEN6 = UDP6 + 8 + STRAIT_OVERHEAD_BYTES + STRAIT_SYMBOL_BYTES_IPV6 };
	uint8_t f[LEN6], g[LEN6];
	struct prng rnd;

	(void)state;
	memset(f, 0, sizeof(f));
	f[12] = 0x86;
	f[13] = 0xdd;
	f[14] = 0x60;
	f[18] = (LEN6 - UDP6) >> 8;
	f[19] = (LEN6 - UDP6) & 0xff;
	f[20] = 17;
	for (int i = 22; i < UDP6; i++)
		f[i] = (uint8_t)(i * 37);
	f[UDP6 + 4] = f[18];
	f[UDP6 + 5] = f[19];
	f[UDP6 + 8] = STRAIT_WIRE_VERSION << 4 | STRAIT_PACKET_DATA;
	assert_true(wan_frame_is_data(f, LEN6));
	assert_int_equal(wan_frame_payload(f, LEN6), UDP6 + 8);
	prng_init(&rnd, 1, 0);
	for (int i = 0; i < 200; i++) {
		uint32_t sum = LEN6 - UDP6 + 17;

		memcpy(g, f, LEN6);
		wan_frame_forge(g, LEN6, &rnd);
		assert_memory_equal(g, f, UDP6 + 6);
		assert_memory_not_equal(g + UDP6 + 8, f + UDP6 + 8, LEN6 - UDP6 - 8);
		assert_int_not_equal(g[UDP6 + 6] | g[UDP6 + 7], 0);
		for (int at = 22; at < LEN6; at += 2)
			sum += (uint32_t)(g[at] << 8 | g[at + 1]);
		assert_int_equal((sum & 0xffff) + (sum >> 16) == 0xffff ||
				((sum & 0xffff) + (sum >> 16)) % 0xffff == 0,
			true);
	}
	f[20] = 44; /* fragment */
	assert_false(wan_frame_is_data(f, LEN6));
	assert_int_equal(wan_frame_payload(f, LEN6), UDP6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_data_packets_are_taken),
		cmocka_unit_test(headers_end_where_they_should),
		cmocka_unit_test(forged_packets_differ_and_keep_their_way),
		cmocka_unit_test(over_ipv6_a_forged_packet_has_a_right_checksum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
