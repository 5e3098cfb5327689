/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/packet.h"

#include "tools/link/prng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void header_has_the_documented_layout(void **state)
{
	static const uint8_t want[STRAIT_HEADER_BYTES] = { 0x11, 0x3f, 0x05, 0xfe, 0x01, 0x02, 0x03,
		0x04, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x31,
		0x32, 0x33, 0x34 };
	const struct packet_header h = {
		.type = STRAIT_PACKET_DATA,
		.queue = 63,
		.flags = STRAIT_FLAG_TAIL | STRAIT_FLAG_REPORT,
		.esi = 254,
		.session = 0x01020304,
		.packet_number = 0x1112131415161718,
		.transfer = 0x21222324,
		.block = 0x31323334,
	};
	uint8_t out[STRAIT_HEADER_BYTES];

	(void)state;
	packet_header_encode(&h, out);
	assert_memory_equal(out, want, sizeof(want));
}

static void random_headers_survive_a_round_trip(void **state)
{
	uint8_t packet[STRAIT_OVERHEAD_BYTES] = { 0 }, again[STRAIT_HEADER_BYTES];
	struct packet_header h;
	struct prng r;

	(void)state;
	prng_init(&r, 1, 0);
	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < STRAIT_HEADER_BYTES; i++)
			packet[i] = (uint8_t)prng_next(&r);
		packet[0] = (uint8_t)(0x11 + prng_below(&r, 3));
		assert_int_equal(packet_header_decode(packet, sizeof(packet), &h), 0);
		packet_header_encode(&h, again);
		assert_memory_equal(packet, again, sizeof(again));
	}
}

static void short_packets_are_refused(void **state)
{
	uint8_t packet[STRAIT_OVERHEAD_BYTES] = { 0x11 };
	struct packet_header h;

	(void)state;
	for (size_t n = 0; n < sizeof(packet); n++)
		assert_int_equal(packet_header_decode(packet, n, &h), -EMSGSIZE);
	assert_int_equal(packet_header_decode(packet, sizeof(packet), &h), 0);
}

static void other_versions_and_types_are_refused(void **state)
{
	uint8_t packet[STRAIT_OVERHEAD_BYTES] = { 0 };
	struct packet_header h;

	(void)state;
	for (unsigned b = 0; b < 256; b++) {
		int want = b >= 0x11 && b <= 0x13 ? 0 : -EPROTONOSUPPORT;

		packet[0] = (uint8_t)b;
		assert_int_equal(packet_header_decode(packet, sizeof(packet), &h), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_has_the_documented_layout),
		cmocka_unit_test(random_headers_survive_a_round_trip),
		cmocka_unit_test(short_packets_are_refused),
		cmocka_unit_test(other_versions_and_types_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
