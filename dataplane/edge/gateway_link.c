/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/gateway_link.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "dataplane/pool/gateway.h"

#include <event2/event.h>

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	TICK_MS = 1000, /* between attempts, and looks for what nobody wants */
	FRAMES_PER_TURN = 256,
};

struct gateway_link {
	struct event_base *base;
	struct pool *pool;
	void (*kick)(void *ctx);
	void *ctx;
	const char *tenant;
	struct sockaddr_un address;
	struct event *tick, *readable, *writable;
	int fd;             /* -1: none */
	bool greeted, away; /* away was said */
	size_t pending;     /* bytes of a frame that did not go out */
	uint8_t frame[GATEWAY_FRAME_MAX];
};

static void disconnect(struct gateway_link *l, const char *why)
{
	if (l->readable != NULL)
		event_free(l->readable);
	if (l->writable != NULL)
		event_free(l->writable);
	l->readable = l->writable = NULL;
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	l->pending = 0;
	if (l->greeted)
		gateway_pool_connected(l->pool, false);
	l->greeted = false;
	if (!l->away)
		log_warn("gateway", "away path=%s tenant=%s: %s", l->address.sun_path, l->tenant,
			why);
	l->away = true;
}

void gateway_link_flush(struct gateway_link *l)
{
	while (l->fd >= 0) {
		if (l->pending == 0)
			l->pending = gateway_pool_output(l->pool, l->frame);
		if (l->pending == 0)
			return;
		if (send(l->fd, l->frame, l->pending, MSG_NOSIGNAL) < 0) {
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				event_add(l->writable, NULL);
			else
				disconnect(l, strerror(errno));
			return;
		}
		l->pending = 0;
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	gateway_link_flush(arg);
}

/* The first frame, from both: version and tenant must be the same. */
static size_t hello(const struct gateway_link *l, uint8_t *buf)
{
	uint16_t len = htole16((uint16_t)strlen(l->tenant));
	uint32_t version = htole32(GATEWAY_VERSION);

	memset(buf, 0, GATEWAY_HEADER_BYTES);
	buf[0] = GATEWAY_HELLO;
	memcpy(buf + 2, &len, 2);
	memcpy(buf + 4, &version, 4);
	memcpy(buf + GATEWAY_HEADER_BYTES, l->tenant, strlen(l->tenant));
	return GATEWAY_HEADER_BYTES + strlen(l->tenant);
}

static int greeted(struct gateway_link *l, const uint8_t *buf, size_t len)
{
	uint8_t want[GATEWAY_FRAME_MAX];

	if (hello(l, want) != len || memcmp(want, buf, len) != 0)
		return -EPROTO;
	l->greeted = true;
	l->away = false;
	log_info("gateway", "connected path=%s tenant=%s", l->address.sun_path, l->tenant);
	gateway_pool_connected(l->pool, true);
	gateway_link_flush(l);
	return 0;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct gateway_link *l = arg;
	uint8_t buf[GATEWAY_FRAME_MAX + 1];
	ssize_t n = 0;

	(void)what;
	for (int i = 0; i < FRAMES_PER_TURN; i++) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0)
			break;
		if (l->greeted ? gateway_pool_input(l->pool, buf, (size_t)n, clock_now_ns()) < 0
			       : greeted(l, buf, (size_t)n) < 0) {
			disconnect(l, "it is of another version or tenant, or says what cannot be");
			return;
		}
		if (l->fd < 0) /* the flush found it gone */
			return;
	}
	if (n == 0)
		disconnect(l, "closed by the gateway");
	else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
		disconnect(l, strerror(errno));
	l->kick(l->ctx);
}

static void connect_to(struct gateway_link *l)
{
	l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0 ||
		connect(l->fd, (const struct sockaddr *)&l->address, sizeof(l->address)) < 0) {
		disconnect(l, strerror(errno));
		return;
	}
	l->readable = event_new(l->base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	l->writable = event_new(l->base, l->fd, EV_WRITE, on_writable, l);
	if (l->readable == NULL || l->writable == NULL || event_add(l->readable, NULL) < 0) {
		disconnect(l, "out of memory");
		return;
	}
	l->pending = hello(l, l->frame);
	gateway_link_flush(l);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct gateway_link *l = arg;

	(void)fd;
	(void)what;
	gateway_pool_tick(l->pool, clock_now_ns());
	if (l->fd < 0)
		connect_to(l);
}

struct gateway_link *gateway_link_create(struct event_base *base, struct pool *pool,
	const char *path, const char *tenant, void (*kick)(void *ctx), void *ctx)
{
	const struct timeval every = { TICK_MS / 1000, 0 };
	struct gateway_link *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->base = base;
	l->pool = pool;
	l->kick = kick;
	l->ctx = ctx;
	l->tenant = tenant;
	l->fd = -1;
	l->address.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(l->address.sun_path)) {
		free(l);
		errno = ENAMETOOLONG;
		return NULL;
	}
	strcpy(l->address.sun_path, path);
	l->tick = event_new(base, -1, EV_PERSIST, on_tick, l);
	if (l->tick == NULL || event_add(l->tick, &every) < 0) {
		gateway_link_destroy(l);
		errno = ENOMEM;
		return NULL;
	}
	connect_to(l);
	return l;
}

void gateway_link_destroy(struct gateway_link *l)
{
	if (l == NULL)
		return;
	l->away = true; /* nobody needs to know */
	disconnect(l, "");
	if (l->tick != NULL)
		event_free(l->tick);
	free(l);
}
