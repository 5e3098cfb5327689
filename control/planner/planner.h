/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/index.h"
#include "control/planner/memory.h"
#include "control/planner/wanted.h"

/*
 * From what sites hold to what they should get, one event at a time: an object that appears at a
 * site becomes wanted at those a policy names, unless it is there, or was evicted there lately; one
 * that goes is wanted nowhere any more that no other site can serve. Costs O(1) an event and
 * destination; nothing is ever compared as a whole.
 *
 *   never back       what we brought to a site is not shipped on from there (echo), and what a site
 *                    evicted is not pushed to it again until somebody there asks for it
 *   on demand        a policy may wait until so many requests missed (hysteresis)
 *   history          what was there before a policy came needs planner_backfill()
 *
 * The index it writes is read by others (existence). Pure, one thread; times are arguments, ns for
 * queues and Unix seconds for what is remembered.
 */

struct planner_policy {
	bool allow;
	uint8_t class;        /* WANTED_* */
	uint8_t after;        /* requests that must have missed; 0: at once */
	uint32_t least_bytes; /* objects of unknown size pass */
	uint32_t most_bytes;  /* 0: any */
	uint64_t tenants;     /* bit per tenant id below 64; 0: all */
	/* Bulk waits while the destination evicts what is younger; 0: never. The federation's. */
	uint64_t pause_below_ns;
	bool ttl_by_age; /* orders end when the source will have evicted what they bring */
};

struct planner_config {
	uint64_t keys;         /* expected, of the index */
	uint32_t wanted_max;   /* objects and sets a destination */
	size_t memory_entries; /* of each kind, a site */
	uint32_t evicted_s;    /* cool-down of what was evicted */
	uint32_t echo_s;       /* how long it is known that we brought something */
	uint32_t asked_s;      /* requests that count together */
};

struct planner_stats {
	uint64_t events;
	uint64_t echoes;     /* not planned because we brought it */
	uint64_t suppressed; /* not planned because evicted lately */
	uint64_t filtered;   /* by size or tenant */
	uint64_t unasked;    /* not yet asked for often enough */
	uint64_t fixed;      /* not planned because it cannot be had there: an engine's */
	uint64_t refused;    /* the queue was full */
};

struct planner;

/** NULL + errno. */
struct planner *planner_create(const struct planner_config *cfg);
void planner_destroy(struct planner *p);

struct index *planner_index(struct planner *p);
struct wanted *planner_wanted(struct planner *p, uint16_t site);
struct memory *planner_evicted(struct planner *p, uint16_t site);
struct memory *planner_brought(struct planner *p, uint16_t site);

/**
 * Sites are 0 .. INDEX_SITES - 1. What waits and is not allowed any more comes from another site
 * whose policy allows it by then, or not. -EINVAL: no such site, or from itself.
 */
int planner_policy_set(struct planner *p, uint16_t from, uint16_t to,
	const struct planner_policy *policy);

/** An object came to or went from a site. 1; 0: that was known; -ENOMEM: nothing was changed. */
int planner_event(struct planner *p, uint16_t site, const struct log_record *r, uint64_t now_ns,
	uint64_t now_s);
/** Bring what a coming planner_event() reads into the cache. */
void planner_prefetch(const struct planner *p, uint16_t site, const struct log_record *r);
/** The same of a generation that is loading; nothing is planned by it. */
int planner_load(struct planner *p, uint16_t site, const struct log_record *r);
/**
 * What was loaded into buckets first .. last replaces what was there. What appears by it is not
 * planned (it is history), what is gone is not wanted from there.
 */
void planner_swap(struct planner *p, uint16_t site, uint32_t first, uint32_t last);
void planner_drop(struct planner *p, uint16_t site);
/** Of these buckets alone, a bit each: they will be loaded again. A walk over their shards. */
void planner_forget(struct planner *p, uint16_t site,
	const uint64_t buckets[static DIGEST_SET_WORDS]);

/**
 * Sources (bits) of which nothing can come to a site now: what is wanted from there is not taken,
 * and what becomes wanted is, from another site that has it, too, if there is one.
 */
void planner_hold(struct planner *p, uint16_t to, uint32_t sources);
/** The same for what is wanted there already: a walk over all of it. */
void planner_reroute(struct planner *p, uint16_t to);
/** Where to take an object from that is wanted again; INDEX_SITES: nobody has it. */
uint16_t planner_source(const struct planner *p, uint16_t to, const struct wanted_object *o);

/** Whether a policy lets an object of this size through; counts those it does not. */
bool planner_fits(struct planner *p, uint16_t from, uint16_t to, uint64_t bytes);
/** We are about to bring it there. */
void planner_bringing(struct planner *p, uint16_t site, struct digest128 d, uint64_t now_s);
/**
 * Somebody at a site asked for it and it was not there. Counts, and plans what a policy allows,
 * whatever was evicted: when it was asked for often enough, where a policy waits for that, or at
 * once and in that class if urgent. Returns whether it is wanted now.
 */
bool planner_asked(struct planner *p, uint16_t site, const struct log_record *r, bool urgent,
	uint64_t now_ns, uint64_t now_s);
/** Plan an object that was at `from` before; as planner_event() would have. */
void planner_backfill(struct planner *p, uint16_t from, const struct log_record *r, uint64_t now_ns,
	uint64_t now_s);

void planner_stats_get(const struct planner *p, struct planner_stats *out);
