/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_nd.h"

#include "dataplane/edge/net_frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct net_identity me = { .mac = { 2, 0, 0, 0, 0, 1 },
	.ip6 = { .b = { 0xfd, [13] = 0xaa, [14] = 0xbb, [15] = 1 } } };
static const struct net_identity other = { .mac = { 2, 0, 0, 0, 0, 2 },
	.ip6 = { .b = { 0xfd, [13] = 0xaa, [14] = 0xbb, [15] = 2 } } };

enum { IP = NET_ETH_BYTES, ICMP = IP + NET_IPV6_BYTES };

/* As it arrives at `to`: through the classifier first. */
static enum net_verdict arrives(const uint8_t *frame, size_t len, const struct net_identity *to)
{
	struct net_packet p;

	return net_frame_classify(frame, len, to, 0, &p);
}

static void fix_sum(uint8_t *frame)
{
	uint16_t len = net_get16(frame + IP + 4);
	uint64_t sum = net_sum_pseudo6(frame + IP + 8, frame + IP + 24, NET_PROTO_ICMPV6, len);

	net_put16(frame + ICMP + 2, 0);
	net_sum_put(frame + ICMP + 2, net_sum_fold(net_sum_add(sum, frame + ICMP, len)));
}

static void a_solicitation_is_answered_and_understood(void **state)
{
	uint8_t ask[NET_ND_FRAME_BYTES], reply[NET_ND_FRAME_BYTES];
	static const uint8_t group_mac[] = { 0x33, 0x33, 0xff, 0xaa, 0xbb, 0x02 };
	struct net_nd nd;

	(void)state;
	for (int unicast = 0; unicast < 2; unicast++) {
		net_nd_encode_solicit(ask, &me, other.ip6, unicast ? other.mac : NULL);
		assert_memory_equal(ask, unicast ? other.mac : group_mac, NET_MAC_BYTES);
		assert_int_equal(arrives(ask, sizeof(ask), &other), NET_ND);
		assert_int_equal(net_nd_decode(ask, sizeof(ask), &nd), 0);
		assert_int_equal(nd.type, NET_ND_SOLICIT);
		assert_true(net_ip_equal(nd.target, other.ip6));
		assert_true(net_ip_equal(nd.src, me.ip6));
		assert_true(nd.has_mac);
		assert_memory_equal(nd.mac, me.mac, NET_MAC_BYTES);

		net_nd_encode_reply(reply, &other, &nd, ask + NET_MAC_BYTES);
		assert_memory_equal(reply, me.mac, NET_MAC_BYTES);
		assert_int_equal(arrives(reply, sizeof(reply), &me), NET_ND);
		assert_int_equal(net_nd_decode(reply, sizeof(reply), &nd), 0);
		assert_int_equal(nd.type, NET_ND_ADVERT);
		assert_true(net_ip_equal(nd.target, other.ip6));
		assert_true(nd.solicited && nd.override && nd.has_mac);
		assert_memory_equal(nd.mac, other.mac, NET_MAC_BYTES);
	}
}

static void an_announcement_reaches_everybody(void **state)
{
	uint8_t frame[NET_ND_FRAME_BYTES];
	struct net_nd nd;

	(void)state;
	net_nd_encode_announce(frame, &other);
	assert_int_equal(arrives(frame, sizeof(frame), &me), NET_ND);
	assert_int_equal(net_nd_decode(frame, sizeof(frame), &nd), 0);
	assert_true(net_ip_equal(nd.target, other.ip6));
	assert_false(nd.solicited);
}

static void who_has_no_address_yet_is_told_by_the_group(void **state)
{
	uint8_t ask[NET_ND_FRAME_BYTES], reply[NET_ND_FRAME_BYTES];
	static const uint8_t all_nodes_mac[] = { 0x33, 0x33, 0, 0, 0, 1 };
	struct net_nd nd;

	(void)state;
	net_nd_encode_solicit(ask, &other, me.ip6, NULL);
	memset(ask + IP + 8, 0, 16);
	net_put16(ask + IP + 4, 24); /* no MAC option */
	fix_sum(ask);
	assert_int_equal(arrives(ask, sizeof(ask), &me), NET_ND);
	assert_int_equal(net_nd_decode(ask, sizeof(ask), &nd), 0);
	net_nd_encode_reply(reply, &me, &nd, ask + NET_MAC_BYTES);
	assert_memory_equal(reply, all_nodes_mac, NET_MAC_BYTES);
	assert_int_equal(arrives(reply, sizeof(reply), &other), NET_ND);
	assert_int_equal(net_nd_decode(reply, sizeof(reply), &nd), 0);
	assert_false(nd.solicited);
}

static void what_passed_a_router_is_not_believed(void **state)
{
	uint8_t frame[NET_ND_FRAME_BYTES];

	(void)state;
	for (int hops = 0; hops < 256; hops++) {
		net_nd_encode_solicit(frame, &other, me.ip6, me.mac);
		frame[IP + 7] = (uint8_t)hops;
		assert_int_equal(arrives(frame, sizeof(frame), &me),
			hops == 255 ? NET_ND : NET_DROP_ND);
	}
	net_nd_encode_announce(frame, &other);
	frame[ICMP + 1] = 1; /* code */
	fix_sum(frame);
	assert_int_equal(arrives(frame, sizeof(frame), &me), NET_DROP_ND);
}

static void bad_options_and_addresses_are_refused(void **state)
{
	uint8_t frame[NET_ND_FRAME_BYTES];
	struct net_nd nd;

	(void)state;
	for (int what = 0; what < 9; what++) {
		bool ask = what < 5;

		if (ask)
			net_nd_encode_solicit(frame, &other, me.ip6, me.mac);
		else
			net_nd_encode_announce(frame, &other);
		assert_int_equal(net_nd_decode(frame, sizeof(frame), &nd), 0);
		switch (what) {
		case 0: /* option of length 0: a loop without end */
			frame[ICMP + 25] = 0;
			break;
		case 1: /* past the end */
		case 5:
			frame[ICMP + 25] = 2;
			break;
		case 2: /* a group's MAC */
		case 6:
			frame[ICMP + 26] |= 1;
			break;
		case 3: /* from nobody, with a MAC */
			memset(frame + IP + 8, 0, 16);
			break;
		case 4: /* for a group */
		case 7:
			frame[ICMP + 8] = 0xff;
			break;
		case 8: /* solicited by everybody */
			frame[ICMP + 4] |= 0x40;
			break;
		}
		assert_int_equal(net_nd_decode(frame, sizeof(frame), &nd), -EPROTO);
	}
	/* Nor one of length 0 that nobody knows: skipping it would never end. */
	net_nd_encode_solicit(frame, &other, me.ip6, me.mac);
	frame[ICMP + 24] = 99;
	frame[ICMP + 25] = 0;
	assert_int_equal(net_nd_decode(frame, sizeof(frame), &nd), -EPROTO);
	/* Options nobody knows are skipped. */
	net_nd_encode_solicit(frame, &other, me.ip6, me.mac);
	frame[ICMP + 24] = 99;
	assert_int_equal(net_nd_decode(frame, sizeof(frame), &nd), 0);
	assert_false(nd.has_mac);
}

static void every_truncation_and_any_bytes_are_read_safely(void **state)
{
	uint8_t frame[NET_ND_FRAME_BYTES];
	uint32_t x = 1;
	struct net_nd nd;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t n = (size_t)(round % (int)(sizeof(frame) + 1));
		uint8_t *copy = malloc(n + 1);

		assert_non_null(copy);
		net_nd_encode_solicit(frame, &other, me.ip6, NULL);
		for (int i = 0; i < round % 7; i++) {
			x = x * 1664525 + 1013904223;
			frame[IP + (x >> 8) % (sizeof(frame) - IP)] = (uint8_t)(x >> 24);
		}
		memcpy(copy, frame, n);
		net_nd_decode(copy, n, &nd);
		arrives(copy, n, &me);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_solicitation_is_answered_and_understood),
		cmocka_unit_test(an_announcement_reaches_everybody),
		cmocka_unit_test(who_has_no_address_yet_is_told_by_the_group),
		cmocka_unit_test(what_passed_a_router_is_not_believed),
		cmocka_unit_test(bad_options_and_addresses_are_refused),
		cmocka_unit_test(every_truncation_and_any_bytes_are_read_safely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
