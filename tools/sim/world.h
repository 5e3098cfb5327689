/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Two edges and the WAN between them in virtual time.
 *
 * Each side is a real struct session of the protocol core, played by a simple control thread
 * (endpoint_source.c, endpoint_sink.c) that answers its events after a configurable delay: leases
 * and places objects, compares every byte, publishes. The WAN is one struct link a direction, whose
 * bottleneck other traffic may share (cross.h).
 * Nothing reads a clock and nothing depends on addresses: one configuration and seed give one
 * history, bit for bit.
 *
 * Tests reach into struct world: set fields of objects before they are ordered, watch or lose
 * packets with a hook, inject packets, restart a side. One thread owns a world. Times are virtual
 * ns; the order-related ones count from t0_ns. Any inconsistency (bytes that differ, an event that
 * must not be) is kept as the first `error` and ends the run.
 */

#include "dataplane/transport/session.h"
#include "dataplane/transport/transfer.h"
#include "tools/link/delayq.h"
#include "tools/link/link.h"
#include "tools/link/prng.h"
#include "tools/sim/attack.h"
#include "tools/sim/audit.h"
#include "tools/sim/cross.h"
#include "tools/sim/histogram.h"
#include "tools/sim/spurious.h"
#include "tools/sim/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A side, and the direction of the packets it sends. */
enum world_side { WORLD_SOURCE = 0, WORLD_SINK = 1, WORLD_SIDES };

enum { WORLD_TRANSFERS_MAX = 512 };

struct world_config {
	struct link_config link[WORLD_SIDES]; /* by sending side */
	uint64_t seed;
	uint64_t cap_bps; /* both sides; 0 = none */
	uint16_t symbol_bytes;
	bool ipv6;                 /* packets have its header */
	uint64_t control_delay_ns; /* from an event to the control thread's answer */
	uint64_t credit_bytes;     /* each class */
	uint64_t credit_objects;
	uint32_t log_packets, window_packets, scratch_slots, row_slots; /* 0: from rate x rtt */
	double loss_prior;                                              /* negative: the core's */
	uint64_t idle_timeout_ns;                                       /* 0: the core's */
	uint64_t trace_bin_ns;                                          /* 0: no trace is kept */
	uint32_t ncross;
	struct cross_config cross[CROSS_FLOWS_MAX];
	bool light; /* --light: see light.h */
	bool lan;   /* orders are of the LAN profile (transport/transfer.h) */
	bool cold;  /* orders may start before the challenge is answered, on the impaired link */
	bool strangers; /* the sink refuses what the source did not order; else that is an error */
	double attack;  /* share of packets that somebody tampers with: attack.h */
	struct world *beside; /* share its links, once up; it must live longer. NULL: own ones */
};

struct world_object {
	/* What it is; tests may change these before world_order(). */
	uint64_t length;
	uint64_t content; /* seed of its bytes */
	uint16_t key_len; /* at least 9 */
	bool with_digest;
	bool lie;       /* the bytes leased are not those of the digest */
	uint8_t gone;   /* status: the source has lost it when asked */
	uint8_t refuse; /* status: the sink answers this instead of placing it */

	uint8_t *src;
	bool src_shared; /* not to be freed */
	uint64_t digest;
	uint8_t tx_status; /* as the source learned it */

	uint8_t *dst;
	uint8_t *resume; /* its own memory: objects may be added while others travel */
	const struct world_rx *writer; /* the transfer that has its bytes */
	bool published;                /* verified and visible at the destination */
	bool verified;                 /* compared once */
	uint64_t verified_ns;
	uint8_t rx_status;
};

struct world_transfer {
	uint32_t first, count; /* objects */
	uint8_t class_;
	uint64_t flow, deadline_ms; /* 0: none */
	struct tx_transfer *tx;     /* NULL: not started or given back */
	uint32_t ready;             /* objects answered so far */
	bool waiting;               /* for room in the session */
	bool opened;                /* the receiver answered */
	bool closed;
	uint64_t ordered_ns, closed_ns;
	uint8_t open_status, close_status;
};

/* Receiver side of a transfer; the slot is free when rx is NULL. */
struct world_rx {
	struct world *world;
	struct rx_transfer *rx;
	uint32_t objects;
	uint32_t *map; /* to world objects, once loaded */
	bool *placed;  /* each object has been answered for */
	bool loaded, waiting;
};

struct world_figures {
	uint64_t packets;          /* entered the wire */
	uint64_t line_bytes;       /* datagram + 66 each */
	uint64_t symbols;          /* data and manifest packets sent */
	uint64_t symbols_line;     /* ... that left the queue */
	uint64_t symbols_lost;     /* ... lost or corrupted after it */
	uint64_t symbols_queue;    /* ... dropped by the queue */
	uint64_t symbols_in;       /* arrived intact, the link's own copies not counted */
	uint64_t symbols_in_bytes; /* payload of these */
	uint64_t data_in_bytes;    /* ... of data packets alone */
};

/* symbols_line and symbols_lost at some past times, a ring; the newest reach back a round trip. */
enum { WORLD_MARKS = 64 };
struct world_mark {
	uint64_t at_ns, line, lost;
};

struct world;

/* Verdict of a hook on a packet about to enter the link of `side`. */
enum world_pass { WORLD_PASS, WORLD_LOSE };

struct world_hooks {
	void *user;
	enum world_pass (*on_send)(struct world *w, enum world_side side, const uint8_t *packet,
		size_t len, void *user);
	/* Arrived intact or not, before the session sees it. */
	void (*on_arrive)(struct world *w, enum world_side from, const uint8_t *packet, size_t len,
		void *user);
};

struct world_wire {
	uint8_t **chunks;
	struct world_packet {
		uint32_t len, right; /* planted: length of the symbol before which it comes */
		bool copy, corrupt, planted; /* by attack.h */
	} * packets;
	uint32_t *unused;
	uint32_t nunused, npackets;
	size_t stride;
};

/* Events on their way to a side's control thread, oldest first. */
struct world_control {
	struct world_control_event {
		uint64_t due_ns;
		struct session_event ev;
	} * ring;
	size_t head, len, cap;
};

struct world {
	struct world_config cfg;
	struct world_hooks hooks;
	struct session *session[WORLD_SIDES];
	bool up[WORLD_SIDES], dead[WORLD_SIDES];
	struct link *link; /* by sending side: own_link, or those of cfg.beside */
	struct link own_link[WORLD_SIDES];
	struct delayq queue[WORLD_SIDES]; /* packets under way, by sending side */
	struct world_control control[WORLD_SIDES];
	struct audit audit[WORLD_SIDES];
	struct attack *attack; /* NULL: none */
	struct world_wire wire;
	uint64_t wake_ns[WORLD_SIDES];
	uint64_t now_ns, t0_ns, born_ns;
	uint64_t verified_ns; /* the last object was verified at */
	uint64_t closings;    /* transfers given back, both sides */
	uint64_t spins, steps, restarts;
	uint64_t resumed_bytes; /* found in place when objects were placed again */
	uint64_t reopened;      /* transfers, because the path carries less */
	uint16_t path_bytes;    /* symbols of transfers that start */
	bool resetting;         /* transfers that end are ordered again by world_restart() */
	struct prng rnd;        /* session ids and secrets */

	struct world_object *objects;
	uint32_t nobjects, objects_cap;
	struct world_transfer transfers[WORLD_TRANSFERS_MAX];
	uint32_t ntransfers;
	struct world_rx rx[2 * SESSION_TRANSFERS_MAX];

	struct world_figures f[WORLD_SIDES];
	struct world_mark marks[WORLD_MARKS]; /* of the source */
	uint32_t n_marks;
	struct world_mark verified; /* what had left when the last object's last symbol did */
	struct cross cross;
	struct trace trace;
	struct spurious spurious;
	struct histogram queueing; /* ns in the bottleneck queue, of the source's packets */
	uint64_t nonce_repeats;    /* of sessions gone */
	uint64_t past[WORLD_SIDES][STRAIT_COUNTER_COUNT];
	double cap_excess_bytes;
	char error[200]; /* empty: none */
};

/*
 * Defaults: 1 Gbit/s, 60 ms, no impairment, cap = rate, symbols of MTU 1500, generous credit, 20
 * us.
 */
void world_config_defaults(struct world_config *cfg);

/* Credit and memory figures that are 0 become what rate x rtt asks for, at least 4 BDP. */
void world_config_size(struct world_config *cfg, uint64_t largest_object);

/*
 * Both sessions, and unless cold the challenge answered on a clean link of the same rate and
 * delay; the impairments and t0 start when this returns. hooks may be NULL. NULL + errno: EINVAL,
 * ENOMEM, EPROTO (the sessions did not come up).
 */
struct world *world_create(const struct world_config *cfg, const struct world_hooks *hooks);
void world_destroy(struct world *w);

/*
 * Objects of one length, with seeded content and digest. Returns the index of the first,
 * UINT32_MAX without memory. The array moves, also while transfers run.
 */
uint32_t world_add_objects(struct world *w, uint32_t count, uint64_t length);

/* Order objects [first, first + count) as one transfer. Its index or a negative errno. */
int world_order(struct world *w, uint32_t first, uint32_t count, uint8_t class_);
/* The same with what the scheduler looks at. */
struct world_rank {
	uint8_t class_;
	uint64_t flow, deadline_ms; /* 0: none */
};
int world_order_as(struct world *w, uint32_t first, uint32_t count, const struct world_rank *rank);

/*
 * Run until every transfer is closed on both sides (true), an error is found, or `limit_ns` passed
 * (false). world_settle() tells whether all is as it must be then.
 */
bool world_run(struct world *w, uint64_t limit_ns);

/* Run for some time whatever happens. */
void world_run_for(struct world *w, uint64_t ns);

/* When the next event is due; not before now. UINT64_MAX: never. */
uint64_t world_next_ns(const struct world *w);

/* One event. false: nothing will ever happen again. */
bool world_step(struct world *w);

bool world_is_done(const struct world *w);

/*
 * After world_run(): 0, or -EPROTO with w->error set: an object without final state, the two sides
 * disagree, a status other than the one its fields ask for, memory not given back, nonce repeats,
 * cap exceeded.
 */
int world_settle(struct world *w);

/* Hand bytes to the receiving session of `from`'s packets now, past the link. Its answer. */
int world_inject(struct world *w, enum world_side from, const uint8_t *packet, size_t len);

/*
 * `crashed` loses its session and what it had not told anybody; the other side resets. New ids and
 * secrets on both, orders not finished are ordered again with what is known to be done marked as
 * skipped. Packets under way stay so. 0 or a negative errno.
 */
int world_restart(struct world *w, enum world_side crashed);

/* Counter of a side, earlier sessions included. */
uint64_t world_counter(const struct world *w, enum world_side side, enum strait_counter c);
uint64_t world_nonce_repeats(const struct world *w);

/* What a datagram costs the line beside its bytes. */
static inline uint32_t world_line_overhead(const struct world_config *cfg)
{
	return STRAIT_LINE_OVERHEAD_BYTES + (cfg->ipv6 ? 20 : 0);
}

/* Keep the first problem. */
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
