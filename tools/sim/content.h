/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes of the simulated objects: a seeded function of the position, so that the sink can check
 * every byte without the source keeping them. Word i of an object is splitmix64's output i of its
 * seed. Pure; any thread may call. Several GB/s on one core.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write the first len bytes of the content named by seed. */
void content_fill(uint64_t seed, uint8_t *out, size_t len);

/* True when buf holds exactly the first len bytes of the content. Compares every byte. */
bool content_is(uint64_t seed, const uint8_t *buf, size_t len);

/* digest_bytes() of the first len bytes, without memory for all of them. */
uint64_t content_digest(uint64_t seed, size_t len);
