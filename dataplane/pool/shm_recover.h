/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rebuild everything derived (shm_layout.h) from the entries. Runs when the lock's owner was
 * killed, and once on a new file. Reads only primary facts and may itself be killed at any
 * instant: the next one starts over. Allocates nothing, cannot fail; an entry that makes no sense
 * is freed.
 *
 * Cost: one pass over the entries ever used and a merge sort of the live ones by address and by
 * age, about 0.2 s per million objects. Under the pool's lock.
 */

#include "dataplane/pool/shm.h"

void shm_recover(struct shm *shm);
