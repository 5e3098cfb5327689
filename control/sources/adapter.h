/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/sources/kv_event.h"
#include "control/sources/source.h"

#include <stdbool.h>

/*
 * A Mooncake master as a source: subscribes to its events (stream.h), asks its admin port over
 * HTTP, and does what source.h decides. All from the thread of the event base.
 *
 * /get_all_keys is one key a line. A key with a line feed in it cannot be told there and is not
 * listed right; the events name it.
 */

struct event_base;
struct http;
struct query_answer;
struct source_adapter;
struct stream_hub;

struct source_adapter_config {
	const char *name;   /* for log lines */
	const char *events; /* "tcp://10.0.0.5:5557" */
	const char *admin;  /* "http://10.0.0.5:9003" */
	long timeout_ms;    /* of an answer of the admin port */
	uint64_t list_max;  /* bytes of a listing, 0: any number */
	struct source_config machine;
};

struct source_adapter_handler {
	void (*on_event)(const struct kv_event *e, void *ctx);
	/** Forget everything of this source. */
	void (*on_clear)(void *ctx);
	/** -EBUSY: another source is listing; tried again when poked, or a little later. */
	int (*on_list_begin)(void *ctx);
	/** Negative: no room for it, nor for the rest of the listing. */
	int (*on_listed)(const char *key, size_t len, void *ctx);
	/** Negative: the listing proves nothing and has to be repeated. */
	int (*on_list_end)(bool ok, void *ctx);
};

/** hub and http are shared by adapters of one base. NULL + errno, a sentence in err. */
struct source_adapter *source_adapter_create(struct event_base *base, struct stream_hub *hub,
	struct http *http, const struct source_adapter_config *cfg,
	const struct source_adapter_handler *handler, void *ctx, char *err, size_t err_len);
/** After its http, whose requests it made. NULL is ignored. */
void source_adapter_destroy(struct source_adapter *a);
/** Now it may list. */
void source_adapter_poke(struct source_adapter *a);
/**
 * Another source waits for this one's listing to end, which it does as failed if it has gone on for
 * 5 s at less than 1 MiB a second. From a timer.
 */
void source_adapter_hurry(struct source_adapter *a);
/**
 * Ask for objects (query.h); what turns out to be gone in silence has everything listed again. 0 or
 * -ENOMEM.
 */
int source_adapter_query(struct source_adapter *a, const struct kv_text *keys, size_t n,
	void (*done)(const struct query_answer *a, size_t n, void *ctx), void *ctx);
/** What is known about it. */
const struct source *source_adapter_state(const struct source_adapter *a);
/** Batches that were no batches, and events left out of good ones. */
uint64_t source_adapter_rejected(const struct source_adapter *a);
/** What is wrong with it now or was within minutes; "": nothing. */
void source_adapter_trouble(const struct source_adapter *a, char *text, size_t len);
