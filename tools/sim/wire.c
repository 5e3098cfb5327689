/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_PACKETS = 1024 };

void wire_init(struct world_wire *x, size_t packet_bytes)
{
	memset(x, 0, sizeof(*x));
	x->stride = (packet_bytes + 63) / 64 * 64;
}

void wire_fini(struct world_wire *x)
{
	for (uint32_t i = 0; i < x->npackets / CHUNK_PACKETS; i++)
		free(x->chunks[i]);
	free(x->chunks);
	free(x->packets);
	free(x->unused);
	memset(x, 0, sizeof(*x));
}

static int grow(struct world_wire *x)
{
	uint32_t n = x->npackets + CHUNK_PACKETS;
	uint32_t chunk = x->npackets / CHUNK_PACKETS;
	void *p;

	p = realloc(x->chunks, (chunk + 1) * sizeof(*x->chunks));
	if (!p)
		return -ENOMEM;
	x->chunks = p;
	p = realloc(x->packets, n * sizeof(*x->packets));
	if (!p)
		return -ENOMEM;
	x->packets = p;
	p = realloc(x->unused, n * sizeof(*x->unused));
	if (!p)
		return -ENOMEM;
	x->unused = p;
	x->chunks[chunk] = malloc(CHUNK_PACKETS * x->stride);
	if (!x->chunks[chunk])
		return -ENOMEM;
	x->npackets = n;
	for (uint32_t i = 0; i < CHUNK_PACKETS; i++)
		x->unused[x->nunused++] = n - 1 - i;
	return 0;
}

uint32_t wire_get(struct world_wire *x)
{
	uint32_t i;

	if (x->nunused == 0 && grow(x) < 0)
		return UINT32_MAX;
	i = x->unused[--x->nunused];
	memset(&x->packets[i], 0, sizeof(x->packets[i]));
	return i;
}

void wire_put(struct world_wire *x, uint32_t packet)
{
	x->unused[x->nunused++] = packet;
}

uint8_t *wire_bytes(const struct world_wire *x, uint32_t packet)
{
	return x->chunks[packet / CHUNK_PACKETS] + packet % CHUNK_PACKETS * x->stride;
}
