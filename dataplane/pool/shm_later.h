/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Releases and abandons that could not have the pool's lock: whoever holds it is stopped. They must
 * neither be lost, which would pin the objects until this process ends, nor hold up their callers.
 * The next call that has the lock does them first.
 *
 * Threads: any; a list of the process with a lock of its own, which nobody holds while waiting.
 */

#include "dataplane/pool/shm.h"

enum shm_later_type {
	SHM_LATER_RELEASE,
	SHM_LATER_ABANDON,
	SHM_LATER_ABANDON_KEEP,
};

/* NULL: no memory. */
struct shm_later *shm_later_create(void);
/* What is left in it is forgotten. NULL is ignored. */
void shm_later_destroy(struct shm_later *later);

/* -ENOMEM. */
int shm_later_push(struct shm_later *later, enum shm_later_type type, uint64_t handle);
/* False: nothing is left. Costs next to nothing then. */
bool shm_later_pop(struct shm_later *later, enum shm_later_type *type, uint64_t *handle);
