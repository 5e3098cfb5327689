/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_nd.h"

#include <errno.h>

enum {
	OFF_ICMP = NET_ETH_BYTES + NET_IPV6_BYTES,
	FIXED_BYTES = 24, /* type, code, checksum, flags, target */
	OPTION_SOURCE_MAC = 1,
	OPTION_TARGET_MAC = 2,
	FLAG_SOLICITED = 0x40,
	FLAG_OVERRIDE = 0x20,
};

static const struct net_ip all_nodes = { .b = { 0xff, 0x02, [15] = 1 } };

static bool is_multicast(const uint8_t *ip)
{
	return ip[0] == 0xff;
}

int net_nd_decode(const uint8_t *frame, size_t len, struct net_nd *out)
{
	const uint8_t *ip = frame + NET_ETH_BYTES, *icmp = frame + OFF_ICMP;
	size_t payload, at = FIXED_BYTES;
	uint8_t wanted;

	if (len < OFF_ICMP + FIXED_BYTES)
		return -EPROTO;
	payload = net_get16(ip + 4);
	if (payload < FIXED_BYTES || payload > len - OFF_ICMP)
		return -EPROTO;
	memset(out, 0, sizeof(*out));
	out->type = (enum net_nd_type)icmp[0];
	memcpy(out->src.b, ip + 8, 16);
	memcpy(out->target.b, icmp + 8, 16);
	if (is_multicast(out->target.b) || !net_ip_is_set(out->target))
		return -EPROTO;
	out->solicited = icmp[4] & FLAG_SOLICITED;
	out->override = icmp[4] & FLAG_OVERRIDE;
	wanted = out->type == NET_ND_SOLICIT ? OPTION_SOURCE_MAC : OPTION_TARGET_MAC;
	while (at < payload) {
		size_t n;

		if (payload - at < 8)
			return -EPROTO;
		n = (size_t)icmp[at + 1] * 8;
		if (n == 0 || n > payload - at)
			return -EPROTO;
		if (icmp[at] == wanted) {
			/* A group address as somebody's own would turn our unicast into a flood. */
			if (n != 8 || icmp[at + 2] & 1)
				return -EPROTO;
			out->has_mac = true;
			memcpy(out->mac, icmp + at + 2, NET_MAC_BYTES);
		}
		at += n;
	}
	if (out->type == NET_ND_SOLICIT) {
		/* Who has no address yet asks the group, and cannot be told by MAC option. */
		if (!net_ip_is_set(out->src) && (out->has_mac || !is_multicast(ip + 24)))
			return -EPROTO;
		return 0;
	}
	if (out->type != NET_ND_ADVERT || !net_ip_is_set(out->src) ||
		(is_multicast(ip + 24) && out->solicited))
		return -EPROTO;
	return 0;
}

static void encode(uint8_t *frame, const struct net_identity *me, const uint8_t *eth_dst,
	struct net_ip dst, uint8_t type, uint8_t flags, struct net_ip target)
{
	uint8_t *ip = frame + NET_ETH_BYTES, *icmp = frame + OFF_ICMP;
	uint64_t sum;

	memset(frame, 0, NET_ND_FRAME_BYTES);
	if (eth_dst != NULL) {
		memcpy(frame, eth_dst, NET_MAC_BYTES);
	} else {
		/* RFC 2464 section 7: 33:33 and the last four bytes of the group. */
		frame[0] = frame[1] = 0x33;
		memcpy(frame + 2, dst.b + 12, 4);
	}
	memcpy(frame + NET_MAC_BYTES, me->mac, NET_MAC_BYTES);
	net_put16(frame + 12, NET_TYPE_IPV6);
	ip[0] = 6 << 4;
	net_put16(ip + 4, NET_ND_FRAME_BYTES - OFF_ICMP);
	ip[6] = NET_PROTO_ICMPV6;
	ip[7] = NET_ND_HOP_LIMIT;
	memcpy(ip + 8, me->ip6.b, 16);
	memcpy(ip + 24, dst.b, 16);
	icmp[0] = type;
	icmp[4] = flags;
	memcpy(icmp + 8, target.b, 16);
	icmp[FIXED_BYTES] = type == NET_ND_SOLICIT ? OPTION_SOURCE_MAC : OPTION_TARGET_MAC;
	icmp[FIXED_BYTES + 1] = 1;
	memcpy(icmp + FIXED_BYTES + 2, me->mac, NET_MAC_BYTES);
	sum = net_sum_pseudo6(ip + 8, ip + 24, NET_PROTO_ICMPV6, NET_ND_FRAME_BYTES - OFF_ICMP);
	net_sum_put(icmp + 2, net_sum_fold(net_sum_add(sum, icmp, NET_ND_FRAME_BYTES - OFF_ICMP)));
}

void net_nd_encode_solicit(uint8_t *frame, const struct net_identity *me, struct net_ip target,
	const uint8_t *to)
{
	struct net_ip group = { .b = { 0xff, 0x02, [11] = 1, [12] = 0xff } };

	memcpy(group.b + 13, target.b + 13, 3);
	encode(frame, me, to, to != NULL ? target : group, NET_ND_SOLICIT, 0, target);
}

void net_nd_encode_reply(uint8_t *frame, const struct net_identity *me,
	const struct net_nd *solicit, const uint8_t *eth_src)
{
	bool asked = net_ip_is_set(solicit->src);

	/* RFC 4861 section 7.2.4: who has no address yet learns from the group of all. */
	encode(frame, me,
		!asked                     ? NULL
			: solicit->has_mac ? solicit->mac
					   : eth_src,
		asked ? solicit->src : all_nodes, NET_ND_ADVERT,
		asked ? FLAG_SOLICITED | FLAG_OVERRIDE : FLAG_OVERRIDE, me->ip6);
}

void net_nd_encode_announce(uint8_t *frame, const struct net_identity *me)
{
	encode(frame, me, NULL, all_nodes, NET_ND_ADVERT, FLAG_OVERRIDE, me->ip6);
}
