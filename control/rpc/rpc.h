/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Framed protobuf messages over TLS 1.3 with mutual authentication, on libevent. Used by edges,
 * master and CLI. One thread (the owner of the event base) runs all of it.
 *
 * A frame is { length 32, type 16, reserved 16 } big-endian and a packed message; length counts
 * the message only and is bounded (RPC_MESSAGE_MAX), checked before anything is allocated. A peer
 * that breaks the framing is closed with a logged reason. Liveness: both sides send PING when
 * nothing was sent for 2 s and close after 10 s without a byte; callers never see PING and PONG.
 *
 * Identity comes from the certificate alone: URI SAN
 * spiffe://strait/site/<site>/role/<role>/name/<name>, role edge, site-master, master, operator or
 * tenant (site "-" where none applies). Host names are not compared.
 *
 * An Error from the peer ends the connection and is told by on_close: its code (negative) and its
 * text; on_message never sees one. With TLS 1.3 the initiator's on_open runs before the other
 * side has judged the certificate, so a refusal arrives as on_close after on_open.
 */

enum {
	RPC_MESSAGE_MAX = 64 << 20,
	RPC_NAME_MAX = 64,
	/* What the kernel takes ahead of the line, so that a message waits behind little. */
	RPC_UNSENT_MAX = 64 << 10,
};

struct event_base;
struct rpc_tls;
struct rpc_conn;
struct rpc_listener;

struct rpc_identity {
	char site[RPC_NAME_MAX];
	char role[RPC_NAME_MAX];
	char name[RPC_NAME_MAX];
};

struct rpc_tls_config {
	const char *ca, *cert, *key; /* PEM files; key must not be readable by others */
	bool insecure_loopback;      /* no TLS at all; both ends refuse any address outside 127/8 */
	struct rpc_identity
		self; /* with insecure_loopback: told in the clear instead of a certificate */
};

/** NULL + errno, and a message that names the file and what to do in err. */
struct rpc_tls *rpc_tls_create(const struct rpc_tls_config *cfg, char *err, size_t err_len);
/** Frees its connections too, without callbacks. Before event_base_free(). NULL is ignored. */
void rpc_tls_destroy(struct rpc_tls *tls);
/**
 * Read the files again (SIGHUP). New connections use them; established ones go on. On an error,
 * or if the identity changed, the old ones stay in use. 0 or -errno + err. Nothing to do with
 * insecure_loopback.
 */
int rpc_tls_reload(struct rpc_tls *tls, char *err, size_t err_len);
/** Unix time at which our certificate expires; 0 with insecure_loopback. */
uint64_t rpc_tls_expiry_s(const struct rpc_tls *tls);
/** Identity in our own certificate. */
const struct rpc_identity *rpc_tls_self(const struct rpc_tls *tls);

struct rpc_handler {
	/** TLS is up and the peer's identity is known. Non-zero closes. */
	int (*on_open)(struct rpc_conn *c, void *ctx);
	/** One message. Non-zero (-errno) closes the connection after an Error was sent. */
	int (*on_message)(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len,
		void *ctx);
	/**
	 * Closed; c is freed after the return. err is 0 (by the peer or by rpc_close()) or
	 * -errno; text says why. Called also when rpc_connect() failed and on_open never ran. An
	 * accepted connection that never got as far as on_open is only logged.
	 */
	void (*on_close)(struct rpc_conn *c, int err, const char *text, void *ctx);
};

/**
 * Accept connections on "host:port". ctx is what handlers get until rpc_set_ctx(). NULL + errno +
 * err.
 */
struct rpc_listener *rpc_listen(struct event_base *base, struct rpc_tls *tls, const char *address,
	const struct rpc_handler *h, void *ctx, char *err, size_t err_len);
void rpc_listener_destroy(struct rpc_listener *l);
/** Port really bound (for address ":0" in tests). */
uint16_t rpc_listener_port(const struct rpc_listener *l);

/**
 * Start connecting; on_open or on_close follows from the event loop, also for a bad address. A
 * host name is resolved at once, which may block: give addresses. expect_role (may be NULL) is
 * checked on the peer's certificate. NULL + errno: out of memory.
 */
struct rpc_conn *rpc_connect(struct event_base *base, struct rpc_tls *tls, const char *address,
	const char *expect_role, const struct rpc_handler *h, void *ctx);

/**
 * A connection between two parts of this process: both ends behave as over a network, without TLS.
 * near is the initiator and gets a handler at once, far is as one a listener accepted. Identities
 * are the selves of both tls, which must be insecure_loopback. NULL + errno.
 */
struct rpc_conn *rpc_pair(struct event_base *base, struct rpc_tls *near,
	const struct rpc_handler *h, void *ctx, struct rpc_tls *far,
	const struct rpc_handler *far_handler, void *far_ctx);

/**
 * Queue a message. 0, -ENOTCONN, -EMSGSIZE, -ENOBUFS (more than RPC_MESSAGE_MAX * 2 bytes wait).
 */
int rpc_send(struct rpc_conn *c, uint16_t type, const ProtobufCMessage *m);
/**
 * The same with a body that is no protobuf message: hot frames of fixed format. The type is the
 * owner's, from MSG_LOG on.
 */
int rpc_send_bytes(struct rpc_conn *c, uint16_t type, const void *body, size_t len);
/**
 * Call fn from the loop whenever no more than low bytes wait to be sent. A sender of bulk sends a
 * frame more each time instead of queueing all of it; then whatever else is sent waits behind
 * `low`, one frame and RPC_UNSENT_MAX at most, and PING is not needed: any byte is a sign of life.
 */
void rpc_set_drain(struct rpc_conn *c, size_t low, void (*fn)(struct rpc_conn *c, void *ctx));
/** Close after what is queued has left; on_close follows from the event loop. */
void rpc_close(struct rpc_conn *c);

/**
 * Send an Error with this text (for people), then close. Returns -err, so that on_message can
 * return it.
 */
int rpc_fail(struct rpc_conn *c, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Identity of the peer; empty strings before on_open. */
const struct rpc_identity *rpc_peer(const struct rpc_conn *c);
/** "10.0.0.1:7400" */
const char *rpc_peer_address(const struct rpc_conn *c);
bool rpc_is_initiator(const struct rpc_conn *c);
void rpc_set_ctx(struct rpc_conn *c, void *ctx);
void *rpc_ctx(const struct rpc_conn *c);
size_t rpc_queued_bytes(const struct rpc_conn *c);

/**
 * Keying material of this connection (RFC 8446 section 7.5). 0, -ENOTCONN. With insecure_loopback
 * it is derived from the two hello nonces: no secrecy, same interface.
 */
int rpc_export(struct rpc_conn *c, const char *label, const uint8_t *context, size_t context_len,
	uint8_t *out, size_t out_len);

/**
 * "spiffe://strait/site/a/role/edge/name/edge1" to its parts and back; also checks names and
 * role. 0 or -EINVAL.
 */
int rpc_identity_parse(const char *uri, struct rpc_identity *out);
int rpc_identity_format(const struct rpc_identity *id, char *buf, size_t len);
