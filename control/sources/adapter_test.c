/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/adapter.h"

#include "control/base/log.h"
#include "control/sources/http.h"
#include "control/sources/stream.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <zmq.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A publisher and its admin port in this process, over loopback. */

enum {
	KEYS = 16,
	WAIT_S = 20,
	TIMEOUT_MS = 5000,
	SHORT_MS = 400,
	DRIPS = 64,
	LIST_MAX = 4096, /* bytes of a listing */
};

#define MS UINT64_C(1000000)

struct fixture {
	struct event_base *base;
	struct evhttp *admin;
	struct http *http;
	struct stream_hub *hub;
	struct source_adapter *a;
	void *zmq, *pub;
	char events[64], url[64];
	uint64_t seq;     /* of the publisher */
	bool off;         /* the publisher */
	bool truth[KEYS]; /* what the master has */
	bool view[KEYS], listed[KEYS], touched[KEYS];
	int lists, fail_lists, segments;
	bool listing;
	/* answers that come a byte at a time and never end */
	bool drips;
	bool endless, full; /* a listing that goes on; no room for what is listed */
	struct drip {
		struct evhttp_request *req; /* NULL: free */
		struct evhttp_connection *c;
	} dripping[DRIPS];
	int open, open_most;
	struct event *drip;
};

static int number(const char *key, size_t len)
{
	int n = -1;
	char text[16];

	if (len < sizeof(text)) {
		memcpy(text, key, len);
		text[len] = '\0';
		if (sscanf(text, "key-%d", &n) != 1 || n < 0 || n >= KEYS)
			n = -1;
	}
	return n;
}

static void on_event(const struct kv_event *e, void *ctx)
{
	struct fixture *f = ctx;
	int n = number(e->key.data, e->key.len);

	assert_true(n >= 0);
	f->view[n] = e->op == KV_STORED;
	f->touched[n] = true;
}

static void on_clear(void *ctx)
{
	struct fixture *f = ctx;

	memset(f->view, 0, sizeof(f->view));
}

static int on_list_begin(void *ctx)
{
	struct fixture *f = ctx;

	memset(f->listed, 0, sizeof(f->listed));
	memset(f->touched, 0, sizeof(f->touched));
	f->listing = true;
	return 0;
}

static int on_listed(const char *key, size_t len, void *ctx)
{
	struct fixture *f = ctx;
	int n = number(key, len);

	assert_true(f->listing && n >= 0);
	f->listed[n] = true;
	return f->full ? -ENOSPC : 0;
}

static int on_list_end(bool ok, void *ctx)
{
	struct fixture *f = ctx;

	f->listing = false;
	for (int i = 0; i < KEYS && ok; i++)
		if (!f->touched[i])
			f->view[i] = f->listed[i];
	f->lists += ok;
	return 0;
}

static const struct source_adapter_handler handler = { on_event, on_clear, on_list_begin, on_listed,
	on_list_end };

static void dripped_cb(struct evhttp_connection *c, void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < DRIPS; i++) {
		if (f->dripping[i].req == NULL || f->dripping[i].c != c)
			continue;
		f->dripping[i].req = NULL;
		f->open--;
	}
}

static void drip_begin(struct fixture *f, struct evhttp_request *req)
{
	int i = 0;

	while (f->dripping[i].req != NULL)
		assert_true(++i < DRIPS);
	f->dripping[i] = (struct drip){ req, evhttp_request_get_connection(req) };
	f->open_most = ++f->open > f->open_most ? f->open : f->open_most;
	evhttp_connection_set_closecb(f->dripping[i].c, dripped_cb, f);
	evhttp_send_reply_start(req, 200, "");
}

static void drip_cb(evutil_socket_t fd, short what, void *arg)
{
	struct fixture *f = arg;
	struct evbuffer *one = evbuffer_new();

	(void)fd;
	(void)what;
	for (int i = 0; i < DRIPS; i++) {
		if (f->dripping[i].req == NULL)
			continue;
		for (int k = 0; k < 100 && f->endless; k++)
			evbuffer_add(one, "key-1\n", 6);
		evbuffer_add(one, f->endless ? "" : " ", f->endless ? 0 : 1);
		evhttp_send_reply_chunk(f->dripping[i].req, one);
	}
	evbuffer_free(one);
}

static void admin_cb(struct evhttp_request *req, void *arg)
{
	struct evbuffer *out;
	const char *path = evhttp_request_get_uri(req);
	struct fixture *f = arg;
	int status = 200;

	if (f->drips || (f->endless && strcmp(path, "/get_all_keys") == 0)) {
		drip_begin(f, req);
		return;
	}
	out = evbuffer_new();
	if (strcmp(path, "/kv_events/status") == 0) {
		evbuffer_add_printf(out,
			"{\"enabled\":%s,\"published_batches\":%llu,\"dropped_events\":0}",
			f->off ? "false" : "true", (unsigned long long)f->seq);
	} else if (strcmp(path, "/get_segments_detail") == 0) {
		evbuffer_add_printf(out, "{\"segments\":[{\"segment_id\":\"s-%d\"}]}", f->segments);
	} else if (strcmp(path, "/get_all_keys") == 0 && f->fail_lists-- > 0) {
		status = 500;
	} else {
		for (int i = 0; i < KEYS; i++)
			if (f->truth[i])
				evbuffer_add_printf(out, "key-%d\n", i);
	}
	evhttp_send_reply(req, status, "", out);
	evbuffer_free(out);
}

/* {"event_type": .., "object_key": ..} alone in a batch [ts, [event]]. */
static void publish(struct fixture *f, int n, bool stored, bool lost)
{
	uint8_t p[128] = { 0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x82, 0xaa }, seq[8];
	const char *op = stored ? "stored" : "removed";
	size_t at = 13;
	char key[16];

	f->truth[n] = stored;
	f->seq++;
	if (lost)
		return;
	at += (size_t)sprintf((char *)p + at, "event_type%c%s%cobject_key", 0xa0 + (int)strlen(op),
		op, 0xaa);
	snprintf(key, sizeof(key), "key-%d", n);
	at += (size_t)sprintf((char *)p + at, "%c%s", 0xa0 + (int)strlen(key), key);
	for (int i = 0; i < 8; i++)
		seq[i] = (uint8_t)(f->seq >> (56 - 8 * i));
	assert_int_equal(zmq_send(f->pub, "", 0, ZMQ_SNDMORE), 0);
	assert_int_equal(zmq_send(f->pub, seq, 8, ZMQ_SNDMORE), 8);
	assert_int_equal(zmq_send(f->pub, p, at, 0), at);
}

static void pub_open(struct fixture *f, const char *endpoint)
{
	size_t len = sizeof(f->events);
	int linger = 0;

	f->pub = zmq_socket(f->zmq, ZMQ_PUB);
	zmq_setsockopt(f->pub, ZMQ_LINGER, &linger, sizeof(linger));
	assert_int_equal(zmq_bind(f->pub, endpoint), 0);
	assert_int_equal(zmq_getsockopt(f->pub, ZMQ_LAST_ENDPOINT, f->events, &len), 0);
}

static int setup_with(void **state, long timeout_ms)
{
	struct timeval often = { 0, 50000 };
	struct fixture *f = calloc(1, sizeof(*f));
	struct evhttp_bound_socket *bound;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	struct source_adapter_config cfg = { .name = "test",
		.timeout_ms = timeout_ms,
		.list_max = LIST_MAX,
		.machine = { .period_ns = 600000 * MS,
			.poll_ns = 200 * MS,
			.status_ns = 200 * MS,
			.least_ns = 100 * MS,
			.seed = 1 } };
	char err[128];

	log_set_level(LOG_LEVEL_ERROR);
	f->base = event_base_new();
	f->drip = event_new(f->base, -1, EV_PERSIST, drip_cb, f);
	event_add(f->drip, &often);
	f->admin = evhttp_new(f->base);
	evhttp_set_gencb(f->admin, admin_cb, f);
	bound = evhttp_bind_socket_with_handle(f->admin, "127.0.0.1", 0);
	assert_non_null(bound);
	getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &len);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	f->zmq = zmq_ctx_new();
	pub_open(f, "tcp://127.0.0.1:*");
	f->truth[1] = f->truth[2] = true;
	f->seq = 7;
	cfg.events = f->events;
	cfg.admin = f->url;
	f->http = http_create(f->base);
	f->hub = stream_hub_create(f->base);
	f->a = source_adapter_create(f->base, f->hub, f->http, &cfg, &handler, f, err, sizeof(err));
	assert_non_null(f->a);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, TIMEOUT_MS);
}

static int setup_impatient(void **state)
{
	return setup_with(state, SHORT_MS);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	event_free(f->drip);
	http_destroy(f->http);
	source_adapter_destroy(f->a);
	stream_hub_destroy(f->hub);
	evhttp_free(f->admin);
	event_base_free(f->base);
	zmq_close(f->pub);
	zmq_ctx_term(f->zmq);
	free(f);
	return 0;
}

static const struct source *machine(const struct fixture *f)
{
	return source_adapter_state(f->a);
}

/* Run the loop until the view is whole and as it should be. */
static bool settles(struct fixture *f, enum source_state state)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_S;
	do {
		event_base_loop(f->base, EVLOOP_ONCE);
		if (machine(f)->state == state && memcmp(f->view, f->truth, sizeof(f->view)) == 0)
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	return false;
}

static void listing_then_events_make_the_view(void **state)
{
	struct fixture *f = *state;

	assert_true(settles(f, SOURCE_LIVE));
	assert_int_equal(f->lists, 1);
	publish(f, 3, true, false);
	publish(f, 1, false, false);
	assert_true(settles(f, SOURCE_LIVE));
	assert_int_equal(source_adapter_rejected(f->a), 0);
}

static void lost_batch_leads_to_a_listing(void **state)
{
	struct fixture *f = *state;

	assert_true(settles(f, SOURCE_LIVE));
	publish(f, 3, true, false);
	assert_true(settles(f, SOURCE_LIVE));
	publish(f, 4, true, true);
	publish(f, 5, true, false);
	assert_true(settles(f, SOURCE_LIVE));
	assert_true(f->lists >= 2);
	assert_int_equal(machine(f)->gaps, 1);
}

static void restarted_publisher_is_listed_again(void **state)
{
	struct fixture *f = *state;
	char endpoint[64];

	assert_true(settles(f, SOURCE_LIVE));
	publish(f, 3, true, false);
	assert_true(settles(f, SOURCE_LIVE));
	snprintf(endpoint, sizeof(endpoint), "%s", f->events);
	zmq_close(f->pub);
	memset(f->truth, 0, sizeof(f->truth));
	f->truth[9] = true;
	f->seq = 0;
	/* Until its port is free again. */
	while (event_base_loop(f->base, EVLOOP_ONCE) == 0 && machine(f)->connected)
		;
	pub_open(f, endpoint);
	assert_true(settles(f, SOURCE_LIVE));
	assert_true(machine(f)->resyncs[SOURCE_RECONNECT] >= 1);
	publish(f, 10, true, false);
	assert_true(settles(f, SOURCE_LIVE));
}

static void vanished_segment_failed_listing_and_silence_are_made_good(void **state)
{
	struct fixture *f = *state;

	assert_true(settles(f, SOURCE_LIVE));
	f->fail_lists = 2;
	f->truth[1] = f->truth[2] = false; /* with the memory they were in, not a word said */
	f->segments++;
	assert_true(settles(f, SOURCE_LIVE));
	assert_int_equal(machine(f)->failed, 2);
	assert_int_equal(machine(f)->resyncs[SOURCE_SEGMENTS], 1);
}

static void publisher_that_is_off_is_polled(void **state)
{
	struct fixture *f = *state;

	f->off = true;
	assert_true(settles(f, SOURCE_POLLED));
	f->truth[7] = true;
	assert_true(settles(f, SOURCE_POLLED));
	f->off = false;
	assert_true(settles(f, SOURCE_LIVE));
}

static void garbage_is_counted_and_made_good(void **state)
{
	struct fixture *f = *state;

	assert_true(settles(f, SOURCE_LIVE));
	assert_int_equal(zmq_send(f->pub, "x", 1, 0), 1);
	assert_int_equal(zmq_send(f->pub, "", 0, ZMQ_SNDMORE), 0);
	assert_int_equal(zmq_send(f->pub, "\0\0\0\0\0\0\0\x08", 8, ZMQ_SNDMORE), 8);
	assert_int_equal(zmq_send(f->pub, "\xdd\xff\xff\xff\xff", 5, 0), 5);
	f->seq = 8;
	f->truth[4] = true;
	assert_true(settles(f, SOURCE_LIVE));
	assert_int_equal(source_adapter_rejected(f->a), 2);
	assert_int_equal(machine(f)->resyncs[SOURCE_OVERFLOW], 1);
}

static void answers_that_never_end_hold_neither_requests_nor_the_source(void **state)
{
	struct timespec now, end;
	struct fixture *f = *state;

	assert_true(settles(f, SOURCE_LIVE));
	f->drips = true;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 3;
	do {
		event_base_loop(f->base, EVLOOP_ONCE);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	assert_in_range(f->open_most, 1, 2); /* status and segments */
	f->drips = false;
	f->truth[5] = true; /* its event was lost, which the status alone can tell */
	f->seq++;
	assert_true(settles(f, SOURCE_LIVE));
}

/* Run the loop until that is said to be wrong. */
static bool says(struct fixture *f, const char *what)
{
	struct timespec now, end;
	char text[256];

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_S;
	do {
		event_base_loop(f->base, EVLOOP_ONCE);
		source_adapter_trouble(f->a, text, sizeof(text));
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (strstr(text, what) == NULL && now.tv_sec < end.tv_sec);
	return strstr(text, what) != NULL;
}

static void a_listing_without_end_is_ended_and_changes_nothing(void **state)
{
	struct fixture *f = *state;

	assert_true(settles(f, SOURCE_LIVE));
	for (int full = 0; full < 2; full++) {
		f->endless = !full;
		f->full = full;
		publish(f, 3, !full, true); /* a lost event: all is listed again */
		assert_true(says(f,
			full ? "names more keys than memory suffices for"
			     : "is longer than all keys in memory can be"));
		assert_false(source_is_complete(machine(f)));
		assert_true(f->view[1] && f->view[2] && f->view[3] == full);
		f->endless = f->full = false;
		assert_true(settles(f, SOURCE_LIVE));
		assert_true(f->view[3] == !full);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(listing_then_events_make_the_view),
		TEST(lost_batch_leads_to_a_listing),
		TEST(restarted_publisher_is_listed_again),
		TEST(vanished_segment_failed_listing_and_silence_are_made_good),
		TEST(publisher_that_is_off_is_polled),
		TEST(garbage_is_counted_and_made_good),
		TEST(a_listing_without_end_is_ended_and_changes_nothing),
		cmocka_unit_test_setup_teardown(
			answers_that_never_end_hold_neither_requests_nor_the_source,
			setup_impatient, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
