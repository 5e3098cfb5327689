/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/sources/engine.h"
#include "control/sources/kv_event.h"

#include <stddef.h>

/*
 * An inference engine (vLLM, SGLang) as a source of KV events: subscribes (stream.h), asks its
 * replay socket, and does what engine.h decides. The replay is as both publish it: a request of an
 * empty frame and a seq; answers of an empty frame, seq and payload; at last seq 2^64 - 1. All
 * from the thread of the event base.
 */

struct event_base;
struct stream_hub;
struct engine_source;

struct engine_source_config {
	const char *name;    /* for log lines */
	const char *events;  /* "tcp://10.0.0.6:5557" */
	const char *replay;  /* "tcp://10.0.0.6:5558"; NULL: none */
	const char *topic;   /* what its topics begin with, "": any */
	uint64_t timeout_ns; /* a replay without a word so long has failed, or of 12 times that */
	struct engine_config machine; /* replay is set from above */
};

struct engine_source_handler {
	/** Of a batch, in order; KV_CLEARED is told as on_clear. */
	void (*on_event)(const struct kv_event *e, void *ctx);
	/** Forget everything of this source. */
	void (*on_clear)(void *ctx);
};

/** All strings live as long. NULL + errno, a sentence in err. */
struct engine_source *engine_source_create(struct event_base *base, struct stream_hub *hub,
	const struct engine_source_config *cfg, const struct engine_source_handler *handler,
	void *ctx, char *err, size_t err_len);
/** NULL is ignored. */
void engine_source_destroy(struct engine_source *s);
const struct engine *engine_source_state(const struct engine_source *s);
/** Messages and events that made no sense. */
uint64_t engine_source_rejected(const struct engine_source *s);
/** What is wrong with it now or was within minutes; "": nothing. */
void engine_source_trouble(const struct engine_source *s, char *text, size_t len);
