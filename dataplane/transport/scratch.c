/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int scratch_init(struct scratch *s, uint32_t slots, uint32_t symbol_bytes)
{
	memset(s, 0, sizeof(*s));
	if (slots == 0 || slots > SCRATCH_SLOTS_MAX || symbol_bytes == 0)
		return -EINVAL;
	s->n = slots;
	s->stride = (symbol_bytes + 63) / 64 * 64;
	s->slots = calloc(slots, sizeof(*s->slots));
	s->bytes = aligned_alloc(64, (size_t)slots * s->stride);
	if (s->slots == NULL || s->bytes == NULL) {
		scratch_fini(s);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < slots; i++)
		s->slots[i].next = i + 1 < slots ? (uint16_t)(i + 1) : SCRATCH_NONE;
	return 0;
}

void scratch_fini(struct scratch *s)
{
	free(s->slots);
	free(s->bytes);
	memset(s, 0, sizeof(*s));
	s->free = SCRATCH_NONE;
}

uint16_t scratch_get(struct scratch *s)
{
	uint16_t slot = s->free;

	if (slot == SCRATCH_NONE)
		return SCRATCH_NONE;
	s->free = s->slots[slot].next;
	s->slots[slot].next = SCRATCH_NONE;
	s->used++;
	return slot;
}

void scratch_put(struct scratch *s, uint16_t slot)
{
	s->slots[slot].next = s->free;
	s->free = slot;
	s->used--;
}
