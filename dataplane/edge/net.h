/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <string.h>

/*
 * The little IP stack's common ground: sizes, identity, big-endian access and the Internet
 * checksum.
 *
 * Everything named net_* is a pure function over byte spans: no clock, no device, no memory of
 * its own, so it runs in tests and fuzzers as it does under the worker. What a peer sends is
 * never trusted: lengths are checked before bytes are read. Addresses and ports are in host byte
 * order.
 */

enum {
	NET_MAC_BYTES = 6,
	NET_ETH_BYTES = 14,
	NET_ETH_MIN_BYTES = 60, /* without FCS; shorter frames are padded by the sender */
	NET_IPV4_BYTES = 20,
	NET_UDP_BYTES = 8,
	NET_HEADERS_BYTES = NET_ETH_BYTES + NET_IPV4_BYTES + NET_UDP_BYTES,
	NET_TYPE_IPV4 = 0x0800,
	NET_TYPE_ARP = 0x0806,
	NET_PROTO_ICMP = 1,
	NET_PROTO_UDP = 17,
	NET_TTL = 64,
};

/** Who we are on a port. */
struct net_identity {
	uint8_t mac[NET_MAC_BYTES];
	uint32_t ip;
	uint16_t udp_port;
};

static inline uint16_t net_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t net_get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
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

/** The IPv4 pseudo header of RFC 768; transport length included. */
uint64_t net_sum_pseudo(uint32_t src, uint32_t dst, uint8_t protocol, uint16_t len);
