/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/stream.h"

#include "control/base/log.h"
#include "control/sources/kv_event.h"

#include <event2/event.h>
#include <zmq.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HWM = 100000,
	HEARTBEAT_MS = 5000, /* a peer that is gone without a word shows by it */
	HEARTBEAT_TIMEOUT_MS = 15000,
	RECONNECT_MS = 100,
	RECONNECT_MAX_MS = 5000,
	SOCKETS_MAX = 16384,
};

struct stream_hub {
	struct event_base *base;
	void *zmq;
	unsigned int streams; /* so far: names of monitors */
};

struct stream {
	const struct stream_handler *handler;
	void *ctx;
	const char *name;
	void *sub, *monitor;
	struct event *readable, *monitored;
	bool paused;
};

struct stream_dealer {
	void (*on_message)(const struct stream_message *m, void *ctx);
	void *ctx, *socket;
	struct event *readable;
};

struct stream_hub *stream_hub_create(struct event_base *base)
{
	struct stream_hub *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->base = base;
	h->zmq = zmq_ctx_new();
	if (h->zmq != NULL && zmq_ctx_set(h->zmq, ZMQ_MAX_SOCKETS, SOCKETS_MAX) == 0)
		return h;
	stream_hub_destroy(h);
	errno = ENOMEM;
	return NULL;
}

void stream_hub_destroy(struct stream_hub *h)
{
	if (h == NULL)
		return;
	if (h->zmq != NULL)
		zmq_ctx_term(h->zmq);
	free(h);
}

static bool more(void *socket)
{
	int yes = 0;
	size_t len = sizeof(yes);

	return zmq_getsockopt(socket, ZMQ_RCVMORE, &yes, &len) == 0 && yes;
}

/* One message; false: none is waiting. */
static bool receive(void *socket, void (*fn)(const struct stream_message *m, void *ctx), void *ctx)
{
	struct stream_message m = { 0 };
	zmq_msg_t frame[3];

	for (int i = 0; i < 3; i++)
		zmq_msg_init(&frame[i]);
	if (zmq_msg_recv(&frame[0], socket, ZMQ_DONTWAIT) < 0)
		return false;
	/* All parts of a message come at once. */
	for (m.frames = 1; more(socket); m.frames++) {
		zmq_msg_t *f = &frame[m.frames < 3 ? m.frames : 0];

		if (zmq_msg_recv(f, socket, ZMQ_DONTWAIT) < 0)
			break;
	}
	if (m.frames == 3) {
		m.seq = zmq_msg_data(&frame[1]);
		m.seq_len = zmq_msg_size(&frame[1]);
		m.payload = zmq_msg_data(&frame[2]);
		m.payload_len = zmq_msg_size(&frame[2]);
	}
	fn(&m, ctx);
	for (int i = 0; i < 3; i++)
		zmq_msg_close(&frame[i]);
	return true;
}

/* ZeroMQ's descriptor tells edges, so everything is taken, or we come back by ourselves. */
static void readable_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;

	(void)fd;
	(void)what;
	for (int i = 0; i < STREAM_BATCHES; i++)
		if (s->paused || !receive(s->sub, s->handler->on_message, s->ctx))
			return;
	event_active(s->readable, EV_READ, 0);
}

static void monitored_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;
	zmq_msg_t m;

	(void)fd;
	(void)what;
	zmq_msg_init(&m);
	while (zmq_msg_recv(&m, s->monitor, ZMQ_DONTWAIT) >= 0) {
		uint16_t event = 0;

		if (zmq_msg_size(&m) >= sizeof(event) && more(s->monitor))
			memcpy(&event, zmq_msg_data(&m), sizeof(event));
		while (more(s->monitor) && zmq_msg_recv(&m, s->monitor, ZMQ_DONTWAIT) >= 0)
			;
		if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
			log_info("source", "connected source=%s", s->name);
			s->handler->on_connected(s->ctx);
		} else if (event == ZMQ_EVENT_DISCONNECTED) {
			log_warn("source", "connection lost source=%s", s->name);
			s->handler->on_disconnected(s->ctx);
		}
	}
	zmq_msg_close(&m);
}

static struct event *watch(struct event_base *base, void *socket, event_callback_fn fn, void *ctx)
{
	size_t len = sizeof(int);
	struct event *ev;
	int fd;

	if (zmq_getsockopt(socket, ZMQ_FD, &fd, &len) < 0)
		return NULL;
	ev = event_new(base, fd, EV_READ | EV_PERSIST, fn, ctx);
	if (ev != NULL)
		event_add(ev, NULL);
	return ev;
}

static bool option_set(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

static bool options_set(void *socket)
{
	const int64_t max = KV_PAYLOAD_MAX;

	return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof(max)) == 0 &&
		option_set(socket, ZMQ_LINGER, 0) && option_set(socket, ZMQ_RCVHWM, HWM) &&
		option_set(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
		option_set(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS) &&
		option_set(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) &&
		option_set(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS);
}

static int subscribe(struct stream *s, struct stream_hub *h, const char *endpoint,
	const char *topic)
{
	char monitor[64];

	snprintf(monitor, sizeof(monitor), "inproc://monitor-%u", h->streams++);
	s->sub = zmq_socket(h->zmq, ZMQ_SUB);
	s->monitor = zmq_socket(h->zmq, ZMQ_PAIR);
	if (s->sub == NULL || s->monitor == NULL || !options_set(s->sub) ||
		!option_set(s->monitor, ZMQ_LINGER, 0) ||
		zmq_setsockopt(s->sub, ZMQ_SUBSCRIBE, topic, strlen(topic)) < 0 ||
		zmq_socket_monitor(s->sub, monitor,
			ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) < 0 ||
		zmq_connect(s->monitor, monitor) < 0 || zmq_connect(s->sub, endpoint) < 0)
		return -errno;
	s->readable = watch(h->base, s->sub, readable_cb, s);
	s->monitored = watch(h->base, s->monitor, monitored_cb, s);
	return s->readable != NULL && s->monitored != NULL ? 0 : -ENOMEM;
}

struct stream *stream_create(struct stream_hub *h, const char *name, const char *endpoint,
	const char *topic, const struct stream_handler *handler, void *ctx)
{
	struct stream *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return NULL;
	s->handler = handler;
	s->ctx = ctx;
	s->name = name;
	rc = subscribe(s, h, endpoint, topic);
	if (rc == 0)
		return s;
	stream_destroy(s);
	errno = -rc;
	return NULL;
}

void stream_destroy(struct stream *s)
{
	if (s == NULL)
		return;
	if (s->readable != NULL)
		event_free(s->readable);
	if (s->monitored != NULL)
		event_free(s->monitored);
	if (s->monitor != NULL)
		zmq_close(s->monitor);
	if (s->sub != NULL)
		zmq_close(s->sub);
	free(s);
}

void stream_pause(struct stream *s, bool paused)
{
	if (s->paused && !paused)
		event_active(s->readable, EV_READ, 0);
	s->paused = paused;
}

void stream_poll(struct stream *s)
{
	event_active(s->monitored, EV_READ, 0);
	event_active(s->readable, EV_READ, 0);
}

static void answered_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream_dealer *d = arg;

	(void)fd;
	(void)what;
	for (int i = 0; i < STREAM_BATCHES; i++)
		if (!receive(d->socket, d->on_message, d->ctx))
			return;
	event_active(d->readable, EV_READ, 0);
}

struct stream_dealer *stream_dealer_create(struct stream_hub *h, const char *endpoint,
	void (*on_message)(const struct stream_message *m, void *ctx), void *ctx)
{
	struct stream_dealer *d = calloc(1, sizeof(*d));
	int rc = ENOMEM;

	if (d == NULL)
		return NULL;
	d->on_message = on_message;
	d->ctx = ctx;
	d->socket = zmq_socket(h->zmq, ZMQ_DEALER);
	/* Nothing is queued for a connection that is not there. */
	if (d->socket == NULL || !options_set(d->socket) ||
		!option_set(d->socket, ZMQ_IMMEDIATE, 1) || zmq_connect(d->socket, endpoint) < 0) {
		rc = errno;
		goto err;
	}
	d->readable = watch(h->base, d->socket, answered_cb, d);
	if (d->readable != NULL)
		return d;
err:
	stream_dealer_destroy(d);
	errno = rc;
	return NULL;
}

void stream_dealer_destroy(struct stream_dealer *d)
{
	if (d == NULL)
		return;
	if (d->readable != NULL)
		event_free(d->readable);
	if (d->socket != NULL)
		zmq_close(d->socket);
	free(d);
}

int stream_dealer_ask(struct stream_dealer *d, const void *frame, size_t len)
{
	if (zmq_send(d->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
		return -errno;
	return zmq_send(d->socket, frame, len, ZMQ_DONTWAIT) < 0 ? -errno : 0;
}

void stream_dealer_poll(struct stream_dealer *d)
{
	event_active(d->readable, EV_READ, 0);
}
