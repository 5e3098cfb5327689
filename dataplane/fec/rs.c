/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/rs.h"

#include <isa-l/erasure_code.h>

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

/* ISA-L's update kernels need 64 bytes, its dot products 32. */
enum { SYMBOL_BYTES_MIN = 64 };

void rs_init(struct rs *rs)
{
	rs->table_k = 0;
	rs->table_first = 0;
	rs->table_rows = 0;
}

uint8_t rs_coefficient(uint32_t esi, uint32_t j)
{
	return gf_inv((unsigned char)(esi ^ j));
}

static bool is_valid(uint32_t k, uint32_t first, uint32_t rows, size_t len)
{
	return k >= 1 && k <= STRAIT_BLOCK_SYMBOLS_MAX && first <= STRAIT_ESI_COUNT - k &&
		rows <= STRAIT_ESI_COUNT - k - first && len >= SYMBOL_BYTES_MIN && len <= INT_MAX;
}

/* Tables for rows first .. first + rows - 1 of a k-block, at most RS_BATCH_ROWS. */
static void load_rows(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows)
{
	if (rs->table_k == k && rs->table_first == first && rs->table_rows == rows)
		return;
	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t j = 0; j < k; j++)
			rs->coefficients[i * k + j] = rs_coefficient(k + first + i, j);
	ec_init_tables((int)k, (int)rows, rs->coefficients, rs->tables);
	rs->table_k = k;
	rs->table_first = first;
	rs->table_rows = rows;
}

int rs_encode(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows, size_t len,
	const uint8_t *const *src, uint8_t *const *dst)
{
	if (!is_valid(k, first, rows, len))
		return -EINVAL;
	for (uint32_t i = 0; i < rows; i += RS_BATCH_ROWS) {
		uint32_t n = rows - i < RS_BATCH_ROWS ? rows - i : RS_BATCH_ROWS;

		load_rows(rs, k, first + i, n);
		ec_encode_data((int)len, (int)k, (int)n, rs->tables, (unsigned char **)src,
			(unsigned char **)dst + i);
	}
	return 0;
}

int rs_encode_update(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows, size_t len,
	uint32_t j, const uint8_t *src, uint8_t *const *dst)
{
	if (!is_valid(k, first, rows, len) || j >= k || rows > RS_BATCH_ROWS)
		return -EINVAL;
	if (rows == 0)
		return 0;
	load_rows(rs, k, first, rows);
	ec_encode_data_update((int)len, (int)k, (int)rows, (int)j, rs->tables, (unsigned char *)src,
		(unsigned char **)dst);
	return 0;
}

/* Product over the points of (x + point), leaving out x itself. */
static uint8_t product_of_sums(uint8_t x, const uint8_t *points, uint32_t n)
{
	uint8_t product = 1;

	for (uint32_t i = 0; i < n; i++)
		if (points[i] != x)
			product = gf_mul(product, points[i] ^ x);
	return product;
}

/*
 * Inverse of the Cauchy matrix 1 / (esi_i + column_j), e x e:
 *
 *   inverse[i][j] = u(esi_j) * v(column_i) / (esi_j + column_i)
 *   u(x) = prod over columns y of (x + y) / prod over other ESIs z of (x + z)
 *   v(y) = the same with ESIs and columns swapped
 *
 * (Knuth, The Art of Computer Programming, vol. 1, exercise 1.2.3-41.) ESIs and columns are
 * disjoint and distinct, so nothing here is 0: unlike elimination it cannot fail.
 */
static void invert_cauchy(const uint8_t *esi, const uint8_t *column, uint32_t e, uint8_t *inverse)
{
	uint8_t u[STRAIT_BLOCK_SYMBOLS_MAX];

	for (uint32_t j = 0; j < e; j++)
		u[j] = gf_mul(product_of_sums(esi[j], column, e),
			gf_inv(product_of_sums(esi[j], esi, e)));
	for (uint32_t i = 0; i < e; i++) {
		uint8_t v = gf_mul(product_of_sums(column[i], esi, e),
			gf_inv(product_of_sums(column[i], column, e)));

		for (uint32_t j = 0; j < e; j++)
			inverse[i * e + j] = gf_mul(gf_mul(u[j], v), gf_inv(esi[j] ^ column[i]));
	}
}

static bool is_present(const uint64_t *present, uint32_t j)
{
	return (present[j / 64] >> (j % 64)) & 1;
}

/* Subtract what the present symbols contribute; rows become the syndromes of the missing ones. */
static void make_syndromes(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src,
	const uint64_t *present, const uint8_t *esi, uint8_t *const *rows, uint32_t e)
{
	for (uint32_t i = 0; i < e; i += RS_BATCH_ROWS) {
		uint32_t n = e - i < RS_BATCH_ROWS ? e - i : RS_BATCH_ROWS;

		for (uint32_t row = 0; row < n; row++)
			for (uint32_t j = 0; j < k; j++)
				rs->coefficients[row * k + j] = rs_coefficient(esi[i + row], j);
		ec_init_tables((int)k, (int)n, rs->coefficients, rs->tables);
		for (uint32_t j = 0; j < k; j++)
			if (is_present(present, j))
				ec_encode_data_update((int)len, (int)k, (int)n, (int)j, rs->tables,
					src[j], (unsigned char **)rows + i);
	}
}

int rs_decode(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src, const uint64_t *present,
	const uint8_t *esi, uint8_t *const *rows, uint32_t n_rows)
{
	uint8_t column[STRAIT_BLOCK_SYMBOLS_MAX];
	unsigned char *missing[STRAIT_BLOCK_SYMBOLS_MAX];
	uint64_t seen[4] = { 0 };
	uint32_t e = 0;

	if (!is_valid(k, 0, 0, len))
		return -EINVAL;
	for (uint32_t i = 0; i < n_rows; i++) {
		if (esi[i] < k || esi[i] >= STRAIT_ESI_COUNT || is_present(seen, esi[i]))
			return -EINVAL;
		seen[esi[i] / 64] |= 1ULL << (esi[i] % 64);
	}
	for (uint32_t j = 0; j < k; j++) {
		if (is_present(present, j))
			continue;
		column[e] = (uint8_t)j;
		missing[e++] = src[j];
	}
	if (e > n_rows)
		return -EAGAIN;
	if (e == 0)
		return 0;

	rs->table_k = 0; /* the tables are about to hold something else */
	make_syndromes(rs, k, len, src, present, esi, rows, e);
	invert_cauchy(esi, column, e, rs->inverse);
	for (uint32_t i = 0; i < e; i += RS_BATCH_ROWS) {
		uint32_t n = e - i < RS_BATCH_ROWS ? e - i : RS_BATCH_ROWS;

		ec_init_tables((int)e, (int)n, rs->inverse + i * e, rs->tables);
		ec_encode_data((int)len, (int)e, (int)n, rs->tables, (unsigned char **)rows,
			missing + i);
	}
	return (int)e;
}
