/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/link_rate.h"
#include "dataplane/edge/peer.h"

#include <sys/queue.h>

/* Shared by peer.c (peers, connections, time) and peer_session.c (HELLO, sessions). */

struct peer;

/* Queue n: worker n's part of a session. */
struct peer_queue {
	struct session *session; /* NULL: the worker gave it back */
	struct ingest_session ingest;
	uint64_t cap_bps;
	uint64_t backlog_bytes; /* when the cap was split last */
	bool up;
};

struct peer_session {
	LIST_ENTRY(peer_session) entry;
	struct peers *ps;
	struct peer_queue queues[WORKERS_MAX];
	uint32_t queue_count, queues_left; /* those the workers did not give back */
	uint32_t own_id, peer_id;
	bool initiator, up, closing;
	struct rpc_identity remote;
	uint8_t boot_id[STRAIT_BOOT_ID_BYTES];
	uint64_t created_ns;
	uint64_t cap_bps;      /* of all queues */
	bool cap_untold;       /* ... but a worker was not told */
	struct peer *peer;     /* initiator */
	struct rpc_conn *conn; /* responder: NULL while the connection is away */
	uint64_t delivered_before, reported_ns;
};

/* An edge we send to. */
struct peer {
	LIST_ENTRY(peer) entry;
	struct peers *ps;
	struct rpc_identity remote;
	char address[280];
	uint64_t cap_bps;          /* of this link */
	uint64_t own_bps;          /* the same by our own configuration; 0: none */
	uint64_t most_bps;         /* to which the master may raise cap_bps; 0: not known */
	uint64_t share_bps;        /* of the edge's total cap; 0: there is none, or not yet */
	uint64_t share_before_bps; /* at the begin of the interval that rate measured */
	bool active;               /* when shares were made last */
	struct link_rate rate;
	struct rpc_conn *conn;
	bool open; /* conn is up */
	bool hello_sent;
	uint32_t hello_id; /* the session id we offered */
	uint64_t hello_counter, hello_ns;
	uint64_t failing_ns; /* since when there is no working session; 0: there is */
	uint64_t refused_ns; /* since when nobody listens there; 0: somebody does */
	uint64_t retry_ns;   /* not before */
	uint32_t failures;   /* in a row */
	struct peer_session *cur;
	struct order_link link;
};

LIST_HEAD(peer_list, peer);
LIST_HEAD(peer_session_list, peer_session);

struct peers {
	struct peers_config cfg;
	struct event_base *base;
	struct rpc_tls *tls;
	struct rpc_listener *listener;
	struct control_queue *queue;
	struct ingest *ingest;
	void (*kick)(void *ctx);
	void *ctx;
	struct peer_list peers;
	struct peer_session_list sessions;
	LIST_HEAD(, peer_conn) conns; /* incoming */
	uint32_t peer_count, session_count;
	uint64_t counter;
	uint64_t ended[STRAIT_COUNTER_COUNT];
	struct rpc_identity *fenced; /* edges not to be heard: site and name count */
	uint32_t fenced_count;
	bool draining, stopped;
};

/* An incoming connection. */
struct peer_conn {
	LIST_ENTRY(peer_conn) entry;
	struct peers *ps;
	struct rpc_conn *conn;
	bool answered;    /* a HELLO came and was no error */
	uint64_t counter; /* its session_counter, the highest of this connection */
};

/* peer.c */
void peer_failed(struct peer *p, uint64_t now_ns, const char *why);
uint64_t peers_cap(const struct peers *ps, const char *site);
/* As peer_apply_cap(). */
bool peer_set_cap(struct peer *p, uint64_t bps);

/* peer_links.c */
bool peers_are_fenced(const struct peers *ps, const struct rpc_identity *id);

/* peer_rate.c */
/* The lower of its own cap and its share of the edge's; 0: none. */
uint64_t peer_cap(const struct peer *p);
/*
 * Split a new cap of the session, if it is another one than before, as it was split. false: a
 * worker has not been told.
 */
bool peer_apply_cap(struct peer *p);
/* Of a queue, the session's cap and what each queue has to send. 0: there is no cap. */
uint64_t peer_queue_cap(const struct peer_session *s, uint32_t queue);
/* Sum of what the workers last said. false: nothing is known. */
bool peer_session_figures(const struct peer_session *s, peers_stats_fn *stats, void *ctx,
	struct session_stats *out);

/* peer_session.c */
int peer_hello_send(struct peer *p, uint64_t now_ns);
/* 0, or -errno: close the connection. */
int peer_hello_received(struct peer_conn *pc, const uint8_t *body, size_t len, uint64_t now_ns);
int peer_accept_received(struct peer *p, const uint8_t *body, size_t len, uint64_t now_ns);
int peer_reset_received(struct peers *ps, struct rpc_conn *c, const uint8_t *body, size_t len);
/* DEL, once; tells the peer when it is connected. */
void peer_session_close(struct peer_session *s, const char *why, bool tell);
/* Queue n is the control thread's again; with the last one the session is freed. */
void peer_queue_gone(struct peer_session *s, uint32_t queue);
