/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `strait-sim --light` puts in the place of the two things that cost a simulator most and
 * decide nothing: the cipher, and the making and checking of object bytes.
 *
 * The cipher copies and takes a 128-bit checksum of nonce, header and text for the tag, so that a
 * flipped bit is still found and every length is the same. Objects are pieces of one block of
 * random bytes made once, so nobody computes them again; what arrived is compared with the piece
 * by memcmp(), the core checks its digest as ever. Every packet, event and figure is the same as
 * without it (light_test.c): nothing in the protocol looks at the bytes it carries. Not a cipher:
 * for measuring in virtual time only.
 */

#include "dataplane/crypto/aead.h"

#include <stdbool.h>

extern const struct aead_ops light_aead;

/* The largest object that has a piece. */
enum { LIGHT_BYTES_MAX = 64 << 20 };

/* len bytes of the content named by seed; NULL without memory. A process makes the block once. */
const uint8_t *light_bytes(uint64_t seed, size_t len);

/* digest_bytes() of these, remembered for the last few asked for. */
uint64_t light_digest(uint64_t seed, size_t len);
