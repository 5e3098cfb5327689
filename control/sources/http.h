/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * GET over HTTP in the event loop, by libcurl. For the admin port of a cache's master: plain HTTP
 * or HTTPS, no redirects, answers bounded by the caller. The thread of the event base.
 */

struct event_base;
struct http;
struct http_get;

struct http_handler {
	/** Bytes of the body of an answer 200. Non-zero ends the request as failed. */
	int (*on_data)(const char *data, size_t len, void *ctx);
	/** status 0: no answer, text says why. The request is gone after it. */
	void (*on_done)(int status, const char *text, void *ctx);
};

/** NULL + errno. */
struct http *http_create(struct event_base *base);
/** Ends all requests without a call. NULL is ignored. */
void http_destroy(struct http *h);
/**
 * timeout_ms without any byte ends it, and total_ms with whatever comes: a server that sends a byte
 * now and then would hold it for ever. on_done follows from the loop, never from here. NULL +
 * errno. h and ctx live until then.
 */
struct http_get *http_get(struct http *h, const char *url, long timeout_ms, long total_ms,
	const struct http_handler *handler, void *ctx);
/** End it without a call. Not from its handler. NULL is ignored. */
void http_cancel(struct http_get *g);
