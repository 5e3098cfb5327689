/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a pool file looks like. All clients map it whole:
 *
 *	header | hash buckets | entries | cold entries | page tags | arena
 *
 * Any process may be killed between any two stores, so every fact is either primary or derived.
 *   primary: an entry's state and what that state covers (extent, key, length, digest, owner, lease
 *            bits), the client slots, entry_top. One store of entry.state commits: all that a
 *            state covers is written before it, so an entry is true at every instant.
 *   derived: hash chains, free-entry list, free extents and their tags, LRU lists, counts. They may
 *            be half changed when the lock's owner dies; shm_recover.c rebuilds them from the
 *            primary facts.
 *
 * Everything but object bytes and resume areas is read and written under header.lock, a robust
 * process-shared mutex. Object bytes belong to the writer until VISIBLE and are constant after it.
 *
 * The layout follows from the file's size alone. A process computes it once, into its own memory,
 * and checks every index it reads from the file against it: a scribbling client of the same tenant
 * may damage the pool but not lead another process out of the mapping.
 */

#include <strait/strait.h>

#include <pthread.h>
#include <stdint.h>

#define SHM_MAGIC       0x314c4f4f50525453ull /* "STRPOOL1" */
#define SHM_VERSION     2u
#define SHM_PAGE        4096u
#define SHM_NONE        UINT32_MAX
#define SHM_CLIENTS     256u
#define SHM_LEASE_WORDS (SHM_CLIENTS / 64)
#define SHM_RESUME_LEN  1024u
#define SHM_SIZE_MIN    (1ull << 20)
#define SHM_SIZE_MAX    (4ull << 40)
/*
 * One entry per so many bytes of file: objects are mostly 0.5 to 5 MiB. More small ones evict each
 * other.
 */
#define SHM_BYTES_PER_ENTRY (32u << 10)
#define SHM_ENTRIES_MIN     64u

/* Size classes of free extents: exact below 16 pages, then 16 per power of two. */
#define SHM_CLASSES     448u
#define SHM_CLASS_WORDS (SHM_CLASSES / 64)

enum shm_state {
	SHM_FREE,
	SHM_WRITING, /* owner fills it */
	SHM_PARTIAL, /* nobody fills it; adoptable */
	SHM_VISIBLE,
	SHM_DOOMED, /* removed, goes with the last lease; in no index */
	SHM_STATE_COUNT,
};

#define SHM_ENTRY_KEEP 0x1u /* when its writer dies WRITING becomes PARTIAL, not FREE */

/*
 * Entries that became visible or ceased to be, the newest SHM_CHANGES of them (shm_change.h): the
 * entry's number, and whether it went because it was evicted.
 */
#define SHM_CHANGES        16384u
#define SHM_CHANGE_EVICTED 0x80000000u

struct shm_entry {
	uint64_t hash;
	uint32_t hash_next; /* bucket chain, or free-entry list */
	uint32_t state;
	uint16_t key_len;
	uint16_t flags;
	uint32_t gen;  /* counts uses of this entry: makes handles unique */
	uint32_t page; /* extent */
	uint32_t npages;
	uint64_t len;
	uint64_t digest;
	uint64_t stamp; /* header.tick of the last use */

	uint64_t lease[SHM_LEASE_WORDS]; /* bit per client slot */
	uint32_t owner;                  /* client slot of the writer */
	uint32_t lru_prev;
	uint32_t lru_next; /* towards older */
	uint32_t reserved[7];
};
_Static_assert(sizeof(struct shm_entry) == 128, "two cache lines, lookup touches the first");

struct shm_cold {
	uint8_t key[STRAIT_KEY_MAX];
	uint8_t resume[SHM_RESUME_LEN];
};

/*
 * Valid on the first page of any extent and, tag only, on its last. Tag: length, top bit set if
 * free. next/prev link free extents of a class; of a used extent next is its entry.
 */
struct shm_page {
	uint32_t tag;
	uint32_t next;
	uint32_t prev;
};

struct shm_extent_state {
	uint64_t free_pages;
	uint64_t nonempty[SHM_CLASS_WORDS];
	uint32_t head[SHM_CLASSES];
};

struct shm_list {
	uint32_t newest;
	uint32_t oldest;
	uint32_t count;
	uint32_t reserved;
};

enum shm_lru {
	SHM_LRU_PARTIAL, /* evicted first */
	SHM_LRU_VISIBLE, /* without leases */
	SHM_LRU_COUNT,
};

struct shm_client {
	uint32_t used;
	uint32_t pid;       /* for people; being alive is a lock on the file, see shm_client.h */
	uint64_t opened_ns; /* CLOCK_REALTIME, for people */
};

struct shm_counters {
	uint64_t puts;
	uint64_t gets;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t evicted_bytes;
	uint64_t evicted_partials;
	uint64_t removes;
	uint64_t partials_kept;
	uint64_t partials_adopted;
	uint64_t reclaimed_clients;
	uint64_t reclaimed_leases;
	uint64_t reclaimed_writes;
	uint64_t recoveries;
};

struct shm_header {
	/* Written before the file gets its name, constant after. */
	uint64_t magic;
	uint32_t version;
	uint32_t header_size;
	uint64_t file_size;
	uint32_t entry_count;
	uint32_t page_count;
	uint64_t hash_key[2];

	pthread_mutex_t lock;

	/* Primary. */
	uint64_t boots;
	uint64_t tick;
	uint32_t entry_top; /* entries from here on were never used */
	uint32_t reserved;
	struct shm_client client[SHM_CLIENTS];
	struct shm_counters counters;

	/* Derived. */
	uint32_t free_entry;
	uint32_t evicting; /* above the high watermark, not yet below the low one */
	uint32_t count[SHM_STATE_COUNT];
	uint32_t leased;
	struct shm_list lru[SHM_LRU_COUNT];
	struct shm_extent_state extents;
	uint64_t change_head; /* how many there were; a recovery skips more than a ring */
	uint32_t change[SHM_CHANGES];
};

/* Offsets in bytes from the start of the file. */
struct shm_geometry {
	uint64_t file_size;
	uint64_t buckets_off;
	uint64_t entries_off;
	uint64_t cold_off;
	uint64_t pages_off;
	uint64_t arena_off;
	uint32_t bucket_count; /* power of two */
	uint32_t entry_count;
	uint32_t page_count;
};

/* -EINVAL if file_size is not in [SHM_SIZE_MIN, SHM_SIZE_MAX] or not whole pages. */
int shm_geometry_init(struct shm_geometry *geo, uint64_t file_size);
