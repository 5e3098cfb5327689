/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket between an edge and the gateway of one of its pools: connects, again each second
 * while nobody listens, and carries the frames of pool/gateway.h.
 *
 * Control thread only.
 */

struct event_base;
struct gateway_link;
struct pool;

/**
 * pool is of gateway_pool_create() and must outlive it; kick says that leases may succeed now that
 * did not before. NULL + errno.
 */
struct gateway_link *gateway_link_create(struct event_base *base, struct pool *pool,
	const char *path, const char *tenant, void (*kick)(void *ctx), void *ctx);
/** NULL is ignored. */
void gateway_link_destroy(struct gateway_link *l);
/** There may be frames to send. */
void gateway_link_flush(struct gateway_link *l);
