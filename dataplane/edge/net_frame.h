/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"

#include <stddef.h>

/*
 * What a received frame is: one of the few things we answer or consume, or a reason to drop it.
 *
 * Strict, because whoever is on the wire may send anything: a length that is not covered by the
 * frame, a header length below the least, a fragment, an address that is not ours, a checksum
 * that does not hold are each a drop with its own counter. Frames may carry Ethernet padding
 * behind the IP packet. IP options and IPv6 extension headers are not supported (source routes have
 * no business here; a fragment header counts as a fragment). Router advertisements, redirects and
 * errors are not listened to: the gateway is configured, the path MTU is found by probing.
 * Nothing is answered to strangers.
 */

enum net_verdict {
	NET_UDP,       /* payload for one of our ports */
	NET_ARP,       /* frame for net_arp_decode() */
	NET_ND,        /* frame for net_nd_decode() */
	NET_ICMP_ECHO, /* frame for net_icmp_reply() */
	NET_DROP_NOT_FOR_US,
	NET_DROP_MALFORMED,
	NET_DROP_FRAGMENT,
	NET_DROP_CHECKSUM,
	NET_DROP_PROTOCOL,
	NET_DROP_ND, /* neighbor discovery that must not be believed (RFC 4861 section 7.1) */
};

/** Checksums the device has verified already. */
enum net_trust {
	NET_TRUST_IP = 1 << 0,
	NET_TRUST_UDP = 1 << 1,
};

struct net_packet {
	struct net_ip src;
	uint16_t src_port, dst_port; /* NET_UDP */
	const uint8_t *
		payload; /* behind the UDP or ICMP header's first byte: UDP payload, ICMP message */
	size_t payload_len;
};

/** Never reads outside [frame, frame + len). out is filled for NET_UDP and NET_ICMP_ECHO. */
enum net_verdict net_frame_classify(const uint8_t *frame, size_t len, const struct net_identity *me,
	unsigned int trust, struct net_packet *out);
