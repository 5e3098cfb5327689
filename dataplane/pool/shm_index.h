/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Entries by key: a chained hash table over WRITING, PARTIAL and VISIBLE entries, and the list of
 * free ones. SipHash-1-3 under a random key of the pool, because keys come from users and a pool
 * is shared.
 *
 * All but the hash under the pool's lock.
 */

#include "dataplane/pool/shm.h"

uint64_t shm_hash(const struct shm *shm, const void *key, size_t key_len);

/*
 * For batches: start loading what the lookup will touch, one step after the other. Without the
 * lock they may guess wrong, which costs a cache miss.
 */
void shm_index_prefetch_bucket(const struct shm *shm, uint64_t hash);
void shm_index_prefetch_entry(const struct shm *shm, uint64_t hash);
void shm_index_prefetch_key(const struct shm *shm, uint64_t hash);

struct shm_entry *shm_index_find(struct shm *shm, const void *key, size_t key_len, uint64_t hash);

void shm_index_add(struct shm *shm, struct shm_entry *e);
void shm_index_del(struct shm *shm, struct shm_entry *e);

/* A FREE entry of a new generation, off the free list; NULL if there is none. */
struct shm_entry *shm_entry_alloc(struct shm *shm);
/* Put a FREE entry (back) on the list. */
void shm_entry_put_free(struct shm *shm, struct shm_entry *e);

/*
 * Free an entry of any state with all that hangs on it: index, LRU, extent. It must not be leased.
 */
void shm_entry_drop(struct shm *shm, struct shm_entry *e);
