/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pool's lock: a robust process-shared mutex, held for microseconds and never across a system
 * call that can block. If its owner was killed, the next one to lock rebuilds the derived state
 * (shm_recover.h) and goes on.
 */

#include "dataplane/pool/shm.h"

/* Set up the lock of a file that nobody else has mapped yet. */
int shm_lock_init(struct shm_header *hdr);

/*
 *   -ECHILD           in a forked child
 *   -ENXIO            the file was cut
 *   -ETIMEDOUT        not to be had for 5 seconds; or for 1 ms, if the last call of this process
 *                     had to give up: a caller with many objects must not wait for each
 *   -ENOTRECOVERABLE  an owner died and the one after it gave up
 */
int shm_lock(struct shm *shm);
/* As shm_lock(), but gives up after 100 ms: for what can as well be done later. */
int shm_lock_briefly(struct shm *shm);
void shm_unlock(struct shm *shm);
