/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * Systematic Reed-Solomon over GF(2^8) with Cauchy rows (RFC 5510 terms), on ISA-L.
 *
 * Repair row r of a block with k source symbols is  sum over j of source_j / ((k + r) xor j). The
 * coefficient depends on k and r alone, never on how many rows are made: rows are rate-compatible,
 * more can be made later. Every square submatrix of a Cauchy matrix is invertible, so any e rows
 * repair any e losses; ISA-L's Vandermonde generator does not promise that and is never used.
 *
 * Decoding solves the e x e submatrix of the missing symbols, never a k x k inversion; the inverse
 * of a Cauchy matrix has a closed form. Measured with k = 128 symbols of 1432 bytes: 5 us for e =
 * 1, 32 us for e = 8, 0.9 ms for e = 113; elimination alone would take 5 ms for the latter. All
 * symbols have the same length, at least 64 bytes. Products are made by gf.h where the CPU has wide
 * affine instructions, else by ISA-L. No call allocates; struct rs holds the tables
 * (about 84 KiB) and belongs to one thread.
 */

enum {
	RS_BATCH_ROWS = 16, /* rows made or used in one pass over the sources */
};

struct rs {
	_Alignas(64) uint8_t tables[32 * STRAIT_BLOCK_SYMBOLS_MAX * RS_BATCH_ROWS];
	uint8_t coefficients[STRAIT_BLOCK_SYMBOLS_MAX * RS_BATCH_ROWS];
	uint8_t inverse[STRAIT_BLOCK_SYMBOLS_MAX * STRAIT_BLOCK_SYMBOLS_MAX];
	uint32_t table_k, table_first,
		table_rows; /* what tables holds, to encode many blocks alike */
	bool wide;          /* gf_sum() instead of ISA-L; a test may clear it after rs_init() */
};

void rs_init(struct rs *rs);

/** Coefficient of source symbol j in the repair symbol with this ESI (k <= esi <= 254, j < k). */
uint8_t rs_coefficient(uint32_t esi, uint32_t j);

/**
 * Make `rows` repair symbols, ESI k+first .. k+first+rows-1.
 * src has k pointers, dst has rows. 0, or -EINVAL: k 0 or > 128, k+first+rows > 255, len < 64.
 */
int rs_encode(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows, size_t len,
	const uint8_t *const *src, uint8_t *const *dst);

/**
 * The same, some source symbols at a time while they are hot: adds the shares of symbols
 * j .. j+n-1, at src[0 .. n-1], to each of the rows, or begins the rows with them when `fresh`.
 * After all k symbols, in any order, dst holds what rs_encode() makes. 4 to 8 symbols a call cost
 * half of what one costs, since every call reads and writes the rows. 0, or -EINVAL: as
 * rs_encode(), j+n > k,
 * rows > RS_BATCH_ROWS.
 */
int rs_encode_update(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows, size_t len,
	uint32_t j, uint32_t n, const uint8_t *const *src, uint8_t *const *dst, bool fresh);

/**
 * Rebuild the missing source symbols of a block.
 * @param src      k pointers: inputs where present, outputs where missing
 * @param present  bit j of present[j / 64] says whether source symbol j is there
 * @param esi      ESIs of n_rows distinct repair symbols at rows[]; their contents are destroyed
 * @return number of symbols rebuilt; -EAGAIN fewer rows than missing symbols (nothing changed);
 *         -EINVAL arguments out of range, an ESI twice (nothing changed)
 */
int rs_decode(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src, const uint64_t *present,
	const uint8_t *esi, uint8_t *const *rows, uint32_t n_rows);

/**
 * The same where sums[r], r < n_sums, has what the present symbols add to the row with ESI k + r.
 * Such rows are used first; as long as they suffice, no present symbol is read and its src may be
 * NULL.
 */
int rs_decode_summed(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src,
	const uint64_t *present, const uint8_t *given_esi, uint8_t *const *given_rows,
	uint32_t n_rows, const uint8_t *const *sums, uint32_t n_sums);
