/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Have state of one object, kept beside its bytes in the arena so that it survives the edge.
 *
 * SESSION_RESUME_BYTES of shared memory: the layout the bits are bound to, and one bit a source
 * block the object overlaps. A bit is set after the block's bytes were written (release order), so
 * a process killed at any instant leaves no bit without its bytes.
 *
 * The same object in another layout, cut into other symbols or at another place of its stream, as
 * when the path MTU fell, keeps what it has by byte ranges: a block of the new layout has its bit
 * when all of the object's bytes in it lie in blocks that had theirs. Another length or digest
 * wipes the state: that object restarts.
 */

struct rx_resume_layout {
	uint32_t symbol_bytes;
	uint64_t stream_bytes, offset, length, digest;
};

/**
 * Bind the area to the layout. true: it held state for this object, whatever its layout was;
 * false: it is empty now.
 */
bool rx_resume_open(void *area, const struct rx_resume_layout *layout, bool resumed);

/** area may be NULL (no resume): has is false, mark and clear do nothing. Blocks beyond the area's
 * room likewise. */
bool rx_resume_has(const void *area, uint32_t block);
void rx_resume_mark(void *area, uint32_t block);
void rx_resume_clear(void *area, uint32_t block);
