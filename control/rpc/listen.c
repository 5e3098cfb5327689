/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/rpc/conn.h"

#include <event2/listener.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Strangers cost a socket and a TLS state each until they have shown a certificate; this many at
 * most, and this many of one address. The oldest makes room: a peer with a certificate needs two
 * round trips, so what is old is likely to be a stranger that keeps silent.
 */
enum { HANDSHAKES_MAX = 256, HANDSHAKES_OF_ADDRESS_MAX = 32 };

struct rpc_listener {
	struct evconnlistener *lev;
	struct event_base *base;
	struct rpc_tls *tls;
	const struct rpc_handler *handler;
	void *ctx;
	struct event *retry; /* accepting again after descriptors ran out */
	unsigned int handshakes;
};

/* "10.0.0.1:5" and "10.0.0.1:6" */
static bool is_same_host(const char *a, const char *b)
{
	size_t n = (size_t)(strrchr(a, ':') - a);

	return strrchr(b, ':') == b + n && memcmp(a, b, n) == 0;
}

/* Room for one more handshake, with a peer at this address. */
static void make_room(struct rpc_listener *l, const char *address)
{
	struct rpc_conn *c, *oldest = NULL, *oldest_there = NULL;
	unsigned int n = 0;

	TAILQ_FOREACH(c, &l->tls->conns, entry) {
		if (c->listener != l)
			continue;
		if (oldest == NULL)
			oldest = c;
		if (!is_same_host(c->peer_address, address))
			continue;
		if (oldest_there == NULL)
			oldest_there = c;
		n++;
	}
	if (n >= HANDSHAKES_OF_ADDRESS_MAX)
		conn_drop(oldest_there, "too many handshakes of this address, the oldest goes");
	else if (oldest != NULL && l->handshakes >= HANDSHAKES_MAX)
		conn_drop(oldest, "too many handshakes, the oldest goes");
}

static void accept_cb(struct evconnlistener *lev, evutil_socket_t fd, struct sockaddr *peer,
	int len, void *arg)
{
	struct rpc_listener *l = arg;
	char text[ADDRESS_TEXT_MAX];

	(void)lev;
	(void)len;
	address_format(peer, text);
	if (l->tls->insecure && !address_is_loopback(peer)) {
		log_limited(LOG_LEVEL_WARN, "rpc", 1000,
			"refused, insecure loopback is for 127/8 only peer=%s", text);
		close(fd);
		return;
	}
	make_room(l, text);
	if (conn_accept(l->base, l->tls, fd, peer, l->handler, l->ctx, l) == NULL) {
		log_limited(LOG_LEVEL_ERROR, "rpc", 1000, "cannot accept peer=%s error=%s", text,
			strerror(errno));
		return;
	}
	l->handshakes++;
}

static void retry_cb(evutil_socket_t fd, short what, void *arg)
{
	struct rpc_listener *l = arg;

	(void)fd;
	(void)what;
	evconnlistener_enable(l->lev);
}

/* Without a pause a process out of descriptors would spin here. */
static void error_cb(struct evconnlistener *lev, void *arg)
{
	struct timeval pause = { .tv_sec = 1 };
	struct rpc_listener *l = arg;

	log_limited(LOG_LEVEL_ERROR, "rpc", 1000, "accept failed error=%s", strerror(errno));
	evconnlistener_disable(lev);
	event_add(l->retry, &pause);
}

void listener_handshake_done(struct rpc_listener *l)
{
	l->handshakes--;
}

struct rpc_listener *rpc_listen(struct event_base *base, struct rpc_tls *tls, const char *address,
	const struct rpc_handler *h, void *ctx, char *err, size_t err_len)
{
	struct sockaddr_storage sa;
	struct rpc_listener *l;
	socklen_t sa_len;
	int rc;

	rc = address_parse(address, &sa, &sa_len, err, err_len);
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	if (tls->insecure && !address_is_loopback((struct sockaddr *)&sa)) {
		snprintf(err, err_len, "insecure loopback listens in 127.0.0.0/8 only, not on %s",
			address);
		errno = EPERM;
		return NULL;
	}
	l = calloc(1, sizeof(*l));
	if (l == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	l->base = base;
	l->tls = tls;
	l->handler = h;
	l->ctx = ctx;
	l->retry = evtimer_new(base, retry_cb, l);
	l->lev = evconnlistener_new_bind(base, accept_cb, l,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 128,
		(struct sockaddr *)&sa, (int)sa_len);
	if (l->lev == NULL || l->retry == NULL) {
		rc = errno != 0 ? errno : ENOMEM;
		snprintf(err, err_len, "cannot listen on %s: %s", address, strerror(rc));
		rpc_listener_destroy(l);
		errno = rc;
		return NULL;
	}
	evconnlistener_set_error_cb(l->lev, error_cb);
	return l;
}

void rpc_listener_destroy(struct rpc_listener *l)
{
	struct rpc_conn *c;

	if (l == NULL)
		return;
	TAILQ_FOREACH(c, &l->tls->conns, entry)
		if (c->listener == l)
			c->listener = NULL;
	if (l->lev != NULL)
		evconnlistener_free(l->lev);
	if (l->retry != NULL)
		event_free(l->retry);
	free(l);
}

uint16_t rpc_listener_port(const struct rpc_listener *l)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getsockname(evconnlistener_get_fd(l->lev), (struct sockaddr *)&sa, &len) < 0)
		return 0;
	return sa.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&sa)->sin6_port)
					: ntohs(((struct sockaddr_in *)&sa)->sin_port);
}
