/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/partition.h"

#include <errno.h>

int partition_init(struct partition *p, uint64_t bytes, uint32_t symbol_bytes)
{
	uint64_t symbols, blocks;

	if (bytes == 0 || symbol_bytes < STRAIT_SYMBOL_BYTES_MIN ||
		symbol_bytes > STRAIT_SYMBOL_BYTES_MAX)
		return -EINVAL;
	symbols = bytes / symbol_bytes + (bytes % symbol_bytes != 0);
	blocks = (symbols + STRAIT_BLOCK_SYMBOLS_MAX - 1) / STRAIT_BLOCK_SYMBOLS_MAX;
	if (blocks > UINT32_MAX)
		return -EOVERFLOW;
	p->bytes = bytes;
	p->symbol_bytes = symbol_bytes;
	p->symbols = symbols;
	p->blocks = (uint32_t)blocks;
	p->large = (uint32_t)((symbols + blocks - 1) / blocks);
	p->small = (uint32_t)(symbols / blocks);
	p->n_large = (uint32_t)(symbols - p->small * blocks);
	return 0;
}

uint32_t partition_block_of(const struct partition *p, uint64_t offset)
{
	uint64_t symbol = offset / p->symbol_bytes;
	uint64_t in_large = (uint64_t)p->n_large * p->large;

	if (symbol < in_large)
		return (uint32_t)(symbol / p->large);
	return p->n_large + (uint32_t)((symbol - in_large) / p->small);
}
