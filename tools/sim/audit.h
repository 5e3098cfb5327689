/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches the bytes of every packet that enters the wire and finds what must never happen:
 *   - a (direction, queue, key generation, packet number) used twice under one session secret,
 *     which would repeat an AES-GCM nonce;
 *   - more line bytes than the cap allows, over any interval whatever.
 * Reads only the clear header, so it trusts nothing of the sender's state. One thread. Memory: one
 * bit a packet number, in pages of 64 Ki numbers.
 */

#include <stddef.h>
#include <stdint.h>

enum { AUDIT_PAGE_SHIFT = 16 };

struct audit_page {
	uint64_t index; /* packet number >> AUDIT_PAGE_SHIFT */
	uint64_t bits[(1 << AUDIT_PAGE_SHIFT) / 64];
};

/* One (session secret, direction). */
struct audit {
	struct audit_page **pages; /* sorted by (queue, index) */
	uint8_t *queues;
	size_t npages, cap;
	size_t last; /* page of the packet before: numbers come in order */
	uint64_t packets;
	uint64_t repeats;
	/* Leaky bucket over the cap. */
	uint64_t rate_bps;
	uint64_t at_ns;
	uint32_t line_overhead; /* of a datagram; audit_init() sets IPv4's */
	double level_bytes;
	double excess_bytes; /* max over all intervals of bytes sent - rate x interval */
};

/* rate_bps 0: the rate is not audited. */
void audit_init(struct audit *a, uint64_t rate_bps);
void audit_fini(struct audit *a);

/* A packet enters the wire. Returns 0, -EINVAL too short for a header, -ENOMEM. */
int audit_packet(struct audit *a, uint64_t now_ns, const uint8_t *packet, size_t len);

/* Highest packet number >> STRAIT_GENERATION_SHIFT seen. */
uint64_t audit_generation(const struct audit *a);
