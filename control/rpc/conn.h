/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/address.h"
#include "control/rpc/rpc.h"
#include "control/rpc/tls.h"

#include <event2/bufferevent.h>
#include <event2/event.h>

#include <sys/queue.h>

/* A connection from both ends' view. Private to control/rpc. */

enum conn_state {
	CONN_CONNECTING, /* TCP, TLS handshake, insecure hello */
	CONN_OPEN,
	CONN_FLUSHING, /* rpc_close(): what is queued leaves, nothing is taken any more */
	CONN_ENDING,   /* on_close is to run from the loop */
	CONN_LINGER,   /* the owner is gone; the peer may still read the last bytes */
};

enum { HELLO_NONCE_BYTES = 32 };

/** Milliseconds; one copy, which only tests change. */
struct conn_timing {
	unsigned int tick, handshake_max, ping_after, silence_max, flush_max, linger_max;
};
extern struct conn_timing conn_timing;

struct rpc_conn {
	TAILQ_ENTRY(rpc_conn) entry;
	struct rpc_tls *tls;
	struct rpc_listener *listener; /* while it counts as a pending handshake */
	struct event_base *base;
	struct bufferevent *bev;
	struct event *wake; /* runs on_close */
	struct event *tick;
	const struct rpc_handler *handler;
	void *ctx;
	void (*drain)(struct rpc_conn *c, void *ctx);
	enum conn_state state;
	bool initiator, broken; /* broken: nothing more can be sent */
	char expect_role[RPC_NAME_MAX];
	struct rpc_identity peer;
	char peer_address[ADDRESS_TEXT_MAX];
	uint64_t started_ns, rx_ns, tx_ns, closing_ns;
	uint8_t nonce[HELLO_NONCE_BYTES], peer_nonce[HELLO_NONCE_BYTES]; /* insecure only */
	int end_err;
	char end_text[256];
};

/** Take over an accepted socket (closed on failure). NULL + errno. */
struct rpc_conn *conn_accept(struct event_base *base, struct rpc_tls *tls, int fd,
	const struct sockaddr *peer, const struct rpc_handler *h, void *ctx,
	struct rpc_listener *l);

/** Free without callbacks. */
void conn_free(struct rpc_conn *c);

/** End an accepted connection that is not open yet; from the loop it is logged and freed. */
void conn_drop(struct rpc_conn *c, const char *why);

/* listen.c: a pending handshake of this listener is over. */
void listener_handshake_done(struct rpc_listener *l);

/* hello.c: the clear text greeting of insecure_loopback. */
enum { HELLO_TYPE = 0xfff0, HELLO_MAX = HELLO_NONCE_BYTES + 256 };
int hello_send(struct rpc_conn *c);
/** 0 or -EPROTO + why. */
int hello_receive(struct rpc_conn *c, const uint8_t *body, size_t len, char *why, size_t why_len);
int hello_export(const struct rpc_conn *c, const char *label, const uint8_t *context,
	size_t context_len, uint8_t *out, size_t out_len);
