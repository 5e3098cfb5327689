/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/conn.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/rpc/framing.h"
#include "control/rpc/identity.h"
#include "control/rpc/strait.pb-c.h"

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct conn_timing conn_timing = {
	.tick = 500,
	.handshake_max = 10000,
	.ping_after = 2000,
	.silence_max = 10000,
	.flush_max = 5000,
	.linger_max = 1000,
};

static bool is_over(uint64_t since_ns, uint64_t now_ns, unsigned int limit_ms)
{
	return now_ns - since_ns > limit_ms * 1000000ull;
}

static void socket_options(int fd)
{
	int one = 1, unsent = RPC_UNSENT_MAX;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

void conn_free(struct rpc_conn *c)
{
	TAILQ_REMOVE(&c->tls->conns, c, entry);
	if (c->listener != NULL)
		listener_handshake_done(c->listener);
	if (c->bev != NULL)
		bufferevent_free(c->bev);
	if (c->wake != NULL)
		event_free(c->wake);
	if (c->tick != NULL)
		event_free(c->tick);
	OPENSSL_cleanse(c->nonce, sizeof(c->nonce));
	free(c);
}

/* on_close will run from the loop with this reason; the first one stays. */
static void conn_end(struct rpc_conn *c, int err, const char *text)
{
	if (c->state == CONN_LINGER || c->state == CONN_ENDING)
		return;
	if (c->state != CONN_FLUSHING) {
		c->end_err = err;
		snprintf(c->end_text, sizeof(c->end_text), "%s", text);
	}
	/* what was accepted but never opened has no owner to tell */
	if (c->state == CONN_CONNECTING && !c->initiator) {
		log_limited(LOG_LEVEL_WARN, "rpc", 100, "connection refused peer=%s reason=%s",
			c->peer_address, c->end_text);
		c->handler = NULL;
	}
	c->state = CONN_ENDING;
	event_active(c->wake, EV_TIMEOUT, 1);
}

/* The socket is of no more use: do not linger. */
static void conn_break(struct rpc_conn *c, int err, const char *text)
{
	c->broken = true;
	if (c->state == CONN_LINGER) {
		c->closing_ns = 0; /* the next tick frees it */
		event_active(c->wake, EV_TIMEOUT, 1);
		return;
	}
	conn_end(c, err, text);
}

void conn_drop(struct rpc_conn *c, const char *why)
{
	conn_break(c, -EBUSY, why);
	if (c->listener != NULL)
		listener_handshake_done(c->listener);
	c->listener = NULL;
}

static void wake_cb(evutil_socket_t fd, short what, void *arg)
{
	struct rpc_conn *c = arg;
	SSL *ssl;

	(void)fd;
	(void)what;
	if (c->state == CONN_LINGER) {
		conn_free(c);
		return;
	}
	if (c->handler != NULL && c->handler->on_close != NULL)
		c->handler->on_close(c, c->end_err, c->end_text, c->ctx);
	if (c->broken || c->bev == NULL) {
		conn_free(c);
		return;
	}
	/*
	 * Closing a socket with unread bytes resets it and may take our last message from the
	 * peer's hands: say goodbye, then read until the peer is gone or a second has passed.
	 */
	c->state = CONN_LINGER;
	c->handler = NULL;
	c->closing_ns = clock_now_ns();
	ssl = c->tls->insecure ? NULL : bufferevent_openssl_get_ssl(c->bev);
	if (ssl != NULL)
		SSL_shutdown(ssl);
	ERR_clear_error(); /* the queue is the thread's: leave nothing for the next connection */
	shutdown(bufferevent_getfd(c->bev), SHUT_WR);
}

static bool role_is_expected(const struct rpc_conn *c)
{
	return c->expect_role[0] == '\0' || strcmp(c->expect_role, c->peer.role) == 0;
}

/* The peer is known now. */
static void conn_opened(struct rpc_conn *c)
{
	char text[400];
	int rc;

	if (!role_is_expected(c)) {
		snprintf(text, sizeof(text),
			"the peer at %s has role %s (site %s, name %s), not role %s",
			c->peer_address, c->peer.role, c->peer.site, c->peer.name, c->expect_role);
		conn_end(c, -EACCES, text);
		return;
	}
	c->state = CONN_OPEN;
	if (c->listener != NULL) {
		listener_handshake_done(c->listener);
		c->listener = NULL;
	}
	rc = c->handler->on_open != NULL ? c->handler->on_open(c, c->ctx) : 0;
	if (rc != 0 && c->state == CONN_OPEN)
		rpc_fail(c, -rc, "refused: %s", strerror(-rc));
}

static void tls_established(struct rpc_conn *c)
{
	SSL *ssl = bufferevent_openssl_get_ssl(c->bev);
	X509 *cert = SSL_get0_peer_certificate(ssl);
	char why[200];

	if (cert == NULL)
		conn_end(c, -EACCES, "the peer showed no certificate");
	else if (identity_of_certificate(cert, &c->peer, why, sizeof(why)) != 0)
		conn_end(c, -EACCES, why);
	else
		conn_opened(c);
}

/* libevent tells a refused TLS connection as an end of file, too. */
static void handshake_cut(struct rpc_conn *c, int sock_err)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	char text[200];

	if (c->initiator &&
		getpeername(bufferevent_getfd(c->bev), (struct sockaddr *)&ss, &len) != 0) {
		sock_err = sock_err != 0 ? sock_err : ECONNREFUSED;
		snprintf(text, sizeof(text), "cannot connect to %s: %s", c->peer_address,
			strerror(sock_err));
		conn_break(c, -sock_err, text);
		return;
	}
	snprintf(text, sizeof(text), "%s closed during the handshake", c->peer_address);
	conn_break(c, -ECONNRESET, text);
}

static void event_cb(struct bufferevent *bev, short what, void *arg)
{
	struct rpc_conn *c = arg;
	int sock_err = EVUTIL_SOCKET_ERROR();
	char text[200];

	if ((what & BEV_EVENT_CONNECTED) != 0) {
		if (c->state != CONN_CONNECTING)
			return;
		c->rx_ns = clock_now_ns();
		socket_options(bufferevent_getfd(bev));
		if (!c->tls->insecure)
			tls_established(c);
		return;
	}
	if ((what & BEV_EVENT_EOF) != 0) {
		bool half = evbuffer_get_length(bufferevent_get_input(bev)) > 0;

		if (c->state == CONN_CONNECTING)
			handshake_cut(c, sock_err);
		else if (half)
			conn_break(c, -EPROTO, "the peer closed in the middle of a message");
		else
			conn_break(c, 0, "closed by the peer");
		return;
	}
	if ((what & BEV_EVENT_ERROR) != 0) {
		unsigned long e = c->tls->insecure ? 0 : bufferevent_get_openssl_error(bev);

		if (e != 0) {
			int rc = tls_explain(bufferevent_openssl_get_ssl(bev), e, text,
				sizeof(text));

			conn_break(c, rc, text);
			return;
		}
		if (sock_err == 0)
			sock_err = ECONNRESET;
		snprintf(text, sizeof(text), "%s %s: %s",
			c->state == CONN_CONNECTING && c->initiator ? "cannot connect to"
								    : "connection with",
			c->peer_address, strerror(sock_err));
		conn_break(c, -sock_err, text);
	}
}

/* A protobuf message, or len bytes. */
static int send_frame(struct rpc_conn *c, uint16_t type, const ProtobufCMessage *m,
	const void *body, size_t len)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	struct frame_header h = { .type = type, .len = (uint32_t)len };
	struct evbuffer_iovec v;

	if (len > RPC_MESSAGE_MAX)
		return -EMSGSIZE;
	if (evbuffer_get_length(out) + len > 2u * RPC_MESSAGE_MAX)
		return -ENOBUFS;
	if (evbuffer_reserve_space(out, (ev_ssize_t)(FRAME_HEADER_BYTES + len), &v, 1) != 1)
		return -ENOMEM;
	frame_header_encode(v.iov_base, &h);
	if (m != NULL)
		protobuf_c_message_pack(m, (uint8_t *)v.iov_base + FRAME_HEADER_BYTES);
	else if (len > 0)
		memcpy((uint8_t *)v.iov_base + FRAME_HEADER_BYTES, body, len);
	v.iov_len = FRAME_HEADER_BYTES + len;
	if (evbuffer_commit_space(out, &v, 1) != 0)
		return -ENOMEM;
	c->tx_ns = clock_now_ns();
	return 0;
}

static int send_message(struct rpc_conn *c, uint16_t type, const ProtobufCMessage *m)
{
	size_t len = m != NULL ? protobuf_c_message_get_packed_size(m) : 0;

	return send_frame(c, type, m, NULL, len);
}

static int send_ping(struct rpc_conn *c, uint16_t type, uint64_t token)
{
	Strait__Ping ping = STRAIT__PING__INIT;

	ping.token = token;
	return send_message(c, type, &ping.base);
}

static void on_error_message(struct rpc_conn *c, const uint8_t *body, size_t len)
{
	Strait__Error *e = strait__error__unpack(NULL, len, body);
	char text[256];

	if (e == NULL) {
		conn_end(c, -EPROTO, "malformed Error from the peer");
		return;
	}
	snprintf(text, sizeof(text), "%s", e->text);
	/* a code is a positive errno; do not let a peer turn an error into a success */
	conn_end(c, e->code > 0 && e->code < 4096 ? -e->code : -EPROTO, text);
	strait__error__free_unpacked(e, NULL);
}

static int dispatch(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len)
{
	Strait__Ping *ping;
	char why[128];
	int rc = 0;

	if (c->state == CONN_CONNECTING) { /* insecure: only a hello can come */
		if (type != HELLO_TYPE) {
			conn_end(c, -EPROTO, "the peer sent no hello");
			return 0;
		}
		if (hello_receive(c, body, len, why, sizeof(why)) != 0)
			conn_end(c, -EPROTO, why);
		else
			conn_opened(c);
		return 0;
	}
	switch (type) {
	case STRAIT__MSG_TYPE__MSG_PING:
		ping = strait__ping__unpack(NULL, len, body);
		if (ping == NULL)
			return -EPROTO;
		/* a peer that pings without reading must not fill our memory */
		if (rpc_queued_bytes(c) < RPC_MESSAGE_MAX)
			rc = send_ping(c, STRAIT__MSG_TYPE__MSG_PONG, ping->token);
		strait__ping__free_unpacked(ping, NULL);
		return rc;
	case STRAIT__MSG_TYPE__MSG_PONG:
		return 0;
	case STRAIT__MSG_TYPE__MSG_ERROR:
		on_error_message(c, body, len);
		return 0;
	default:
		return c->handler->on_message(c, type, body, len, c->ctx);
	}
}

static void bad_frame(struct rpc_conn *c, int rc, const struct frame_header *h)
{
	if (c->state == CONN_CONNECTING) {
		conn_end(c, -EPROTO,
			"the peer sent no insecure-loopback hello (does it speak TLS?)");
		return;
	}
	log_warn("rpc", "bad frame peer=%s length=%u type=%u", c->peer_address, h->len, h->type);
	if (rc == -EMSGSIZE)
		rpc_fail(c, EMSGSIZE, "a message of %u bytes is over the limit of %u", h->len,
			(unsigned int)RPC_MESSAGE_MAX);
	else
		rpc_fail(c, EPROTO, "a message without a type");
}

static void read_cb(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	uint8_t head[FRAME_HEADER_BYTES];
	struct rpc_conn *c = arg;
	struct frame_header h;
	const uint8_t *frame;
	int rc;

	c->rx_ns = clock_now_ns();
	while (c->state <= CONN_OPEN && evbuffer_copyout(in, head, sizeof(head)) == sizeof(head)) {
		rc = frame_header_decode(head, c->state == CONN_OPEN ? RPC_MESSAGE_MAX : HELLO_MAX,
			&h);
		if (rc != 0) {
			bad_frame(c, rc, &h);
			break;
		}
		if (evbuffer_get_length(in) - FRAME_HEADER_BYTES < h.len)
			return;
		frame = evbuffer_pullup(in, (ev_ssize_t)(FRAME_HEADER_BYTES + h.len));
		if (frame == NULL) {
			conn_end(c, -ENOMEM, "out of memory");
			break;
		}
		rc = dispatch(c, h.type, frame + FRAME_HEADER_BYTES, h.len);
		evbuffer_drain(in, FRAME_HEADER_BYTES + h.len);
		if (rc != 0 && c->state == CONN_OPEN)
			rpc_fail(c, -rc, "message %u refused: %s", h.type, strerror(-rc));
	}
	if (c->state > CONN_OPEN)
		evbuffer_drain(in, evbuffer_get_length(in));
}

/* The output is empty, or as low as who drains it wants. */
static void write_cb(struct bufferevent *bev, void *arg)
{
	struct rpc_conn *c = arg;

	(void)bev;
	if (c->state == CONN_FLUSHING && rpc_queued_bytes(c) == 0)
		conn_end(c, 0, "closed");
	else if (c->state == CONN_OPEN && c->drain != NULL)
		c->drain(c, c->ctx);
}

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct rpc_conn *c = arg;
	uint64_t now = clock_now_ns();

	(void)fd;
	(void)what;
	switch (c->state) {
	case CONN_CONNECTING:
		if (is_over(c->started_ns, now, conn_timing.handshake_max)) {
			char text[128];

			snprintf(text, sizeof(text), "no answer from %s within 10 s",
				c->peer_address);
			conn_break(c, -ETIMEDOUT, text);
		}
		break;
	case CONN_OPEN:
		if (is_over(c->rx_ns, now, conn_timing.silence_max))
			conn_break(c, -ETIMEDOUT, "nothing heard from the peer for 10 s");
		else if (is_over(c->tx_ns, now, conn_timing.ping_after) && rpc_queued_bytes(c) == 0)
			send_ping(c, STRAIT__MSG_TYPE__MSG_PING, now);
		break;
	case CONN_FLUSHING:
		if (is_over(c->closing_ns, now, conn_timing.flush_max))
			conn_break(c, 0, "closed; the peer did not read what was left");
		break;
	case CONN_ENDING:
		break;
	case CONN_LINGER:
		if (is_over(c->closing_ns, now, conn_timing.linger_max))
			conn_free(c);
		break;
	}
}

static struct rpc_conn *conn_create(struct event_base *base, struct rpc_tls *tls,
	const struct rpc_handler *h, void *ctx, bool initiator)
{
	struct timeval period = { .tv_usec = conn_timing.tick * 1000 };
	struct rpc_conn *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	TAILQ_INSERT_TAIL(&tls->conns, c, entry);
	c->tls = tls;
	c->base = base;
	c->handler = h;
	c->ctx = ctx;
	c->initiator = initiator;
	c->started_ns = c->rx_ns = c->tx_ns = clock_now_ns();
	c->wake = evtimer_new(base, wake_cb, c);
	c->tick = event_new(base, -1, EV_PERSIST, tick_cb, c);
	if (c->wake == NULL || c->tick == NULL || event_add(c->tick, &period) != 0) {
		conn_free(c);
		errno = ENOMEM;
		return NULL;
	}
	return c;
}

/* Wrap fd, or a socket to be (-1). */
static int attach(struct rpc_conn *c, int fd)
{
	SSL *ssl;

	if (c->tls->insecure) {
		c->bev = bufferevent_socket_new(c->base, fd, BEV_OPT_CLOSE_ON_FREE);
	} else {
		ssl = SSL_new(c->tls->ctx);
		if (ssl == NULL)
			return -ENOMEM;
		c->bev = bufferevent_openssl_socket_new(c->base, fd, ssl,
			c->initiator ? BUFFEREVENT_SSL_CONNECTING : BUFFEREVENT_SSL_ACCEPTING,
			BEV_OPT_CLOSE_ON_FREE);
		if (c->bev == NULL)
			SSL_free(ssl);
		else
			bufferevent_openssl_set_allow_dirty_shutdown(c->bev, 1);
	}
	if (c->bev == NULL)
		return -ENOMEM;
	bufferevent_setcb(c->bev, read_cb, write_cb, event_cb, c);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	return 0;
}

struct rpc_conn *conn_accept(struct event_base *base, struct rpc_tls *tls, int fd,
	const struct sockaddr *peer, const struct rpc_handler *h, void *ctx, struct rpc_listener *l)
{
	struct rpc_conn *c = conn_create(base, tls, h, ctx, false);

	if (c == NULL) {
		close(fd);
		return NULL;
	}
	address_format(peer, c->peer_address);
	socket_options(fd);
	if (attach(c, fd) != 0) {
		close(fd);
		conn_free(c);
		errno = ENOMEM;
		return NULL;
	}
	if (tls->insecure && hello_send(c) != 0) {
		conn_free(c);
		errno = ENOMEM;
		return NULL;
	}
	c->listener = l;
	return c;
}

struct rpc_conn *rpc_connect(struct event_base *base, struct rpc_tls *tls, const char *address,
	const char *expect_role, const struct rpc_handler *h, void *ctx)
{
	struct rpc_conn *c = conn_create(base, tls, h, ctx, true);
	struct sockaddr_storage sa;
	char why[200];
	socklen_t len;
	int rc;

	if (c == NULL)
		return NULL;
	snprintf(c->expect_role, sizeof(c->expect_role), "%s",
		expect_role != NULL ? expect_role : "");
	snprintf(c->peer_address, sizeof(c->peer_address), "%s", address);
	rc = address_parse(address, &sa, &len, why, sizeof(why));
	if (rc != 0) {
		conn_break(c, rc, why);
		return c;
	}
	address_format((struct sockaddr *)&sa, c->peer_address);
	if (tls->insecure && !address_is_loopback((struct sockaddr *)&sa)) {
		conn_break(c, -EPERM, "insecure loopback connects to 127.0.0.0/8 only");
		return c;
	}
	rc = attach(c, -1);
	if (rc == 0 && tls->insecure)
		rc = hello_send(c);
	if (rc != 0) {
		conn_free(c);
		errno = -rc;
		return NULL;
	}
	if (bufferevent_socket_connect(c->bev, (struct sockaddr *)&sa, (int)len) != 0) {
		snprintf(why, sizeof(why), "cannot connect to %s: %s", c->peer_address,
			strerror(errno));
		conn_break(c, errno != 0 ? -errno : -ECONNREFUSED, why);
	}
	return c;
}

/* One end of a pair; fd is its own in any case. */
static struct rpc_conn *pair_end(struct event_base *base, struct rpc_tls *tls, int fd,
	const struct rpc_handler *h, void *ctx, bool initiator)
{
	struct rpc_conn *c = conn_create(base, tls, h, ctx, initiator);

	if (c != NULL && attach(c, fd) == 0) {
		strcpy(c->peer_address, "this process");
		if (hello_send(c) == 0)
			return c;
		conn_free(c);
		return NULL;
	}
	close(fd);
	if (c != NULL)
		conn_free(c);
	return NULL;
}

struct rpc_conn *rpc_pair(struct event_base *base, struct rpc_tls *near,
	const struct rpc_handler *h, void *ctx, struct rpc_tls *far,
	const struct rpc_handler *far_handler, void *far_ctx)
{
	struct rpc_conn *c, *other;
	int fd[2];

	if (!near->insecure || !far->insecure) {
		errno = EINVAL;
		return NULL;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
		return NULL;
	other = pair_end(base, far, fd[1], far_handler, far_ctx, false);
	c = other != NULL ? pair_end(base, near, fd[0], h, ctx, true) : NULL;
	if (c != NULL)
		return c;
	if (other != NULL)
		conn_free(other);
	else
		close(fd[0]);
	errno = ENOMEM;
	return NULL;
}

int rpc_send(struct rpc_conn *c, uint16_t type, const ProtobufCMessage *m)
{
	return c->state == CONN_OPEN ? send_message(c, type, m) : -ENOTCONN;
}

int rpc_send_bytes(struct rpc_conn *c, uint16_t type, const void *body, size_t len)
{
	return c->state == CONN_OPEN ? send_frame(c, type, NULL, body, len) : -ENOTCONN;
}

void rpc_set_drain(struct rpc_conn *c, size_t low, void (*fn)(struct rpc_conn *c, void *ctx))
{
	c->drain = fn;
	bufferevent_setwatermark(c->bev, EV_WRITE, fn != NULL ? low : 0, 0);
}

void rpc_close(struct rpc_conn *c)
{
	if (c->state == CONN_CONNECTING) {
		conn_break(c, 0, "closed before it was open");
		return;
	}
	if (c->state != CONN_OPEN)
		return;
	if (rpc_queued_bytes(c) == 0) {
		conn_end(c, 0, "closed");
		return;
	}
	c->end_err = 0;
	snprintf(c->end_text, sizeof(c->end_text), "closed");
	c->state = CONN_FLUSHING;
	c->closing_ns = clock_now_ns();
}

int rpc_fail(struct rpc_conn *c, int err, const char *fmt, ...)
{
	Strait__Error e = STRAIT__ERROR__INIT;
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	e.code = err;
	e.text = text;
	rpc_send(c, STRAIT__MSG_TYPE__MSG_ERROR, &e.base);
	rpc_close(c);
	if (c->state == CONN_FLUSHING || c->state == CONN_ENDING) {
		c->end_err = -err;
		snprintf(c->end_text, sizeof(c->end_text), "%s", text);
	}
	return -err;
}

const struct rpc_identity *rpc_peer(const struct rpc_conn *c)
{
	return &c->peer;
}

const char *rpc_peer_address(const struct rpc_conn *c)
{
	return c->peer_address;
}

bool rpc_is_initiator(const struct rpc_conn *c)
{
	return c->initiator;
}

void rpc_set_ctx(struct rpc_conn *c, void *ctx)
{
	c->ctx = ctx;
}

void *rpc_ctx(const struct rpc_conn *c)
{
	return c->ctx;
}

size_t rpc_queued_bytes(const struct rpc_conn *c)
{
	return c->bev != NULL ? evbuffer_get_length(bufferevent_get_output(c->bev)) : 0;
}

int rpc_export(struct rpc_conn *c, const char *label, const uint8_t *context, size_t context_len,
	uint8_t *out, size_t out_len)
{
	if (c->state != CONN_OPEN)
		return -ENOTCONN;
	if (c->tls->insecure)
		return hello_export(c, label, context, context_len, out, out_len);
	if (SSL_export_keying_material(bufferevent_openssl_get_ssl(c->bev), out, out_len, label,
		    strlen(label), context, context_len, 1) != 1)
		return -ENOTCONN;
	return 0;
}
