/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libstrait: the C client of a site's embedded pool.
 *
 * A pool is one file on tmpfs or hugetlbfs, one per tenant, that every client and the edge map.
 * Put, get and exist touch that memory directly; no byte and no request passes through a socket
 * and no server has to run. An object is an immutable value of 1 byte to 64 MiB under a key of 1
 * to 1024 bytes (any bytes). The first put of a key wins.
 *
 * A process may be killed at any instant. What it had not committed disappears and what it had
 * leased becomes evictable again: when another client needs the space or the key, or opens the
 * pool, and within a second where an edge runs. A lease lives as long as its process does: it has
 * no timeout, because a timeout would let bytes change under a slow reader. So release what you
 * got; a leased object cannot be evicted.
 *
 * Threads: every function may be called from any thread, on the same pool too. Fork: a pool
 * belongs to the process that opened it; in a forked child every call but strait_pool_close()
 * returns -ECHILD. Open again there.
 *
 * Digest: CRC-64/ECMA-182 with init 0, most significant bit first, no final xor ("123456789" gives
 * 0x6C40DF5F0B497347), taken when the object is put.
 *
 * Errors are negative errno values. Any call that takes a pool may also return
 *   -EINVAL           NULL argument, key of 0 or more than 1024 bytes
 *   -ECHILD           the pool was opened before fork()
 *   -ETIMEDOUT        a stopped process has held the pool's lock for 5 seconds; nothing was changed
 *   -ENOTRECOVERABLE  the pool's lock is lost; recreate the file
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STRAIT_API __attribute__((visibility("default")))

#define STRAIT_KEY_MAX    1024u
#define STRAIT_OBJECT_MAX (64u << 20)

/* strait_pool_open() flags. */
#define STRAIT_POOL_CREATE 0x1u /* create the file if there is none */
/* create with mode 0660; accept a file of another owner that has mode 0660 */
#define STRAIT_POOL_GROUP 0x2u
/* do not reserve memory now: a full tmpfs later kills the writer with SIGBUS */
#define STRAIT_POOL_SPARSE   0x4u
#define STRAIT_POOL_PREFAULT 0x8u /* map every page now: slow to open, no page fault later */

/* strait_get() flags. */
#define STRAIT_GET_VERIFY 0x1u /* recompute the digest first; reads every byte */

struct strait_pool;

/* A leased object. Read data until strait_release(). */
struct strait_object {
	const void *data;
	size_t len;
	uint64_t digest;
	uint64_t handle; /* opaque */
};

/* Space being filled by one writer. Invisible to others until strait_put_commit(). */
struct strait_writer {
	void *data;
	size_t len;
	uint64_t handle; /* opaque */
};

/* Totals are since the pool file was created and cover all its clients. */
struct strait_pool_stats {
	uint64_t file_bytes;
	uint64_t arena_bytes;        /* room for objects, in 4 KiB pages */
	uint64_t used_bytes;         /* pages taken, by objects in any state */
	uint64_t largest_free_bytes; /* longest free run */
	uint64_t max_objects;
	uint64_t objects;  /* visible now */
	uint64_t writing;  /* being written now */
	uint64_t partials; /* incomplete, waiting for their writer to come back */
	uint64_t doomed;   /* removed, still leased */
	uint64_t leased;   /* objects with at least one lease */
	uint64_t clients;  /* processes that have the pool open */
	uint64_t boots;    /* times the file was opened */

	uint64_t puts;
	uint64_t gets;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t evicted_bytes;
	uint64_t evicted_partials;
	uint64_t removes;
	uint64_t partials_kept; /* incomplete objects left for adoption */
	uint64_t partials_adopted;
	uint64_t reclaimed_clients; /* clients found dead */
	uint64_t reclaimed_leases;  /* leases of dead clients */
	uint64_t reclaimed_writes;  /* puts of dead clients */
	uint64_t recoveries;        /* times the lock's owner had died */
};

/*
 * Open the pool at path. With STRAIT_POOL_CREATE a missing file is created with about create_size
 * bytes (the whole file, at least 1 MiB; rounded up to pages); the size of an existing one is its
 * own. Any number of processes may do so at once: one creates, all get the same pool. Waits for no
 * other process, except at most 5 s for the pool's lock (ETIMEDOUT). Returns NULL and errno, with
 * the reason in words in strait_pool_open_error():
 *   ENOENT   no such file (without STRAIT_POOL_CREATE)
 *   EINVAL   not a regular file, size out of range, unknown flag
 *   EPERM    the file is someone else's and not group-shared, or open to the world
 *   EILSEQ   not a Strait pool (magic)
 *   EPROTO   another version of the format
 *   EUCLEAN  sizes in the header do not fit the file
 *   EUSERS   all 256 client slots are taken
 *   ENOSPC, ENOMEM, EACCES and other errors of open, fallocate and mmap
 */
STRAIT_API struct strait_pool *strait_pool_open(const char *path, unsigned int flags,
	uint64_t create_size);

/* Why this thread's last strait_pool_open() failed. Never NULL. */
STRAIT_API const char *strait_pool_open_error(void);

/*
 * Release all leases, drop all uncommitted writes, unmap. NULL is ignored. No other call may be
 * running.
 */
STRAIT_API void strait_pool_close(struct strait_pool *pool);

/*
 * Where objects lie in this process, all of them and nothing else: for registering with a NIC or
 * another transport. *base stays until the pool is closed.
 */
STRAIT_API int strait_pool_arena(struct strait_pool *pool, void **base, size_t *len);

/*
 * Copy data into the pool and make it visible.
 *   -EEXIST  the key is there already; its first value stays
 *   -EBUSY   another writer is putting the same key now
 *   -ENOSPC  no room although everything evictable was evicted
 *   -EFBIG   more than 64 MiB or more than the pool can ever hold
 *   -EINVAL  empty
 */
STRAIT_API int strait_put(struct strait_pool *pool, const void *key, size_t key_len,
	const void *data, size_t len);

/*
 * Put without a copy: get len bytes of the pool, fill them, then commit or abort. The bytes hold
 * garbage at first. Errors as strait_put(). Do not write after the commit: readers may be there.
 */
STRAIT_API int strait_put_begin(struct strait_pool *pool, const void *key, size_t key_len,
	size_t len, struct strait_writer *out);
/*
 * Take the digest and make the object visible. -ESTALE: not a writer of this pool (committed or
 * aborted already).
 */
STRAIT_API int strait_put_commit(struct strait_pool *pool, struct strait_writer *writer);
/* Give the space back. Ignored if the writer was committed or aborted already. */
STRAIT_API void strait_put_abort(struct strait_pool *pool, struct strait_writer *writer);

/*
 * Lease an object. Every success needs one strait_release().
 *   -ENOENT   no such object
 *   -EBADMSG  with STRAIT_GET_VERIFY: the bytes do not match their digest
 */
STRAIT_API int strait_get(struct strait_pool *pool, const void *key, size_t key_len,
	unsigned int flags, struct strait_object *out);
/* End the lease; clears *object, so that releasing it twice is harmless. */
STRAIT_API void strait_release(struct strait_pool *pool, struct strait_object *object);

/*
 * 0 if visible, else -ENOENT. Takes no lease and does not count as a use: the object may go at any
 * time.
 */
STRAIT_API int strait_exist(struct strait_pool *pool, const void *key, size_t key_len);

struct strait_key {
	const void *data;
	size_t len;
};

/*
 * found[i] = 1 if keys[i] is visible, else 0 (also for a key of bad length). Returns how many are
 * there or a negative error, then found[] is all 0. n is at most 1 << 20 (-EINVAL).
 */
STRAIT_API int strait_batch_exist(struct strait_pool *pool, const struct strait_key *keys, size_t n,
	uint8_t *found);

/*
 * Existence in the whole site, by the word of its master; never asked over the WAN.
 *
 * The master hands the memory of its index to whom it admits, read-only; calls look there, without
 * a system call and without waiting for anybody, about 1 us for 64 keys and what hashing them
 * takes. When the master shows no sign of life for a second, ends or starts again, or lends no
 * memory (an older one, other time namespaces), calls ask over its socket instead, about 10 us; the
 * answers are the same. What was missed in memory is told to the master now and then by a datagram
 * that nobody waits for, because a policy may bring what is often asked for.
 *
 * The master's view follows events of the site's caches, so an answer is as old as `age_ns` says.
 * YES promises no lease: the object may go before it is read, and a get that then fails is to be
 * treated as a miss. NO and UNKNOWN differ: while the master recovers, or has lost the trace of a
 * cache, it does not know, and says so. What could not be fetched when it was wanted is NO for a
 * short time, or until it comes.
 */
enum strait_exist_answer {
	STRAIT_EXIST_NO = 0,
	STRAIT_EXIST_YES = 1,
	STRAIT_EXIST_UNKNOWN = 2,
	STRAIT_EXIST_MASK = 3,
};

#define STRAIT_EXIST_MAX ((size_t)1 << 20)

struct strait_exist;

struct strait_exist_age {
	uint64_t as_of;  /* events the master had seen, a number that only grows while it runs */
	uint64_t age_ns; /* since it was sure to have seen all; UINT64_MAX: it never was */
};

/*
 * Connect to the master's socket of a tenant. Whether this process is of that tenant the master
 * decides by its user and groups, as the kernel names them (tenants: of the site's configuration).
 * A call waits at most timeout_ms for an answer. NULL and errno: EINVAL; EACCES: not of that
 * tenant, or the socket's mode forbids it; EPROTO: no such service there; ECONNREFUSED, ENOENT,
 * ETIMEDOUT and other errors of connect.
 */
STRAIT_API struct strait_exist *strait_exist_open(const char *path, unsigned int timeout_ms);
/* NULL is ignored. No other call may be running. */
STRAIT_API void strait_exist_close(struct strait_exist *x);

/* Whether calls now look into the master's memory; false: they ask over the socket. */
STRAIT_API bool strait_exist_is_mapped(struct strait_exist *x);

/*
 * answers[i] for each key; age may be NULL. Threads may share x: in memory they do not meet, over
 * the socket they take turns. On an error all answers not got are UNKNOWN; a lost connection is
 * made again by the next call.
 *   -EINVAL  NULL argument, key of bad length, n over STRAIT_EXIST_MAX
 *   -ECHILD, -ETIMEDOUT, -EPROTO and errors of connect
 */
STRAIT_API int strait_exist_batch(struct strait_exist *x, const struct strait_key *keys, size_t n,
	uint8_t *answers, struct strait_exist_age *age);
/*
 * Keys in the order of a chain: *first_miss is how many there are from the first on, with nothing
 * missing or unknown between.
 */
STRAIT_API int strait_exist_prefix(struct strait_exist *x, const struct strait_key *keys, size_t n,
	size_t *first_miss, struct strait_exist_age *age);

/*
 * Make the key vanish. Readers keep their leased bytes; the space is freed with the last lease. An
 * incomplete object left by a dead writer is dropped. -ENOENT: no such key; -EBUSY: it is being
 * written.
 */
STRAIT_API int strait_remove(struct strait_pool *pool, const void *key, size_t key_len);

STRAIT_API int strait_pool_stats(struct strait_pool *pool, struct strait_pool_stats *out);

/* The digest of n bytes, as stored with every object. */
STRAIT_API uint64_t strait_digest(const void *data, size_t len);

/*
 * What an error of this library means, in words. Takes either sign; unknown values get strerror's
 * text.
 */
STRAIT_API const char *strait_strerror(int err);

#ifdef __cplusplus
}
#endif
