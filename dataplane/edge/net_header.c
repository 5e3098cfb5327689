/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/net_header.h"

enum {
	OFF_IP = NET_ETH_BYTES,
	OFF_IP_TOTAL = OFF_IP + 2,
	OFF_IP_FLAGS = OFF_IP + 6,
	OFF_IP_TTL = OFF_IP + 8,
	OFF_IP_PROTOCOL = OFF_IP + 9,
	OFF_IP_SUM = OFF_IP + 10,
	OFF_IP_SRC = OFF_IP + 12,
	OFF_IP_DST = OFF_IP + 16,
	OFF_UDP = OFF_IP + NET_IPV4_BYTES,
	OFF_UDP_LEN = OFF_UDP + 4,
	OFF_UDP_SUM = OFF_UDP + 6,
	IP_DONT_FRAGMENT = 0x4000,
};

void net_header_init(struct net_header *h, const struct net_flow *flow,
	const uint8_t src_mac[NET_MAC_BYTES])
{
	uint8_t *b = h->bytes;

	memset(h, 0, sizeof(*h));
	memcpy(b, flow->dst_mac, NET_MAC_BYTES);
	memcpy(b + NET_MAC_BYTES, src_mac, NET_MAC_BYTES);
	net_put16(b + 12, NET_TYPE_IPV4);
	b[OFF_IP] = 0x45;
	b[OFF_IP + 1] = (uint8_t)(flow->dscp << 2);
	net_put16(b + OFF_IP_FLAGS, IP_DONT_FRAGMENT);
	b[OFF_IP_TTL] = NET_TTL;
	b[OFF_IP_PROTOCOL] = NET_PROTO_UDP;
	net_put32(b + OFF_IP_SRC, flow->src_ip);
	net_put32(b + OFF_IP_DST, flow->dst_ip);
	net_put16(b + OFF_UDP, flow->src_port);
	net_put16(b + OFF_UDP + 2, flow->dst_port);
	h->ip_sum = net_sum_add(0, b + OFF_IP, NET_IPV4_BYTES);
	h->udp_sum = net_sum_pseudo(flow->src_ip, flow->dst_ip, NET_PROTO_UDP, 0) +
		net_sum_add(0, b + OFF_UDP, NET_UDP_BYTES);
}

void net_header_set_mac(struct net_header *h, const uint8_t dst_mac[NET_MAC_BYTES])
{
	memcpy(h->bytes, dst_mac, NET_MAC_BYTES);
}

size_t net_header_write(const struct net_header *h, uint8_t *frame, size_t payload_len,
	enum net_udp_checksum checksum)
{
	uint16_t udp_len = (uint16_t)(NET_UDP_BYTES + payload_len), sum;
	uint8_t len[2];
	uint64_t s;

	memcpy(frame, h->bytes, NET_HEADERS_BYTES);

	net_put16(frame + OFF_IP_TOTAL, (uint16_t)(NET_IPV4_BYTES + udp_len));
	s = net_sum_add(h->ip_sum, frame + OFF_IP_TOTAL, 2);
	net_sum_put(frame + OFF_IP_SUM, net_sum_fold(s));

	net_put16(frame + OFF_UDP_LEN, udp_len);
	if (checksum == NET_UDP_SUM_PSEUDO) {
		/* Not complemented: the device sums this field along with the rest. */
		net_put16(len, udp_len);
		s = net_sum_pseudo(net_get32(frame + OFF_IP_SRC), net_get32(frame + OFF_IP_DST),
			NET_PROTO_UDP, udp_len);
		net_sum_put(frame + OFF_UDP_SUM, (uint16_t)~net_sum_fold(s));
	} else {
		/* The length counts twice: in the pseudo header and in the header. */
		net_put16(len, udp_len);
		s = net_sum_add(h->udp_sum, len, sizeof(len));
		s = net_sum_add(s, len, sizeof(len));
		s = net_sum_add(s, frame + NET_HEADERS_BYTES, payload_len);
		sum = net_sum_fold(s);
		/* RFC 768: 0 means no checksum, so a computed 0 goes as its other form. */
		net_sum_put(frame + OFF_UDP_SUM, sum != 0 ? sum : UINT16_MAX);
	}
	return NET_HEADERS_BYTES + payload_len;
}
