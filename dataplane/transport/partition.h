/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stddef.h>

/*
 * Cutting a byte stream into source blocks of near-equal size: RFC 5052 section 9.1 with B = 128.
 *
 * N symbols make Z = ceil(N / 128) blocks; the first I have A_large symbols, the others A_small =
 * A_large or A_large - 1. Pure arithmetic.
 */
struct partition {
	uint64_t bytes;        /* F: stream length, >= 1 */
	uint32_t symbol_bytes; /* T */
	uint64_t symbols;      /* N */
	uint32_t blocks;       /* Z */
	uint32_t large;        /* A_large */
	uint32_t small;        /* A_small */
	uint32_t n_large;      /* I */
};

/** 0; -EINVAL bytes 0 or T out of wire.h's bounds; -EOVERFLOW more than 2^32 - 1 blocks. */
int partition_init(struct partition *p, uint64_t bytes, uint32_t symbol_bytes);

/** k of a block. */
static inline uint32_t partition_k(const struct partition *p, uint32_t block)
{
	return block < p->n_large ? p->large : p->small;
}

/** Index in the stream of the block's first symbol. */
static inline uint64_t partition_first(const struct partition *p, uint32_t block)
{
	uint64_t b = block;
	if (b <= p->n_large)
		return b * p->large;
	return (uint64_t)p->n_large * p->large + (b - p->n_large) * p->small;
}

/** Byte offset of a source symbol in the stream. */
static inline uint64_t partition_offset(const struct partition *p, uint32_t block, uint32_t esi)
{
	return (partition_first(p, block) + esi) * p->symbol_bytes;
}

/**
 * Bytes of a source symbol on the wire: T, less for the stream's last. FEC sees it padded with 0.
 */
static inline uint32_t partition_symbol_len(const struct partition *p, uint64_t offset)
{
	uint64_t left = p->bytes - offset;
	return left < p->symbol_bytes ? (uint32_t)left : p->symbol_bytes;
}

/** The block that holds the byte at offset < bytes. */
uint32_t partition_block_of(const struct partition *p, uint64_t offset);
