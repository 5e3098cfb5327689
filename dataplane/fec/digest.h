/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Object digest: CRC-64/ECMA-182, init 0, MSB first, no final xor, as Mooncake's optional object
 * checksum (check value of "123456789": 0x6C40DF5F0B497347).
 *
 * With init 0 the CRC is linear over GF(2): the digest of an object is the xor over its pieces of
 * digest_shift(digest(piece), bytes after the piece), in any order. That is how a receiver digests
 * pieces while they are hot although they arrive out of order.
 */

uint64_t digest_bytes(const void *data, size_t len);

/**
 * Digest of the bytes behind `digest` followed by `zeros` zero bytes: digest * x^(8 * zeros) mod P.
 */
uint64_t digest_shift(uint64_t digest, uint64_t zeros);
