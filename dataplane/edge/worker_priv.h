/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/arp_cache.h"
#include "dataplane/edge/capture_ring.h"
#include "dataplane/edge/net_header.h"
#include "dataplane/edge/port_priv.h"
#include "dataplane/edge/snapshot.h"
#include "dataplane/edge/worker.h"

#include <rte_ring.h>

#include <pthread.h>

/*
 * The worker from inside: its state and the steps of one turn of its loop, each in a file of its
 * own.
 *
 *   worker_rx.c       receive a burst; sessions, ARP, ICMP
 *   worker_command.c  what the control thread asks for
 *   worker_team.c     what others of the team received for us, and the reverse
 *   worker_tx.c       take packets from the sessions, in turn, and send them
 *   worker_event.c    session events to the control thread, figures to snapshots
 *   worker_loop.c     the order of these, timers, sleep
 *   worker.c          the control thread's side: create, start, stop, rings
 *
 * Fields are the worker thread's alone unless marked. now_ns is read once a turn.
 */

enum {
	WORKER_RX_BURST = 32,
	WORKER_TX_BATCH = 16, /* packets of one session before the next one's turn: a pacer burst */
	WORKER_OUT_MAX = 64,  /* waiting for the port: two batches and a burst of replies */
	WORKER_SPARE_MAX = 32,
	WORKER_INDEX_SIZE = 4 * WORKER_SESSIONS_MAX,
	WORKER_COMMANDS_PER_TURN = 64,
	WORKER_EVENTS_PER_TURN = 256,
	WORKER_ANSWERS = 64, /* ARP and ICMP answered per WORKER_ANSWERS_NS */
	WORKER_TELLS = 64,   /* ARP and ND told the team, likewise */
	WORKER_TEAM_RING = 2048,
};

#define WORKER_ANSWERS_NS      10000000ull /* 6,400 a second */
#define WORKER_HOUSEKEEPING_NS 1000000ull
#define WORKER_STATS_NS        5000000ull
#define WORKER_LINK_NS         100000000ull
/* A full port may recover for so long before packets are dropped. */
#define WORKER_STUCK_NS 20000000ull
/* An unknown next hop holds a session for so long, then packets are dropped one by one. */
#define WORKER_HOLD_NS 1000000000ull
#define WORKER_DRIP_NS 100000000ull

enum worker_slot_state {
	WORKER_SLOT_FREE,
	WORKER_SLOT_LIVE,
	WORKER_SLOT_DRAINING, /* deleted; its last events are on their way */
};

struct worker_slot {
	enum worker_slot_state state;
	bool active; /* something happened: it may have events */
	uint32_t session_id;
	/* worker: rw; other threads: compare only, to find the snapshot */
	struct session *_Atomic session;
	struct worker_endpoint endpoint;
	struct net_header header;
	struct arp_entry *hop; /* NULL: no way there */
	uint32_t hop_changes;
	uint64_t unresolved_ns; /* since when the next hop is unknown; 0: it is known */
	uint64_t drip_ns;
	/* Transfers handed over and not given back: what commands may touch. */
	struct tx_transfer *tx[SESSION_TRANSFERS_MAX];
	struct rx_transfer *rx[SESSION_TRANSFERS_MAX];
	struct snapshot figures; /* worker: wo; any thread: ro */
};

struct worker {
	struct worker_config cfg;
	struct port *port;
	uint64_t now_ns;
	/* Of the burst being read: the session of the last packet, and where its payload began. */
	struct session *recent;
	uint32_t recent_offset;
	struct worker_stats stats;
	struct worker_slot slots[WORKER_SESSIONS_MAX];
	unsigned int slots_used;          /* no slot from here on ever had a session; >= 1 */
	unsigned int first;               /* session that sends first this turn */
	uint8_t index[WORKER_INDEX_SIZE]; /* session id to slot + 1, open addressing; 0: empty */
	struct arp_cache arp;

	/* The team; team[queue] is the worker itself, and alone when team_count is 1. */
	struct worker *team[WORKERS_MAX];
	unsigned int team_count;
	bool has_queue; /* pair `queue` of the port is ours; else worker 0 sends for us */
	struct rte_mempool *pool;
	struct rte_ring *rx_from[WORKERS_MAX]; /* frames for us, from each of the others */
	struct rte_ring *tx_to;                /* without a queue: frames for worker 0 to send */
	unsigned int relayed;                  /* worker 0: whose frames it took last */
	struct rte_mbuf *hand[WORKERS_MAX][WORKER_RX_BURST]; /* frames for the others, this burst */
	uint16_t hand_count[WORKERS_MAX];
	unsigned int tells; /* left in this period */

	struct rte_mbuf *out[WORKER_OUT_MAX]; /* ready to send, oldest first */
	unsigned int out_count;
	uint64_t stuck_ns; /* since when the port takes nothing; 0: it does */
	struct rte_mbuf *spare[WORKER_SPARE_MAX];
	unsigned int spare_count;

	unsigned int answers; /* left in this period */
	unsigned int announcements;
	struct capture_ring *_Atomic capture; /* control: wo; NULL: none runs */
	bool link_up;
	uint64_t answers_ns, announce_ns, link_ns, housekeeping_ns, stats_ns;
	uint32_t turns; /* since the last housekeeping */
	uint32_t idle_turns;

	struct rte_ring *commands; /* control thread to worker */
	struct rte_ring *events;   /* worker to control thread */
	bool events_added;         /* this turn */
	int event_fd;              /* worker: written; control thread: read */
	_Atomic bool armed;        /* set by the control thread, cleared by whoever wakes it */
	_Atomic bool stop;         /* control: wo; worker: ro */
	struct snapshot published; /* of stats. worker: wo; any thread: ro */

	pthread_t thread;
	bool running; /* control thread */
	int start_error;
};

/* worker.c */

/** Where its rings belong, for DPDK. */
int worker_socket(const struct worker_config *cfg);

/* worker_rx.c */

/** Receive a burst and deal with it. Packets received. */
unsigned int worker_rx(struct worker *w);

/** Copy n frames into the capture, if one runs. */
void worker_mirror_frames(struct worker *w, struct capture_ring *ring, enum capture_way way,
	struct rte_mbuf *const *m, unsigned int n);

static inline void worker_mirror(struct worker *w, enum capture_way way, struct rte_mbuf *const *m,
	unsigned int n)
{
	struct capture_ring *ring = atomic_load_explicit(&w->capture, memory_order_acquire);

	if (__builtin_expect(ring != NULL, 0))
		worker_mirror_frames(w, ring, way, m, n);
}

/** What came in, of a burst or a ring. from_team: nothing is answered or handed on. */
void worker_rx_frames(struct worker *w, struct rte_mbuf **in, unsigned int n, bool from_team);

/* worker_team.c */

/** true: the frame is another worker's, and taken. */
bool worker_hand(struct worker *w, struct rte_mbuf *m);
/** Pass what worker_hand() took on. */
void worker_hand_flush(struct worker *w);
/** A neighbor's frame: all of the team learn from it. */
void worker_tell(struct worker *w, const uint8_t *frame, size_t len);
/** Deal with what the team received for us. Frames. */
unsigned int worker_rx_team(struct worker *w);
/** Worker 0 of a port with one queue pair: take what the others send. Frames. */
unsigned int worker_relay(struct worker *w);
/** Frees the rings that lead to w, and what is in them. */
void worker_team_free(struct worker *w);

/* worker_tx.c */

/** Let every session send its share. Packets sent or taken. */
unsigned int worker_tx(struct worker *w);
/** Offer what waits to the port. Called by worker_tx(). */
void worker_flush(struct worker *w);
/** Queue a whole frame. false: no room; the buffer is still the caller's. */
bool worker_queue(struct worker *w, struct rte_mbuf *m);
/** An empty buffer, or NULL, counted. */
struct rte_mbuf *worker_buffer(struct worker *w);
/**
 * When worker_tx() has something to do by itself; UINT64_MAX: not by itself. *slack_ns: how much
 * later will do, by what the pacers of the sessions make up for.
 */
uint64_t worker_tx_next(struct worker *w, uint64_t *slack_ns);
/** ARP requests and announcements that are due. */
void worker_arp_timers(struct worker *w);
/** Give all buffers back. */
void worker_drop_buffers(struct worker *w);

/* worker_command.c */

/** Commands done, while there is room for the event each may cause. */
unsigned int worker_commands(struct worker *w);
/** Slot of a session id; NULL: none. */
struct worker_slot *worker_find(struct worker *w, uint32_t session_id);
void worker_index_rebuild(struct worker *w);

/* worker_event.c */

/** Move events of active sessions (all: of every one) to the control thread. Moved. */
unsigned int worker_events(struct worker *w, bool all);
/** false: the ring is full. */
bool worker_event_push(struct worker *w, const struct worker_event *ev);
void worker_publish(struct worker *w);
void worker_publish_session(struct worker_slot *s);

/* worker_loop.c */

/** The thread's body until stop is set. */
void worker_loop(struct worker *w);
