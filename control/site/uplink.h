/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"
#include "control/site/node.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * A site master's connection with the inter-dc master: registers, feeds the site's log
 * (control/log/feed.h) as it is read, reports once a second, and answers what the planner asks:
 *
 *   EXPAND   the keys behind digests; a site that ships alone keeps key strings
 *   OFFER    which of these may be brought here: not what is here, nor what was evicted lately
 *            unless somebody asked. What is accepted is remembered as brought (recall.h) before
 *            the answer leaves.
 *
 * Bulk (snapshots) goes a frame at a time, so that answers and reports never wait behind more than
 * UPLINK_QUEUE bytes and a frame. A lost connection is made again with backoff and the log goes on
 * where its reader is. From the thread of the event base.
 */

enum { UPLINK_QUEUE = 128 << 10, UPLINK_DIGESTS_MAX = 4096 };

struct event_base;
struct rpc_conn;
struct uplink;

/**
 * The node's parts must live as long. connect makes a connection with the inter-dc master for this
 * handler and its context, or NULL, and is called again after each that ended. NULL + errno.
 */
struct uplink *uplink_create(struct event_base *base, struct site_node *node,
	struct rpc_conn *(*connect)(void *ctx, const struct rpc_handler *h, void *h_ctx),
	void *ctx);
/** Before rpc_tls_destroy() of its connections, which then are told nothing. NULL is ignored. */
void uplink_destroy(struct uplink *u);
/**
 * The site master stops: say so, close, then call done from the loop. At once if there is no
 * connection.
 */
void uplink_leave(struct uplink *u, void (*done)(void *ctx), void *ctx);
bool uplink_is_open(const struct uplink *u);
