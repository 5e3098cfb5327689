/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/recall.h"
#include "control/site/site_config.h"
#include "control/site/store.h"
#include "control/sources/query.h"

#include <stdbool.h>
#include <sys/queue.h>

/*
 * One source of a site, whatever kind it is, and how its word gets into the store: a Mooncake
 * master (control/sources/adapter.h), an inference engine (engine_source.h) or an embedded pool
 * (pool_source.h). The thread of the event base.
 *
 * An engine names blocks by hash; the keys it is configured with say which objects that is. It may
 * hold a block on several media, and each of them is an owner of its own in the store, so that a
 * block is gone only when it is gone from all. Nobody can read an engine's memory from outside:
 * what only engines hold is known to exist, and is never ordered from there (LOG_FLAG_FIXED).
 */

enum { FOLLOWER_MEDIA = 4 }; /* of an engine; what more there are share the last one */

struct event_base;
struct follower;
struct http;
struct stream_hub;

/* What the followers of a site share; theirs as long as they live. */
struct follower_site {
	const struct site_config *cfg;
	struct event_base *base;
	struct stream_hub *hub;
	struct http *http;
	struct store *store;
	struct recall *recall;
	struct sets *sets; /* learns of blocks' parents */
	uint64_t seed;
	uint64_t strangers; /* events of tenants that are not configured, or without a key */
	uint32_t owners;    /* given out so far */
	TAILQ_HEAD(, follower) waiting; /* to list, while another one does */
	bool fixed[STORE_OWNERS];       /* for the store's configuration */
};

/* A source as people want to see it. */
struct site_source_view {
	const char *name, *kind, *state;
	uint64_t complete_ns; /* as of when its view was complete; 0: never */
	uint64_t objects, events, gaps, listings;
	char trouble[256]; /* "": none */
};

/** The caller fills in the rest. */
void follower_site_init(struct follower_site *site);
/** Whether this process may open as many files as all sources need; false: a sentence in err. */
bool follower_files_suffice(const struct site_config *cfg, char *err, size_t err_len);
/** number: in the configuration. NULL + errno, a sentence in err. */
struct follower *follower_create(struct follower_site *site, unsigned int number, char *err,
	size_t err_len);
/** After http_destroy(). NULL is ignored. */
void follower_destroy(struct follower *f);

/** Whether what it named is there. */
bool follower_is_known(const struct follower *f);
/** Whether what it did not name is not there. */
bool follower_is_complete(const struct follower *f);
/** Whether the store had no room for something of it since its last listing. */
bool follower_is_refused(const struct follower *f);
/** Whether an owner's number in the store is its. */
bool follower_is_owner(const struct follower *f, uint32_t owner);
/** As source_adapter_query(). -ENOTSUP: not a Mooncake master. */
int follower_query(struct follower *f, const struct kv_text *keys, size_t n,
	void (*done)(const struct query_answer *a, size_t n, void *ctx), void *ctx);
void follower_view(const struct follower *f, struct site_source_view *out);
/** Twenty times a second or so. */
void follower_tick(struct follower *f);
