/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_icmp.h"

enum { ICMP6_ECHO_REPLY = 129 };

static size_t reply6(uint8_t *ip, const struct net_packet *p, const struct net_identity *me)
{
	uint8_t *icmp = ip + NET_IPV6_BYTES;
	uint64_t sum;

	net_put32(ip, net_get32(ip) & 0xffcfffff); /* ECN bits are not ours to echo */
	ip[7] = NET_TTL;
	memcpy(ip + 8, me->ip6.b, 16);
	memcpy(ip + 24, p->src.b, 16);
	icmp[0] = ICMP6_ECHO_REPLY;
	net_put16(icmp + 2, 0);
	sum = net_sum_pseudo6(ip + 8, ip + 24, NET_PROTO_ICMPV6, (uint32_t)p->payload_len);
	net_sum_put(icmp + 2, net_sum_fold(net_sum_add(sum, icmp, p->payload_len)));
	return NET_ETH_BYTES + NET_IPV6_BYTES + p->payload_len;
}

size_t net_icmp_reply(uint8_t *frame, const struct net_packet *p, const struct net_identity *me)
{
	uint8_t *ip = frame + NET_ETH_BYTES;
	uint8_t *icmp = ip + NET_IPV4_BYTES;

	memcpy(frame, frame + NET_MAC_BYTES, NET_MAC_BYTES);
	memcpy(frame + NET_MAC_BYTES, me->mac, NET_MAC_BYTES);
	if (!net_ip_is4(p->src))
		return reply6(ip, p, me);

	ip[1] &= 0xfc; /* RFC 1349 echoes the TOS; ECN bits are not ours to echo */
	net_put16(ip + 4, 0);
	net_put16(ip + 6, 0x4000);
	ip[8] = NET_TTL;
	net_put16(ip + 10, 0);
	net_put32(ip + 12, me->ip);
	net_put32(ip + 16, net_ip_get4(p->src));
	net_sum_put(ip + 10, net_sum_fold(net_sum_add(0, ip, NET_IPV4_BYTES)));

	icmp[0] = 0;
	net_put16(icmp + 2, 0);
	net_sum_put(icmp + 2, net_sum_fold(net_sum_add(0, icmp, p->payload_len)));
	return NET_ETH_BYTES + NET_IPV4_BYTES + p->payload_len;
}
