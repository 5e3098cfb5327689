/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follow what appears in a pool and what goes, as a source of events: any number of processes, each
 * at its own pace, none of which the writers wait for or know.
 *
 * The pool keeps the numbers of the last SHM_CHANGES entries that changed. Who follows looks up
 * what such an entry is now; of two changes in a row it sees the second alone, which is all that
 * still matters. Who falls behind by more, or meets a recovery after a client was killed, walks all
 * entries once (shm_change_scan) and goes on from where the ring stood before the walk:
 * changes told twice are harmless, none is missed.
 *
 * An object that came by pool_reserve(), which is how edges write, is `ours`: the transport brought
 * it. What libstrait put is native.
 *
 * Threads: any. At most SHM_CHANGE_BATCH entries are looked at under the pool's lock at a time; the
 * callback runs without it.
 */

#include "dataplane/pool/shm.h"

enum { SHM_CHANGE_BATCH = 32 };

struct shm_change {
	uint32_t entry, gen; /* the same gen is the same object */
	bool visible, ours;
	bool evicted; /* this is why it went, as far as the ring tells */
	uint16_t key_len;
	uint64_t len;
	uint8_t key[STRAIT_KEY_MAX]; /* if visible */
};

/** Where the ring stands now. */
uint64_t shm_change_head(const struct shm *shm);
/**
 * The next changes from *pos on, which moves. Returns how many there were, at most
 * SHM_CHANGE_BATCH, 0 at the end; -ESTALE: fell behind, walk; or an error of shm_lock().
 */
int shm_change_read(struct shm *shm, uint64_t *pos,
	void (*fn)(const struct shm_change *c, void *ctx), void *ctx);
/**
 * Entries from *entry on, each one's present state. As above; 0: all were told.
 */
int shm_change_scan(struct shm *shm, uint32_t *entry,
	void (*fn)(const struct shm_change *c, void *ctx), void *ctx);
