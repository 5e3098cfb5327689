/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A Redis server of our own over a socket in a private directory, to measure beside. Keys are 16
 * bytes; questions go as a pipeline of EXISTS, since each key's answer is wanted.
 */

enum { REDIS_KEY_BYTES = 16, REDIS_BATCH = 64 };

struct redis;

/** Start one. NULL + errno: ENOENT if there is no redis-server. */
struct redis *redis_start(const char *dir);
/** Ends and waits for the server. NULL is ignored. */
void redis_stop(struct redis *r);
/** n <= REDIS_BATCH keys one after the other. 0 or -errno. */
int redis_set(struct redis *r, const uint8_t *keys, size_t n);
/** How many of n <= REDIS_BATCH keys are there, or -errno. */
int redis_exist(struct redis *r, const uint8_t *keys, size_t n);
