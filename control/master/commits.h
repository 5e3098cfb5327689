/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/master/master.h"

/*
 * Subscriptions to commits: who asks with COMMITS is told of each object that is at its
 * destination, and of each order's end, in the order in which they became durable.
 *
 * The ledger is the buffer (ledger_commits.c): a subscription is a position in it and what is
 * wanted, so a subscriber that does not read costs COMMITS_QUEUE bytes and a batch, and holds up
 * nobody. One that is away goes on where it was, over restarts of the master, as long as finished
 * orders are kept; if it fell behind that it is told so (ESTALE), and its subscription ends. Of all
 * subscriptions together at most COMMITS_TURN_ROWS are read at a time, then others have their
 * turn.
 *
 * A certificate of role tenant gets its own tenant's alone, the name of its holder; where it has a
 * site, only what comes to that. The master's thread.
 */

enum {
	COMMITS_MAX = 256,       /* subscriptions */
	COMMITS_TENANT_MAX = 16, /* of one tenant's certificates */
	COMMITS_QUEUE = 128 << 10,
	COMMITS_BATCH_BYTES = 64 << 10,
	COMMITS_TURN_ROWS = 1024,
};

int commits_create(struct master *m);
void commits_destroy(struct master *m);
/**
 * Begin, and send the first reply. 0, or -errno and why: EACCES, EBUSY, EINVAL; ESTALE was
 * answered.
 */
int commits_start(struct client *c, const Strait__Request *r, char *why, size_t len);
/** The client goes. */
void commits_stop(struct client *c);
/** Something was committed. */
void commits_committed(struct master *m);

/** What of a view is of here. */
void view_commits_fini(struct view *v);
