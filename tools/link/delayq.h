/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Time-ordered queue of 64-bit payloads (a pointer or an index): a 4-ary heap on (due_ns, order of
 * push), so equal times leave in the order they came. strait-sim keeps its events in it, strait-wan
 * its packets. Belongs to one thread. Pushing in time order costs O(1), popping O(log n).
 * Memory is 24 bytes an entry, doubled on demand up to max entries; give initial == max to never
 * allocate after delayq_init().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct delayq_entry {
	uint64_t due_ns;
	uint64_t order;
	uint64_t payload;
};

struct delayq {
	struct delayq_entry *e;
	size_t len;
	size_t cap;
	size_t max;
	uint64_t pushes;
};

/* Returns 0, -EINVAL when initial is 0 or above max, -ENOMEM. */
int delayq_init(struct delayq *q, size_t initial, size_t max);

/* Frees the queue's own memory, not what payloads point to. */
void delayq_fini(struct delayq *q);

/* Returns 0, -ENOSPC when max entries are queued, -ENOMEM. */
int delayq_push(struct delayq *q, uint64_t due_ns, uint64_t payload);

/* Takes the earliest entry if it is due at now_ns (due_ns <= now_ns). UINT64_MAX takes any. */
bool delayq_pop_due(struct delayq *q, uint64_t now_ns, uint64_t *due_ns, uint64_t *payload);

/* Due time of the earliest entry, UINT64_MAX when empty. */
static inline uint64_t delayq_next_ns(const struct delayq *q)
{
	return q->len ? q->e[0].due_ns : UINT64_MAX;
}
