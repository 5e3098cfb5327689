/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processes that have the pool open, and what of theirs is given back when one is gone.
 *
 * A client owns one of 256 slots and, as its sign of life, an open-file-description lock
 * (fcntl(2), F_OFD_SETLK) on the byte of the pool file whose offset is the slot's number. The
 * kernel drops that lock when the process ends, however it ends. Unlike a pid with its start time
 * this holds across pid namespaces (clients in containers share the file) and knows no reuse. A
 * lease therefore lives as long as its process: a reader that is slow, stopped or swapped never
 * loses its bytes, and one that is gone loses them at the next reap.
 *
 * All under the pool's lock.
 */

#include "dataplane/pool/shm.h"

/* Take a slot. -EUSERS: all taken. */
int shm_client_join(struct shm *shm);
/* Give back all that this client holds, and its slot. */
void shm_client_leave(struct shm *shm);

bool shm_client_is_alive(const struct shm *shm, uint32_t slot);

/* Give back what dead clients held. Returns how many there were. */
unsigned int shm_client_reap(struct shm *shm);
/* The same, at most once a second per process. */
void shm_client_reap_sometimes(struct shm *shm);

/* One more, one less lease of this process on a VISIBLE (or since DOOMED) entry. */
void shm_lease_add(struct shm *shm, struct shm_entry *e);
void shm_lease_del(struct shm *shm, struct shm_entry *e);
