/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_frame.h"

#include "dataplane/edge/net_header.h"
#include "dataplane/edge/net_icmp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct net_identity me = { .mac = { 2, 0, 0, 0, 0, 1 },
	.ip = 0x0a000001,
	.udp_port = 4700 };
static const uint8_t peer_mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 2 };

enum { PAYLOAD = 101, FRAME_MAX = 2048 };

/* A datagram from 10.0.0.2:5000 to us. */
static size_t datagram(uint8_t *frame, size_t payload)
{
	struct net_flow flow = { .src = net_ip4(0x0a000002),
		.dst = net_ip4(me.ip),
		.src_port = 5000,
		.dst_port = me.udp_port,
		.dscp = 10 };
	struct net_header h;

	memcpy(flow.dst_mac, me.mac, NET_MAC_BYTES);
	net_header_init(&h, &flow, peer_mac);
	for (size_t i = 0; i < payload; i++)
		frame[NET_HEADERS_BYTES + i] = (uint8_t)(i * 7 + 1);
	return net_header_write(&h, frame, payload, NET_UDP_SUM_FULL);
}

static void fix_ip_sum(uint8_t *frame)
{
	uint8_t *ip = frame + NET_ETH_BYTES;

	net_put16(ip + 10, 0);
	net_sum_put(ip + 10, net_sum_fold(net_sum_add(0, ip, NET_IPV4_BYTES)));
}

static size_t echo_request(uint8_t *frame, size_t data)
{
	uint8_t *icmp = frame + NET_ETH_BYTES + NET_IPV4_BYTES;
	size_t len = NET_ETH_BYTES + NET_IPV4_BYTES + 8 + data;

	datagram(frame, data);
	frame[NET_ETH_BYTES + 9] = NET_PROTO_ICMP;
	net_put16(frame + NET_ETH_BYTES + 2, (uint16_t)(NET_IPV4_BYTES + 8 + data));
	fix_ip_sum(frame);
	memset(icmp, 0, 8);
	icmp[0] = 8;
	net_put16(icmp + 4, 0x1234);
	net_put16(icmp + 6, 1);
	net_sum_put(icmp + 2, net_sum_fold(net_sum_add(0, icmp, 8 + data)));
	return len;
}

static enum net_verdict classify(const uint8_t *frame, size_t len, struct net_packet *p)
{
	return net_frame_classify(frame, len, &me, 0, p);
}

static void datagram_for_us_is_accepted(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;

	(void)state;
	for (size_t payload = 0; payload < 300; payload++) {
		size_t len = datagram(frame, payload);

		assert_int_equal(classify(frame, len, &p), NET_UDP);
		assert_true(net_ip_equal(p.src, net_ip4(0x0a000002)));
		assert_int_equal(p.src_port, 5000);
		assert_int_equal(p.payload_len, payload);
		assert_ptr_equal(p.payload, frame + NET_HEADERS_BYTES);
	}
}

static void ethernet_padding_is_not_payload(void **state)
{
	uint8_t frame[FRAME_MAX] = { 0 };
	struct net_packet p;

	(void)state;
	datagram(frame, 5);
	memset(frame + NET_HEADERS_BYTES + 5, 0xee, 64);
	assert_int_equal(classify(frame, NET_ETH_MIN_BYTES, &p), NET_UDP);
	assert_int_equal(p.payload_len, 5);
}

static void truncation_at_each_byte_is_malformed(void **state)
{
	uint8_t full[FRAME_MAX];
	size_t len = datagram(full, PAYLOAD);
	struct net_packet p;

	(void)state;
	for (size_t n = 0; n < len; n++) {
		/*
		 * A buffer of exactly that size, so that a sanitizer sees the first byte too
		 * many.
		 */
		uint8_t *cut = malloc(n > 0 ? n : 1);

		memcpy(cut, full, n);
		assert_int_equal(classify(cut, n, &p), NET_DROP_MALFORMED);
		free(cut);
	}
}

static void every_flipped_bit_is_dropped(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	/* The source MAC does not matter to us, and no checksum covers it. */
	for (size_t bit = 0; bit < len * 8; bit++) {
		if (bit / 8 >= 6 && bit / 8 < 12)
			continue;
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(classify(frame, len, &p), NET_UDP);
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(classify(frame, len, &p), NET_UDP);
}

static void lies_about_length_are_malformed(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	uint8_t *ip = frame + NET_ETH_BYTES;
	struct net_packet p;

	(void)state;
	net_put16(ip + 2, (uint16_t)(len - NET_ETH_BYTES + 1));
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	net_put16(ip + 2, 19);
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	net_put16(ip + 2, 27);
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);

	len = datagram(frame, PAYLOAD);
	net_put16(ip + NET_IPV4_BYTES + 4, 7);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	net_put16(ip + NET_IPV4_BYTES + 4, 8 + PAYLOAD + 1);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	net_put16(ip + NET_IPV4_BYTES + 4, 8 + PAYLOAD - 1);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);

	len = datagram(frame, PAYLOAD);
	ip[0] = 0x44;
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	ip[0] = 0x65;
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	ip[0] = 0x4f;
	net_put16(ip + 2, 59);
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
}

static void options_are_not_supported(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	frame[NET_ETH_BYTES] = 0x46;
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
}

static void fragments_are_dropped(void **state)
{
	static const uint16_t fields[] = { 0x2000, 0x0001, 0x1fff, 0x3000 };
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		net_put16(frame + NET_ETH_BYTES + 6, fields[i]);
		fix_ip_sum(frame);
		assert_int_equal(classify(frame, len, &p), NET_DROP_FRAGMENT);
	}
	net_put16(frame + NET_ETH_BYTES + 6, 0);
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_UDP);
}

static void other_addresses_and_ports_are_not_ours(void **state)
{
	static const uint32_t never[] = { 0, 0x00000001, 0x7f000001, 0xe0000001, 0xffffffff };
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	frame[5] = 9;
	assert_int_equal(classify(frame, len, &p), NET_DROP_NOT_FOR_US);
	memset(frame, 0xff, NET_MAC_BYTES);
	assert_int_equal(classify(frame, len, &p), NET_DROP_NOT_FOR_US);

	len = datagram(frame, PAYLOAD);
	net_put32(frame + NET_ETH_BYTES + 16, 0x0a000003);
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_NOT_FOR_US);

	len = datagram(frame, PAYLOAD);
	net_put16(frame + NET_ETH_BYTES + NET_IPV4_BYTES + 2, 4701);
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		len = datagram(frame, PAYLOAD);
		net_put32(frame + NET_ETH_BYTES + 12, never[i]);
		fix_ip_sum(frame);
		assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	}
}

static void udp_checksum_zero_is_accepted(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	frame[NET_HEADERS_BYTES] ^= 1;
	assert_int_equal(classify(frame, len, &p), NET_DROP_CHECKSUM);
	net_put16(frame + NET_ETH_BYTES + NET_IPV4_BYTES + 6, 0);
	assert_int_equal(classify(frame, len, &p), NET_UDP);
}

static void trusted_checksums_are_not_computed_again(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	frame[NET_HEADERS_BYTES] ^= 1;
	assert_int_equal(net_frame_classify(frame, len, &me, NET_TRUST_UDP, &p), NET_UDP);
	frame[NET_ETH_BYTES + 10] ^= 1;
	assert_int_equal(net_frame_classify(frame, len, &me, NET_TRUST_UDP, &p), NET_DROP_CHECKSUM);
	assert_int_equal(net_frame_classify(frame, len, &me, NET_TRUST_UDP | NET_TRUST_IP, &p),
		NET_UDP);
}

static void other_ethertypes_and_protocols_are_dropped(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = datagram(frame, PAYLOAD);
	struct net_packet p;

	(void)state;
	net_put16(frame + 12, 0x86dd);
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
	net_put16(frame + 12, 0x8100);
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
	net_put16(frame + 12, NET_TYPE_ARP);
	assert_int_equal(classify(frame, len, &p), NET_ARP);
	net_put16(frame + 12, NET_TYPE_IPV4);
	frame[NET_ETH_BYTES + 9] = 6;
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
}

static void echo_request_becomes_its_reply(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;

	(void)state;
	for (size_t data = 0; data < 1473; data += 7) {
		size_t len = echo_request(frame, data);
		uint8_t *ip = frame + NET_ETH_BYTES;

		/* Padding behind the packet is not sent back. */
		assert_int_equal(classify(frame, len + 9, &p), NET_ICMP_ECHO);
		assert_int_equal(net_icmp_reply(frame, &p, &me), len);
		assert_memory_equal(frame, peer_mac, NET_MAC_BYTES);
		assert_memory_equal(frame + 6, me.mac, NET_MAC_BYTES);
		assert_int_equal(net_get32(ip + 12), me.ip);
		assert_int_equal(net_get32(ip + 16), 0x0a000002);
		assert_int_equal(ip[20], 0);
		assert_int_equal(net_get16(ip + 24), 0x1234);
		assert_int_equal(net_sum_fold(net_sum_add(0, ip, 20)), 0);
		assert_int_equal(net_sum_fold(net_sum_add(0, ip + 20, 8 + data)), 0);
		for (size_t i = 0; i < data; i++)
			assert_int_equal(ip[28 + i], (uint8_t)(i * 7 + 1));
	}
}

static void bad_icmp_gets_silence(void **state)
{
	uint8_t frame[FRAME_MAX];
	size_t len = echo_request(frame, 3);
	struct net_packet p;

	(void)state;
	frame[NET_ETH_BYTES + NET_IPV4_BYTES + 8] ^= 1;
	assert_int_equal(classify(frame, len, &p), NET_DROP_CHECKSUM);

	len = echo_request(frame, 3);
	frame[NET_ETH_BYTES + NET_IPV4_BYTES] = 0;
	frame[NET_ETH_BYTES + NET_IPV4_BYTES + 2] += 8;
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);

	echo_request(frame, 3);
	net_put16(frame + NET_ETH_BYTES + 2, NET_IPV4_BYTES + 7);
	fix_ip_sum(frame);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
}

static void each_worker_has_a_port(void **state)
{
	struct net_identity several = me;
	uint8_t frame[FRAME_MAX];
	struct net_packet p;
	size_t len = datagram(frame, PAYLOAD);
	uint8_t *udp = frame + NET_ETH_BYTES + NET_IPV4_BYTES;

	(void)state;
	several.more_ports = 2;
	net_put16(udp + 6, 0);
	for (uint16_t i = 0; i < 5; i++) {
		net_put16(udp + 2, (uint16_t)(me.udp_port - 1 + i));
		assert_int_equal(net_frame_classify(frame, len, &several, 0, &p),
			i >= 1 && i <= 3 ? NET_UDP : NET_DROP_PROTOCOL);
		assert_int_equal(net_frame_classify(frame, len, &me, 0, &p),
			i == 1 ? NET_UDP : NET_DROP_PROTOCOL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_worker_has_a_port),
		cmocka_unit_test(datagram_for_us_is_accepted),
		cmocka_unit_test(ethernet_padding_is_not_payload),
		cmocka_unit_test(truncation_at_each_byte_is_malformed),
		cmocka_unit_test(every_flipped_bit_is_dropped),
		cmocka_unit_test(lies_about_length_are_malformed),
		cmocka_unit_test(options_are_not_supported),
		cmocka_unit_test(fragments_are_dropped),
		cmocka_unit_test(other_addresses_and_ports_are_not_ours),
		cmocka_unit_test(udp_checksum_zero_is_accepted),
		cmocka_unit_test(trusted_checksums_are_not_computed_again),
		cmocka_unit_test(other_ethertypes_and_protocols_are_dropped),
		cmocka_unit_test(echo_request_becomes_its_reply),
		cmocka_unit_test(bad_icmp_gets_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
