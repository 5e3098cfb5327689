/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * What is remembered of many digests for a while, in a fixed number of bytes: evicted here lately
 * (not to be pushed again), put here by us (not to be shipped back), asked for so often. A cache of
 * 8-byte entries, eight a cache line: 32 bits of the digest beside the line's number, 8 bits of
 * count, 24 bits of time in seconds. A full line forgets its oldest entry. Two digests are confused
 * with probability 8 / 2^32 a look; the cost is one object not pushed until it is asked for.
 *
 * Times are Unix seconds, so that what is saved means the same after a restart. A clock that steps
 * back makes entries last longer by as much. Pure, one thread.
 */

struct memory;

/**
 * Room for about `entries`; `keep_s` (at most 90 days) after the last mark an entry counts no
 * more.
 */
struct memory *memory_create(size_t entries, uint32_t keep_s);
void memory_destroy(struct memory *m);

/** Remember now. Returns how often it was marked within keep_s, this time too; at most 255. */
uint32_t memory_mark(struct memory *m, struct digest128 d, uint64_t now_s);
/** How often it was marked; 0: not remembered. */
uint32_t memory_get(const struct memory *m, struct digest128 d, uint64_t now_s);
/** How many digests were marked `least` times or more: a look at all of it. */
size_t memory_count(const struct memory *m, uint32_t least, uint64_t now_s);
void memory_prefetch(const struct memory *m, struct digest128 d);
void memory_forget(struct memory *m, struct digest128 d);

/** Everything, to be saved as it is. */
const void *memory_image(const struct memory *m, size_t *len);
/** -EINVAL: not an image of this size. */
int memory_restore(struct memory *m, const void *image, size_t len);
