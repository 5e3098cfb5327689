/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/capture_ring.h"

#include <stddef.h>
#include <string.h>

static struct capture_record *slot(const struct capture_ring *r, uint32_t i)
{
	return (void *)(r->slots + (size_t)(i & r->mask) * r->slot_bytes);
}

void capture_ring_put(struct capture_ring *r, uint64_t now_ns, enum capture_way way,
	const uint8_t *frame, uint32_t len)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint32_t room = r->slot_bytes - (uint32_t)offsetof(struct capture_record, bytes);
	struct capture_record *c;

	/* Acquire: the consumer is done with the slot it handed back. */
	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) > r->mask) {
		atomic_store_explicit(&r->missed,
			atomic_load_explicit(&r->missed, memory_order_relaxed) + 1,
			memory_order_relaxed);
		return;
	}
	c = slot(r, head);
	c->time_ns = now_ns;
	c->len = len;
	c->kept = (uint16_t)(len < room ? len : room);
	c->way = (uint8_t)way;
	c->reserved = 0;
	memcpy(c->bytes, frame, c->kept);
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

const struct capture_record *capture_ring_peek(struct capture_ring *r)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&r->head, memory_order_acquire))
		return NULL;
	return slot(r, tail);
}

void capture_ring_pop(struct capture_ring *r)
{
	atomic_store_explicit(&r->tail, atomic_load_explicit(&r->tail, memory_order_relaxed) + 1,
		memory_order_release);
}
