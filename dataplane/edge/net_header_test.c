/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_header.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PAYLOAD_MAX = 1472 };

static const struct net_flow flow = { .dst_mac = { 2, 0, 0, 0, 0, 9 },
	.src = NET_IP4_INIT(0xc0a80001),
	.dst = NET_IP4_INIT(0xc0a80102),
	.src_port = 4700,
	.dst_port = 4701,
	.dscp = 46 };
static const uint8_t mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };

/* RFC 1071's definition, a word at a time. */
static uint16_t plain_sum(uint32_t sum, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += net_get16(p + i);
	if (len & 1)
		sum += (uint32_t)p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint16_t native_to_wire(uint16_t folded)
{
	uint8_t b[2];

	net_sum_put(b, folded);
	return net_get16(b);
}

static void sum_is_that_of_the_rfc_at_any_length_and_alignment(void **state)
{
	uint8_t data[512];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 131 + 255);
	for (size_t at = 0; at < 9; at++) {
		for (size_t len = 0; len < 400; len++)
			assert_int_equal(native_to_wire(
						 net_sum_fold(net_sum_add(0, data + at, len))),
				(uint16_t)~plain_sum(0, data + at, len));
	}
	memset(data, 0xff, sizeof(data));
	assert_int_equal(net_sum_fold(net_sum_add(0, data, sizeof(data))), 0);
}

static void headers_are_complete_and_sums_hold(void **state)
{
	uint8_t frame[NET_HEADERS_BYTES + PAYLOAD_MAX];
	struct net_header h;

	(void)state;
	net_header_init(&h, &flow, mac);
	for (size_t i = 0; i < PAYLOAD_MAX; i++)
		frame[NET_HEADERS_BYTES + i] = (uint8_t)(i ^ i >> 3);
	for (size_t n = 0; n <= PAYLOAD_MAX; n += n < 80 ? 1 : 29) {
		const uint8_t *ip = frame + NET_ETH_BYTES, *udp = ip + NET_IPV4_BYTES;
		uint8_t pseudo[12];

		assert_int_equal(net_header_write(&h, frame, n, NET_UDP_SUM_FULL),
			NET_HEADERS_BYTES + n);
		assert_memory_equal(frame, flow.dst_mac, NET_MAC_BYTES);
		assert_memory_equal(frame + 6, mac, NET_MAC_BYTES);
		assert_int_equal(net_get16(frame + 12), NET_TYPE_IPV4);
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(ip[1], 46 << 2);
		assert_int_equal(net_get16(ip + 2), 28 + n);
		assert_int_equal(net_get16(ip + 4), 0);
		assert_int_equal(net_get16(ip + 6), 0x4000);
		assert_int_equal(plain_sum(0, ip, 20), 0xffff);
		assert_int_equal(net_get16(udp), 4700);
		assert_int_equal(net_get16(udp + 2), 4701);
		assert_int_equal(net_get16(udp + 4), 8 + n);

		memcpy(pseudo, ip + 12, 8);
		pseudo[8] = 0;
		pseudo[9] = NET_PROTO_UDP;
		net_put16(pseudo + 10, (uint16_t)(8 + n));
		assert_int_equal(plain_sum(plain_sum(0, pseudo, 12), udp, 8 + n), 0xffff);
	}
}

static void pseudo_sum_is_left_for_the_device(void **state)
{
	uint8_t frame[NET_HEADERS_BYTES + 10] = { 0 }, pseudo[12];
	struct net_header h;

	(void)state;
	net_header_init(&h, &flow, mac);
	net_header_write(&h, frame, 10, NET_UDP_SUM_PSEUDO);
	memcpy(pseudo, frame + NET_ETH_BYTES + 12, 8);
	pseudo[8] = 0;
	pseudo[9] = NET_PROTO_UDP;
	net_put16(pseudo + 10, 18);
	assert_int_equal(net_get16(frame + 40), plain_sum(0, pseudo, 12));
}

static void no_sum_is_zero_and_over_ipv6_a_full_one(void **state)
{
	const struct net_flow flow6 = { .src = { .b = { 0xfd, [15] = 1 } },
		.dst = { .b = { 0xfd, [15] = 2 } },
		.src_port = 4700,
		.dst_port = 4701 };
	uint8_t frame[NET_HEADERS_MAX + 10] = { 0 }, full[NET_HEADERS_MAX + 10] = { 0 };
	struct net_header h;

	(void)state;
	net_header_init(&h, &flow, mac);
	memset(frame, 0xff, NET_HEADERS_BYTES);
	net_header_write(&h, frame, 10, NET_UDP_SUM_NONE);
	assert_int_equal(net_get16(frame + 40), 0);
	assert_int_equal(plain_sum(0, frame + NET_ETH_BYTES, 20), 0xffff);

	net_header_init(&h, &flow6, mac);
	net_header_write(&h, frame, 10, NET_UDP_SUM_NONE);
	net_header_write(&h, full, 10, NET_UDP_SUM_FULL);
	assert_int_not_equal(net_get16(frame + 60), 0);
	assert_int_equal(net_get16(frame + 60), net_get16(full + 60));
}

static void computed_zero_is_sent_as_ones(void **state)
{
	uint8_t frame[NET_HEADERS_BYTES + 2] = { 0 };
	struct net_header h;
	uint16_t sum;

	(void)state;
	net_header_init(&h, &flow, mac);
	net_header_write(&h, frame, 2, NET_UDP_SUM_FULL);
	sum = net_get16(frame + 40);
	/* A payload that is the checksum itself makes the complement zero. */
	net_put16(frame + NET_HEADERS_BYTES, sum);
	net_header_write(&h, frame, 2, NET_UDP_SUM_FULL);
	assert_int_equal(net_get16(frame + 40), 0xffff);
}

static void new_next_hop_changes_the_mac_alone(void **state)
{
	static const uint8_t other[NET_MAC_BYTES] = { 2, 1, 2, 3, 4, 5 };
	uint8_t a[NET_HEADERS_BYTES], b[NET_HEADERS_BYTES];
	struct net_header h;

	(void)state;
	net_header_init(&h, &flow, mac);
	net_header_write(&h, a, 0, NET_UDP_SUM_FULL);
	net_header_set_mac(&h, other);
	net_header_write(&h, b, 0, NET_UDP_SUM_FULL);
	assert_memory_equal(b, other, NET_MAC_BYTES);
	assert_memory_equal(a + 6, b + 6, NET_HEADERS_BYTES - 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sum_is_that_of_the_rfc_at_any_length_and_alignment),
		cmocka_unit_test(headers_are_complete_and_sums_hold),
		cmocka_unit_test(pseudo_sum_is_left_for_the_device),
		cmocka_unit_test(no_sum_is_zero_and_over_ipv6_a_full_one),
		cmocka_unit_test(computed_zero_is_sent_as_ones),
		cmocka_unit_test(new_next_hop_changes_the_mac_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
