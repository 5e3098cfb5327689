/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * What a receiver wants of a symbol that has just been opened, in one pass while it is cached: its
 * share of the block's digest (digest.h) and of the block's first repair rows (rs.h).
 *
 * Both are linear, so symbols may be added in any order, each once. A share of the digest is a sum
 * of 128-bit products that is not reduced before the end: with T bytes a symbol, k symbols, the
 * share of symbol c is  CRC(c) * x^(8 T (k - 1 - c)) mod P, and the constants for every distance
 * are in a table for one T. 64 bytes a step, several symbols side by side, as carry-less products
 * wait for each other within a symbol. With T = 1432: 70 cycles a symbol and 15 to 17 more for each
 * row, where ISA-L's CRC takes 75 to 104 and gf_sum() 50 to 65 for two or three rows.
 *
 * Needs AVX-512, GFNI and VPCLMULQDQ: fold_is_wide(). Without them a receiver reads a block again
 * when it is whole. struct fold is read-only after fold_init().
 */

enum {
	FOLD_TOGETHER = 4, /* symbols a pass */
	FOLD_ROWS_MAX = 4,
};

struct fold {
	_Alignas(64) uint64_t shift[STRAIT_BLOCK_SYMBOLS_MAX][8]; /* by symbols that follow */
	_Alignas(64) uint64_t step[8];                            /* by 64 bytes */
	size_t len;                                               /* T */
};

struct fold_digest {
	_Alignas(64) uint64_t lane[8];
};

/** This CPU has what fold_add() needs. */
bool fold_is_wide(void);

/** Tables for symbols of len bytes (>= 64); some 50 us. */
void fold_init(struct fold *f, size_t len);

/**
 * Add n <= FOLD_TOGETHER symbols of a block of k: symbol column[i] lies at src[i]. `rows` rows
 * (ESI k .. k + rows - 1, at most FOLD_ROWS_MAX) at dst[] grow, or begin when `fresh`.
 * Only if fold_is_wide().
 */
void fold_add(const struct fold *f, uint32_t k, uint32_t n, const uint8_t *column,
	const uint8_t *const *src, uint32_t rows, uint8_t *const *dst, bool fresh,
	struct fold_digest *d);

/** Digest of the block's k * T bytes once every symbol was added. */
uint64_t fold_digest(const struct fold_digest *d);
