/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * A look at a msgpack text before a library decodes it. Five bytes can claim an array of four
 * billion, for which decoders reserve memory at once; this walk holds every claim against the bytes
 * that are there, bounds depth and the number of values, and allocates nothing. Pure, any thread.
 */

enum {
	BOUNDS_DEPTH_MAX = 16,
	BOUNDS_VALUES_MAX = 1 << 20,
};

/**
 * 0: exactly one value, complete, within bounds; *values (may be NULL) is how many are in it.
 * -EBADMSG: cut short, trailing bytes or the one byte that is no type; -E2BIG: too deep or too
 * many.
 */
int msgpack_bounds_check(const uint8_t *p, size_t len, uint32_t *values);
