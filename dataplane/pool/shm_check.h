/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Verify every invariant of a pool file: extents cover the arena once, the free ones are merged
 * and listed, each live entry is reachable by its key, the LRU lists hold exactly what may be
 * evicted in order of age, and all counts and client slots agree. For tests and for people with a
 * pool they do not trust. Holds the pool's lock for the whole walk; reads no object bytes.
 */

#include "dataplane/pool/shm.h"

/* 0; -EUCLEAN with the first broken invariant in why; or an error of shm_lock(). */
int shm_check(struct shm *shm, char *why, size_t why_len);
