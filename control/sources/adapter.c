/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/adapter.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/index/digest.h"
#include "control/sources/http.h"

#include <event2/event.h>
#include <jansson.h>
#include <zmq.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK_MS = 100,
	HWM = 100000,
	BODY_MAX = 4 << 20, /* of status and segments */
	URL_MAX = 512,
};

struct body {
	char *data;
	size_t len;
};

struct source_adapter {
	struct source s;
	struct source_adapter_config cfg;
	const struct source_adapter_handler *handler;
	void *ctx;
	struct http *http;
	void *zmq, *sub, *monitor;
	struct event *readable, *monitored, *tick;
	uint64_t rejected;
	bool asking;
	struct body status, segments;
	/* the listing going on */
	uint64_t list_began_ns;
	char line[KV_KEY_MAX + 1];
	size_t line_len;
	bool listing, line_skip;
	char url[URL_MAX];
};

static bool more(void *socket)
{
	int yes = 0;
	size_t len = sizeof(yes);

	return zmq_getsockopt(socket, ZMQ_RCVMORE, &yes, &len) == 0 && yes;
}

static int event_cb(const struct kv_event *e, void *ctx)
{
	struct source_adapter *a = ctx;

	/* A tenant's part alone is told by name; without one everything goes. */
	if (e->op == KV_CLEARED && e->tenant.len == 0)
		a->handler->on_clear(a->ctx);
	else
		a->handler->on_event(e, a->ctx);
	return 0;
}

static void batch_take(struct source_adapter *a, const uint8_t *seq_frame, size_t seq_len,
	const uint8_t *payload, size_t len)
{
	uint64_t seq, now = clock_now_ns();
	struct kv_batch b;
	int ret = kv_seq_decode(seq_frame, seq_len, &seq);

	if (ret < 0) {
		a->rejected++;
		return;
	}
	switch (source_batch(&a->s, seq, now)) {
	case SOURCE_CLEAR:
		a->handler->on_clear(a->ctx);
		break;
	case SOURCE_REPLAY: /* nobody to ask: as without a replay socket */
		if (source_replayed(&a->s, UINT64_MAX, seq, now) == SOURCE_CLEAR)
			a->handler->on_clear(a->ctx);
		break;
	case SOURCE_APPLY:
		break;
	default:
		return;
	}
	ret = kv_batch_decode(payload, len, event_cb, a, &b);
	a->rejected += ret < 0 ? 1 : b.rejected;
	if (ret < 0) { /* its events are lost */
		source_overflow(&a->s, now);
		log_limited(LOG_LEVEL_WARN, "source", 10000, "not a batch source=%s error=%s",
			a->cfg.name, strerror(-ret));
	}
}

/* One message of three frames; false: none is waiting. */
static bool message_take(struct source_adapter *a)
{
	zmq_msg_t frame[3];
	int n = 0;

	for (int i = 0; i < 3; i++)
		zmq_msg_init(&frame[i]);
	if (zmq_msg_recv(&frame[0], a->sub, ZMQ_DONTWAIT) < 0)
		return false;
	/* All parts of a message come at once. */
	for (n = 1; more(a->sub); n++) {
		zmq_msg_t *f = &frame[n < 3 ? n : 0];

		if (zmq_msg_recv(f, a->sub, ZMQ_DONTWAIT) < 0)
			break;
	}
	if (n == 3)
		batch_take(a, zmq_msg_data(&frame[1]), zmq_msg_size(&frame[1]),
			zmq_msg_data(&frame[2]), zmq_msg_size(&frame[2]));
	else
		a->rejected++;
	for (int i = 0; i < 3; i++)
		zmq_msg_close(&frame[i]);
	return true;
}

/* ZeroMQ's descriptor tells edges, so everything is taken, or we come back by ourselves. */
static void readable_cb(evutil_socket_t fd, short what, void *arg)
{
	struct source_adapter *a = arg;

	(void)fd;
	(void)what;
	for (int i = 0; i < SOURCE_BATCHES; i++)
		if (!message_take(a))
			return;
	event_active(a->readable, EV_READ, 0);
}

static void monitored_cb(evutil_socket_t fd, short what, void *arg)
{
	struct source_adapter *a = arg;
	zmq_msg_t m;

	(void)fd;
	(void)what;
	zmq_msg_init(&m);
	while (zmq_msg_recv(&m, a->monitor, ZMQ_DONTWAIT) >= 0) {
		uint16_t event = 0;

		if (zmq_msg_size(&m) >= sizeof(event) && more(a->monitor))
			memcpy(&event, zmq_msg_data(&m), sizeof(event));
		while (more(a->monitor) && zmq_msg_recv(&m, a->monitor, ZMQ_DONTWAIT) >= 0)
			;
		if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
			log_info("source", "connected source=%s", a->cfg.name);
			source_connected(&a->s, clock_now_ns());
		} else if (event == ZMQ_EVENT_DISCONNECTED) {
			log_warn("source", "connection lost source=%s", a->cfg.name);
			source_disconnected(&a->s, clock_now_ns());
		}
	}
	zmq_msg_close(&m);
}

/* ---- admin port ---- */

static int body_add(struct body *b, const char *data, size_t len)
{
	char *p;

	if (len > BODY_MAX - b->len)
		return -EFBIG;
	p = realloc(b->data, b->len + len);
	if (p == NULL)
		return -ENOMEM;
	memcpy(p + b->len, data, len);
	b->data = p;
	b->len += len;
	return 0;
}

static json_t *body_parse(struct body *b)
{
	json_t *j = json_loadb(b->data != NULL ? b->data : "", b->len, 0, NULL);

	free(b->data);
	*b = (struct body){ 0 };
	return j;
}

static int status_data(const char *data, size_t len, void *ctx)
{
	return body_add(&((struct source_adapter *)ctx)->status, data, len);
}

static void status_done(int status, const char *text, void *ctx)
{
	struct source_adapter *a = ctx;
	json_t *j = body_parse(&a->status);
	const json_t *on = json_object_get(j, "enabled");
	uint64_t published = (uint64_t)json_integer_value(json_object_get(j, "published_batches")) +
		(uint64_t)json_integer_value(json_object_get(j, "dropped_events"));

	a->asking = false;
	if (status == 404)
		source_status(&a->s, false, 0, clock_now_ns()); /* built without events */
	else if (status == 200 && json_is_boolean(on))
		source_status(&a->s, json_is_true(on), published, clock_now_ns());
	else
		log_limited(LOG_LEVEL_WARN, "source", 60000, "no status source=%s http=%d error=%s",
			a->cfg.name, status, text);
	json_decref(j);
}

static int segments_data(const char *data, size_t len, void *ctx)
{
	return body_add(&((struct source_adapter *)ctx)->segments, data, len);
}

/* The same set in any order gives the same number. */
static void segments_done(int status, const char *text, void *ctx)
{
	static const struct digest_key none;
	struct source_adapter *a = ctx;
	json_t *j = body_parse(&a->segments), *one;
	const json_t *list = json_object_get(j, "segments");
	uint64_t hash = 1;
	size_t i;

	(void)text;
	json_array_foreach(list, i, one) {
		const char *id = json_string_value(json_object_get(one, "segment_id"));

		if (id != NULL)
			hash += digest_of_key(&none, id, strlen(id)).lo;
	}
	if (status == 200 && json_is_array(list))
		source_segments(&a->s, hash, clock_now_ns());
	json_decref(j);
}

static int list_data(const char *data, size_t len, void *ctx)
{
	struct source_adapter *a = ctx;

	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n') {
			if (a->line_len > 0 && !a->line_skip)
				a->handler->on_listed(a->line, a->line_len, a->ctx);
			a->line_len = 0;
			a->line_skip = false;
		} else if (a->line_len == KV_KEY_MAX) {
			a->line_skip = true;
		} else {
			a->line[a->line_len++] = data[i];
		}
	}
	return 0;
}

static void list_done(int status, const char *text, void *ctx)
{
	struct source_adapter *a = ctx;
	bool ok = status == 200;

	if (ok && a->line_len > 0 && !a->line_skip) /* the last one need not end */
		a->handler->on_listed(a->line, a->line_len, a->ctx);
	a->listing = false;
	if (a->handler->on_list_end(ok, a->ctx) < 0)
		ok = false;
	source_listing_end(&a->s, ok, a->list_began_ns, clock_now_ns());
	if (!ok)
		log_limited(LOG_LEVEL_WARN, "source", 10000,
			"listing failed source=%s http=%d error=%s", a->cfg.name, status, text);
}

static const struct http_handler on_status = { status_data, status_done };
static const struct http_handler on_segments = { segments_data, segments_done };
static const struct http_handler on_list = { list_data, list_done };

static bool ask(struct source_adapter *a, const char *path, const struct http_handler *h)
{
	snprintf(a->url, sizeof(a->url), "%s%s", a->cfg.admin, path);
	return http_get(a->http, a->url, a->cfg.timeout_ms, h, a) != NULL;
}

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct source_adapter *a = arg;
	uint64_t now = clock_now_ns();
	enum source_action action;

	(void)fd;
	(void)what;
	event_active(a->monitored, EV_READ, 0);
	event_active(a->readable, EV_READ, 0);
	action = a->cfg.admin == NULL ? SOURCE_NOTHING : source_tick(&a->s, now);
	if (action == SOURCE_STATUS) {
		source_status_begin(&a->s, now);
		if (!a->asking)
			a->asking = ask(a, "/kv_events/status", &on_status);
		(void)ask(a, "/get_segments_detail", &on_segments);
	} else if (action == SOURCE_LIST && !a->listing && a->handler->on_list_begin(a->ctx) == 0) {
		source_listing_begin(&a->s, now);
		a->list_began_ns = now;
		a->line_len = 0;
		a->line_skip = false;
		a->listing = ask(a, "/get_all_keys", &on_list);
		if (!a->listing) {
			(void)a->handler->on_list_end(false, a->ctx);
			source_listing_end(&a->s, false, now, now);
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

static int subscribe(struct source_adapter *a)
{
	const int hwm = HWM, linger = 0, reconnect_ms = 100, reconnect_max_ms = 5000;
	const int heartbeat_ms = 5000, heartbeat_timeout_ms = 15000;
	const int64_t max = KV_PAYLOAD_MAX;
	const char *monitor = "inproc://monitor";

	a->zmq = zmq_ctx_new();
	if (a->zmq == NULL)
		return -errno;
	a->sub = zmq_socket(a->zmq, ZMQ_SUB);
	a->monitor = zmq_socket(a->zmq, ZMQ_PAIR);
	if (a->sub == NULL || a->monitor == NULL)
		return -errno;
	/* A peer that is gone without a word shows by its heartbeat. */
	if (zmq_setsockopt(a->sub, ZMQ_RCVHWM, &hwm, sizeof(hwm)) < 0 ||
		zmq_setsockopt(a->sub, ZMQ_LINGER, &linger, sizeof(linger)) < 0 ||
		zmq_setsockopt(a->sub, ZMQ_MAXMSGSIZE, &max, sizeof(max)) < 0 ||
		zmq_setsockopt(a->sub, ZMQ_RECONNECT_IVL, &reconnect_ms, sizeof(reconnect_ms)) <
			0 ||
		zmq_setsockopt(a->sub, ZMQ_RECONNECT_IVL_MAX, &reconnect_max_ms,
			sizeof(reconnect_max_ms)) < 0 ||
		zmq_setsockopt(a->sub, ZMQ_HEARTBEAT_IVL, &heartbeat_ms, sizeof(heartbeat_ms)) <
			0 ||
		zmq_setsockopt(a->sub, ZMQ_HEARTBEAT_TIMEOUT, &heartbeat_timeout_ms,
			sizeof(heartbeat_timeout_ms)) < 0 ||
		zmq_setsockopt(a->sub, ZMQ_SUBSCRIBE, "", 0) < 0 ||
		zmq_socket_monitor(a->sub, monitor,
			ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) < 0 ||
		zmq_connect(a->monitor, monitor) < 0 || zmq_connect(a->sub, a->cfg.events) < 0)
		return -errno;
	return 0;
}

struct source_adapter *source_adapter_create(struct event_base *base, struct http *http,
	const struct source_adapter_config *cfg, const struct source_adapter_handler *handler,
	void *ctx, char *err, size_t err_len)
{
	struct timeval every = { 0, TICK_MS * 1000 };
	struct source_adapter *a = calloc(1, sizeof(*a));
	int ret = -ENOMEM;

	if (a == NULL)
		goto err;
	a->cfg = *cfg;
	a->handler = handler;
	a->ctx = ctx;
	a->http = http;
	source_init(&a->s, &cfg->machine);
	ret = subscribe(a);
	if (ret < 0)
		goto err;
	a->readable = watch(base, a->sub, readable_cb, a);
	a->monitored = watch(base, a->monitor, monitored_cb, a);
	a->tick = event_new(base, -1, EV_PERSIST, tick_cb, a);
	ret = -ENOMEM;
	if (a->readable == NULL || a->monitored == NULL || a->tick == NULL ||
		event_add(a->tick, &every) < 0)
		goto err;
	return a;
err:
	snprintf(err, err_len, "source %s at %s: %s", cfg->name, cfg->events, zmq_strerror(-ret));
	source_adapter_destroy(a);
	errno = -ret;
	return NULL;
}

void source_adapter_destroy(struct source_adapter *a)
{
	if (a == NULL)
		return;
	if (a->tick != NULL)
		event_free(a->tick);
	if (a->readable != NULL)
		event_free(a->readable);
	if (a->monitored != NULL)
		event_free(a->monitored);
	if (a->monitor != NULL)
		zmq_close(a->monitor);
	if (a->sub != NULL)
		zmq_close(a->sub);
	if (a->zmq != NULL)
		zmq_ctx_term(a->zmq);
	free(a->status.data);
	free(a->segments.data);
	free(a);
}

const struct source *source_adapter_state(const struct source_adapter *a)
{
	return &a->s;
}

uint64_t source_adapter_rejected(const struct source_adapter *a)
{
	return a->rejected;
}
