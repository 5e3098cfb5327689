/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The operations on a pool file: what pool.h and libstrait are thin covers of. Each takes the
 * pool's lock once (a batch once per 64 keys) and may return the errors of shm_lock(). Meaning and
 * errors are as in pool.h.
 *
 * Threads: any.
 */

#include "dataplane/pool/pool.h"
#include "dataplane/pool/shm.h"

enum shm_reserve {
	SHM_RESERVE_KEEP,  /* adopt a partial; become one if the process dies */
	SHM_RESERVE_FRESH, /* drop a partial; vanish if the process dies */
};

int shm_lease(struct shm *shm, const void *key, size_t key_len, struct pool_object *out);
void shm_release(struct shm *shm, uint64_t handle);
int shm_renew(struct shm *shm);
int shm_reserve(struct shm *shm, enum shm_reserve mode, const void *key, size_t key_len,
	uint64_t len, uint64_t digest, struct pool_object *out);
int shm_publish(struct shm *shm, uint64_t handle, uint64_t digest);
void shm_abandon(struct shm *shm, uint64_t handle, bool keep);
int shm_exist(struct shm *shm, const void *key, size_t key_len);
/* found[i] is 1 or 0; returns the number found or an error. */
int shm_exist_batch(struct shm *shm, const struct strait_key *keys, size_t n, uint8_t *found);
int shm_remove(struct shm *shm, const void *key, size_t key_len);
int shm_stats(struct shm *shm, struct strait_pool_stats *out);
