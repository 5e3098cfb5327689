/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the edge needs of a site's object store. The embedded backend is the shm pool (shm_pool.h);
 * a gateway to another store (gateway.h) is a second one.
 *
 * Source side: lease an object, read its bytes, release. While leased its bytes neither move nor
 * change, even if it is removed. Destination side: reserve, fill, then publish or abandon. Nothing
 * is visible before publish. A reservation whose process died, or that was abandoned with keep,
 * stays as a partial object: the next reserve of the same (key, len, digest) adopts it with its
 * bytes and its resume area, so that a transfer goes on where it was.
 *
 * Threads: any, but calls may block on a lock, for microseconds as a rule, so workers do not call;
 * the edge's control thread does. If a client is stopped (SIGSTOP, a frozen container) just while
 * it holds the lock, calls give up after 5 s, and after 1 ms while the last one gave up. Release
 * and abandon do not fail then: they are remembered and done with a later call. Lengths are bytes.
 *
 * Every call but release, abandon and destroy may return -ETIMEDOUT (lock not to be had within 5
 * s, nothing changed), -ENOTRECOVERABLE (backend lost), -ECHILD (used after fork) and -EINVAL (bad
 * key length or argument).
 */

#include <strait/strait.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_KEY_MAX    STRAIT_KEY_MAX
#define POOL_OBJECT_MAX STRAIT_OBJECT_MAX

struct pool_object {
	uint64_t handle; /* never 0 */
	void *data;      /* page aligned; read only when leased */
	uint64_t len;
	uint64_t digest;
	void *resume; /* reserve only: the transport's have state; all 0 unless resumed */
	uint32_t resume_len;
	bool resumed; /* an earlier writer's bytes and resume area are in place */
	/*
	 * Lease only. Not 0: keep it, the next one costs a read of another store, and when so many
	 * bytes are together let them go, others wait for the room.
	 */
	uint64_t staged;
};

struct pool;

struct pool_ops {
	void (*destroy)(struct pool *pool);
	int (*lease)(struct pool *pool, const void *key, size_t key_len, struct pool_object *out);
	void (*release)(struct pool *pool, uint64_t handle);
	int (*confirm)(struct pool *pool, uint64_t handle, uint64_t now_ns); /* may be NULL */
	int (*renew)(struct pool *pool);
	int (*reserve)(struct pool *pool, const void *key, size_t key_len, uint64_t len,
		uint64_t digest, struct pool_object *out);
	int (*publish)(struct pool *pool, uint64_t handle, uint64_t digest);
	void (*abandon)(struct pool *pool, uint64_t handle, bool keep);
	int (*exist)(struct pool *pool, const void *key, size_t key_len);
	int (*remove)(struct pool *pool, const void *key, size_t key_len);
	int (*stats)(struct pool *pool, struct strait_pool_stats *out);
	int (*check)(struct pool *pool, char *err, size_t err_len);
};

/* Embedded first in a backend's own struct. */
struct pool {
	const struct pool_ops *ops;
	bool lost; /* pool_check() failed: nothing new */
};

/* Close: leases end, unpublished reservations stay as partial objects. NULL is ignored. */
static inline void pool_destroy(struct pool *pool)
{
	if (pool != NULL)
		pool->ops->destroy(pool);
}

/*
 * Once a second: is this still the store that others see? Returns 0, or -ENXIO with what to do in
 * err: it was deleted, replaced or cut. Then pool_lease() and pool_reserve() fail with -ENXIO from
 * now on, what is leased or reserved may be finished, and only opening it anew helps.
 */
static inline int pool_check(struct pool *pool, char *err, size_t err_len)
{
	int rc = pool->ops->check != NULL ? pool->ops->check(pool, err, err_len) : 0;

	pool->lost = pool->lost || rc < 0;
	return rc;
}

/*
 * Source: lease a visible object. -ENOENT, -ENXIO (pool_check()). Every success needs one
 * pool_release(). A gateway's pool (gateway.h) also has
 *   -EINPROGRESS  it is being brought, call again
 *   -EAGAIN       enough others are being brought
 *   -ENOSPC       not before others were released
 *   -ESTALE       it went or changed while it was brought
 *   -EFBIG        it does not fit
 */
static inline int pool_lease(struct pool *pool, const void *key, size_t key_len,
	struct pool_object *out)
{
	if (pool->lost)
		return -ENXIO;
	return pool->ops->lease(pool, key, key_len, out);
}

/* End one lease. An unknown handle is ignored. */
static inline void pool_release(struct pool *pool, uint64_t handle)
{
	pool->ops->release(pool, handle);
}

/*
 * Before what is leased is shipped: 0; -EINPROGRESS, not known yet, call again; -ESTALE, the store
 * behind a gateway has it no more.
 */
static inline int pool_confirm(struct pool *pool, uint64_t handle, uint64_t now_ns)
{
	return pool->ops->confirm != NULL ? pool->ops->confirm(pool, handle, now_ns) : 0;
}

/* Once a second: keep this client's leases, reclaim what dead clients held. */
static inline int pool_renew(struct pool *pool)
{
	return pool->ops->renew(pool);
}

/*
 * Destination: get space for an object.
 *   -EEXIST  the key is visible already
 *   -EBUSY   another live writer (this client too) holds the key
 *   -ENOSPC  no room although everything evictable was evicted
 *   -EFBIG   more than POOL_OBJECT_MAX or more than the pool can ever hold
 *   -EINVAL  len is 0
 *   -ENXIO   pool_check() failed
 * A partial object of this key with another len or digest is freed and begun anew. Where the
 * digest is not known pass 0; it then matches only partials of unknown digest.
 */
static inline int pool_reserve(struct pool *pool, const void *key, size_t key_len, uint64_t len,
	uint64_t digest, struct pool_object *out)
{
	if (pool->lost)
		return -ENXIO;
	return pool->ops->reserve(pool, key, key_len, len, digest, out);
}

/*
 * Make a reserved object visible, atomically, under the digest the caller verified. Ends the
 * reservation. -ESTALE: not a reservation of this client.
 */
static inline int pool_publish(struct pool *pool, uint64_t handle, uint64_t digest)
{
	return pool->ops->publish(pool, handle, digest);
}

/*
 * End a reservation without publishing. keep leaves a partial object that a later reserve may
 * adopt; partials are the first to be evicted. No one may write to the object any more. An unknown
 * handle is ignored.
 */
static inline void pool_abandon(struct pool *pool, uint64_t handle, bool keep)
{
	pool->ops->abandon(pool, handle, keep);
}

/* 0 if visible, else -ENOENT. */
static inline int pool_exist(struct pool *pool, const void *key, size_t key_len)
{
	return pool->ops->exist(pool, key, key_len);
}

/* Leased bytes stay until released. -ENOENT; -EBUSY: being written. */
static inline int pool_remove(struct pool *pool, const void *key, size_t key_len)
{
	return pool->ops->remove(pool, key, key_len);
}

static inline int pool_stats(struct pool *pool, struct strait_pool_stats *out)
{
	return pool->ops->stats(pool, out);
}
