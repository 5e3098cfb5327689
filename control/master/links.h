/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/master/master.h"

/*
 * Shares of the caps of links and sites (control/orders/shares.h), over the connections of edges.
 * The loop's thread.
 */

/** m->cfg and m->edges are there, edges not yet. */
void links_init(struct master *m);
void links_fini(struct master *m);
/** The shipment's share now; 0: it is sent when there is one. CAP_NONE: it has no cap. */
uint64_t links_share(struct master *m, const struct shipment *s);
/** Shares anew, and messages that are due. Often. */
void links_update(struct master *m);
/** The edge registered: what it has, by its own word. */
void links_registered(struct master *m, struct edge *e, const Strait__EdgeRegister *msg);
/** A shipment of theirs ended so. */
void links_reached(struct master *m, const struct shipment *s, bool reached);
/** For orderbook_plan(); ctx is the master. */
bool links_avoid(void *ctx, const char *from_site, const char *from, const char *to_site,
	const char *to);
