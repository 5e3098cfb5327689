/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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

void packet_header_encode(const struct packet_header *h, uint8_t out[STRAIT_HEADER_BYTES]);

/** 0; -EMSGSIZE shorter than header + tag; -EPROTONOSUPPORT version or type unknown. */
int packet_header_decode(const uint8_t *packet, size_t len, struct packet_header *h);
