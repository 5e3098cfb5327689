/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/strait.h>

#include <stdint.h>

/*
 * What an edge and the gateway of one of its pools say to each other, over a Unix socket of type
 * SOCK_SEQPACKET at which the gateway listens: one frame a packet, little-endian, 24 bytes and the
 * key. doc/mooncake.md describes the exchange; `id` is the edge's and comes back in the answer.
 *
 *   HELLO    both, first: id is GATEWAY_VERSION, key the tenant
 *   STAGE    edge: bring the object into the pool
 *   STAGED   gateway: it is visible there (OK), or why not
 *   ARRIVED  edge: an object from another site, verified and leased by the edge, is in the pool:
 *            put it into the store
 *   TAKEN    gateway: it is in the store (OK, EXISTS), or its bytes are not its digest's (CORRUPT)
 *   CHECK    edge: what was staged a while ago is about to be shipped
 *   CHECKED  gateway: the store still has it, where it was (OK), or not (GONE)
 */

enum { GATEWAY_VERSION = 1, GATEWAY_HEADER_BYTES = 24 };
#define GATEWAY_FRAME_MAX (GATEWAY_HEADER_BYTES + STRAIT_KEY_MAX)

enum gateway_type {
	GATEWAY_HELLO = 1,
	GATEWAY_STAGE = 2,
	GATEWAY_STAGED = 3,
	GATEWAY_ARRIVED = 4,
	GATEWAY_TAKEN = 5,
	GATEWAY_CHECK = 6,
	GATEWAY_CHECKED = 7,
};

enum gateway_status {
	GATEWAY_OK = 0,
	GATEWAY_NOT_FOUND = 1, /* the store has no such object */
	GATEWAY_GONE = 2,      /* it went, changed or could not be read while it was staged */
	GATEWAY_NO_ROOM = 3,   /* nothing in the pool may be evicted for it now */
	GATEWAY_TOO_LARGE = 4,
	GATEWAY_EXISTS = 5,
	GATEWAY_CORRUPT = 6,
};

struct gateway_frame {
	uint8_t type, status;
	uint16_t key_len;
	uint32_t id;
	uint64_t length, digest;
	const uint8_t *key; /* key_len bytes */
};
