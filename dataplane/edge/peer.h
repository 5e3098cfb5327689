/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"
#include "dataplane/edge/control_queue.h"
#include "dataplane/edge/ingest.h"
#include "dataplane/edge/keylog.h"
#include "dataplane/edge/net.h"
#include "dataplane/edge/order.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Sessions with other edges.
 *
 * The source edge opens a TLS connection to the destination's management address, sends
 * SESSION_HELLO and gets SESSION_ACCEPT; both derive the session's secret from the
 * connection's exporter and hand a session to their worker. A session carries transfers of its
 * initiator only. Of several workers each has a part of it, a queue: a struct session with keys,
 * packet numbers and credit of its own. Both ends use as many as the one with fewer workers has,
 * and a queue's death is the session's. It outlives the connection: after a reconnect the initiator
 * asks to keep it, and the responder does if it still has it and neither side was restarted. A dead
 * session, a
 * reset, or a peer with another boot id ends it; the initiator then makes a new one as long as
 * orders want the peer.
 *
 * Data addresses come from the HELLO inside TLS, never from packets. Session counters never
 * repeat in a boot, boot ids are random, so no secret repeats.
 *
 * Control thread only.
 */

enum {
	PEERS_MAX = 48, /* edges we send to */
	PEER_SESSIONS_MAX = WORKER_SESSIONS_MAX,
	PEER_UNREACHABLE_MS = 10000, /* tried so long without a working session */
	PEER_UP_MS = 8000,           /* a session whose data path answers nothing is no session */
};

struct event_base;
struct peers;

struct peer_cap {
	const char *site;
	uint64_t bps;
};

struct peers_config {
	const char *site, *edge;
	uint8_t boot_id[STRAIT_BOOT_ID_BYTES];
	struct net_ip data_ip;
	uint16_t data_port, symbol_bytes;
	uint8_t queues; /* workers, of which number n listens at data_port + n; 0: 1 */
	uint8_t dscp;
	uint64_t cap_bps;       /* of links to sites not in caps; 0: none */
	uint64_t total_cap_bps; /* of all links together; 0: none */
	uint32_t burst_packets; /* a late worker may send at once; 0: PACER_BURST */
	uint64_t lan_cap_bps; /* in place of cap_bps where the order's way is the LAN; 0: cap_bps */
	const struct peer_cap *caps;
	uint32_t cap_count;
	struct session_credit credit[STRAIT_CLASS_COUNT];               /* what peers may send us */
	uint32_t log_packets, window_packets, scratch_slots, row_slots; /* 0: session.h's */
	const char *listen;                                             /* host:port */
	const struct aead_ops *aead;                                    /* NULL: the best */
	struct keylog *keylog;                                          /* NULL: none */
};

/** Listens at once. NULL, with what to do in err. Strings of cfg must stay. */
struct peers *peers_create(const struct peers_config *cfg, struct event_base *base,
	struct rpc_tls *tls, struct control_queue *queue, struct ingest *ingest,
	void (*kick)(void *ctx), void *ctx, char *err, size_t err_len);
/** All sessions are gone. */
void peers_destroy(struct peers *ps);
uint16_t peers_listen_port(const struct peers *ps);

/** order_ops.link: the link to the order's destination, known or new. NULL: too many. */
struct order_link *peers_link(struct peers *ps, const Strait__OrderStart *m);

/**
 * The master's word: shares of caps for links there are, and edges whose sessions end and that get
 * no other. true: it is done; false: a worker has not been told yet, say it again.
 */
bool peers_take_links(struct peers *ps, const Strait__EdgeLinks *m);
/** What this edge may send to an edge; 0: no cap. */
struct peer_link_cap {
	const char *site, *edge;
	uint64_t bps;
};
/** All links there are. Strings live until the next call. */
size_t peers_list_links(struct peers *ps, struct peer_link_cap *out, size_t max);

/** Figures of a session of a worker. false: the worker does not know it. */
typedef bool peers_stats_fn(void *ctx, uint8_t worker, const struct session *s,
	struct session_stats *out);
/** From the tick: what each link carries, for its orders, and its share of the total cap. */
void peers_measure(struct peers *ps, uint64_t now_ns, peers_stats_fn *stats, void *ctx);
/** Split each link's cap among its queues, by what they have to send. Every ms, of several. */
void peers_split(struct peers *ps, peers_stats_fn *stats, void *ctx);

/** One event of the worker; transfers' events go to os and ingest. */
void peers_event(struct peers *ps, struct orders *os, uint64_t now_ns,
	const struct worker_event *ev);
/** Reconnects, time limits. Some times a second. */
void peers_tick(struct peers *ps, uint64_t now_ns);

/** Accept no new session, open none. */
void peers_drain(struct peers *ps);
/** End every session with RESET; peers_session_count() falls to 0 with the worker's events. */
void peers_stop(struct peers *ps);
uint32_t peers_session_count(const struct peers *ps);

/** Sum of the counters of sessions that ended. */
const uint64_t *peers_ended_counters(const struct peers *ps);

/** A queue of a link, as it is reported. */
struct peer_link_queue {
	struct session *session; /* for worker_session_stats(); NULL: it is gone */
	uint64_t cap_bps;
	bool up;
};

/** A link as it is reported. */
struct peer_link {
	const char *site, *edge;
	struct peer_link_queue queues[WORKERS_MAX];
	uint32_t queue_count;
	uint64_t cap_bps;
	uint64_t used_bps;                 /* on the line, of what we send */
	uint64_t expected_bps, latency_ns; /* 0: not known; see link_rate.h */
	bool initiator, up;
	uint64_t *delivered_before, *reported_ns; /* scratch of the reporter */
};
void peers_links(struct peers *ps, void (*cb)(void *ctx, const struct peer_link *l), void *ctx);
