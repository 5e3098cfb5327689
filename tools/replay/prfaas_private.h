/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/lru.h"
#include "tools/replay/prfaas.h"
#include "tools/replay/timeline.h"

/* What prfaas.c (requests and sites), prfaas_wan.c and prfaas_result.c share. */

enum { TO_DECODE, TO_PREFILL, DIRECTIONS };
enum { SHIP_SLOTS = 1 << 16, PEAK_NS = 1000000000, PEAK_SECONDS = 10 };

enum event_kind { EVENT_PREFILLED, EVENT_NEEDED, EVENT_READY, EVENT_SENT, EVENT_ARRIVED };

struct run { /* a request on its way */
	struct run *next, *queued;
	uint64_t arrived_ns, ended_ns, needed_ns;
	uint64_t tokens; /* input */
	uint64_t *ids;
	size_t units; /* whole ones */
	uint64_t hits;
	uint32_t shipped, missing;
	bool at_prefill, ended, late, done;
};

struct waiter {
	struct waiter *next;
	struct run *run;
};

struct ship {
	struct ship *chain; /* by id, those that another request may join */
	uint64_t id, bytes, objects, needed_ns;
	struct waiter *waiters;
	uint32_t refs; /* by events and queues */
	uint8_t direction;
	bool kept; /* by the pool it comes to */
	bool ready, over;
};

struct wan {
	struct timeline queue;
	bool busy;
	double wire_bits;
	struct ship *by_id[SHIP_SLOTS];
	uint64_t second; /* the peak's window is whole seconds */
	double bits[PEAK_SECONDS], peak_bits;
};

struct site {
	struct prfaas_site_config cfg;
	struct lru pool;
	uint32_t free;
	struct run *first, **last;
	uint64_t asked, hits; /* whole units */
};

struct samples {
	double *v;
	size_t count, room;
};

struct prfaas {
	struct prfaas_config cfg;
	struct timeline events;
	struct site prefill, decode;
	struct wan wan[DIRECTIONS];
	struct run *runs;
	uint64_t now_ns, first_ns, done_ns;
	uint64_t active, private_ids;
	uint64_t requests, remote, misses;
	uint64_t units, hits; /* asked of the decode site at arrival */
	double new_tokens, remote_tokens;
	uint64_t shipped, there;
	struct samples wait, ttft;
};

uint64_t prfaas_unit_bytes(const struct prfaas_config *cfg);

/**
 * A unit for run (NULL: for nobody in particular), to be had at ready_ns. tokens: less than a unit
 * for a tail. 0 or -ENOMEM.
 */
int prfaas_wan_ship(struct prfaas *p, int direction, uint64_t id, uint64_t tokens, bool kept,
	uint64_t ready_ns, struct run *run);
bool prfaas_wan_has(const struct prfaas *p, int direction, uint64_t id);
int prfaas_wan_ready(struct prfaas *p, struct ship *s);
int prfaas_wan_sent(struct prfaas *p, struct ship *s);
int prfaas_wan_arrived(struct prfaas *p, struct ship *s);
void prfaas_wan_fini(struct prfaas *p);

/** All that a request waited for may be there. */
int prfaas_settle(struct prfaas *p, struct run *run);

/** 0 or -ENOMEM. */
int samples_add(struct samples *s, double v);
void prfaas_result_get(struct prfaas *p, struct prfaas_result *out);
