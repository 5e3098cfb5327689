/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"
#include "dataplane/edge/config.h"
#include "dataplane/edge/worker.h"
#include "dataplane/pool/pool.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The control thread of an edge: everything that is not a packet, driven by one libevent loop.
 *
 *   workers' events -> peers -> orders (TX) and ingest (RX) -> commands for workers
 *   master -> orders; orders' results -> master; reports
 *
 * What handlers change is worked off once per turn of the loop (a "kick"), so that bursts of
 * events cost one pass. A timer of 50 ms does what is due by time.
 *
 * Threads: the one that runs the event base.
 */

struct event_base;
struct control;

struct control_parts {
	struct event_base *base;
	struct rpc_tls *tls;
	struct worker *workers[WORKERS_MAX]; /* cfg->workers of them */
	struct port *port;
	struct pool **pools;         /* as cfg->pools */
	const struct aead_ops *aead; /* NULL: the best */
};

/** Listens, connects to the master with the first turn. NULL, with the reason in err. */
struct control *control_create(const struct edge_config *cfg, const struct control_parts *parts,
	char *err, size_t err_len);
/** After the loop ended. */
void control_destroy(struct control *c);

/**
 * Finish what runs (at most drain_timeout), start nothing new, say goodbye, then break the
 * loop. A second call does not wait for what runs.
 */
void control_stop(struct control *c);
