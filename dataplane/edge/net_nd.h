/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"

/*
 * Neighbor discovery (RFC 4861) as far as an edge needs it: who has this address, and saying that
 * we have ours. It does for IPv6 what ARP does for IPv4. Pure functions over frames.
 *
 * Solicitations and advertisements only. Routers are not discovered: the gateway is configured, and
 * router advertisements and redirects, with which anybody on the link could turn traffic to
 * himself, are not listened to. An advertisement updates addresses somebody here asked for and
 * nothing else (neighbor cache: arp_cache.h).
 */

enum {
	NET_ND_FRAME_BYTES = NET_ETH_BYTES + NET_IPV6_BYTES + 24 + 8, /* with one MAC option */
};

enum net_nd_type {
	NET_ND_SOLICIT = 135,
	NET_ND_ADVERT = 136,
};

struct net_nd {
	enum net_nd_type type;
	struct net_ip src; /* all zeros: the asker is about to take the address (RFC 4862) */
	struct net_ip target;
	bool has_mac; /* source (solicitation) or target (advertisement) link-layer address */
	uint8_t mac[NET_MAC_BYTES];
	bool solicited, override;
};

/**
 * Read a frame that net_frame_classify() called NET_ND: addresses, checksum and hop limit hold. 0;
 * -EPROTO: it breaks a rule of RFC 4861 section 7.1, such as an option of length 0.
 */
int net_nd_decode(const uint8_t *frame, size_t len, struct net_nd *out);

/** All write NET_ND_FRAME_BYTES. */

/** Ask for target; to: the MAC to ask alone, NULL: the solicited-node group. */
void net_nd_encode_solicit(uint8_t *frame, const struct net_identity *me, struct net_ip target,
	const uint8_t *to);
/** Answer a solicitation of our address. frame's sender: eth_src of the solicitation. */
void net_nd_encode_reply(uint8_t *frame, const struct net_identity *me,
	const struct net_nd *solicit, const uint8_t *eth_src);
/** Tell everybody our MAC. */
void net_nd_encode_announce(uint8_t *frame, const struct net_identity *me);
