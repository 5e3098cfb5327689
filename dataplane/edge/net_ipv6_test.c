/* SPDX-License-Identifier: Apache-2.0 */
/* IPv6 through net_frame, net_header and net_icmp: what is taken, and why the rest is dropped. */
#include "dataplane/edge/net_frame.h"
#include "dataplane/edge/net_header.h"
#include "dataplane/edge/net_icmp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct net_identity me = { .mac = { 2, 0, 0, 0, 0, 1 },
	.ip6 = { .b = { 0xfd, [15] = 1 } },
	.udp_port = 4700 };
static const struct net_ip peer = { .b = { 0xfd, [15] = 2 } };
static const uint8_t peer_mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 2 };

enum { PAYLOAD = 101, FRAME_MAX = 10000, IP = NET_ETH_BYTES, UDP = IP + NET_IPV6_BYTES };

static size_t datagram(uint8_t *frame, size_t payload)
{
	struct net_flow flow = { .src = peer,
		.dst = me.ip6,
		.src_port = 5000,
		.dst_port = me.udp_port,
		.dscp = 46 };
	struct net_header h;

	memcpy(flow.dst_mac, me.mac, NET_MAC_BYTES);
	net_header_init(&h, &flow, peer_mac);
	assert_int_equal(h.len, NET_HEADERS_MAX);
	for (size_t i = 0; i < payload; i++)
		frame[h.len + i] = (uint8_t)(i * 7 + 1);
	return net_header_write(&h, frame, payload, NET_UDP_SUM_FULL);
}

/* An ICMPv6 message in the place of the datagram. */
static size_t message(uint8_t *frame, uint8_t type, size_t body)
{
	uint8_t *icmp = frame + UDP;
	uint64_t sum;

	datagram(frame, body);
	frame[IP + 6] = NET_PROTO_ICMPV6;
	net_put16(frame + IP + 4, (uint16_t)(4 + body));
	net_put32(icmp, (uint32_t)type << 24);
	for (size_t i = 0; i < body; i++)
		icmp[4 + i] = (uint8_t)(i + 3);
	sum = net_sum_pseudo6(frame + IP + 8, frame + IP + 24, NET_PROTO_ICMPV6,
		(uint32_t)(4 + body));
	net_sum_put(icmp + 2, net_sum_fold(net_sum_add(sum, icmp, 4 + body)));
	return UDP + 4 + body;
}

static enum net_verdict classify(const uint8_t *frame, size_t len, struct net_packet *p)
{
	return net_frame_classify(frame, len, &me, 0, p);
}

static void a_datagram_for_us_is_accepted(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;

	(void)state;
	for (size_t payload = 0; payload < 9000; payload += payload < 300 ? 1 : 997) {
		size_t len = datagram(frame, payload);

		assert_int_equal(len, 62 + payload);
		assert_int_equal(classify(frame, len, &p), NET_UDP);
		assert_true(net_ip_equal(p.src, peer));
		assert_int_equal(p.src_port, 5000);
		assert_int_equal(p.payload_len, payload);
		assert_ptr_equal(p.payload, frame + 62);
	}
}

static void headers_carry_dscp_and_a_flow_label_of_the_flow(void **state)
{
	struct net_flow flow = { .src = peer, .dst = me.ip6, .src_port = 1, .dst_port = 2 };
	uint32_t word, labels[8];
	struct net_header h;

	(void)state;
	for (uint16_t i = 0; i < 8; i++) {
		flow.src_port = (uint16_t)(1000 + i);
		flow.dscp = (uint8_t)(i * 9);
		net_header_init(&h, &flow, peer_mac);
		word = net_get32(h.bytes + IP);
		assert_int_equal(word >> 28, 6);
		assert_int_equal(word >> 22 & 63, flow.dscp);
		assert_int_equal(word >> 20 & 3, 0);
		assert_int_equal(h.bytes[IP + 7], NET_TTL);
		labels[i] = word & 0xfffff;
		assert_int_not_equal(labels[i], 0);
		for (uint16_t j = 0; j < i; j++)
			assert_int_not_equal(labels[i], labels[j]);
		net_header_init(&h, &flow, peer_mac);
		assert_int_equal(net_get32(h.bytes + IP), word);
	}
}

static void a_device_gets_the_sum_of_the_pseudo_header(void **state)
{
	struct net_flow flow = { .src = peer, .dst = me.ip6, .src_port = 5000, .dst_port = 4700 };
	uint8_t full[FRAME_MAX], part[FRAME_MAX];
	struct net_header h;
	size_t len = datagram(full, PAYLOAD);

	(void)state;
	memcpy(flow.dst_mac, me.mac, NET_MAC_BYTES);
	net_header_init(&h, &flow, peer_mac);
	memcpy(part, full, len);
	net_header_write(&h, part, PAYLOAD, NET_UDP_SUM_PSEUDO);
	/* What the device does: sum from the UDP header on, this field included. */
	net_sum_put(part + UDP + 6, net_sum_fold(net_sum_add(0, part + UDP, len - UDP)));
	assert_memory_equal(part + UDP, full + UDP, len - UDP);
}

static void a_checksum_is_mandatory(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;
	size_t len = datagram(frame, PAYLOAD);

	(void)state;
	net_put16(frame + UDP + 6, 0);
	assert_int_equal(classify(frame, len, &p), NET_DROP_CHECKSUM);
	/* Not even when the device calls it good. */
	assert_int_equal(net_frame_classify(frame, len, &me, NET_TRUST_IP | NET_TRUST_UDP, &p),
		NET_DROP_CHECKSUM);
	datagram(frame, PAYLOAD);
	frame[62] ^= 1;
	assert_int_equal(classify(frame, len, &p), NET_DROP_CHECKSUM);
	assert_int_equal(net_frame_classify(frame, len, &me, NET_TRUST_UDP, &p), NET_UDP);
}

static void truncation_and_lies_about_length_are_malformed(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;
	size_t len = datagram(frame, PAYLOAD);

	(void)state;
	for (size_t n = 0; n < len; n++) {
		uint8_t *copy = malloc(n + 1);

		assert_non_null(copy);
		memcpy(copy, frame, n);
		assert_int_equal(classify(copy, n, &p), NET_DROP_MALFORMED);
		free(copy);
	}
	for (uint32_t lie = 0; lie < 65536; lie += 7) {
		if (lie == 8 + PAYLOAD)
			continue;
		net_put16(frame + IP + 4, (uint16_t)lie);
		assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	}
	/* Ethernet padding behind the packet is none. */
	len = datagram(frame, 2);
	memset(frame + len, 0xee, 40);
	assert_int_equal(classify(frame, len + 40, &p), NET_UDP);
	assert_int_equal(p.payload_len, 2);
}

static void every_flipped_bit_is_dropped_or_harmless(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;
	size_t len = datagram(frame, 60);

	(void)state;
	for (size_t bit = 0; bit < len * 8; bit++) {
		size_t byte = bit / 8;

		frame[byte] ^= (uint8_t)(1 << bit % 8);
		/* No checksum over the source MAC, traffic class, flow label and hop limit. */
		if ((byte >= 6 && byte < 12) || (byte == IP && bit % 8 < 4) ||
			(byte > IP && byte < IP + 4) || byte == IP + 7)
			assert_int_equal(classify(frame, len, &p), NET_UDP);
		else
			assert_int_not_equal(classify(frame, len, &p), NET_UDP);
		frame[byte] ^= (uint8_t)(1 << bit % 8);
	}
}

static void extension_headers_and_fragments_are_refused(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct net_packet p;
	size_t len = datagram(frame, PAYLOAD);

	(void)state;
	for (int next = 0; next < 256; next++) {
		frame[IP + 6] = (uint8_t)next;
		if (next == 44)
			assert_int_equal(classify(frame, len, &p), NET_DROP_FRAGMENT);
		else if (next != NET_PROTO_UDP && next != NET_PROTO_ICMPV6)
			assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
	}
}

static void addresses_that_are_not_ours_or_nobodys_are_dropped(void **state)
{
	static const struct net_ip bad[] = { { .b = { 0 } }, { .b = { 0xff, 2, [15] = 1 } },
		NET_IP4_INIT(0x0a000002u) };
	const struct net_identity four = { .mac = { 2, 0, 0, 0, 0, 1 },
		.ip = 0x0a000001,
		.udp_port = 4700 };
	uint8_t frame[FRAME_MAX];
	struct net_packet p;
	size_t len = datagram(frame, PAYLOAD);

	(void)state;
	frame[IP + 39] ^= 1;
	assert_int_equal(classify(frame, len, &p), NET_DROP_NOT_FOR_US);
	len = datagram(frame, PAYLOAD);
	frame[0] = frame[1] = 0x33; /* our address in a group's frame */
	assert_int_equal(classify(frame, len, &p), NET_DROP_NOT_FOR_US);
	len = datagram(frame, PAYLOAD);
	memset(frame, 0xff, 6);
	assert_int_equal(classify(frame, len, &p), NET_DROP_NOT_FOR_US);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		len = datagram(frame, PAYLOAD);
		memcpy(frame + IP + 8, bad[i].b, 16);
		assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	}
	len = datagram(frame, PAYLOAD);
	memcpy(frame + IP + 8, me.ip6.b, 16);
	assert_int_equal(classify(frame, len, &p), NET_DROP_MALFORMED);
	len = datagram(frame, PAYLOAD);
	assert_int_equal(net_frame_classify(frame, len, &four, 0, &p), NET_DROP_PROTOCOL);
	frame[UDP + 3]++;
	assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
}

static void an_echo_request_becomes_its_reply(void **state)
{
	const struct net_identity other = { .mac = { 2, 0, 0, 0, 0, 2 }, .ip6 = peer };
	uint8_t frame[FRAME_MAX];
	struct net_packet p;

	(void)state;
	for (size_t data = 4; data < 200; data++) {
		size_t len = message(frame, 128, data);

		assert_int_equal(classify(frame, len, &p), NET_ICMP_ECHO);
		assert_int_equal(net_icmp_reply(frame, &p, &me), len);
		assert_memory_equal(frame, peer_mac, 6);
		assert_memory_equal(frame + IP + 8, me.ip6.b, 16);
		assert_memory_equal(frame + IP + 24, peer.b, 16);
		assert_int_equal(frame[UDP], 129);
		assert_int_equal(frame[UDP + 4], 3);
		/* Its checksum holds: only the type is not for us. */
		assert_int_equal(net_frame_classify(frame, len, &other, 0, &p), NET_DROP_PROTOCOL);
		frame[UDP + 4] ^= 1;
		assert_int_equal(net_frame_classify(frame, len, &other, 0, &p), NET_DROP_CHECKSUM);
	}
}

static void what_routers_say_is_not_listened_to(void **state)
{
	/* Errors (too big among them), router solicitation, advertisement, redirect, MLD. */
	static const uint8_t types[] = { 1, 2, 3, 4, 129, 130, 131, 132, 133, 134, 137, 143 };
	uint8_t frame[FRAME_MAX];
	struct net_packet p;

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		size_t len = message(frame, types[i], 60);

		frame[IP + 7] = NET_ND_HOP_LIMIT;
		assert_int_equal(classify(frame, len, &p), NET_DROP_PROTOCOL);
	}
}

static void prefixes_are_compared_by_bits(void **state)
{
	struct net_ip a = peer, b;

	(void)state;
	for (unsigned int bit = 0; bit < 128; bit++) {
		b = a;
		b.b[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		assert_true(net_ip_same_prefix(a, b, bit));
		assert_false(net_ip_same_prefix(a, b, bit + 1));
	}
	assert_true(net_ip_same_prefix(net_ip4(0x0a000001), net_ip4(0x0a0000ff), 24));
	assert_false(net_ip_same_prefix(net_ip4(0x0a000001), net_ip4(0x0a0001ff), 24));
	assert_true(net_ip_same_prefix(net_ip4(0x0a000001), net_ip4(0xffffffff), 0));
	assert_false(net_ip_same_prefix(net_ip4(0x0a000001), peer, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_for_us_is_accepted),
		cmocka_unit_test(headers_carry_dscp_and_a_flow_label_of_the_flow),
		cmocka_unit_test(a_device_gets_the_sum_of_the_pseudo_header),
		cmocka_unit_test(a_checksum_is_mandatory),
		cmocka_unit_test(truncation_and_lies_about_length_are_malformed),
		cmocka_unit_test(every_flipped_bit_is_dropped_or_harmless),
		cmocka_unit_test(extension_headers_and_fragments_are_refused),
		cmocka_unit_test(addresses_that_are_not_ours_or_nobodys_are_dropped),
		cmocka_unit_test(an_echo_request_becomes_its_reply),
		cmocka_unit_test(what_routers_say_is_not_listened_to),
		cmocka_unit_test(prefixes_are_compared_by_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
