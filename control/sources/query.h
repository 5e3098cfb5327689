/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/sources/kv_event.h"

#include <stdbool.h>

/*
 * Whether objects are there and how large they are, by the word of a Mooncake master's admin port
 * (/batch_query_keys, which gives no lease), a few kilobytes of keys a request. Keys with a comma
 * cannot be asked for there, nor what is not UTF-8. The thread of the event base.
 */

struct http;

struct query_answer {
	bool known; /* else there was no answer, or none that tells */
	bool there;
	uint64_t size; /* 0: not known */
};

/**
 * done gets n answers in the order of the keys, from the loop, never from here; it is not called
 * after http_destroy(). keys and admin need not live on. 0 or -ENOMEM.
 */
int query_start(struct http *http, const char *admin, long timeout_ms, const struct kv_text *keys,
	size_t n, void (*done)(const struct query_answer *a, size_t n, void *ctx), void *ctx);
