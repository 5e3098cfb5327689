/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/reader.h"
#include "control/planner/planner.h"
#include "control/planner/turnover.h"

/*
 * The inter-dc master's knowledge and decisions, without I/O: a reader of each site's log feeds the
 * planner, and what the planner wants is turned into orders in batches:
 *
 *   taken from a destination's queue by source and class
 *     -> EXPAND to the source's site master (it alone has key strings), OFFER to the destination's
 *        (it alone knows for certain what is there and what went lately)
 *     -> when both answered: one order of what the first still has and the second accepts
 *     -> when the order has ended: done, dropped, wanted again, or quarantined
 *
 * What only sites have of which nothing can come now (no site master, no edge) waits for them, and
 * nothing else does: what others have, too, comes from those, also if the first says it is gone. A
 * destination gets FEDERATION_WINDOW batches at once, and only one after its site master came, all
 * that it held went, or there was trouble, so that a site that comes back empty or full is
 * approached slowly. Snapshots are loaded by at most FEDERATION_LOADS readers at a time. An object
 * that failed FEDERATION_POISON times, for reasons that are its own or nobody's, is left alone
 * (quarantine) until somebody asks for it. An order of which nothing came for an edge's fault says
 * nothing of its objects: they stay wanted, and the pair of sites pauses, longer each time.
 *
 * Bulk pauses towards a site that evicts what is younger than a policy says (turnover.h): what came
 * would only push out what is of use. Of several policies towards a site the strictest counts.
 *
 * Sites are slots 0 .. INDEX_SITES - 1; the owner knows their names. Times are arguments. One
 * thread.
 */

enum {
	FEDERATION_BATCH = 256,  /* objects of a batch */
	FEDERATION_WINDOW = 8,   /* batches of a destination */
	FEDERATION_LOADS = 2,    /* snapshots at once */
	FEDERATION_POISON = 3,   /* failures of one object */
	FEDERATION_TENANTS = 64, /* of a site */
};
#define FEDERATION_ANSWER_NS    UINT64_C(30000000000) /* then a batch is given up */
#define FEDERATION_AWAY_NS      UINT64_C(500000000)   /* when an edge or site master is away */
#define FEDERATION_REROUTE_NS   UINT64_C(5000000000)  /* between walks over what waits */
#define FEDERATION_PAUSE_NS     UINT64_C(2000000000)  /* after failures; doubles .. */
#define FEDERATION_PAUSE_MAX_NS UINT64_C(120000000000)
#define FEDERATION_FAULT_MAX_NS UINT64_C(30000000000) /* of a pair with an edge at fault */

struct federation_key {
	const uint8_t *key, *tenant;
	size_t key_len, tenant_len;
	uint64_t size; /* 0: not told */
};

struct federation_order {
	uint16_t from, to;
	uint8_t class;
	uint64_t ttl_ns; /* what is left of the policy's; 0: none */
	uint64_t bytes;  /* of objects whose size is known */
	const struct federation_key *keys;
	size_t count;
};

/* What the owner does. */
struct federation_ops {
	/** Ask the source for keys. false: cannot be sent. */
	bool (*expand)(void *ctx, uint16_t from, uint64_t batch, const struct digest128 *d,
		size_t n);
	/** Ask the destination what it takes; asked: somebody there wants them. */
	bool (*offer)(void *ctx, uint16_t to, uint64_t batch, const struct digest128 *d, size_t n,
		bool asked);
	/** A new order's number, 0 if there can be none now. federation_ended() follows. */
	uint64_t (*submit)(void *ctx, const struct federation_order *o);
	/** Whether an order to there could go out. */
	bool (*can_ship)(void *ctx, uint16_t from, uint16_t to);
	/** Somebody there waits for these, and whoever was said to have them has not. */
	void (*nowhere)(void *ctx, uint16_t to, const struct digest128 *d, size_t n);
};

/* The destination's word on one object; on the wire (SiteOffered). */
enum federation_verdict { FEDERATION_BRING, FEDERATION_HERE, FEDERATION_EVICTED };

/* How an object of an order ended. */
enum federation_end {
	FEDERATION_DONE,
	FEDERATION_GONE,   /* it was canceled, late or too large: drop it */
	FEDERATION_ABSENT, /* the source has it no more: another site may */
	FEDERATION_FULL,   /* the destination has no room: pause */
	FEDERATION_FAILED, /* try again, a few times */
	FEDERATION_EDGE,   /* for a reason that is an edge's or the line's: the pair pauses */
};

struct federation_config {
	struct planner_config planner;
	uint64_t compare_every_ns;
	uint64_t seed;
};

struct federation_flow {
	uint64_t flying, flying_bytes; /* objects in batches and orders */
	uint64_t brought, brought_bytes, here, declined, gone, failed, expired, quarantined;
	uint64_t rate_bps; /* of the last minute or so */
	bool paused;       /* after trouble */
	bool bulk_held;    /* it evicts too early */
};

struct federation;

struct federation_site {
	struct federation *f;
	bool used, open;
	struct reader reader;
	uint16_t tenant[FEDERATION_TENANTS]; /* the federation's number of each of the site's */
	uint32_t tenants;
	bool loading; /* has one of the permits */
	bool backfill_due, backfilling;
	uint64_t backfilled;
	/* as a destination */
	uint32_t batches, window;
	bool held; /* something, at the last tick */
	uint64_t pause_until_ns, pause_ns;
	uint64_t away_until_ns[INDEX_SITES]; /* of sources that could not be asked */
	uint64_t fault_ns[INDEX_SITES];      /* of sources whose pair is at fault: its next pause */
	uint32_t held_from;                  /* sources of which nothing can come */
	uint32_t rerouted_from;              /* they were these when what waits was looked at */
	uint64_t reroute_ns;                 /* not before */
	uint64_t rate_bytes, rate_ns;
	struct turnover turnover;
	uint64_t eviction_age_ns; /* about how old objects get there; 0: old, or not known */
	struct federation_flow flow;
};

struct federation_batch;

struct federation {
	const struct federation_ops *ops;
	void *ctx;
	struct planner *planner;
	struct memory *failures[INDEX_SITES], *asked[INDEX_SITES];
	struct federation_site site[INDEX_SITES];
	uint64_t ttl_ns[INDEX_SITES][INDEX_SITES], pause_below_ns[INDEX_SITES][INDEX_SITES];
	bool ttl_by_age[INDEX_SITES][INDEX_SITES];
	uint64_t compare_every_ns, seed;
	uint64_t now_ns, now_s; /* of the call going on */
	uint64_t next_batch;
	struct federation_batch *batches;
};

/** NULL + errno. */
struct federation *federation_create(const struct federation_config *cfg,
	const struct federation_ops *ops, void *ctx);
void federation_destroy(struct federation *f);

/** A site that is to be followed. -EINVAL, -ENOMEM. */
int federation_site_add(struct federation *f, uint16_t slot);
/** It is no more: what it held is forgotten. */
void federation_site_del(struct federation *f, uint16_t slot);
/** ttl_ns: what waited so long is dropped; 0: never. Errors as planner_policy_set(). */
int federation_policy_set(struct federation *f, uint16_t from, uint16_t to,
	const struct planner_policy *policy, uint64_t ttl_ns);

/** Its site master is connected; tenants are the federation's numbers of the site's. */
void federation_open(struct federation *f, uint16_t slot, const uint16_t *tenants, uint32_t n,
	uint64_t now_ns);
void federation_close(struct federation *f, uint16_t slot, uint64_t now_ns);
/** A frame of its log. Negative: close the connection; -EBUSY: it said to come back later. */
int federation_input(struct federation *f, uint16_t slot, const uint8_t *buf, size_t len,
	uint64_t now_ns, uint64_t now_s);
/** A frame to send to it. true: buf was written. */
bool federation_pull(struct federation *f, uint16_t slot, uint64_t now_ns,
	uint8_t buf[static LOG_FRAME_HEADER_BYTES]);

/**
 * n keys in the order of the digests, key_len 0: not there any more. A size that is told only now
 * counts for the policy. -EPROTO: no such question.
 */
int federation_expanded(struct federation *f, uint16_t slot, uint64_t batch,
	const struct federation_key *keys, size_t n, uint64_t now_ns, uint64_t now_s);
int federation_offered(struct federation *f, uint16_t slot, uint64_t batch, const uint8_t *verdicts,
	size_t n, uint64_t now_ns, uint64_t now_s);
/**
 * Object i of an order that goes on has failed, as federation_ended() will say, too. Else what is
 * stored anew meanwhile would be tried once more for each order that is held up by others' objects.
 */
void federation_failed(struct federation *f, uint64_t order, uint32_t i, uint64_t now_s);
/** Nothing came of that pair's last order because an edge refused it or could not be reached. */
bool federation_is_at_fault(const struct federation *f, uint16_t from, uint16_t to);
/** The order ended; ends[i] is a federation_end of its object i. An unknown order is ignored. */
void federation_ended(struct federation *f, uint64_t order, const uint8_t *ends,
	const uint64_t *lengths, size_t n, uint64_t now_ns, uint64_t now_s);

/** Somebody at a site asks for it. Whether it is on its way now. */
bool federation_asked(struct federation *f, uint16_t slot, struct digest128 d, uint16_t tenant,
	bool urgent, uint64_t now_ns, uint64_t now_s);
/** How many objects a site does not get now because they failed too often. */
size_t federation_quarantined(const struct federation *f, uint16_t slot, uint64_t now_s);
/** Plan what the site held before. -ENOTCONN, -EALREADY. */
int federation_backfill(struct federation *f, uint16_t slot);

/**
 * How long what a site is still to get will take at the rate of late. false: nobody knows, as there
 * is nothing, or no size of it was told, or nothing came yet.
 */
bool federation_eta_ms(const struct federation *f, uint16_t slot, uint64_t *ms);

/** Ten times a second or so: dispatch, give up, retry. */
void federation_tick(struct federation *f, uint64_t now_ns, uint64_t now_s);

/* dispatch.c */
void federation_dispatch(struct federation *f);
void federation_batches_closed(struct federation *f, uint16_t slot);
void federation_batches_free(struct federation *f);
