/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The embedded pool: opens a pool file (shm_layout.h) as a backend of pool.h. All that pool.h
 * promises holds between any number of processes that map the file, whichever of them is killed.
 *
 * Threads: open and destroy from one, everything else from any.
 */

#include "dataplane/pool/pool.h"

struct shm;

struct shm_pool_options {
	bool create; /* create if missing; else a missing file is ENOENT at once */
	bool group;  /* mode 0660 at creation; accept another owner's file if it has mode 0660 */
	bool sparse; /* do not reserve memory at creation */
	/* Map every page now, for long-lived processes: no page fault on the data path later. */
	bool prefault;
	uint64_t create_size_bytes; /* of the whole file, 1 MiB to 4 TiB */
};

/*
 * NULL and errno as listed at strait_pool_open(); the reason in words goes to err (may be NULL).
 */
struct pool *shm_pool_open(const char *path, const struct shm_pool_options *options, char *err,
	size_t err_len);

/* The file behind a pool opened here, for libstrait and for the tests. */
struct shm *shm_pool_file(struct pool *pool);
/* Room for objects in a pool file of this size; 0: not a size a pool can have. */
uint64_t shm_pool_arena_bytes(uint64_t file_bytes);

/*
 * Map the next bytes at *at, which begins at 0 and moves on, so that whoever touches them causes no
 * page fault. 1: call again; 0: all is done, or nothing is to be done: not memory (tmpfs,
 * hugetlbfs), or memory that was not reserved when the file was made and would be taken now. From
 * any thread, beside everything else.
 */
int shm_pool_prefault(struct pool *pool, uint64_t *at, uint64_t bytes);

/* Does address lie in the mapping? May be called from a signal handler. */
bool shm_pool_has_address(const struct pool *pool, const void *address);
