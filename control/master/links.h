/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/master/master.h"

/*
 * Shares of caps. A flow is what goes from one edge to another; those of a link, and of all links of
 * a site, share the link's and the site's cap (cap_share.h). Shares change hands by EdgeLinks and
 * its acknowledgement (cap_grant.h), so that edges never have more together than the cap.
 *
 * A flow wants all it gets while it has shipments, unless it was seen to leave an eighth of its share
 * unused for longer than a second: then what it uses and a quarter more.
 *
 * Of an edge that is away nothing is known, so its share stays reserved, until it is back, or the
 * edges it sent to say that they hear it no more (fenced), or MASTER_SILENT_MS have passed: by then its
 * sessions have ended by themselves. After a restart of the master nothing is given away while an
 * edge that it knows of, and that is not lost, has not registered, for edge_lost at most.
 *
 * The loop's thread.
 */

enum {
	LINKS_RESEND_MS = 1000,    /* EdgeLinks without an answer */
	MASTER_SILENT_MS = 150000, /* a session that hears nothing ends after 120 s */
};

struct link_flow {
	TAILQ_ENTRY(link_flow) entry;
	struct edge *from, *to;
	struct cap_grant grant;
	uint32_t shipments;      /* counted by each links_update() */
	uint64_t raised_ns;      /* since when it has this share or less */
	uint64_t avoid_until_ns; /* they did not reach each other */
	uint64_t fence_seq;      /* of the message to `to` that fences `from`; 0: none was sent */
	bool waiting;            /* a shipment was not sent as there was nothing to grant yet */
};

/** The share of what is sent for the shipment now; 0: it is told when there is one. CAP_NONE: none. */
uint64_t links_share(struct master *m, const struct shipment *s);
/** Shares anew, and messages that are due. Often. */
void links_update(struct master *m);
/** The edge registered: what it has, by its own word. */
void links_registered(struct master *m, struct edge *e, const Strait__EdgeRegister *msg);
void links_acked(struct master *m, struct edge *e, uint64_t seq);
/** It sends nothing any more. */
void links_ended(struct master *m, struct edge *e);
/** A shipment of theirs ended so. */
void links_reached(struct master *m, const struct shipment *s, bool reached);
/** For orderbook_plan(); ctx is the master. */
bool links_avoid(void *ctx, const char *from_site, const char *from, const char *to_site,
	const char *to);
/** Sum of what it may send. CAP_NONE: a part of it has no cap; 0: it has no flow. */
uint64_t links_sum(const struct master *m, const struct edge *e);
void links_free(struct master *m);
