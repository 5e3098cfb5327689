/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Single steps of the path, each in a loop of its own, in cycles of the time stamp counter for each
 * source packet. They hint at where time goes; the path itself is not instrumented, and its caches
 * are in another state, so the sum is not its cost.
 */

enum stage {
	STAGE_HEADER,       /* encode the clear header, make the nonce */
	STAGE_SEAL_HOT,     /* seal, source and packet in the cache */
	STAGE_SEAL,         /* seal from DRAM into a ring of packets, header included */
	STAGE_OPEN,         /* open into place in DRAM */
	STAGE_DIGEST,       /* digest a block just written, as one piece */
	STAGE_PARITY,       /* add symbols from DRAM to the block's rows, eight at a time */
	STAGE_PARITY_BLOCK, /* rows of a whole block at once, as for late repair */
	STAGE_DECODE,       /* rebuild one symbol of a block, per packet of the block */
	STAGE_COUNT
};

const char *stage_name(enum stage stage);

/** pool: the caller's, whole blocks are used. rows >= 1 for the parity stages. 0 or -errno. */
int stages_measure(uint8_t *pool, size_t pool_bytes, uint32_t symbol_bytes, uint32_t rows,
	double cycles[STAGE_COUNT]);
