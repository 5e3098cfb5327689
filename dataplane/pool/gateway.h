/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/pool/gateway_wire.h"
#include "dataplane/pool/pool.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A pool behind which another store stands: the second backend of pool.h. The objects are the
 * store's; the shm pool in between is a place where they are while they travel, and a gateway
 * process (gateway_wire.h) moves them between the two.
 *
 * Source side: the lease of an object that is not there asks the gateway for it and returns
 * -EINPROGRESS until it is staged. What was staged is leased as long as somebody holds it
 * (pool_object.staged: keep the lease, another one costs another read of the store) and removed
 * with the last lease; before it is shipped pool_confirm() asks the gateway whether the store
 * still has it, unless that was sure a moment ago: nothing stale leaves. At most `stage_bytes` are
 * staged at once, then a lease returns -ENOSPC, unless nothing is staged.
 *
 * Destination side: what is published stays leased, so that nothing evicts it, until the gateway
 * has taken it into the store; then it is removed. While the store takes nothing the pool fills
 * and refuses more.
 *
 * So the pool's file belongs to the edge and the gateway: what others put into it is removed at the
 * next start. Either may be restarted at any time. The edge says again what is not answered, and
 * finds in the file what had arrived.
 *
 * Pure but for the inner pool: frames go in and out as bytes, the socket is dataplane/edge's
 * gateway_link.h. One thread, the edge's control thread.
 */

enum {
	GATEWAY_OUTSTANDING = 64, /* objects being staged; then a lease is -EAGAIN */
	GATEWAY_RETRIES = 3,      /* of one that was evicted before it was leased */
};
#define GATEWAY_SURE_NS   (3000000000ULL)  /* so long what was staged or confirmed is believed */
#define GATEWAY_UNUSED_NS (10000000000ULL) /* staged and not leased so long: nobody wants it */

struct gateway_totals {
	uint64_t staged, staged_bytes;   /* objects brought into the pool */
	uint64_t failed;                 /* not found, gone, too large */
	uint64_t stale;                  /* staged, and gone from the store before it was shipped */
	uint64_t taken, taken_bytes;     /* put into the store */
	uint64_t existed;                /* the store had them when they came */
	uint64_t corrupt;                /* damaged in the pool: not put */
	uint64_t waiting, waiting_bytes; /* now: arrived and not taken */
	uint64_t held_bytes;             /* now: staged */
};

struct shm;

/**
 * Over an inner pool, which must outlive it, and its file. Walks the file once. NULL + errno.
 * pool_destroy() leaves the inner pool open.
 */
struct pool *gateway_pool_create(struct pool *inner, struct shm *file, const char *tenant,
	uint64_t stage_bytes);

/** The gateway is there, or no more. */
void gateway_pool_connected(struct pool *pool, bool yes);
/** The next frame for the gateway in buf. 0: none now, else its length. */
size_t gateway_pool_output(struct pool *pool, uint8_t buf[static GATEWAY_FRAME_MAX]);
/** A frame of the gateway. -EPROTO: close the connection. */
int gateway_pool_input(struct pool *pool, const uint8_t *buf, size_t len, uint64_t now_ns);
/** Once a second or so: give back what was staged for nobody. */
void gateway_pool_tick(struct pool *pool, uint64_t now_ns);

void gateway_pool_totals(const struct pool *pool, struct gateway_totals *out);
