/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"
#include "dataplane/edge/order.h"
#include "dataplane/edge/term.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The edge's connection to its master: register, take orders, report.
 *
 * Kept up with a jittered backoff of 0.2 to 5 s; 10 to 30 s while the master says that another
 * process of this edge's name is connected. While it is away running transfers go on and
 * their results are kept. A master whose term is lower than one seen before is not obeyed.
 *
 * Control thread only.
 */

enum { MASTER_CLIENT_POOL_SITES_MAX = 16 };

struct event_base;
struct master_client;

struct master_client_config {
	const char *address, *site, *edge, *mgmt_address, *program;
	const uint8_t *boot_id; /* STRAIT_BOOT_ID_BYTES */
	/* Sites but its own whose pools it has, too. */
	const char *pool_sites[MASTER_CLIENT_POOL_SITES_MAX];
	uint32_t pool_site_count;
};

struct master_client_ops {
	/** Write the report's fields; they must live until the next call. */
	void (*report)(void *ctx, Strait__EdgeReport *m);
	/** Shares of caps, fenced edges. false: not all is done, the master will say it again. */
	bool (*links)(void *ctx, const Strait__EdgeLinks *m);
	/** For the registration, as report. NULL: there are none. */
	void (*registration)(void *ctx, Strait__EdgeRegister *m);
};

/** Strings and boot_id of cfg must stay. NULL + errno. Connects with the first tick. */
struct master_client *master_client_create(const struct master_client_config *cfg,
	const struct master_client_ops *ops, void *ctx, struct event_base *base,
	struct rpc_tls *tls, struct term *term, struct orders *orders);
void master_client_destroy(struct master_client *mc);

/** Connect, report, send results: some times a second, and after a kick. */
void master_client_tick(struct master_client *mc, uint64_t now_ns);
bool master_client_is_up(const struct master_client *mc);
/** Results and everything else have left, or nobody listens. */
bool master_client_is_flushed(const struct master_client *mc);
/** Report at once: its state is another one. */
void master_client_report(struct master_client *mc);
/** Say goodbye and do not come back. */
void master_client_stop(struct master_client *mc);
