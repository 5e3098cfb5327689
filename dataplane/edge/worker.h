/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"
#include "dataplane/transport/session.h"
#include "dataplane/transport/transfer.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The worker: the poll-mode thread that owns one port queue and the sessions on it.
 *
 * Several workers of a port are a team. Each owns its sessions, buffers, neighbors and counters
 * whole; what another one needs of what it received goes over one SP/SC ring for each pair of them,
 * and no word is written by two workers. A packet belongs to the worker its queue field names. On a
 * port with one queue pair worker 0 receives and sends for all.
 *
 * The control thread talks to it only through this header: commands go down one SP/SC ring,
 * events come up another, figures are read from snapshots. A worker never allocates, logs, locks
 * or makes a system call per packet; when idle it sleeps in growing steps (unless poll_mode), and
 * when the control thread asked to be woken it writes an eventfd once.
 *
 * Ownership: a session, tx_transfer or rx_transfer belongs to the worker from the command that
 * hands it over until the event that gives it back (SESSION_EVENT_TX_CLOSED / RX_CLOSED for
 * transfers, WORKER_EVENT_SESSION_GONE for sessions). Commands that name a session or transfer
 * the worker gave back meanwhile are ignored without looking at it, so it may be destroyed on
 * that event although such commands are still in the ring.
 */

struct worker;
struct port;

enum worker_command_type {
	/*
	 * session, session_id, endpoint: where its packets go. local_ip and local_port 0: the
	 * port's. WORKER_EVENT_SESSION_GONE at once when WORKER_SESSIONS_MAX are there or the id
	 * is taken.
	 */
	WORKER_SESSION_ADD,
	/* resets its transfers with status; WORKER_EVENT_SESSION_GONE is its last event */
	WORKER_SESSION_DEL,
	WORKER_SESSION_CAP, /* value = bits/s */
	WORKER_TX_START,    /* tx; WORKER_EVENT_TX_REJECTED when the session has no room */
	WORKER_TX_READY,    /* tx, object, data */
	WORKER_TX_GONE,     /* tx, object, status */
	WORKER_TX_CANCEL,   /* tx, status */
	/* rx; WORKER_EVENT_RX_REJECTED when it was closed meanwhile: destroy it */
	WORKER_RX_ATTACH,
	WORKER_RX_REFUSE, /* value = transfer id, status */
	WORKER_RX_BEGIN,  /* rx */
	WORKER_RX_PLACE,  /* rx, object */
	WORKER_RX_FINISH, /* rx, object, status */
};

/** Where a session's datagrams go; both addresses are of the port's kind. */
struct worker_endpoint {
	struct net_ip local_ip, remote_ip;
	uint16_t local_port, remote_port;
	uint8_t dscp;
};

struct worker_command {
	enum worker_command_type type;
	struct session *session;
	struct tx_transfer *tx;
	struct rx_transfer *rx;
	const uint8_t *data;
	uint64_t value;
	uint32_t object;
	uint8_t status;
	uint8_t worker;      /* whose ring it takes; see control_queue.h */
	uint32_t session_id; /* WORKER_SESSION_ADD: own id, for demultiplexing */
	struct worker_endpoint endpoint;
};

enum worker_event_type {
	WORKER_EVENT_SESSION, /* ev is a session event */
	WORKER_EVENT_SESSION_GONE,
	WORKER_EVENT_TX_REJECTED,
	WORKER_EVENT_RX_REJECTED,
};

struct worker_event {
	enum worker_event_type type;
	struct session *session;
	struct session_event ev; /* TX_REJECTED, RX_REJECTED: ev.tx, ev.rx */
};

enum {
	WORKER_SESSIONS_MAX = 64,
	WORKERS_MAX = 16, /* PORT_WORKERS_MAX */
};

struct worker_config {
	struct port *port;
	uint16_t queue;   /* index of the worker, of its sessions and of its queue pair */
	int numa;         /* node of its rings, plus 1; 0: any */
	unsigned int cpu; /* pinned when pin is set */
	bool pin;
	bool poll_mode;        /* never sleep */
	uint32_t max_sleep_us; /* longest idle sleep; 0: port_sleep_us() */
	uint32_t realtime;     /* SCHED_RR priority, 1 to 99; 0: scheduled as everyone */
	uint32_t ring_entries; /* commands and events, default 4096 */
};

/** NULL + errno. Control thread. */
struct worker *worker_create(const struct worker_config *cfg);
/**
 * Make n workers of one port, all it has, a team; w[i] has queue i. Before their start, and all are
 * stopped before the first is destroyed. 0, -errno.
 */
int worker_team(struct worker *const *w, unsigned int n);
/**
 * 0, -EALREADY; -EPERM: not allowed that priority (RLIMIT_RTPRIO, CAP_SYS_NICE); -errno: no such
 * CPU, or no thread.
 */
int worker_start(struct worker *w);
/** Stops and joins the thread. Sessions must be gone. */
void worker_stop(struct worker *w);
void worker_destroy(struct worker *w);

/** 0, -EAGAIN ring full: keep the command and try again after the next event or timer. */
int worker_command(struct worker *w, const struct worker_command *c);
/** Next event; false: none. */
bool worker_event(struct worker *w, struct worker_event *ev);
/** Readable when events may be waiting. The reader calls worker_event_arm() before it sleeps. */
int worker_event_fd(const struct worker *w);
struct capture_ring;
/**
 * Copy every frame received and queued for sending into the ring; NULL: stop. The worker may be in
 * the old ring a moment longer: it must live until worker_stop().
 */
void worker_capture(struct worker *w, struct capture_ring *ring);

/** Ask to be woken. true: events are waiting already, drain first. */
bool worker_event_arm(struct worker *w);

/**
 * Snapshot of a session's figures, at most some ms old. false: the worker does not know the
 * session.
 */
bool worker_session_stats(struct worker *w, const struct session *s, struct session_stats *out);

/*
 * Counters of a worker and its port: what happens before a session is found, and what the port
 * did. One table, as in <strait/counters.h>, whose kinds it uses.
 */
#define WORKER_COUNTERS(X)                                                                         \
	X(rx_packets, GOOD, "frames received")                                                     \
	X(rx_bytes, GOOD, "bytes of frames received, Ethernet header included")                    \
	X(tx_packets, GOOD, "frames the port took")                                                \
	X(tx_bytes, GOOD, "bytes of frames the port took, Ethernet header included")               \
	X(drop_not_for_us, DROP, "other MAC or IP address")                                        \
	X(drop_malformed, DROP, "Ethernet, ARP, IP or UDP header lies about itself")               \
	X(drop_fragment, DROP, "IP fragment")                                                      \
	X(drop_checksum, DROP, "IP, ICMP or UDP checksum wrong")                                   \
	X(drop_protocol, DROP, "no such protocol or port")                                         \
	X(drop_no_session, DROP, "strangers and packets of closed sessions")                       \
	X(drop_no_buffer, DROP, "packet buffers ran out")                                          \
	X(drop_tx_full, DROP, "the port did not take it")                                          \
	X(drop_unresolved, DROP, "next hop's MAC not known yet")                                   \
	X(rx_misdirected, INFO, "frames of another worker's queue, handed to it")                  \
	X(drop_misdirected, DROP, "... that it had no room for")                                   \
	X(drop_limited, DROP, "ARP, ND and ICMP beyond what is answered per second")               \
	X(drop_nd, DROP, "neighbor discovery from elsewhere or against its rules")                 \
	X(arp_requests, GOOD, "ARP requests and announcements sent")                               \
	X(arp_replies, GOOD, "ARP requests answered")                                              \
	X(nd_requests, GOOD, "neighbor solicitations and unasked advertisements sent")             \
	X(nd_replies, GOOD, "neighbor solicitations answered")                                     \
	X(icmp_echo, GOOD, "ICMP echo requests answered")                                          \
	X(capture_missed, INFO, "frames a capture had no room for")                                \
	X(sleeps, INFO, "times the worker slept")                                                  \
	X(loops, INFO, "turns of the worker's loop")                                               \
	X(busy_loops, INFO, "turns that received or sent something")

struct worker_stats {
#define WORKER_STATS_FIELD(name, kind, help) uint64_t name;
	WORKER_COUNTERS(WORKER_STATS_FIELD)
#undef WORKER_STATS_FIELD
};
/** Snapshot, at most some ms old. Any thread. */
void worker_stats(struct worker *w, struct worker_stats *out);
