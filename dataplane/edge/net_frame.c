/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_frame.h"

#include <stdbool.h>

enum {
	IP_FLAG_RESERVED = 0x8000,
	IP_MORE_FRAGMENTS = 0x2000,
	IP_FRAGMENT_OFFSET = 0x1fff,
	ICMP_HEADER_BYTES = 8,
	ICMP_ECHO_REQUEST = 8,
	ICMP6_HEADER_BYTES = 4,
	ICMP6_ECHO_REQUEST = 128,
	ICMP6_SOLICIT = 135,
	ICMP6_ADVERT = 136,
	IP6_FRAGMENT = 44,
};

static const uint8_t mac_broadcast[NET_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

/* Addresses no packet may come from: 0/8, 127/8, multicast, reserved and broadcast. */
static bool is_host_address(uint32_t ip)
{
	uint8_t first = (uint8_t)(ip >> 24);

	return first != 0 && first != 127 && first < 224;
}

static bool is_our_port(const struct net_identity *me, uint16_t udp_port)
{
	return (uint16_t)(udp_port - me->udp_port) <= me->more_ports;
}

static enum net_verdict classify_udp(const uint8_t *ip, const uint8_t *udp, size_t len,
	const struct net_identity *me, unsigned int trust, struct net_packet *out)
{
	uint16_t udp_len;
	uint64_t sum;

	if (len < NET_UDP_BYTES)
		return NET_DROP_MALFORMED;
	udp_len = net_get16(udp + 4);
	/*
	 * RFC 768: at least the header. Less than the IP payload hides bytes; nobody honest
	 * sends that.
	 */
	if (udp_len != len)
		return NET_DROP_MALFORMED;
	out->src_port = net_get16(udp);
	out->dst_port = net_get16(udp + 2);
	if (!is_our_port(me, out->dst_port))
		return NET_DROP_PROTOCOL;
	if (net_get16(udp + 6) != 0 && (trust & NET_TRUST_UDP) == 0) {
		sum = net_sum_pseudo(net_ip_get4(out->src), net_get32(ip + 16), NET_PROTO_UDP,
			udp_len);
		if (net_sum_fold(net_sum_add(sum, udp, len)) != 0)
			return NET_DROP_CHECKSUM;
	}
	out->payload = udp + NET_UDP_BYTES;
	out->payload_len = len - NET_UDP_BYTES;
	return NET_UDP;
}

static enum net_verdict classify_icmp(const uint8_t *icmp, size_t len, struct net_packet *out)
{
	if (len < ICMP_HEADER_BYTES)
		return NET_DROP_MALFORMED;
	if (net_sum_fold(net_sum_add(0, icmp, len)) != 0)
		return NET_DROP_CHECKSUM;
	if (icmp[0] != ICMP_ECHO_REQUEST || icmp[1] != 0)
		return NET_DROP_PROTOCOL;
	out->payload = icmp;
	out->payload_len = len;
	return NET_ICMP_ECHO;
}

static enum net_verdict classify_ipv4(const uint8_t *ip, size_t len, const struct net_identity *me,
	unsigned int trust, struct net_packet *out)
{
	size_t total;
	uint16_t fragment;

	if (len < NET_IPV4_BYTES || ip[0] >> 4 != 4 || (ip[0] & 0xf) * 4 < NET_IPV4_BYTES)
		return NET_DROP_MALFORMED;
	total = net_get16(ip + 2);
	if (total < (size_t)(ip[0] & 0xf) * 4 || total > len)
		return NET_DROP_MALFORMED;
	if ((ip[0] & 0xf) * 4 != NET_IPV4_BYTES)
		return NET_DROP_PROTOCOL;
	if ((trust & NET_TRUST_IP) == 0 && net_sum_fold(net_sum_add(0, ip, NET_IPV4_BYTES)) != 0)
		return NET_DROP_CHECKSUM;
	if (me->ip == 0 || net_get32(ip + 16) != me->ip)
		return NET_DROP_NOT_FOR_US;
	fragment = net_get16(ip + 6);
	if (fragment & (IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET))
		return NET_DROP_FRAGMENT;
	out->src = net_ip4(net_get32(ip + 12));
	if (fragment & IP_FLAG_RESERVED || !is_host_address(net_get32(ip + 12)) ||
		net_get32(ip + 12) == me->ip)
		return NET_DROP_MALFORMED;

	switch (ip[9]) {
	case NET_PROTO_UDP:
		return classify_udp(ip, ip + NET_IPV4_BYTES, total - NET_IPV4_BYTES, me, trust,
			out);
	case NET_PROTO_ICMP:
		return classify_icmp(ip + NET_IPV4_BYTES, total - NET_IPV4_BYTES, out);
	default:
		return NET_DROP_PROTOCOL;
	}
}

static enum net_verdict classify_udp6(const uint8_t *ip, const uint8_t *udp, size_t len,
	const struct net_identity *me, unsigned int trust, struct net_packet *out)
{
	if (len < NET_UDP_BYTES || net_get16(udp + 4) != len)
		return NET_DROP_MALFORMED;
	out->src_port = net_get16(udp);
	out->dst_port = net_get16(udp + 2);
	if (!is_our_port(me, out->dst_port))
		return NET_DROP_PROTOCOL;
	/* RFC 8200 section 8.1: never without a checksum, there is no other over the addresses. */
	if (net_get16(udp + 6) == 0)
		return NET_DROP_CHECKSUM;
	if ((trust & NET_TRUST_UDP) == 0 &&
		net_sum_fold(
			net_sum_add(net_sum_pseudo6(ip + 8, ip + 24, NET_PROTO_UDP, (uint32_t)len),
				udp, len)) != 0)
		return NET_DROP_CHECKSUM;
	out->payload = udp + NET_UDP_BYTES;
	out->payload_len = len - NET_UDP_BYTES;
	return NET_UDP;
}

static enum net_verdict classify_icmp6(const uint8_t *ip, size_t len, bool multicast,
	struct net_packet *out)
{
	const uint8_t *icmp = ip + NET_IPV6_BYTES;

	if (len < ICMP6_HEADER_BYTES)
		return NET_DROP_MALFORMED;
	if (net_sum_fold(
		    net_sum_add(net_sum_pseudo6(ip + 8, ip + 24, NET_PROTO_ICMPV6, (uint32_t)len),
			    icmp, len)) != 0)
		return NET_DROP_CHECKSUM;
	out->payload = icmp;
	out->payload_len = len;
	switch (icmp[0]) {
	case ICMP6_SOLICIT:
	case ICMP6_ADVERT:
		/* A router would have lowered it: what has 255 was sent on this link. */
		return ip[7] == NET_ND_HOP_LIMIT && icmp[1] == 0 ? NET_ND : NET_DROP_ND;
	case ICMP6_ECHO_REQUEST:
		if (icmp[1] != 0 || len < ICMP_HEADER_BYTES)
			return NET_DROP_MALFORMED;
		return multicast || !net_ip_is_set(out->src) ? NET_DROP_NOT_FOR_US : NET_ICMP_ECHO;
	default:
		return NET_DROP_PROTOCOL;
	}
}

static bool is_solicited_node(const uint8_t *ip, struct net_ip me)
{
	static const uint8_t prefix[13] = { 0xff, 0x02, [11] = 1, [12] = 0xff };

	return memcmp(ip, prefix, sizeof(prefix)) == 0 && memcmp(ip + 13, me.b + 13, 3) == 0;
}

static enum net_verdict classify_ipv6(const uint8_t *ip, size_t len, bool multicast,
	const struct net_identity *me, unsigned int trust, struct net_packet *out)
{
	static const struct net_ip all_nodes = { .b = { 0xff, 0x02, [15] = 1 } };
	size_t payload;

	if (len < NET_IPV6_BYTES || ip[0] >> 4 != 6)
		return NET_DROP_MALFORMED;
	payload = net_get16(ip + 4);
	/* 0 would be a jumbogram (RFC 2675), which has an option header anyway. */
	if (payload == 0 || payload > len - NET_IPV6_BYTES)
		return NET_DROP_MALFORMED;
	memcpy(out->src.b, ip + 8, sizeof(out->src.b));
	if (memcmp(ip + 24, me->ip6.b, sizeof(me->ip6.b)) == 0) {
		if (multicast)
			return NET_DROP_NOT_FOR_US;
	} else if (!is_solicited_node(ip + 24, me->ip6) &&
		memcmp(ip + 24, all_nodes.b, sizeof(all_nodes.b)) != 0) {
		return NET_DROP_NOT_FOR_US;
	} else {
		multicast = true;
	}
	if (ip[6] == IP6_FRAGMENT)
		return NET_DROP_FRAGMENT;
	if (out->src.b[0] == 0xff || net_ip_is4(out->src) || net_ip_equal(out->src, me->ip6))
		return NET_DROP_MALFORMED;
	if (ip[6] == NET_PROTO_ICMPV6)
		return classify_icmp6(ip, payload, multicast, out);
	if (ip[6] != NET_PROTO_UDP || multicast)
		return NET_DROP_PROTOCOL;
	if (!net_ip_is_set(out->src))
		return NET_DROP_MALFORMED;
	return classify_udp6(ip, ip + NET_IPV6_BYTES, payload, me, trust, out);
}

enum net_verdict net_frame_classify(const uint8_t *frame, size_t len, const struct net_identity *me,
	unsigned int trust, struct net_packet *out)
{
	bool broadcast, multicast6;

	if (len < NET_ETH_BYTES)
		return NET_DROP_MALFORMED;
	broadcast = memcmp(frame, mac_broadcast, NET_MAC_BYTES) == 0;
	/* RFC 2464 section 7. */
	multicast6 = net_ip_is_set(me->ip6) && frame[0] == 0x33 && frame[1] == 0x33;
	if (!broadcast && !multicast6 && memcmp(frame, me->mac, NET_MAC_BYTES) != 0)
		return NET_DROP_NOT_FOR_US;
	switch (net_get16(frame + 12)) {
	case NET_TYPE_ARP:
		return multicast6 ? NET_DROP_NOT_FOR_US : NET_ARP;
	case NET_TYPE_IPV4:
		if (broadcast || multicast6)
			return NET_DROP_NOT_FOR_US;
		return classify_ipv4(frame + NET_ETH_BYTES, len - NET_ETH_BYTES, me, trust, out);
	case NET_TYPE_IPV6:
		if (!net_ip_is_set(me->ip6))
			return NET_DROP_PROTOCOL;
		if (broadcast)
			return NET_DROP_NOT_FOR_US;
		return classify_ipv6(frame + NET_ETH_BYTES, len - NET_ETH_BYTES, multicast6, me,
			trust, out);
	default:
		return NET_DROP_PROTOCOL;
	}
}
