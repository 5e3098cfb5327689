/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/bytes.h"

#include <strait/wire.h>

#include <assert.h>
#include <errno.h>
#include <stddef.h>

/*
 * The clear header of a packet, decoded. Pure functions; no state.
 */

struct packet_header {
	uint8_t type; /* enum strait_packet_type */
	uint8_t queue;
	uint8_t flags;
	uint8_t esi;
	uint32_t session;
	uint64_t packet_number;
	uint32_t transfer;
	uint32_t block;
};

/** The same, to be inlined where packets are made in bursts. */
static inline void packet_header_put(const struct packet_header *h,
	uint8_t out[STRAIT_HEADER_BYTES])
{
	const uint32_t first = (uint32_t)(STRAIT_WIRE_VERSION << 4 | (h->type & 15)) << 24 |
		(uint32_t)h->queue << 16 | (uint32_t)h->flags << 8 | h->esi;

	static_assert(STRAIT_OFF_VERSION_TYPE == 0 && STRAIT_OFF_QUEUE == 1 &&
			STRAIT_OFF_FLAGS == 2 && STRAIT_OFF_ESI == 3,
		"one store writes the first four bytes");
	put_be32(out + STRAIT_OFF_VERSION_TYPE, first);
	put_be32(out + STRAIT_OFF_SESSION, h->session);
	put_be64(out + STRAIT_OFF_PACKET_NUMBER, h->packet_number);
	put_be32(out + STRAIT_OFF_TRANSFER, h->transfer);
	put_be32(out + STRAIT_OFF_BLOCK, h->block);
}

void packet_header_encode(const struct packet_header *h, uint8_t out[STRAIT_HEADER_BYTES]);

/** 0; -EMSGSIZE shorter than header + tag; -EPROTONOSUPPORT version or type unknown. */
static inline int packet_header_decode(const uint8_t *packet, size_t len, struct packet_header *h)
{
	uint8_t type;

	if (len < STRAIT_OVERHEAD_BYTES)
		return -EMSGSIZE;
	type = packet[STRAIT_OFF_VERSION_TYPE] & 15;
	if (packet[STRAIT_OFF_VERSION_TYPE] >> 4 != STRAIT_WIRE_VERSION ||
		type < STRAIT_PACKET_DATA || type > STRAIT_PACKET_CONTROL)
		return -EPROTONOSUPPORT;
	h->type = type;
	h->queue = packet[STRAIT_OFF_QUEUE];
	h->flags = packet[STRAIT_OFF_FLAGS];
	h->esi = packet[STRAIT_OFF_ESI];
	h->session = get_be32(packet + STRAIT_OFF_SESSION);
	h->packet_number = get_be64(packet + STRAIT_OFF_PACKET_NUMBER);
	h->transfer = get_be32(packet + STRAIT_OFF_TRANSFER);
	h->block = get_be32(packet + STRAIT_OFF_BLOCK);
	return 0;
}
