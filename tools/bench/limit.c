/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/limit.h"

#include "tools/bench/host.h"
#include "tools/bench/options.h"

#include <strait/wire.h>

#include <intel-ipsec-mb.h>
#include <isa-l.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	K = STRAIT_BLOCK_SYMBOLS_MAX,
	HOT_SYMBOLS = 8, /* raw: sources and packets that stay in L2 */
};

struct limit {
	struct gcm_key_data key;
	struct gcm_context_data context;
	IMB_MGR *mgr;
	uint8_t *pool, *ring, *parity[BENCH_ROWS_MAX];
	size_t pool_bytes, slot_bytes, at;
	uint32_t symbol_bytes, rows, slots, packet;
	uint64_t number, digest;
	uint8_t matrix[(K + BENCH_ROWS_MAX) * K];
	uint8_t tables[BENCH_ROWS_MAX + 1][32 * K * BENCH_ROWS_MAX]; /* by number of rows */
};

struct limit *limit_create(uint8_t *pool, size_t pool_bytes, uint32_t symbol_bytes, uint32_t rows,
	uint32_t slots)
{
	const uint8_t secret[STRAIT_KEY_BYTES] = { 1 };
	size_t line = HOST_LINE_BYTES, row = (symbol_bytes + line - 1) / line * line;
	struct limit *l;

	if (rows > BENCH_ROWS_MAX || slots == 0 || pool_bytes < (size_t)K * symbol_bytes) {
		errno = EINVAL;
		return NULL;
	}
	l = aligned_alloc(line, (sizeof(*l) + line - 1) / line * line);
	if (l == NULL)
		return NULL;
	memset(l, 0, sizeof(*l));
	l->pool = pool;
	l->pool_bytes = pool_bytes;
	l->symbol_bytes = symbol_bytes;
	l->rows = rows;
	l->slots = slots;
	l->slot_bytes = host_slot_bytes(symbol_bytes);
	l->ring = host_region_get(l->slots * l->slot_bytes);
	l->mgr = alloc_mb_mgr(0);
	for (uint32_t r = 0; r < rows; r++)
		l->parity[r] = aligned_alloc(line, row);
	if (l->ring == NULL || l->mgr == NULL || (rows > 0 && l->parity[rows - 1] == NULL)) {
		limit_destroy(l);
		errno = ENOMEM;
		return NULL;
	}
	init_mb_mgr_auto(l->mgr, NULL);
	IMB_AES256_GCM_PRE(l->mgr, secret, &l->key);
	for (uint32_t r = 1; r <= rows; r++) {
		gf_gen_cauchy1_matrix(l->matrix, (int)(K + r), K);
		ec_init_tables(K, (int)r, l->matrix + K * K, l->tables[r]);
	}
	return l;
}

void limit_destroy(struct limit *l)
{
	if (l == NULL)
		return;
	host_region_put(l->ring, l->slots * l->slot_bytes);
	if (l->mgr != NULL)
		free_mb_mgr(l->mgr);
	for (uint32_t r = 0; r < l->rows; r++)
		free(l->parity[r]);
	free(l);
}

static uint8_t *next_packet(struct limit *l, uint32_t slots)
{
	uint8_t *slot = l->ring + l->packet++ % slots * l->slot_bytes;

	return slot + HOST_HEADROOM_BYTES;
}

static void next_nonce(struct limit *l, uint8_t nonce[STRAIT_IV_BYTES])
{
	memset(nonce, 0, 4);
	memcpy(nonce + 4, &l->number, sizeof(l->number));
	l->number++;
}

static void seal(struct limit *l, const uint8_t *symbol, uint8_t *packet)
{
	uint8_t nonce[STRAIT_IV_BYTES], *body = packet + STRAIT_HEADER_BYTES;

	next_nonce(l, nonce);
	IMB_AES256_GCM_ENC(l->mgr, &l->key, &l->context, body, symbol, l->symbol_bytes, nonce,
		packet, STRAIT_HEADER_BYTES, body + l->symbol_bytes, STRAIT_TAG_BYTES);
}

/* The tag is computed but not compared: what is opened here was never sealed, and costs the same.
 */
static void unseal(struct limit *l, const uint8_t *packet, uint8_t *symbol)
{
	uint8_t nonce[STRAIT_IV_BYTES], tag[STRAIT_TAG_BYTES];

	next_nonce(l, nonce);
	IMB_AES256_GCM_DEC(l->mgr, &l->key, &l->context, symbol, packet + STRAIT_HEADER_BYTES,
		l->symbol_bytes, nonce, packet, STRAIT_HEADER_BYTES, tag, STRAIT_TAG_BYTES);
}

static uint8_t *next_block(struct limit *l)
{
	size_t bytes = (size_t)K * l->symbol_bytes;
	uint8_t *block;

	if (l->at + bytes > l->pool_bytes)
		l->at = 0;
	block = l->pool + l->at;
	l->at += bytes;
	return block;
}

static void tx_block(struct limit *l, uint32_t rows)
{
	uint8_t *block = next_block(l);

	for (uint32_t r = 0; r < rows; r++)
		memset(l->parity[r], 0, l->symbol_bytes);
	for (uint32_t j = 0; j < K; j++) {
		uint8_t *symbol = block + (size_t)j * l->symbol_bytes;

		if (rows > 0)
			ec_encode_data_update((int)l->symbol_bytes, K, (int)rows, (int)j,
				l->tables[rows], symbol, l->parity);
		seal(l, symbol, next_packet(l, l->slots));
	}
	for (uint32_t r = 0; r < rows; r++)
		seal(l, l->parity[r], next_packet(l, l->slots));
}

static void rx_block(struct limit *l, uint32_t rows)
{
	uint8_t *block = next_block(l);

	(void)rows;
	for (uint32_t j = 0; j < K; j++) {
		uint8_t *symbol = block + (size_t)j * l->symbol_bytes;

		unseal(l, next_packet(l, l->slots), symbol);
		l->digest ^= ~crc64_ecma_norm(~0ULL, symbol, l->symbol_bytes);
	}
}

static void raw_seal_block(struct limit *l, uint32_t rows)
{
	(void)rows;
	for (uint32_t j = 0; j < K; j++)
		seal(l, l->pool + (size_t)(j % HOT_SYMBOLS) * l->symbol_bytes,
			next_packet(l, HOT_SYMBOLS));
}

static void raw_open_block(struct limit *l, uint32_t rows)
{
	(void)rows;
	for (uint32_t j = 0; j < K; j++)
		unseal(l, next_packet(l, HOT_SYMBOLS),
			l->pool + (size_t)(j % HOT_SYMBOLS) * l->symbol_bytes);
}

static double gbps(struct limit *l, void (*block)(struct limit *l, uint32_t rows), uint32_t rows,
	double seconds)
{
	uint64_t end, cpu, blocks = 0;

	for (uint32_t i = 0; i < l->slots / K; i++)
		block(l, rows); /* caches and branch predictors as in the long run */
	cpu = host_cpu_ns();
	end = host_now_ns() + (uint64_t)(seconds * 1e9);
	do {
		block(l, rows);
		blocks++;
	} while (host_now_ns() < end);
	return (double)blocks * K * l->symbol_bytes * 8 / (double)(host_cpu_ns() - cpu);
}

double limit_tx(struct limit *l, uint32_t rows, double seconds)
{
	return gbps(l, tx_block, rows <= l->rows ? rows : l->rows, seconds);
}

double limit_rx(struct limit *l, double seconds)
{
	return gbps(l, rx_block, 0, seconds);
}

double limit_raw_seal(struct limit *l, double seconds)
{
	return gbps(l, raw_seal_block, 0, seconds);
}

double limit_raw_open(struct limit *l, double seconds)
{
	return gbps(l, raw_open_block, 0, seconds);
}

static uint8_t *next_symbol(struct limit *l)
{
	uint8_t *symbol;

	if (l->at + l->symbol_bytes > l->pool_bytes)
		l->at = 0;
	symbol = l->pool + l->at;
	l->at += l->symbol_bytes;
	return symbol;
}

void limit_tx_next(struct limit *l, uint8_t *packet)
{
	seal(l, next_symbol(l), packet);
}

void limit_rx_next(struct limit *l, const uint8_t *packet)
{
	uint8_t *symbol = next_symbol(l);

	unseal(l, packet, symbol);
	l->digest ^= ~crc64_ecma_norm(~0ULL, symbol, l->symbol_bytes);
}
