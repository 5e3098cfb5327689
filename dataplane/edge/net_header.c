/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_header.h"

#include <endian.h>

enum {
	OFF_IP = NET_ETH_BYTES,
	OFF_IP_TOTAL = OFF_IP + 2,
	OFF_IP_FLAGS = OFF_IP + 6,
	OFF_IP_TTL = OFF_IP + 8,
	OFF_IP_PROTOCOL = OFF_IP + 9,
	OFF_IP_SUM = OFF_IP + 10,
	OFF_IP_SRC = OFF_IP + 12,
	OFF_IP_DST = OFF_IP + 16,
	OFF_IP6_LEN = OFF_IP + 4,
	IP_DONT_FRAGMENT = 0x4000,
};

/* RFC 6437 section 3: the same for all packets of a flow, 20 bits, not 0. FNV-1a, folded. */
static uint32_t flow_label(const struct net_flow *flow)
{
	uint8_t ports[4];
	uint32_t h = 2166136261u;

	net_put16(ports, flow->src_port);
	net_put16(ports + 2, flow->dst_port);
	for (size_t i = 0; i < 16; i++)
		h = (h ^ flow->src.b[i]) * 16777619u;
	for (size_t i = 0; i < 16; i++)
		h = (h ^ flow->dst.b[i]) * 16777619u;
	for (size_t i = 0; i < 4; i++)
		h = (h ^ ports[i]) * 16777619u;
	h = (h ^ h >> 20) & 0xfffff;
	return h != 0 ? h : 1;
}

static void init4(struct net_header *h, const struct net_flow *flow)
{
	uint8_t *b = h->bytes;

	h->len = NET_HEADERS_BYTES;
	net_put16(b + 12, NET_TYPE_IPV4);
	b[OFF_IP] = 0x45;
	b[OFF_IP + 1] = (uint8_t)(flow->dscp << 2);
	net_put16(b + OFF_IP_FLAGS, IP_DONT_FRAGMENT);
	b[OFF_IP_TTL] = NET_TTL;
	b[OFF_IP_PROTOCOL] = NET_PROTO_UDP;
	memcpy(b + OFF_IP_SRC, flow->src.b + 12, 4);
	memcpy(b + OFF_IP_DST, flow->dst.b + 12, 4);
	h->ip_sum = net_sum_add(0, b + OFF_IP, NET_IPV4_BYTES);
	h->udp_sum =
		net_sum_pseudo(net_ip_get4(flow->src), net_ip_get4(flow->dst), NET_PROTO_UDP, 0);
}

static void init6(struct net_header *h, const struct net_flow *flow)
{
	uint8_t *ip = h->bytes + NET_ETH_BYTES;

	h->len = NET_HEADERS_MAX;
	net_put16(h->bytes + 12, NET_TYPE_IPV6);
	net_put32(ip, 6u << 28 | (uint32_t)flow->dscp << 22 | flow_label(flow));
	ip[6] = NET_PROTO_UDP;
	ip[7] = NET_TTL;
	memcpy(ip + 8, flow->src.b, 16);
	memcpy(ip + 24, flow->dst.b, 16);
	h->udp_sum = net_sum_pseudo6(ip + 8, ip + 24, NET_PROTO_UDP, 0);
}

void net_header_init(struct net_header *h, const struct net_flow *flow,
	const uint8_t src_mac[NET_MAC_BYTES])
{
	uint8_t *b = h->bytes, *udp;

	memset(h, 0, sizeof(*h));
	memcpy(b, flow->dst_mac, NET_MAC_BYTES);
	memcpy(b + NET_MAC_BYTES, src_mac, NET_MAC_BYTES);
	if (net_ip_is4(flow->src))
		init4(h, flow);
	else
		init6(h, flow);
	udp = b + h->len - NET_UDP_BYTES;
	net_put16(udp, flow->src_port);
	net_put16(udp + 2, flow->dst_port);
	h->udp_sum += net_sum_add(0, udp, NET_UDP_BYTES);
}

void net_header_set_mac(struct net_header *h, const uint8_t dst_mac[NET_MAC_BYTES])
{
	memcpy(h->bytes, dst_mac, NET_MAC_BYTES);
}

size_t net_header_write(const struct net_header *h, uint8_t *frame, size_t payload_len,
	enum net_udp_checksum checksum)
{
	uint16_t udp_len = (uint16_t)(NET_UDP_BYTES + payload_len), sum;
	uint8_t *udp = frame + h->len - NET_UDP_BYTES;
	bool v4 = h->len == NET_HEADERS_BYTES;
	uint64_t s;

	memcpy(frame, h->bytes, h->len);
	if (v4) {
		uint16_t total = (uint16_t)(NET_IPV4_BYTES + udp_len);

		net_put16(frame + OFF_IP_TOTAL, total);
		/* Sums are over words as they lie in memory. */
		net_sum_put(frame + OFF_IP_SUM, net_sum_fold(h->ip_sum + htobe16(total)));
	} else {
		net_put16(frame + OFF_IP6_LEN, udp_len);
	}
	net_put16(udp + 4, udp_len);
	if (checksum == NET_UDP_SUM_PSEUDO) {
		s = v4 ? net_sum_pseudo(net_get32(frame + OFF_IP_SRC),
				 net_get32(frame + OFF_IP_DST), NET_PROTO_UDP, udp_len)
		       : net_sum_pseudo6(frame + OFF_IP + 8, frame + OFF_IP + 24, NET_PROTO_UDP,
				 udp_len);
		/* Not complemented: the device sums this field along with the rest. */
		net_sum_put(udp + 6, (uint16_t)~net_sum_fold(s));
	} else if (checksum == NET_UDP_SUM_NONE && v4) {
		net_sum_put(udp + 6, 0);
	} else {
		/* The length counts twice: in the pseudo header and in the header. */
		s = h->udp_sum + 2 * (uint64_t)htobe16(udp_len);
		s = net_sum_add(s, frame + h->len, payload_len);
		sum = net_sum_fold(s);
		/* RFC 768: 0 means no checksum, so a computed 0 goes as its other form. */
		net_sum_put(udp + 6, sum != 0 ? sum : UINT16_MAX);
	}
	return h->len + payload_len;
}
