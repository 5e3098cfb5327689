/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_frame.h"

#include <stdbool.h>

enum {
	IP_FLAG_RESERVED = 0x8000,
	IP_MORE_FRAGMENTS = 0x2000,
	IP_FRAGMENT_OFFSET = 0x1fff,
	ICMP_HEADER_BYTES = 8,
	ICMP_ECHO_REQUEST = 8,
};

static const uint8_t mac_broadcast[NET_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

/* Addresses no packet may come from: 0/8, 127/8, multicast, reserved and broadcast. */
static bool is_host_address(uint32_t ip)
{
	uint8_t first = (uint8_t)(ip >> 24);

	return first != 0 && first != 127 && first < 224;
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
	if (out->dst_port != me->udp_port)
		return NET_DROP_PROTOCOL;
	if (net_get16(udp + 6) != 0 && (trust & NET_TRUST_UDP) == 0) {
		sum = net_sum_pseudo(out->src_ip, net_get32(ip + 16), NET_PROTO_UDP, udp_len);
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
	if (net_get32(ip + 16) != me->ip)
		return NET_DROP_NOT_FOR_US;
	fragment = net_get16(ip + 6);
	if (fragment & (IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET))
		return NET_DROP_FRAGMENT;
	out->src_ip = net_get32(ip + 12);
	if (fragment & IP_FLAG_RESERVED || !is_host_address(out->src_ip) || out->src_ip == me->ip)
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

enum net_verdict net_frame_classify(const uint8_t *frame, size_t len, const struct net_identity *me,
	unsigned int trust, struct net_packet *out)
{
	bool broadcast;

	if (len < NET_ETH_BYTES)
		return NET_DROP_MALFORMED;
	broadcast = memcmp(frame, mac_broadcast, NET_MAC_BYTES) == 0;
	if (!broadcast && memcmp(frame, me->mac, NET_MAC_BYTES) != 0)
		return NET_DROP_NOT_FOR_US;
	switch (net_get16(frame + 12)) {
	case NET_TYPE_ARP:
		return NET_ARP;
	case NET_TYPE_IPV4:
		if (broadcast)
			return NET_DROP_NOT_FOR_US;
		return classify_ipv4(frame + NET_ETH_BYTES, len - NET_ETH_BYTES, me, trust, out);
	default:
		return NET_DROP_PROTOCOL;
	}
}
