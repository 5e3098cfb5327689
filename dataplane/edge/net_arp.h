/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * ARP packets for IPv4 over Ethernet (RFC 826), both ways. What to do with them is arp_cache.h's
 * and the worker's business.
 */

enum {
	NET_ARP_BYTES = 28,
	NET_ARP_FRAME_BYTES = NET_ETH_MIN_BYTES, /* zero padded, so nothing of a buffer leaks */
};

enum net_arp_op {
	NET_ARP_REQUEST = 1,
	NET_ARP_REPLY = 2,
};

struct net_arp {
	enum net_arp_op op;
	uint8_t sender_mac[NET_MAC_BYTES];
	uint32_t sender_ip; /* 0 in a probe (RFC 5227) */
	uint32_t target_ip;
};

/**
 * A frame with the ARP EtherType. 0, -EPROTO malformed, -EPROTONOSUPPORT not IPv4 over
 * Ethernet.
 */
int net_arp_decode(const uint8_t *frame, size_t len, struct net_arp *out);

/** Each writes NET_ARP_FRAME_BYTES. to: NULL asks everybody. */
void net_arp_encode_request(uint8_t *frame, const struct net_identity *me, uint32_t target_ip,
	const uint8_t *to);
void net_arp_encode_reply(uint8_t *frame, const struct net_identity *me,
	const struct net_arp *request);
/** Gratuitous: a request for our own address (RFC 5227 section 3), heard by switches and caches. */
void net_arp_encode_announce(uint8_t *frame, const struct net_identity *me);
