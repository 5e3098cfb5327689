/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Ceilings: what one core can do at most for the data path, with no protocol around it.
 *
 *   tx    symbols come from a pool far larger than the caches; each is sealed into a ring of packet
 *         buffers and, with rows, added to the block's parity while it is hot; then the parity is
 *         sealed
 *   rx    packets of a ring are opened into place in the pool and each symbol is digested at once
 *   raw   AES-256-GCM alone, the source in L2: what the library does when memory costs nothing
 *
 * They call ipsec-mb and ISA-L directly, not the project's own layers, so that those are measured
 * against something. All figures are source payload bits a second.
 */

struct limit;

/** pool is the caller's, of pool_bytes >= one block; a ring of so many slots. NULL + errno. */
struct limit *limit_create(uint8_t *pool, size_t pool_bytes, uint32_t symbol_bytes, uint32_t rows,
	uint32_t slots);
void limit_destroy(struct limit *l);

/** Gbit/s over about this many seconds, with the rows given here (at most those of create). */
double limit_tx(struct limit *l, uint32_t rows, double seconds);
double limit_rx(struct limit *l, double seconds);
double limit_raw_seal(struct limit *l, double seconds);
double limit_raw_open(struct limit *l, double seconds);

/** One symbol of either ceiling, between packets of the caller's: sealed into, opened out of. */
void limit_tx_next(struct limit *l, uint8_t *packet);
void limit_rx_next(struct limit *l, const uint8_t *packet);
