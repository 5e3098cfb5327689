/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Sums of products over GF(2^8), polynomial 0x11d: what encoding, updating and decoding come to.
 *
 * ISA-L 2.30 has no kernels for GFNI. With GFNI and AVX-512 a product by a constant is one
 * instruction on 64 bytes (an affine map of the bits), and taking several sources in one pass keeps
 * the sums in registers: about 105 to 135 cycles for 1432 bytes, 4 rows and 4 to 8 sources a pass,
 * where ISA-L's update by one source at a time takes 230 to 250. Where the CPU lacks them
 * gf_is_wide() says no, and rs.c uses ISA-L. Any thread; the tables are made once.
 */

enum {
	GF_ROWS_MAX = 16,
	GF_SOURCES_MAX = 8, /* a call; so many streams the prefetcher follows */
};

/** This CPU has what gf_sum() needs. */
bool gf_is_wide(void);

/**
 * dst[r] = sum over j < n of coefficient[j * rows + r] * src[j], added to what is there when `add`.
 * rows 1..GF_ROWS_MAX, n 1..GF_SOURCES_MAX; dst must not overlap src. Only if
 * gf_is_wide().
 */
void gf_sum(uint32_t rows, uint32_t n, size_t len, const uint8_t *coefficient,
	const uint8_t *const *src, uint8_t *const *dst, bool add);

/**
 * Read n sources of len bytes, one after the other. Symbols of a block lie in a row, and the
 * processor streams what is read in a row: 130 cycles for 1432 bytes from memory, where eight at
 * once by gf_sum() take 950, or 440 with prefetch instructions.
 */
void gf_fetch(const uint8_t *const *src, uint32_t n, size_t len);

/** A product by c as GF2P8AFFINEQB takes it, by c. */
const uint64_t *gf_matrices(void);

/** 1 / a by a; 0 for 0. */
const uint8_t *gf_inverses(void);
