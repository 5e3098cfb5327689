/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Buffers of the packets under way in a world: one size, taken from chunks that grow on demand and
 * are given back at the end. An index names a buffer and fits the payload of a delayq. One thread.
 */

#include "tools/sim/world.h"

void wire_init(struct world_wire *x, size_t packet_bytes);
void wire_fini(struct world_wire *x);

/* A buffer; UINT32_MAX without memory. */
uint32_t wire_get(struct world_wire *x);
void wire_put(struct world_wire *x, uint32_t packet);
uint8_t *wire_bytes(const struct world_wire *x, uint32_t packet);
