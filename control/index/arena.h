/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Memory of an index: one range of addresses that never moves, out of which arrays are taken and
 * given back by one thread. What was ever part of it stays readable until arena_fini(), whatever
 * became of it, so that a reader that is late reads rubbish and not a fault; it has to find out by
 * other means (index_private.h) that it did.
 *
 * Private: ordinary memory, of which what is given back goes to the system.
 *
 * Shared: a memfd that other processes map. Sealed before anybody else gets it: nobody but this
 * process can write it, and it cannot shrink under a reader (which would be SIGBUS). The same seals
 * forbid to give pages back, so here what is given back only waits to be taken again. Pages are
 * there before a reader can come by them: a reader never is the one for whom memory does not
 * suffice.
 *
 * All of it lies on huge pages as far as the kernel has any (shared: shmem_enabled=advise, or
 * MADV_COLLAPSE of Linux 6.1 for what is larger than one).
 */

enum { ARENA_PAGE = 4096, ARENA_HUGE = 2 << 20 };

struct arena_hole {
	uint64_t at, bytes;
};

struct arena {
	uint8_t *base;
	uint64_t limit; /* addresses that are reserved */
	uint64_t top;   /* what was ever taken lies below */
	int fd;         /* -1: private */
	uint64_t file_bytes;
	struct arena_hole *holes; /* in order, none beside another */
	uint32_t nholes, holes_max;
};

/** Address space for limit bytes, or less if there is not so much. 0 or -errno. */
int arena_init(struct arena *a, uint64_t limit, bool shared);
/** No reader may be inside or come later. Other processes' mappings stay as they are. */
void arena_fini(struct arena *a);

/**
 * Zeroed bytes, in whole pages. *at is never 0 after the first. 0 or -ENOMEM.
 */
int arena_take(struct arena *a, uint64_t bytes, uint64_t *at);
/** Late readers may go on reading what will be other things' memory. */
void arena_give(struct arena *a, uint64_t at, uint64_t bytes);

/** What an array of so many bytes takes. */
static inline uint64_t arena_round(uint64_t bytes)
{
	return (bytes + ARENA_PAGE - 1) & ~(uint64_t)(ARENA_PAGE - 1);
}

/**
 * Map a shared arena of another process for reading; limit is what arena_init() there reserved. At
 * an address that lets huge pages be huge here, too. NULL + errno.
 */
const void *arena_map(int fd, uint64_t limit);
void arena_unmap(const void *base, uint64_t limit);
