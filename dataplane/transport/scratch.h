/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Bounded store of authentic symbols whose place is not known yet: data ahead of its OPEN, its
 * manifest or the placement of its object. A fixed number of slots; a full store drops the symbol,
 * which is then repaired like a loss. Owned by one worker; nothing here allocates after init.
 *
 * The same store keeps repair symbols that wait for their block: a slot is a buffer of symbol size
 * and a little metadata, and lists are chained by slot number.
 */

enum { SCRATCH_NONE = 0xffff, SCRATCH_SLOTS_MAX = 65535 };

struct scratch_slot {
	uint64_t packet_number;
	uint32_t transfer, block;
	uint16_t next;
	uint16_t len;
	uint8_t stream, esi, flags;
};

struct scratch {
	struct scratch_slot *slots;
	uint8_t *bytes;
	uint32_t stride; /* bytes a slot, symbol size rounded up to 64 */
	uint32_t n, used;
	uint16_t free; /* head of the free list */
};

/** 0, -EINVAL, -ENOMEM. */
int scratch_init(struct scratch *s, uint32_t slots, uint32_t symbol_bytes);
void scratch_fini(struct scratch *s);

/** A free slot, SCRATCH_NONE when all are taken. */
uint16_t scratch_get(struct scratch *s);
void scratch_put(struct scratch *s, uint16_t slot);

static inline uint8_t *scratch_bytes(struct scratch *s, uint16_t slot)
{
	return s->bytes + (uint64_t)slot * s->stride;
}
