/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/adapter.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/index/digest.h"
#include "control/sources/http.h"
#include "control/sources/query.h"
#include "control/sources/stream.h"

#include <event2/event.h>
#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK_MS = 100,
	AGAIN_MS = 5,       /* while another source lists */
	BODY_MAX = 4 << 20, /* of status and segments */
	LIST_TIMEOUTS = 60, /* a listing takes no longer than so many timeouts */
	URL_MAX = 512,
	WHY_MAX = 160,
	HURRY_BYTES = 1 << 20, /* a second */
};
#define HURRY_NS UINT64_C(5000000000)

#define STATUS  "/kv_events/status"
#define LISTING "/get_all_keys"

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
	struct stream *stream;
	struct event *tick, *again;
	bool asking, asking_segments;
	struct body status, segments;
	char no_status[WHY_MAX], no_list[WHY_MAX]; /* why the last ones failed, "": they did not */
	/* the listing going on */
	struct http_get *list;
	uint64_t list_began_ns, list_bytes;
	const char *list_fault; /* why we ended it, NULL: we did not */
	char line[KV_KEY_MAX + 1];
	size_t line_len;
	bool listing, line_skip;
	char url[URL_MAX];
};

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

static void on_message(const struct stream_message *m, void *ctx)
{
	uint64_t seq, now = clock_now_ns();
	struct source_adapter *a = ctx;
	struct kv_batch b;
	int ret;

	if (m->frames != 3 || kv_seq_decode(m->seq, m->seq_len, &seq) < 0) {
		stream_reject(a->stream, 1);
		return;
	}
	source_batch(&a->s, seq, now);
	ret = kv_batch_decode(m->payload, m->payload_len, event_cb, a, &b);
	stream_reject(a->stream, ret < 0 ? 1 : b.rejected);
	if (ret < 0) { /* its events are lost */
		source_overflow(&a->s, now);
		log_limited(LOG_LEVEL_WARN, "source", 10000, "not a batch source=%s error=%s",
			a->cfg.name, strerror(-ret));
	}
}

static void on_connected(void *ctx)
{
	source_connected(&((struct source_adapter *)ctx)->s, clock_now_ns());
}

static void on_disconnected(void *ctx)
{
	source_disconnected(&((struct source_adapter *)ctx)->s, clock_now_ns());
}

static const struct stream_handler on_stream = { on_message, on_connected, on_disconnected };

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

/* What the admin port's answer to path was, for people. */
static void why(char out[static WHY_MAX], const char *path, int status, const char *text)
{
	if (status == 0)
		snprintf(out, WHY_MAX, "%s: %s", path, text);
	else if (status == 200)
		snprintf(out, WHY_MAX, "%s: answers something else", path);
	else
		snprintf(out, WHY_MAX, "%s: answers with HTTP status %d", path, status);
}

static void status_done(int status, const char *text, void *ctx)
{
	struct source_adapter *a = ctx;
	json_t *j = body_parse(&a->status);
	const json_t *on = json_object_get(j, "enabled");
	uint64_t published = (uint64_t)json_integer_value(json_object_get(j, "published_batches")) +
		(uint64_t)json_integer_value(json_object_get(j, "dropped_events"));

	a->asking = false;
	a->no_status[0] = '\0';
	if (status == 404)
		source_status(&a->s, false, 0, clock_now_ns()); /* built without events */
	else if (status == 200 && json_is_boolean(on))
		source_status(&a->s, json_is_true(on), published, clock_now_ns());
	else if (status == 0)
		source_unanswered(&a->s, clock_now_ns());
	if (status != 404 && (status != 200 || !json_is_boolean(on))) {
		why(a->no_status, STATUS, status, text);
		log_limited(LOG_LEVEL_WARN, "source", 60000, "no status source=%s http=%d error=%s",
			a->cfg.name, status, text);
	}
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

	a->asking_segments = false;
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

static int line_end(struct source_adapter *a)
{
	int rc = a->handler->on_listed(a->line, a->line_len, a->ctx);

	if (rc < 0)
		a->list_fault = "names more keys than memory suffices for";
	return rc;
}

static int list_data(const char *data, size_t len, void *ctx)
{
	struct source_adapter *a = ctx;

	a->list_bytes += len;
	if (a->cfg.list_max > 0 && a->list_bytes > a->cfg.list_max) {
		a->list_fault = "is longer than all keys in memory can be";
		return -EFBIG;
	}
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n') {
			if (a->line_len > 0 && !a->line_skip && line_end(a) < 0)
				return -ENOSPC;
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
		ok = line_end(a) == 0;
	a->listing = false;
	a->list = NULL;
	a->no_list[0] = '\0';
	if (a->list_fault != NULL)
		snprintf(a->no_list, sizeof(a->no_list), "%s", a->list_fault);
	else if (!ok)
		why(a->no_list, LISTING, status, text);
	if (a->handler->on_list_end(ok, a->ctx) < 0)
		ok = false;
	source_listing_end(&a->s, ok, a->list_began_ns, clock_now_ns());
	if (!ok)
		log_limited(LOG_LEVEL_WARN, "source", 10000,
			"listing failed source=%s http=%d error=%s", a->cfg.name, status,
			a->list_fault != NULL ? a->list_fault : text);
}

static const struct http_handler on_status = { status_data, status_done };
static const struct http_handler on_segments = { segments_data, segments_done };
static const struct http_handler on_list = { list_data, list_done };

static struct http_get *ask(struct source_adapter *a, const char *path, long total_ms,
	const struct http_handler *h)
{
	snprintf(a->url, sizeof(a->url), "%s%s", a->cfg.admin, path);
	return http_get(a->http, a->url, a->cfg.timeout_ms, total_ms, h, a);
}

static void list_begin(struct source_adapter *a, uint64_t now)
{
	if (a->listing || a->handler->on_list_begin(a->ctx) < 0)
		return;
	source_listing_begin(&a->s, now);
	a->list_began_ns = now;
	a->line_len = 0;
	a->line_skip = false;
	a->list_bytes = 0;
	a->list_fault = NULL;
	a->list = ask(a, LISTING, a->cfg.timeout_ms * LIST_TIMEOUTS, &on_list);
	a->listing = a->list != NULL;
	if (!a->listing) {
		(void)a->handler->on_list_end(false, a->ctx);
		source_listing_end(&a->s, false, now, now);
	}
}

static void act(struct source_adapter *a)
{
	uint64_t now = clock_now_ns();
	enum source_action action = source_tick(&a->s, now);

	if (action == SOURCE_STATUS) {
		source_status_begin(&a->s, now);
		if (!a->asking)
			a->asking = ask(a, STATUS, a->cfg.timeout_ms, &on_status) != NULL;
		if (!a->asking_segments)
			a->asking_segments = ask(a, "/get_segments_detail", a->cfg.timeout_ms,
						     &on_segments) != NULL;
	} else if (action == SOURCE_LIST) {
		list_begin(a, now);
	}
}

static void again_cb(evutil_socket_t fd, short what, void *arg)
{
	struct source_adapter *a = arg;
	uint64_t now = clock_now_ns();

	(void)fd;
	(void)what;
	if (source_may_list(&a->s, now))
		list_begin(a, now);
}

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct source_adapter *a = arg;

	(void)fd;
	(void)what;
	stream_poll(a->stream);
	act(a);
}

struct source_adapter *source_adapter_create(struct event_base *base, struct stream_hub *hub,
	struct http *http, const struct source_adapter_config *cfg,
	const struct source_adapter_handler *handler, void *ctx, char *err, size_t err_len)
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
	a->stream = stream_create(hub, cfg->name, cfg->events, "", &on_stream, a);
	if (a->stream == NULL) {
		ret = -errno;
		goto err;
	}
	a->tick = event_new(base, -1, EV_PERSIST, tick_cb, a);
	a->again = evtimer_new(base, again_cb, a);
	if (a->tick == NULL || a->again == NULL || event_add(a->tick, &every) < 0)
		goto err;
	return a;
err:
	snprintf(err, err_len, "source %s at %s: %s", cfg->name, cfg->events, strerror(-ret));
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
	if (a->again != NULL)
		event_free(a->again);
	stream_destroy(a->stream);
	free(a->status.data);
	free(a->segments.data);
	free(a);
}

void source_adapter_poke(struct source_adapter *a)
{
	event_active(a->again, EV_TIMEOUT, 0);
}

void source_adapter_hurry(struct source_adapter *a)
{
	uint64_t took_ns = clock_now_ns() - a->list_began_ns;

	if (!a->listing || took_ns < HURRY_NS ||
		a->list_bytes / (took_ns / 1000000) * 1000 >= HURRY_BYTES)
		return;
	http_cancel(a->list);
	a->list_fault = "is listed slowly, and others wait";
	list_done(0, "", a);
}

struct question {
	struct source_adapter *a;
	void (*done)(const struct query_answer *a, size_t n, void *ctx);
	void *ctx;
};

static void on_answers(const struct query_answer *answers, size_t n, void *ctx)
{
	struct question *q = ctx;
	size_t gone = 0;

	for (size_t i = 0; i < n; i++)
		gone += answers[i].known && !answers[i].there;
	if (gone > 0 && source_is_complete(&q->a->s)) {
		log_info("source", "gone in silence source=%s objects=%zu", q->a->cfg.name, gone);
		source_silent(&q->a->s, clock_now_ns());
	}
	q->done(answers, n, q->ctx);
	free(q);
}

int source_adapter_query(struct source_adapter *a, const struct kv_text *keys, size_t n,
	void (*done)(const struct query_answer *a, size_t n, void *ctx), void *ctx)
{
	struct question *q = malloc(sizeof(*q));
	int rc;

	if (q == NULL)
		return -ENOMEM;
	*q = (struct question){ a, done, ctx };
	rc = query_start(a->http, a->cfg.admin, a->cfg.timeout_ms, keys, n, on_answers, q);
	if (rc < 0)
		free(q);
	return rc;
}

const struct source *source_adapter_state(const struct source_adapter *a)
{
	return &a->s;
}

uint64_t source_adapter_rejected(const struct source_adapter *a)
{
	return stream_rejected(a->stream);
}

void source_adapter_trouble(const struct source_adapter *a, char *text, size_t len)
{
	const char *port = a->no_list[0] != '\0' ? a->no_list : a->no_status;

	text[0] = '\0';
	if (stream_tells_cut(a->stream, text, len))
		return;
	if (stream_tells_rejected(a->stream, text, len)) {
		size_t at = strlen(text);

		if (port[0] != '\0')
			snprintf(text + at, len - at, "; %s", port);
	} else if (port[0] != '\0') {
		snprintf(text, len, "%s", port);
	} else if (a->s.state == SOURCE_DOWN) {
		(void)stream_tells_losses(a->stream, text, len);
	}
}
