/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>

/*
 * The existence index: digest -> 48 bits, for tens of millions of keys, written by one thread and
 * read by any number that never wait.
 *
 * A shard is an array of 64-byte buckets of four 16-byte slots. A key stands in its first bucket
 * or, when that is full, in its second; counters in the first say whether any like it stand
 * elsewhere, so that nearly all lookups of what is not there touch one cache line. A full pair of
 * buckets moves keys to their other bucket (cuckoo). Shards grow one at a time by a fifth, between
 * 0.86 and about 0.70 of their slots: 18.6 to 23 bytes a key.
 *
 * The key kept is 76 bits of the digest: 60 as tag, and digest_bucket() beside the value, so that
 * one anti-entropy bucket can be listed. That any two of 50 M keys are confused has probability
 * 2e-8.
 *
 * Readers. No lock, no wait for the writer even if it is stopped in the middle: an answer is taken
 * again only if a key of that shard left its slot meanwhile (a version counter tells), at most
 * INDEX_TRIES times, and then it is INDEX_UNSURE. A key that is there through the whole lookup is
 * found, one that is not there through it is not. Readers leave no trace: there is nobody to
 * register and nothing to wait for, also where they are other processes, which map a shared index
 * read-only (struct index_view). A writer that was killed leaves an index that can be read as
 * before, for ever; how old its word is must be told beside it.
 *
 * The writer. index_update() and everything below it, from one thread at a time. Growing a shard
 * keeps it for as long as copying takes (10 ms for 400,000 keys); readers go on. When a digest has
 * no bit of INDEX_LIVE left it is removed.
 *
 * What the 48 bits mean is the node's affair, within this: inter-dc nodes keep a presence bit for
 * each of 16 sites and one for each site whose snapshot is loading; a site node keeps an owner.
 */

enum {
	INDEX_SITES = 16,
	INDEX_VALUE_BITS = 48,
	INDEX_TRIES = 16,
	INDEX_BATCH = 64, /* lookups in flight at once */
	INDEX_SHARD_BITS_MAX = 12,
	INDEX_SHARDS_MAX = 1 << INDEX_SHARD_BITS_MAX,
};

#define INDEX_PRESENT(site) (UINT64_C(1) << (site))
#define INDEX_LOADING(site) (UINT64_C(1) << (16 + (site)))
#define INDEX_PRESENT_MASK  UINT64_C(0x00000000ffff)
#define INDEX_LOADING_MASK  UINT64_C(0x0000ffff0000)
#define INDEX_META_MASK     UINT64_C(0xffff00000000) /* size class, flags */
#define INDEX_META_SHIFT    32
/* A key whose value has none of these is gone. */
#define INDEX_LIVE (INDEX_PRESENT_MASK | INDEX_LOADING_MASK)
/* Never a value: the answer could not be taken between two moves of keys. */
#define INDEX_UNSURE UINT64_MAX

struct index;

struct index_stats {
	uint64_t keys;
	uint64_t slots;
	uint64_t bytes;          /* of all arrays and tables */
	uint64_t reserved_bytes; /* of a shared one: with what waits to be taken again */
	uint64_t moves;          /* keys displaced to their other bucket */
	uint64_t grown;          /* shards rebuilt */
	uint32_t shards;
};

/* Where to read. Copied freely; valid as long as the index, or until index_view_close(). */
struct index_view {
	const uint8_t *base;
	const struct shard *shards;
	uint64_t limit;
	uint32_t shard_bits;
};

/**
 * expected_keys sizes it (it grows beyond; 0: small). The number of shards is fixed by it: about
 * 400,000 keys a shard. NULL + errno.
 */
struct index *index_create(uint64_t expected_keys);
/**
 * The same in memory that other processes may map (arena.h), with user_bytes for the caller beside
 * it, zeroed; as many shards as most_keys need, so that it grows to them without long pauses.
 */
struct index *index_create_shared(uint64_t expected_keys, uint64_t most_keys, size_t user_bytes);
/** No reader may be inside or come later. NULL is ignored. */
void index_destroy(struct index *x);

/** The caller's part of shared memory; NULL: it is not shared. */
void *index_user(const struct index *x);
/** What another process needs to read: a descriptor that is read-only, to be closed. Or -errno. */
int index_share(const struct index *x, uint64_t *limit);
const struct index_view *index_view(const struct index *x);

/**
 * Map what index_share() gave out. *user is the other's index_user(). 0; -EPROTO: it is of another
 * form; errors of mmap.
 */
int index_view_open(int fd, uint64_t limit, struct index_view *v, const void **user,
	size_t user_bytes);
void index_view_close(struct index_view *v);

/** values[i] of each digest: 0 if it is not there, INDEX_UNSURE in the rare case above. Any n. */
void index_view_lookup(const struct index_view *v, const struct digest128 *d, size_t n,
	uint64_t *values);
void index_lookup(const struct index *x, const struct digest128 *d, size_t n, uint64_t *values);

/** Bring the lines that a coming index_update() of this digest reads into the cache. */
void index_prefetch(const struct index *x, struct digest128 d);

/**
 * value = value & keep | set, where an absent key has value 0. *old and *now (may be NULL) tell the
 * transition. -ENOMEM: nothing was changed. -EINVAL: set has bits beyond INDEX_VALUE_BITS.
 */
int index_update(struct index *x, struct digest128 d, uint64_t keep, uint64_t set, uint64_t *old,
	uint64_t *now);
/** The writer's own lookup. */
uint64_t index_value(const struct index *x, struct digest128 d);

/* A key while scanning. Not its whole digest: what the index keeps of it. */
struct index_entry {
	uint32_t bucket; /* digest_bucket() */
	uint64_t tag;    /* top 60 bits of digest.lo, in place */
	uint64_t value;
};

/**
 * Call fn for every key of one shard; it returns the key's new value, which index_update()'s rule
 * may remove. fn must not touch the index.
 */
void index_scan(struct index *x, uint32_t shard,
	uint64_t (*fn)(const struct index_entry *e, void *ctx), void *ctx);
uint32_t index_shards(const struct index *x);
/** The shard that holds all keys of an anti-entropy bucket. */
uint32_t index_shard_of_bucket(const struct index *x, uint32_t bucket);

/** Shrink shards that are less than half full. -ENOMEM: some are left as they were. */
int index_trim(struct index *x);

void index_stats_get(const struct index *x, struct index_stats *out);
