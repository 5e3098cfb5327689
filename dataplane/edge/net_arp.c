/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_arp.h"

#include <errno.h>

enum {
	ARP_HARDWARE_ETHERNET = 1,
	OFF_OP = 6,
	OFF_SHA = 8,
	OFF_SPA = 14,
	OFF_THA = 18,
	OFF_TPA = 24,
};

int net_arp_decode(const uint8_t *frame, size_t len, struct net_arp *out)
{
	const uint8_t *a = frame + NET_ETH_BYTES;
	uint16_t op;

	if (len < NET_ETH_BYTES + NET_ARP_BYTES)
		return -EPROTO;
	if (net_get16(a) != ARP_HARDWARE_ETHERNET || net_get16(a + 2) != NET_TYPE_IPV4 ||
		a[4] != NET_MAC_BYTES || a[5] != 4)
		return -EPROTONOSUPPORT;
	op = net_get16(a + OFF_OP);
	if (op != NET_ARP_REQUEST && op != NET_ARP_REPLY)
		return -EPROTONOSUPPORT;
	out->op = (enum net_arp_op)op;
	memcpy(out->sender_mac, a + OFF_SHA, NET_MAC_BYTES);
	out->sender_ip = net_get32(a + OFF_SPA);
	out->target_ip = net_get32(a + OFF_TPA);
	/* A group address as somebody's own would turn our unicast into a flood. */
	if (out->sender_mac[0] & 1)
		return -EPROTO;
	return 0;
}

static void encode(uint8_t *frame, const struct net_identity *me, enum net_arp_op op,
	const uint8_t *eth_dst, const uint8_t *target_mac, uint32_t target_ip)
{
	uint8_t *a = frame + NET_ETH_BYTES;

	memset(frame, 0, NET_ARP_FRAME_BYTES);
	if (eth_dst != NULL)
		memcpy(frame, eth_dst, NET_MAC_BYTES);
	else
		memset(frame, 0xff, NET_MAC_BYTES);
	memcpy(frame + NET_MAC_BYTES, me->mac, NET_MAC_BYTES);
	net_put16(frame + 12, NET_TYPE_ARP);
	net_put16(a, ARP_HARDWARE_ETHERNET);
	net_put16(a + 2, NET_TYPE_IPV4);
	a[4] = NET_MAC_BYTES;
	a[5] = 4;
	net_put16(a + OFF_OP, (uint16_t)op);
	memcpy(a + OFF_SHA, me->mac, NET_MAC_BYTES);
	net_put32(a + OFF_SPA, me->ip);
	if (target_mac != NULL)
		memcpy(a + OFF_THA, target_mac, NET_MAC_BYTES);
	net_put32(a + OFF_TPA, target_ip);
}

void net_arp_encode_request(uint8_t *frame, const struct net_identity *me, uint32_t target_ip,
	const uint8_t *to)
{
	encode(frame, me, NET_ARP_REQUEST, to, NULL, target_ip);
}

void net_arp_encode_reply(uint8_t *frame, const struct net_identity *me,
	const struct net_arp *request)
{
	encode(frame, me, NET_ARP_REPLY, request->sender_mac, request->sender_mac,
		request->sender_ip);
}

void net_arp_encode_announce(uint8_t *frame, const struct net_identity *me)
{
	encode(frame, me, NET_ARP_REQUEST, NULL, NULL, me->ip);
}
