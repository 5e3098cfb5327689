/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The embedded pool as a source: follows a pool file (dataplane/pool/shm_change.h), from the thread
 * of the event base. What appears and goes is told as events; after a start, and whenever more was
 * missed than the pool remembers, all entries are walked, POOL_SOURCE_STEP at a time, so that the
 * view is right again without ever having been emptied.
 *
 * A pool file that is gone, or cannot be opened, makes the source incomplete; what it held stays
 * until a file is there: the same one goes on, another one (told by its random key) begins from
 * nothing.
 */

enum { POOL_SOURCE_STEP = 4096 };

struct event_base;
struct pool_source;

struct pool_source_handler {
	/** *digest is what on_removed() will name it by. Negative: refused, it is told again. */
	int (*on_stored)(const void *key, size_t len, uint64_t size, bool ours,
		struct digest128 *digest, void *ctx);
	void (*on_removed)(struct digest128 digest, bool evicted, void *ctx);
	/** Another file: forget everything of this source. */
	void (*on_clear)(void *ctx);
	void (*on_walk_begin)(void *ctx);
	void (*on_walk_end)(void *ctx);
};

struct pool_source_stats {
	const char *state;    /* "down", "incomplete", "live" */
	uint64_t complete_ns; /* the view was complete as of; 0: never */
	uint64_t events, walks, objects;
	uint64_t behind; /* walks because more was missed than the pool remembers */
	char trouble[256];
};

/** NULL + errno: out of memory. The pool need not be there yet. */
struct pool_source *pool_source_create(struct event_base *base, const char *path,
	const struct pool_source_handler *handler, void *ctx);
/** NULL is ignored. */
void pool_source_destroy(struct pool_source *p);
bool pool_source_is_complete(const struct pool_source *p);
void pool_source_stats_get(const struct pool_source *p, struct pool_source_stats *out);
