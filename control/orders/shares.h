/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/cap_grant.h"

#include <sys/queue.h>

/*
 * Which share of the caps of links and sites each edge has, and how it gets to know.
 *
 * A flow is what goes from one edge to another. Those of a link, and of all links of a site, share
 * the link's and the site's cap (cap_share.h). Shares change hands by numbered messages that an
 * edge answers when it has done what they say (cap_grant.h), so that edges never have more together
 * than the cap.
 *
 * A flow wants all it gets while it has shipments, unless it was seen to leave an eighth of its
 * share unused for longer than a second: then what it uses and a quarter more.
 *
 * Of an edge that is away nothing is known, so its share stays reserved, until it is back and says
 * what it has; or was lost, and the edges it sent to say that they hear it no more (fenced); or for
 * SHARES_SILENT_NS, if by then the edge it sent to has no session of it, or is away, too.
 *
 * One that was lost and is back has what was given to others: it is told to give it up before
 * others hear it again.
 *
 * After a restart of the owner it is not known what edges have. Until one said so, or was lost and
 * fenced by those that are connected, nothing of what its site shares is given away; of the line
 * into another site nothing either, but for unknown_ns at most, as it may be gone for good.
 *
 * At most 1024 flows count at a time; those beyond get no share until others are gone. Pure: time
 * is an argument. One thread.
 */

#define SHARES_RESEND_NS UINT64_C(1000000000)   /* a message without an answer is sent again */
#define SHARES_SILENT_NS UINT64_C(150000000000) /* a session that hears nothing ends after 120 s */
#define SHARES_WANT_NS   UINT64_C(1000000000)   /* so long a share was not used up */

/* An edge; embedded in the owner's. */
struct shares_edge {
	TAILQ_ENTRY(shares_edge) entry;
	const char *site, *name;
	bool connected;
	bool takes; /* it understands messages; else only orders tell it a share */
	bool lost;  /* others have what it had */
	/* Others are told not to hear it: since it was lost, until it obeyed a message again. */
	bool fenced;
	bool known;     /* what it has was said, or it surely sends nothing */
	bool was_known; /* ... before it connected last */
	uint64_t down_ns;
	bool dirty;
	uint64_t seq, acked_seq; /* of the messages of this connection */
	uint64_t fences_seq;     /* the first with all that are fenced now; 0: not sent */
	uint64_t sent_ns;
};

struct shares_flow {
	TAILQ_ENTRY(shares_flow) entry;
	struct shares_edge *from, *to;
	struct cap_grant grant;
	uint32_t shipments;      /* by the owner, before each update */
	uint64_t raised_ns;      /* since when it has this share or less */
	uint64_t avoid_until_ns; /* by the owner: they did not reach each other */
	uint64_t fence_seq;      /* of the message to `to` that fences `from`; 0: none was sent */
	bool was_over;           /* nothing was sent when `from` connected last */
	bool waiting;            /* by the owner: a shipment waits for a share */
};

/* Caps of what goes from site to site; 0: none. */
struct shares_caps {
	uint64_t link_bps, out_bps, in_bps;
};

struct shares_ops {
	void (*caps)(void *ctx, const char *from, const char *to, struct shares_caps *out);
	/** What it was seen to send; false: not known. */
	bool (*used)(void *ctx, const struct shares_flow *f, uint64_t *bps);
	/** Whether `to`, which is connected, has a session of `from`, as far as is known. */
	bool (*hears)(void *ctx, const struct shares_flow *f);
	/**
	 * Send the edge all its shares (told_bps of each of its flows that is not 0) and all fenced
	 * edges of other sites, with the number e->seq. It may get lost.
	 */
	void (*send)(void *ctx, struct shares_edge *e);
};

struct shares {
	TAILQ_HEAD(, shares_edge) edges;
	TAILQ_HEAD(, shares_flow) flows;
	const struct shares_ops *ops;
	void *ctx;
	uint64_t started_ns, unknown_ns;
	uint64_t report_ns; /* how old what used() says may be */
};

void shares_init(struct shares *s, const struct shares_ops *ops, void *ctx, uint64_t now_ns);
/** Forgets all edges and flows. */
void shares_fini(struct shares *s);
/** e->site and e->name stay. It is away, and known until told otherwise. */
void shares_add(struct shares *s, struct shares_edge *e, uint64_t now_ns);

/** NULL: there is none. */
struct shares_flow *shares_find(const struct shares *s, const struct shares_edge *from,
	const struct shares_edge *to);
/** The same, new if there is none. NULL: out of memory. */
struct shares_flow *shares_get(struct shares *s, struct shares_edge *from, struct shares_edge *to);

/** The edge connected. Then shares_had() for each thing it says it has. */
void shares_connected(struct shares *s, struct shares_edge *e, bool takes);
/** By its own word; CAP_NONE: no cap. */
void shares_had(struct shares *s, struct shares_edge *from, struct shares_edge *to, uint64_t bps);
void shares_disconnected(struct shares_edge *e, uint64_t now_ns);
/** It is away and others have its orders. */
void shares_lost(struct shares *s, struct shares_edge *e);
/** It sends nothing any more. */
void shares_ended(struct shares *s, struct shares_edge *e);
/** It has done what message seq said. */
void shares_acked(struct shares *s, struct shares_edge *e, uint64_t seq);

/** Shares anew, and messages that are due. Often. */
void shares_update(struct shares *s, uint64_t now_ns);
/** Sum of what it may send. CAP_NONE: a part of it has no cap; 0: it has no flow. */
uint64_t shares_sum(const struct shares *s, const struct shares_edge *e);
