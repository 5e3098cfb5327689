/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_icmp.h"

size_t net_icmp_reply(uint8_t *frame, const struct net_packet *p, const struct net_identity *me)
{
	uint8_t *ip = frame + NET_ETH_BYTES;
	uint8_t *icmp = ip + NET_IPV4_BYTES;

	memcpy(frame, frame + NET_MAC_BYTES, NET_MAC_BYTES);
	memcpy(frame + NET_MAC_BYTES, me->mac, NET_MAC_BYTES);

	ip[1] &= 0xfc; /* RFC 1349 echoes the TOS; ECN bits are not ours to echo */
	net_put16(ip + 4, 0);
	net_put16(ip + 6, 0x4000);
	ip[8] = NET_TTL;
	net_put16(ip + 10, 0);
	net_put32(ip + 12, me->ip);
	net_put32(ip + 16, p->src_ip);
	net_sum_put(ip + 10, net_sum_fold(net_sum_add(0, ip, NET_IPV4_BYTES)));

	icmp[0] = 0;
	net_put16(icmp + 2, 0);
	net_sum_put(icmp + 2, net_sum_fold(net_sum_add(0, icmp, p->payload_len)));
	return NET_ETH_BYTES + NET_IPV4_BYTES + p->payload_len;
}
