/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/rs.h"

#include "dataplane/fec/gf.h"

#include <isa-l/erasure_code.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

/* ISA-L's update kernels need 64 bytes, its dot products 32. */
enum { SYMBOL_BYTES_MIN = 64 };

void rs_init(struct rs *rs)
{
	rs->table_k = 0;
	rs->table_first = 0;
	rs->table_rows = 0;
	rs->wide = gf_is_wide();
}

uint8_t rs_coefficient(uint32_t esi, uint32_t j)
{
	return gf_inverses()[(uint8_t)(esi ^ j)];
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

static bool is_present(const uint64_t *present, uint32_t j)
{
	return (present[j / 64] >> (j % 64)) & 1;
}

/* Adds some sources to rows with these ESIs. n <= GF_SOURCES_MAX. */
static void wide_add(const uint8_t *esi, uint32_t rows, size_t len, const uint8_t *column,
	uint32_t n, const uint8_t *const *src, uint8_t *const *dst, bool add)
{
	const uint8_t *inverses = gf_inverses();
	uint8_t c[GF_SOURCES_MAX * RS_BATCH_ROWS];

	for (uint32_t j = 0; j < n; j++)
		for (uint32_t r = 0; r < rows; r++)
			c[j * rows + r] = inverses[esi[r] ^ column[j]];
	gf_sum(rows, n, len, c, src, dst, add);
}

/*
 * Sources j .. j + n - 1, any n, into at most RS_BATCH_ROWS rows from ESI k + first on. far: they
 * come from memory, which is faster in a row.
 */
static void wide_update(uint32_t k, uint32_t first, uint32_t rows, size_t len, uint32_t j,
	uint32_t n, const uint8_t *const *src, uint8_t *const *dst, bool fresh, bool far)
{
	uint8_t esi[RS_BATCH_ROWS], column[GF_SOURCES_MAX];

	for (uint32_t r = 0; r < rows; r++)
		esi[r] = (uint8_t)(k + first + r);
	for (uint32_t i = 0; i < n; i += GF_SOURCES_MAX) {
		uint32_t some = n - i < GF_SOURCES_MAX ? n - i : GF_SOURCES_MAX;

		for (uint32_t x = 0; x < some; x++)
			column[x] = (uint8_t)(j + i + x);
		if (far)
			gf_fetch(src + i, some, len);
		wide_add(esi, rows, len, column, some, src + i, dst, !fresh || i > 0);
	}
}

int rs_encode(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows, size_t len,
	const uint8_t *const *src, uint8_t *const *dst)
{
	if (!is_valid(k, first, rows, len))
		return -EINVAL;
	for (uint32_t i = 0; i < rows; i += RS_BATCH_ROWS) {
		uint32_t n = rows - i < RS_BATCH_ROWS ? rows - i : RS_BATCH_ROWS;

		if (rs->wide) {
			wide_update(k, first + i, n, len, 0, k, src, dst + i, true, true);
			continue;
		}
		load_rows(rs, k, first + i, n);
		ec_encode_data((int)len, (int)k, (int)n, rs->tables, (unsigned char **)src,
			(unsigned char **)dst + i);
	}
	return 0;
}

int rs_encode_update(struct rs *rs, uint32_t k, uint32_t first, uint32_t rows, size_t len,
	uint32_t j, uint32_t n, const uint8_t *const *src, uint8_t *const *dst, bool fresh)
{
	if (!is_valid(k, first, rows, len) || j > k || n > k - j || rows > RS_BATCH_ROWS)
		return -EINVAL;
	if (rows == 0 || n == 0)
		return 0;
	if (rs->wide) {
		wide_update(k, first, rows, len, j, n, src, dst, fresh, false);
		return 0;
	}
	load_rows(rs, k, first, rows);
	for (uint32_t r = 0; fresh && r < rows; r++)
		memset(dst[r], 0, len);
	for (uint32_t i = 0; i < n; i++)
		ec_encode_data_update((int)len, (int)k, (int)rows, (int)(j + i), rs->tables,
			(unsigned char *)src[i], (unsigned char **)dst);
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

/* Some symbols at a time, in the order in which they lie in memory. */
static void wide_syndromes(uint32_t k, size_t len, uint8_t *const *src, const uint64_t *present,
	const uint8_t *esi, uint8_t *const *rows, uint32_t n)
{
	const uint8_t *from[STRAIT_BLOCK_SYMBOLS_MAX];
	uint8_t column[STRAIT_BLOCK_SYMBOLS_MAX];
	uint32_t all = 0;

	for (uint32_t j = 0; j < k; j++) {
		if (!is_present(present, j))
			continue;
		from[all] = src[j];
		column[all++] = (uint8_t)j;
	}
	for (uint32_t i = 0; i < all; i += GF_SOURCES_MAX) {
		uint32_t some = all - i < GF_SOURCES_MAX ? all - i : GF_SOURCES_MAX;

		gf_fetch(from + i, some, len);
		wide_add(esi, n, len, column + i, some, from + i, rows, true);
	}
}

/* Subtract what the present symbols contribute; rows become the syndromes of the missing ones. */
static void make_syndromes(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src,
	const uint64_t *present, const uint8_t *esi, uint8_t *const *rows, uint32_t e)
{
	for (uint32_t i = 0; i < e; i += RS_BATCH_ROWS) {
		uint32_t n = e - i < RS_BATCH_ROWS ? e - i : RS_BATCH_ROWS;

		if (rs->wide) {
			wide_syndromes(k, len, src, present, esi + i, rows + i, n);
			continue;
		}
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

/* missing[i] = sum over the syndromes of inverse[i][j] * syndrome j. */
static void solve(struct rs *rs, size_t len, uint32_t e, uint8_t *const *syndromes,
	uint8_t *const *missing)
{
	uint8_t c[GF_SOURCES_MAX * RS_BATCH_ROWS];

	for (uint32_t i = 0; i < e; i += RS_BATCH_ROWS) {
		uint32_t n = e - i < RS_BATCH_ROWS ? e - i : RS_BATCH_ROWS;

		if (!rs->wide) {
			ec_init_tables((int)e, (int)n, rs->inverse + i * e, rs->tables);
			ec_encode_data((int)len, (int)e, (int)n, rs->tables,
				(unsigned char **)syndromes, (unsigned char **)missing + i);
			continue;
		}
		for (uint32_t j = 0; j < e; j += GF_SOURCES_MAX) {
			uint32_t some = e - j < GF_SOURCES_MAX ? e - j : GF_SOURCES_MAX;

			for (uint32_t x = 0; x < some; x++)
				for (uint32_t r = 0; r < n; r++)
					c[x * n + r] = rs->inverse[(i + r) * e + j + x];
			gf_sum(n, some, len, c, (const uint8_t *const *)syndromes + j, missing + i,
				j > 0);
		}
	}
}

/* Rows with sums to the front, at most e of them: they become syndromes. How many. */
static uint32_t subtract_sums(const struct rs *rs, uint32_t k, size_t len, uint8_t *esi,
	uint8_t **rows, uint32_t n_rows, uint32_t e, const uint8_t *const *sums, uint32_t n_sums)
{
	const uint8_t one = 1;
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_rows && n < e; i++) {
		uint8_t r = esi[i], *row = rows[i];
		const uint8_t *sum;

		if (r - k >= n_sums)
			continue;
		sum = sums[r - k];
		if (rs->wide)
			gf_sum(1, 1, len, &one, &sum, &row, true);
		else
			for (size_t at = 0; at < len; at++)
				row[at] ^= sum[at];
		esi[i] = esi[n];
		rows[i] = rows[n];
		esi[n] = r;
		rows[n++] = row;
	}
	return n;
}

int rs_decode_summed(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src,
	const uint64_t *present, const uint8_t *given_esi, uint8_t *const *given_rows,
	uint32_t n_rows, const uint8_t *const *sums, uint32_t n_sums)
{
	uint8_t esi[STRAIT_ESI_COUNT], *rows[STRAIT_ESI_COUNT];
	uint8_t column[STRAIT_BLOCK_SYMBOLS_MAX];
	unsigned char *missing[STRAIT_BLOCK_SYMBOLS_MAX];
	uint64_t seen[4] = { 0 };
	uint32_t e = 0, n;

	if (!is_valid(k, 0, 0, len))
		return -EINVAL;
	for (uint32_t i = 0; i < n_rows; i++) {
		uint8_t x = given_esi[i];

		if (x < k || x >= STRAIT_ESI_COUNT || is_present(seen, x))
			return -EINVAL;
		seen[x / 64] |= 1ULL << (x % 64);
		esi[i] = x;
		rows[i] = given_rows[i];
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
	n = subtract_sums(rs, k, len, esi, rows, n_rows, e, sums, n_sums);
	make_syndromes(rs, k, len, src, present, esi + n, rows + n, e - n);
	invert_cauchy(esi, column, e, rs->inverse);
	solve(rs, len, e, rows, missing);
	return (int)e;
}

int rs_decode(struct rs *rs, uint32_t k, size_t len, uint8_t *const *src, const uint64_t *present,
	const uint8_t *esi, uint8_t *const *rows, uint32_t n_rows)
{
	return rs_decode_summed(rs, k, len, src, present, esi, rows, n_rows, NULL, 0);
}
