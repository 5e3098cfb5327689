/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Ethernet, IP and UDP headers of outgoing datagrams, from a template a flow: per packet only
 * lengths and checksums are filled in. DF is set and the identification is 0 (RFC 6864 section
 * 4.1): datagrams fit the configured MTU and are never fragmented. IPv6 headers carry the DSCP in
 * the traffic class and a flow label derived from addresses and ports (RFC 6437), so that routers
 * can spread flows without looking at UDP.
 */

struct net_flow {
	uint8_t dst_mac[NET_MAC_BYTES];
	struct net_ip src, dst; /* of one kind */
	uint16_t src_port, dst_port;
	uint8_t dscp; /* 0..63 */
};

struct net_header {
	uint8_t bytes[NET_HEADERS_MAX];
	uint8_t len;      /* of these headers: where the payload begins */
	uint64_t ip_sum;  /* of the IPv4 header without total length and checksum */
	uint64_t udp_sum; /* of pseudo header and UDP header without lengths and checksum */
};

enum net_udp_checksum {
	NET_UDP_SUM_FULL,   /* over the payload too */
	NET_UDP_SUM_PSEUDO, /* pseudo header only: the device adds the rest */
	NET_UDP_SUM_NONE,   /* 0 (RFC 768); over IPv6, where that is forbidden, as FULL */
};

void net_header_init(struct net_header *h, const struct net_flow *flow,
	const uint8_t src_mac[NET_MAC_BYTES]);

/** A new next hop for the same flow. */
void net_header_set_mac(struct net_header *h, const uint8_t dst_mac[NET_MAC_BYTES]);

/**
 * Write the headers before a payload: frame + h->len holds payload_len bytes already.
 * payload_len <= 65507. Returns the frame's length.
 */
size_t net_header_write(const struct net_header *h, uint8_t *frame, size_t payload_len,
	enum net_udp_checksum checksum);
