/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one seed of strait-sim runs: the link, the edges' memory and the orders. A plan comes from
 * the command line (options.c) or is drawn from the seed (plan_random()). Pure.
 */

#include "tools/sim/world.h"

#include <stdio.h>

enum { PLAN_RESTARTS_MAX = 4 };

struct plan_restart {
	uint64_t at_ns; /* from t0 */
	enum world_side side;
};

struct plan {
	struct world_config world;
	uint64_t total_bytes;  /* objects of object_bytes up to this; 0: `objects` of them */
	uint32_t objects;      /* with object_bytes_max: sizes are drawn, the logarithm evenly */
	uint64_t object_bytes; /* size, or smallest size */
	uint64_t object_bytes_max; /* 0: all the same */
	uint32_t transfers;        /* the objects are dealt to so many */
	uint8_t class_;
	uint16_t key_len;     /* 0: drawn, 9..1024 */
	double gone, refused; /* share of objects the source lost, the sink refuses */
	double no_digest, lie;
	struct plan_restart restarts[PLAN_RESTARTS_MAX];
	uint32_t nrestarts;
	uint64_t wait_ns, every_ns; /* the first transfer starts then, the next ones so far apart */
	uint32_t flows;             /* pairs of edges that share the line; 0: one */
	uint8_t flow_class;         /* of all but the first */
	uint64_t flow_start_ns;     /* each starts so much after the one before */
	uint64_t limit_ns;          /* 0: from size and impairments */
	bool oracle;                /* the oracle instead of the protocol core */
	bool with_oracle;           /* the oracle too, for comparison */
	FILE *csv, *plot; /* the trace goes here; NULL: nowhere. Not the plan's to close */
};

/* Payload share of the line: symbol / (symbol + 106). */
double plan_eta(const struct plan *p);

/* Line rate the orders may use: the smaller of cap and link. 0: unlimited. */
uint64_t plan_rate_bps(const struct plan *p);

/*
 * Draw everything from the seed: rate, delay, iid and burst loss, reordering, copies, corruption,
 * cuts, delay steps, the same of the feedback alone and a thinner line for it, other traffic, caps
 * below and above the line and none, packet sizes, object sizes, classes, starved credit and
 * scratch, slow control threads, objects gone or refused, restarts, somebody who tampers.
 */
void plan_random(struct plan *p, uint64_t seed);

/* What the plan is, in the words of the command line where it has them; one line. */
void plan_print(const struct plan *p, FILE *out);
