/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/stages.h"

#include "tools/bench/host.h"
#include "tools/bench/options.h"

#include "dataplane/crypto/keys.h"
#include "dataplane/fec/digest.h"
#include "dataplane/fec/rs.h"
#include "dataplane/transport/packet.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { K = STRAIT_BLOCK_SYMBOLS_MAX, BLOCKS = 400, HOT = 8, TOGETHER = 8 };

struct bench {
	struct aead aead;
	struct rs rs;
	uint8_t *ring, *row[BENCH_ROWS_MAX];
	size_t slot_bytes, symbol;
	uint32_t rows;
	uint64_t pn, digest;
};

const char *stage_name(enum stage stage)
{
	static const char *const names[STAGE_COUNT] = { "header", "seal_hot", "seal", "open",
		"digest", "parity", "parity_block", "decode" };

	return names[stage];
}

static uint8_t *packet_at(struct bench *b, uint64_t pn)
{
	return b->ring + pn % HOST_RING_SLOTS * b->slot_bytes + HOST_HEADROOM_BYTES;
}

static void header(struct bench *b, uint8_t *packet, uint8_t nonce[STRAIT_IV_BYTES])
{
	static const uint8_t iv[STRAIT_IV_BYTES] = { 9 };
	const struct packet_header h = {
		.type = STRAIT_PACKET_DATA,
		.session = 1,
		.packet_number = b->pn,
		.transfer = 1,
		.block = (uint32_t)(b->pn / K),
		.esi = (uint8_t)(b->pn % K),
	};

	packet_header_encode(&h, packet);
	key_nonce(iv, b->pn++, nonce);
}

static void seal_block(struct bench *b, const uint8_t *block, bool hot)
{
	for (uint32_t j = 0; j < K; j++) {
		const uint8_t *symbol = block + (hot ? j % HOT : j) * b->symbol;
		uint8_t nonce[STRAIT_IV_BYTES], *packet = packet_at(b, hot ? j % HOT : b->pn);

		header(b, packet, nonce);
		aead_seal(&b->aead, nonce, packet, STRAIT_HEADER_BYTES, symbol, b->symbol,
			packet + STRAIT_HEADER_BYTES, packet + STRAIT_HEADER_BYTES + b->symbol);
	}
}

static void stage_run(struct bench *b, enum stage stage, uint8_t *block)
{
	const uint64_t all = ~UINT64_C(0), present[2] = { all << 1, all };
	uint8_t nonce[STRAIT_IV_BYTES], esi = K, *src[K];
	const uint8_t *from[K];

	for (uint32_t j = 0; j < K; j++) {
		src[j] = block + j * b->symbol;
		from[j] = src[j];
	}
	switch (stage) {
	case STAGE_HEADER:
		for (uint32_t j = 0; j < K; j++)
			header(b, packet_at(b, b->pn), nonce);
		break;
	case STAGE_SEAL_HOT:
		seal_block(b, block, true);
		break;
	case STAGE_SEAL:
		seal_block(b, block, false);
		break;
	case STAGE_OPEN:
		for (uint32_t j = 0; j < K; j++) {
			const uint8_t *packet = packet_at(b, b->pn);

			memset(nonce, 0, sizeof(nonce));
			nonce[0] = (uint8_t)b->pn++;
			/* Never sealed, so never authentic: costs the same. */
			(void)aead_open(&b->aead, nonce, packet, STRAIT_HEADER_BYTES,
				packet + STRAIT_HEADER_BYTES, b->symbol,
				packet + STRAIT_HEADER_BYTES + b->symbol, src[j]);
		}
		break;
	case STAGE_DIGEST:
		b->digest ^= digest_bytes(block, K * b->symbol);
		break;
	case STAGE_PARITY_BLOCK:
		(void)rs_encode(&b->rs, K, 0, b->rows, b->symbol, from, b->row);
		break;
	case STAGE_PARITY:
		for (uint32_t j = 0; j < K; j += TOGETHER)
			(void)rs_encode_update(&b->rs, K, 0, b->rows, b->symbol, j, TOGETHER,
				from + j, b->row, j == 0);
		break;
	default:
		(void)rs_decode(&b->rs, K, b->symbol, src, present, &esi, b->row, 1);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int stages_measure(uint8_t *pool, size_t pool_bytes, uint32_t symbol_bytes, uint32_t rows,
	double cycles[STAGE_COUNT])
{
	const uint8_t key[STRAIT_KEY_BYTES] = { 5 };
	struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
	size_t at = 0, bytes = (size_t)K * symbol_bytes;
	int ret = -ENOMEM;

	if (b == NULL)
		return -ENOMEM;
	memset(b, 0, sizeof(*b));
	b->symbol = symbol_bytes;
	b->rows = rows;
	b->slot_bytes = host_slot_bytes(symbol_bytes);
	rs_init(&b->rs);
	b->ring = host_region_get(HOST_RING_SLOTS * b->slot_bytes);
	for (uint32_t r = 0; r < rows; r++) {
		b->row[r] = aligned_alloc(64, (symbol_bytes + 63) / 64 * 64);
		if (b->row[r] == NULL)
			goto out;
		memset(b->row[r], 1, symbol_bytes);
	}
	if (b->ring == NULL)
		goto out;
	ret = aead_init(&b->aead, aead_default(), key);
	if (ret < 0)
		goto out;
	for (int stage = 0; stage < STAGE_COUNT; stage++) {
		uint64_t times[BLOCKS];

		for (int i = 0; i < BLOCKS; i++) {
			uint8_t *block = pool + at;
			uint64_t t0;

			at = at + 2 * bytes <= pool_bytes ? at + bytes : 0;
			if (stage == STAGE_DIGEST || stage == STAGE_DECODE)
				stage_run(b, STAGE_OPEN, block); /* a block as the path finds it */
			t0 = host_cycles();
			stage_run(b, stage, block);
			times[i] = host_cycles() - t0;
		}
		qsort(times, BLOCKS, sizeof(times[0]), compare);
		cycles[stage] = (double)times[BLOCKS / 10] / K; /* undisturbed */
	}
	aead_fini(&b->aead);
out:
	host_region_put(b->ring, HOST_RING_SLOTS * b->slot_bytes);
	for (uint32_t r = 0; r < rows; r++)
		free(b->row[r]);
	free(b);
	return ret;
}
