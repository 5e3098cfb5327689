/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/http.h"

#include <curl/curl.h>
#include <event2/event.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

struct http_get {
	TAILQ_ENTRY(http_get) entry;
	struct http *h;
	CURL *easy;
	const struct http_handler *handler;
	void *ctx;
	char error[CURL_ERROR_SIZE];
};

struct http {
	struct event_base *base;
	CURLM *multi;
	struct event *timer;
	TAILQ_HEAD(, http_get) gets;
};

static void get_free(struct http_get *g)
{
	curl_multi_remove_handle(g->h->multi, g->easy);
	curl_easy_cleanup(g->easy);
	TAILQ_REMOVE(&g->h->gets, g, entry);
	free(g);
}

static void finish(struct http *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
		struct http_get *g;
		long status = 0;
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&g);
		curl_easy_getinfo(g->easy, CURLINFO_RESPONSE_CODE, &status);
		if (g->error[0] == '\0' && result != CURLE_OK)
			snprintf(g->error, sizeof(g->error), "%s", curl_easy_strerror(result));
		g->handler->on_done(result == CURLE_OK ? (int)status : 0, g->error, g->ctx);
		get_free(g);
	}
}

static void socket_cb(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	int running, flags = 0;

	if (what & EV_READ)
		flags |= CURL_CSELECT_IN;
	if (what & EV_WRITE)
		flags |= CURL_CSELECT_OUT;
	curl_multi_socket_action(h->multi, fd, flags, &running);
	finish(h);
}

static void timer_cb(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	int running;

	(void)fd;
	(void)what;
	curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	finish(h);
}

/* curl says which sockets it waits for .. */
static int watch(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct event *ev = socket_arg;
	struct http *h = arg;
	short flags = EV_PERSIST;

	(void)easy;
	if (ev != NULL)
		event_free(ev);
	ev = NULL;
	if (what != CURL_POLL_REMOVE) {
		if (what & CURL_POLL_IN)
			flags |= EV_READ;
		if (what & CURL_POLL_OUT)
			flags |= EV_WRITE;
		ev = event_new(h->base, fd, flags, socket_cb, h);
		if (ev == NULL || event_add(ev, NULL) < 0)
			return -1;
	}
	curl_multi_assign(h->multi, fd, ev);
	return 0;
}

/* .. and for how long. */
static int wait_for(CURLM *multi, long ms, void *arg)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	struct http *h = arg;

	(void)multi;
	if (ms < 0)
		event_del(h->timer);
	else
		event_add(h->timer, &tv);
	return 0;
}

struct http *http_create(struct event_base *base)
{
	struct http *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->base = base;
	TAILQ_INIT(&h->gets);
	h->multi = curl_multi_init();
	h->timer = evtimer_new(base, timer_cb, h);
	if (h->multi == NULL || h->timer == NULL) {
		http_destroy(h);
		errno = ENOMEM;
		return NULL;
	}
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, watch);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, wait_for);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	return h;
}

void http_destroy(struct http *h)
{
	struct http_get *g;

	if (h == NULL)
		return;
	while ((g = TAILQ_FIRST(&h->gets)) != NULL)
		get_free(g);
	if (h->multi != NULL)
		curl_multi_cleanup(h->multi);
	if (h->timer != NULL)
		event_free(h->timer);
	free(h);
}

static size_t data_cb(char *data, size_t size, size_t n, void *arg)
{
	struct http_get *g = arg;
	long status = 0;

	curl_easy_getinfo(g->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status == 200 && g->handler->on_data(data, size * n, g->ctx) != 0)
		return CURL_WRITEFUNC_ERROR;
	return size * n;
}

struct http_get *http_get(struct http *h, const char *url, long timeout_ms, long total_ms,
	const struct http_handler *handler, void *ctx)
{
	struct http_get *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->h = h;
	g->handler = handler;
	g->ctx = ctx;
	g->easy = curl_easy_init();
	if (g->easy == NULL) {
		free(g);
		errno = ENOMEM;
		return NULL;
	}
	TAILQ_INSERT_TAIL(&h->gets, g, entry);
	curl_easy_setopt(g->easy, CURLOPT_URL, url);
	curl_easy_setopt(g->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(g->easy, CURLOPT_PRIVATE, g);
	curl_easy_setopt(g->easy, CURLOPT_ERRORBUFFER, g->error);
	curl_easy_setopt(g->easy, CURLOPT_WRITEFUNCTION, data_cb);
	curl_easy_setopt(g->easy, CURLOPT_WRITEDATA, g);
	curl_easy_setopt(g->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(g->easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
	curl_easy_setopt(g->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(g->easy, CURLOPT_LOW_SPEED_TIME, timeout_ms / 1000 + 1);
	curl_easy_setopt(g->easy, CURLOPT_TIMEOUT_MS, total_ms);
	curl_easy_setopt(g->easy, CURLOPT_PROXY, "");
	if (curl_multi_add_handle(h->multi, g->easy) != CURLM_OK) {
		get_free(g);
		errno = ENOMEM;
		return NULL;
	}
	return g;
}

void http_cancel(struct http_get *g)
{
	if (g != NULL)
		get_free(g);
}
