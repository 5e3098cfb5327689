/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The little IP stack's common ground: sizes, identity, big-endian access and the Internet
 * checksum.
 *
 * Everything named net_* is a pure function over byte spans: no clock, no device, no memory of
 * its own, so it runs in tests and fuzzers as it does under the worker. What a peer sends is
 * never trusted: lengths are checked before bytes are read. IPv4 addresses and ports are in host
 * byte order; addresses of either kind are a struct net_ip in network order.
 */

enum {
	NET_MAC_BYTES = 6,
	NET_ETH_BYTES = 14,
	NET_ETH_MIN_BYTES = 60, /* without FCS; shorter frames are padded by the sender */
	NET_IPV4_BYTES = 20,
	NET_IPV6_BYTES = 40,
	NET_UDP_BYTES = 8,
	NET_HEADERS_BYTES = NET_ETH_BYTES + NET_IPV4_BYTES + NET_UDP_BYTES,
	NET_HEADERS_MAX = NET_ETH_BYTES + NET_IPV6_BYTES + NET_UDP_BYTES,
	NET_TYPE_IPV4 = 0x0800,
	NET_TYPE_ARP = 0x0806,
	NET_TYPE_IPV6 = 0x86dd,
	NET_PROTO_ICMP = 1,
	NET_PROTO_UDP = 17,
	NET_PROTO_ICMPV6 = 58,
	NET_TTL = 64,
	NET_ND_HOP_LIMIT = 255,
};

/** An address of either kind. IPv4's are mapped: ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2). */
struct net_ip {
	uint8_t b[16];
};

#define NET_IP4_INIT(a)                                                                            \
	{                                                                                          \
		.b = { [10] = 0xff,                                                                \
			[11] = 0xff,                                                               \
			[12] = (uint8_t)((a) >> 24),                                               \
			[13] = (uint8_t)((a) >> 16),                                               \
			[14] = (uint8_t)((a) >> 8),                                                \
			[15] = (uint8_t)(a) }                                                      \
	}

static inline struct net_ip net_ip4(uint32_t a)
{
	return (struct net_ip)NET_IP4_INIT(a);
}

static inline bool net_ip_is4(struct net_ip a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a.b, mapped, sizeof(mapped)) == 0;
}

static inline bool net_ip_equal(struct net_ip a, struct net_ip b)
{
	return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}

/** false: all zeros, which means none. (Of IPv4, 0.0.0.0 means none too.) */
static inline bool net_ip_is_set(struct net_ip a)
{
	static const struct net_ip none, none4 = NET_IP4_INIT(0u);

	return !net_ip_equal(a, none) && !net_ip_equal(a, none4);
}

static inline bool net_ip_is_link_local(struct net_ip a)
{
	return a.b[0] == 0xfe && (a.b[1] & 0xc0) == 0x80;
}

/** The first len bits are the same; len counts in the address's own kind, 0..32 or 0..128. */
static inline bool net_ip_same_prefix(struct net_ip a, struct net_ip b, unsigned int len)
{
	unsigned int bits = net_ip_is4(a) ? 96 + len : len;

	if (net_ip_is4(a) != net_ip_is4(b) || memcmp(a.b, b.b, bits / 8) != 0)
		return false;
	return bits % 8 == 0 || (a.b[bits / 8] ^ b.b[bits / 8]) >> (8 - bits % 8) == 0;
}

/** Who we are on a port: `ip` over IPv4, else `ip6`; the other one is 0. */
struct net_identity {
	uint8_t mac[NET_MAC_BYTES];
	uint32_t ip;
	struct net_ip ip6;
	uint16_t udp_port;
	uint16_t more_ports; /* udp_port + 1 and so on, so many, are ours too */
};

static inline uint16_t net_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t net_get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t net_ip_get4(struct net_ip a)
{
	return net_get32(a.b + 12);
}

static inline void net_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void net_put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

/*
 * Internet checksum (RFC 1071). Sums are kept as 64 bit numbers of native 16 bit words, which add
 * up in any order and byte order; net_sum_fold() gives the complement, to be stored with
 * net_sum_put().
 */

/**
 * Add len bytes. An odd last byte counts as if a zero followed, so only the last span may be
 * odd.
 */
uint64_t net_sum_add(uint64_t sum, const uint8_t *p, size_t len);

/** The 16 bit complement, in native order as it goes into the packet. */
uint16_t net_sum_fold(uint64_t sum);

static inline void net_sum_put(uint8_t *p, uint16_t folded)
{
	memcpy(p, &folded, sizeof(folded));
}

/** The pseudo header of RFC 8200 section 8.1. */
uint64_t net_sum_pseudo6(const uint8_t *src, const uint8_t *dst, uint8_t protocol, uint32_t len);

/** The IPv4 pseudo header of RFC 768; transport length included. */
uint64_t net_sum_pseudo(uint32_t src, uint32_t dst, uint8_t protocol, uint16_t len);
