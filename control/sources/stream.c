/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/stream.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/sources/kv_event.h"

#include <event2/event.h>
#include <linux/tcp.h>
#include <zmq.h>

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	HWM = 100000,
	HEARTBEAT_MS = 5000, /* a peer that is gone without a word shows by it */
	HEARTBEAT_TIMEOUT_MS = 15000,
	RECONNECT_MS = 100,
	RECONNECT_MAX_MS = 5000,
	ANEW_S = 3, /* after a loss by which ZeroMQ may have given up */
	SOCKETS_MAX = 16384,
	LARGE = 1 << 20,
	CUT_WAITS = 6,   /* times it doubles: 1 s .. 64 s */
	FRAME_SHORT = 2, /* of a frame on the line, before its bytes: ZMTP 3.0, "Framing" */
	FRAME_LONG = 9,
	SPARE = 1 << 20, /* what waits beside a message that is the largest possible */
};
#define SECOND UINT64_C(1000000000)
#define SHOWN  (300 * SECOND) /* what was wrong, for so long */
#define CUT    "sends more than can be read, or a message without an end: cut off"

struct stream_hub {
	struct event_base *base;
	void *zmq;
	unsigned int streams; /* so far: names of monitors */
};

/* What waits of a connection: ZeroMQ reads it ahead of us. */
struct intake {
	int fd;           /* ZeroMQ's own, only to ask the kernel about; -1: not connected */
	uint64_t lost_ns; /* its connection was, and none came since; 0: not so */
	uint64_t taken;   /* bytes of messages, with their frames' heads */
	bool progress;    /* since the last look */
	bool drained;     /* once since then none was waiting */
};

struct stream {
	struct stream_hub *hub;
	const struct stream_handler *handler;
	void *ctx;
	const char *name, *endpoint, *topic;
	void *sub, *monitor;                        /* NULL: cut off */
	struct event *readable, *monitored, *again; /* again: a timer, for what one go left */
	struct intake intake;
	bool paused, connected;
	unsigned int cuts, losses;
	uint64_t cut_ns, again_ns;
	uint64_t rejected, rejected_ns;
};

struct stream_dealer {
	void (*on_message)(const struct stream_message *m, void *ctx);
	void *ctx, *socket, *monitor;
	struct event *readable, *again;
	struct intake intake;
	bool connected;
};

struct stream_hub *stream_hub_create(struct event_base *base)
{
	struct stream_hub *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	/* Else large messages once freed stay with the arena of ZeroMQ's thread. */
	(void)mallopt(M_MMAP_THRESHOLD, LARGE);
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

/* A signal is no reason to leave a message in its middle. */
static int receive_part(zmq_msg_t *part, void *socket)
{
	int rc;

	do
		rc = zmq_msg_recv(part, socket, ZMQ_DONTWAIT);
	while (rc < 0 && errno == EINTR);
	return rc;
}

static bool more(void *socket)
{
	int yes = 0;
	size_t len = sizeof(yes);

	return zmq_getsockopt(socket, ZMQ_RCVMORE, &yes, &len) == 0 && yes;
}

static size_t on_the_line(size_t len)
{
	return len + (len < 256 ? FRAME_SHORT : FRAME_LONG);
}

/* One message, its bytes; 0: none is waiting. */
static size_t receive(void *socket, struct intake *in,
	void (*fn)(const struct stream_message *m, void *ctx), void *ctx)
{
	struct stream_message m = { 0 };
	zmq_msg_t frame[3];
	size_t bytes;

	for (int i = 0; i < 3; i++)
		zmq_msg_init(&frame[i]);
	if (receive_part(&frame[0], socket) < 0) {
		in->drained = true;
		return 0;
	}
	bytes = on_the_line(zmq_msg_size(&frame[0]));
	/* All parts of a message come at once. */
	for (m.frames = 1; more(socket); m.frames++) {
		zmq_msg_t *f = &frame[m.frames < 3 ? m.frames : 0];

		if (receive_part(f, socket) < 0)
			break;
		bytes += on_the_line(zmq_msg_size(f));
	}
	in->taken += bytes;
	in->progress = true;
	if (m.frames == 3) {
		m.seq = zmq_msg_data(&frame[1]);
		m.seq_len = zmq_msg_size(&frame[1]);
		m.payload = zmq_msg_data(&frame[2]);
		m.payload_len = zmq_msg_size(&frame[2]);
	}
	fn(&m, ctx);
	for (int i = 0; i < 3; i++)
		zmq_msg_close(&frame[i]);
	return bytes;
}

/* Received by the kernel so far; 0 where it does not say, as of what is no TCP. */
static uint64_t received(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(uint64_t))
		return 0;
	return info.tcpi_bytes_received;
}

/* From a timer, a while after the last look. */
static bool is_flooded(struct intake *in, bool paused)
{
	uint64_t all = in->fd >= 0 ? received(in->fd) : 0;
	uint64_t unread = all > in->taken ? all - in->taken : 0;
	bool much = unread > KV_PAYLOAD_MAX + SPARE;
	bool endless = much && !in->progress && !paused;

	/* Nothing whole is left: forget heartbeats, which ZeroMQ keeps and weeks would add up. */
	if (in->progress && in->drained && !much)
		in->taken = all;
	in->progress = in->drained = false;
	return endless || unread > STREAM_UNREAD_MAX;
}

/* In the loop's next turn: an event made active is run in this one, before timers and the rest. */
static void go_on(struct event *again)
{
	struct timeval soon = { 0, 0 };

	event_add(again, &soon);
}

/* ZeroMQ's descriptor tells edges, so everything is taken, or we come back by ourselves. */
static void readable_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;
	size_t all = 0, n;

	(void)fd;
	(void)what;
	for (int i = 0; i < STREAM_BATCHES && all < STREAM_TURN_BYTES; i++, all += n) {
		if (s->paused)
			return;
		n = receive(s->sub, &s->intake, s->handler->on_message, s->ctx);
		if (n == 0)
			return;
	}
	go_on(s->again);
}

/* The next event of a monitor, 0: none. Of CONNECTED the value is the descriptor. */
static uint16_t monitor_next(void *monitor, int32_t *value)
{
	uint16_t event = 0;
	zmq_msg_t m;

	zmq_msg_init(&m);
	if (receive_part(&m, monitor) >= (int)(sizeof(event) + sizeof(*value))) {
		memcpy(&event, zmq_msg_data(&m), sizeof(event));
		memcpy(value, (char *)zmq_msg_data(&m) + sizeof(event), sizeof(*value));
	}
	while (more(monitor) && receive_part(&m, monitor) >= 0)
		;
	zmq_msg_close(&m);
	return event;
}

static void intake_event(struct intake *in, uint16_t event, int32_t value)
{
	if (event == ZMQ_EVENT_CONNECTED)
		*in = (struct intake){ .fd = value, .progress = true };
	else if (event == ZMQ_EVENT_DISCONNECTED)
		*in = (struct intake){ .fd = -1, .lost_ns = clock_now_ns() };
}

static void monitored_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;
	uint16_t event;
	int32_t value;

	(void)fd;
	(void)what;
	while ((event = monitor_next(s->monitor, &value)) != 0) {
		intake_event(&s->intake, event, value);
		if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
			log_info("source", "connected source=%s", s->name);
			s->connected = true;
			s->handler->on_connected(s->ctx);
		} else if (event == ZMQ_EVENT_DISCONNECTED && s->connected) {
			log_limited(LOG_LEVEL_WARN, "source", 1000, "connection lost source=%s",
				s->name);
			s->connected = false;
			s->losses++;
			s->handler->on_disconnected(s->ctx);
		}
	}
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

/*
 * A PAIR that hears of the socket's connections, before it has any. ZeroMQ's thread waits in the
 * middle of an event for room, and all streams with it, so there is no bound.
 */
static void *monitor_create(struct stream_hub *h, void *socket)
{
	const int events =
		ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
	void *monitor = zmq_socket(h->zmq, ZMQ_PAIR);
	char name[64];

	snprintf(name, sizeof(name), "inproc://monitor-%u", h->streams++);
	if (monitor == NULL)
		return NULL;
	if (option_set(monitor, ZMQ_LINGER, 0) && option_set(monitor, ZMQ_RCVHWM, 0) &&
		zmq_socket_monitor(socket, name, events) == 0 && zmq_connect(monitor, name) == 0)
		return monitor;
	zmq_close(monitor);
	return NULL;
}

/* Nor may an event find nobody there to hear it: for him it would wait for ever. */
static void sockets_close(void *socket, void *monitor)
{
	if (monitor != NULL) {
		(void)zmq_socket_monitor(socket, NULL, 0);
		zmq_close(monitor);
	}
	if (socket != NULL)
		zmq_close(socket);
}

static int subscribe(struct stream *s)
{
	struct stream_hub *h = s->hub;

	s->intake = (struct intake){ .fd = -1 };
	s->sub = zmq_socket(h->zmq, ZMQ_SUB);
	if (s->sub == NULL || !options_set(s->sub) ||
		zmq_setsockopt(s->sub, ZMQ_SUBSCRIBE, s->topic, strlen(s->topic)) < 0)
		return -errno;
	s->monitor = monitor_create(h, s->sub);
	if (s->monitor == NULL || zmq_connect(s->sub, s->endpoint) < 0)
		return -errno;
	s->readable = watch(h->base, s->sub, readable_cb, s);
	s->monitored = watch(h->base, s->monitor, monitored_cb, s);
	s->again = evtimer_new(h->base, readable_cb, s);
	return s->readable != NULL && s->monitored != NULL && s->again != NULL ? 0 : -ENOMEM;
}

static void unsubscribe(struct stream *s)
{
	if (s->readable != NULL)
		event_free(s->readable);
	if (s->monitored != NULL)
		event_free(s->monitored);
	if (s->again != NULL)
		event_free(s->again);
	sockets_close(s->sub, s->monitor);
	s->readable = s->monitored = s->again = NULL;
	s->monitor = s->sub = NULL;
}

struct stream *stream_create(struct stream_hub *h, const char *name, const char *endpoint,
	const char *topic, const struct stream_handler *handler, void *ctx)
{
	struct stream *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return NULL;
	s->hub = h;
	s->handler = handler;
	s->ctx = ctx;
	s->name = name;
	s->endpoint = endpoint;
	s->topic = topic;
	rc = subscribe(s);
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
	unsubscribe(s);
	free(s);
}

void stream_pause(struct stream *s, bool paused)
{
	if (s->paused && !paused && s->readable != NULL)
		event_active(s->readable, EV_READ, 0);
	s->paused = paused;
}

/* All that waits of it goes with its socket. */
static void cut_off(struct stream *s, uint64_t now_ns)
{
	unsigned int wait_s = 1u << (s->cuts < CUT_WAITS ? s->cuts : CUT_WAITS);

	log_warn("source", CUT " source=%s seconds=%u", s->name, wait_s);
	unsubscribe(s);
	s->cuts++;
	s->cut_ns = now_ns;
	s->again_ns = now_ns + wait_s * SECOND;
	if (!s->connected)
		return;
	s->connected = false;
	s->handler->on_disconnected(s->ctx);
}

void stream_poll(struct stream *s)
{
	uint64_t now_ns = clock_now_ns();
	int rc;

	if (s->sub != NULL && is_flooded(&s->intake, s->paused))
		cut_off(s, now_ns);
	/* From who broke the protocol, or sent too large a part, ZeroMQ turns away for good. */
	if (s->sub != NULL && s->intake.lost_ns != 0 && !s->paused &&
		now_ns - s->intake.lost_ns >= ANEW_S * SECOND) {
		unsubscribe(s);
		s->again_ns = now_ns;
	}
	if (s->sub == NULL) {
		if (now_ns < s->again_ns)
			return;
		rc = subscribe(s);
		if (rc < 0) {
			log_limited(LOG_LEVEL_ERROR, "source", 10000,
				"cannot connect again source=%s error=%s", s->name, strerror(-rc));
			unsubscribe(s);
			s->again_ns = now_ns + SECOND;
			return;
		}
	}
	event_active(s->monitored, EV_READ, 0);
	event_active(s->readable, EV_READ, 0);
}

void stream_reject(struct stream *s, uint64_t n)
{
	s->rejected += n;
	if (n > 0)
		s->rejected_ns = clock_now_ns();
}

uint64_t stream_rejected(const struct stream *s)
{
	return s->rejected;
}

bool stream_tells_cut(const struct stream *s, char *text, size_t len)
{
	if (s->cuts == 0 || (s->sub != NULL && clock_now_ns() - s->cut_ns >= SHOWN))
		return false;
	snprintf(text, len, CUT);
	return true;
}

bool stream_tells_rejected(const struct stream *s, char *text, size_t len)
{
	if (s->rejected == 0 || clock_now_ns() - s->rejected_ns >= SHOWN)
		return false;
	snprintf(text, len, "%llu messages or events of it cannot be read",
		(unsigned long long)s->rejected);
	return true;
}

bool stream_tells_losses(const struct stream *s, char *text, size_t len)
{
	if (s->losses == 0)
		return false;
	snprintf(text, len, "its connection was lost, %u times so far", s->losses);
	return true;
}

static void answered_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream_dealer *d = arg;
	size_t all = 0, n;

	(void)fd;
	(void)what;
	for (int i = 0; i < STREAM_BATCHES && all < STREAM_TURN_BYTES; i++, all += n) {
		n = receive(d->socket, &d->intake, d->on_message, d->ctx);
		if (n == 0)
			return;
	}
	go_on(d->again);
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
	d->intake.fd = -1;
	d->socket = zmq_socket(h->zmq, ZMQ_DEALER);
	/*
	 * Without ZMQ_IMMEDIATE: by it what was received is dropped with its connection, be it in
	 * the middle of a message that is being read, and ZeroMQ aborts on that.
	 */
	if (d->socket == NULL || !options_set(d->socket)) {
		rc = errno;
		goto err;
	}
	d->monitor = monitor_create(h, d->socket);
	if (d->monitor == NULL || zmq_connect(d->socket, endpoint) < 0) {
		rc = errno;
		goto err;
	}
	d->readable = watch(h->base, d->socket, answered_cb, d);
	d->again = evtimer_new(h->base, answered_cb, d);
	if (d->readable != NULL && d->again != NULL)
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
	if (d->again != NULL)
		event_free(d->again);
	sockets_close(d->socket, d->monitor);
	free(d);
}

static void dealer_hear(struct stream_dealer *d)
{
	uint16_t event;
	int32_t value;

	while ((event = monitor_next(d->monitor, &value)) != 0) {
		intake_event(&d->intake, event, value);
		if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
			d->connected = true;
		else if (event == ZMQ_EVENT_DISCONNECTED)
			d->connected = false;
	}
}

int stream_dealer_ask(struct stream_dealer *d, const void *frame, size_t len)
{
	/* ZeroMQ would queue it for a connection to come. */
	dealer_hear(d);
	if (!d->connected)
		return -EAGAIN;
	if (zmq_send(d->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
		return -errno;
	return zmq_send(d->socket, frame, len, ZMQ_DONTWAIT) < 0 ? -errno : 0;
}

bool stream_dealer_poll(struct stream_dealer *d)
{
	dealer_hear(d);
	if (is_flooded(&d->intake, false))
		return false;
	event_active(d->readable, EV_READ, 0);
	return true;
}
