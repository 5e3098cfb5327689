/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/bytes.h"

#include <strait/wire.h>

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
	out[STRAIT_OFF_VERSION_TYPE] = (uint8_t)(STRAIT_WIRE_VERSION << 4 | (h->type & 15));
	out[STRAIT_OFF_QUEUE] = h->queue;
	out[STRAIT_OFF_FLAGS] = h->flags;
	out[STRAIT_OFF_ESI] = h->esi;
	put_be32(out + STRAIT_OFF_SESSION, h->session);
	put_be64(out + STRAIT_OFF_PACKET_NUMBER, h->packet_number);
	put_be32(out + STRAIT_OFF_TRANSFER, h->transfer);
	put_be32(out + STRAIT_OFF_BLOCK, h->block);
}

void packet_header_encode(const struct packet_header *h, uint8_t out[STRAIT_HEADER_BYTES]);

/** 0; -EMSGSIZE shorter than header + tag; -EPROTONOSUPPORT version or type unknown. */
int packet_header_decode(const uint8_t *packet, size_t len, struct packet_header *h);
