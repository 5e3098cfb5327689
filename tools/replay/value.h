/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/blockkey.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The bytes of an object: pseudo-random, given by its key and length alone, so that anybody can
 * make them again. They do not compress and no two objects share a page. Pure, any thread.
 */

/** 0 or -EIO. */
int replay_value_fill(const char *key, size_t key_len, uint8_t *out, size_t len);

/** SHA-256. 0 or -EIO. */
int replay_value_hash(const void *data, size_t len, uint8_t hash[static REPLAY_HASH_BYTES]);
