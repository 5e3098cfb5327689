/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/index.h"
#include "control/log/feed.h"
#include "control/sources/touched.h"

/*
 * What a site holds, by the word of its sources: the key strings behind the digests, and which
 * sources (owners, by number) have each object, any number of them. The site's index, log and sums
 * follow from it: an object appears with its first owner and goes with its last one, and only
 * those two are events of the log.
 *
 * From engines nothing can be had. When the first owner comes that is none, or the last one goes,
 * the log says so by a removal and a store, both of which tell of the same object.
 *
 * A source's listing is merged while its events go on: keys that events named since it began are
 * left to the events, keys it names are added, and when it is complete, what it did not name is not
 * that source's any more. A listing that fails takes nothing away. One source lists at a time.
 *
 * Pure, one thread: the one that writes the index.
 */

enum {
	STORE_OWNERS = 4096,         /* a source may be several, one for each medium */
	STORE_TENANTS = 64,          /* of a site, and of its configuration */
	STORE_TOUCHED_MAX = 1 << 22, /* keys named by events during a listing */
};

struct store;

struct store_config {
	uint64_t keys;      /* expected; sizes tables */
	uint64_t max_bytes; /* of objects and keys; what comes beyond is refused */
	struct log *log;    /* the caller's */
	/* The caller's, by number one for each tenant; present = bit 0. */
	struct index *const *indexes;
	const bool *fixed; /* by owner: what only these have has LOG_FLAG_FIXED; NULL: none */
	/* Warm-up keys and such; NULL: none. */
	bool (*ignore)(void *ctx, const void *key, size_t len);
	/* Fills in the set, and LOG_FLAG_FIXED if it is not to be shipped; NULL: no sets. */
	void (*describe)(void *ctx, uint16_t tenant, const void *key, size_t len,
		struct log_record *r);
	void *ctx; /* of these two */
	/* An event says that it is there, new to us or not; NULL: nobody wants to know. */
	void (*arrived)(void *ctx, uint16_t tenant, struct digest128 d);
	void *arrived_ctx;
};

struct store_stats {
	uint64_t objects, bytes;
	uint64_t refused; /* for want of memory: the view is not complete */
	uint64_t ignored;
};

struct store_key {
	const struct digest_key *tenant_key;
	uint16_t tenant;
	const void *data;
	size_t len;    /* 1 .. 65535 */
	uint64_t size; /* of the object; 0: not known */
};

/** NULL + errno. */
struct store *store_create(const struct store_config *cfg);
void store_destroy(struct store *s);

/** Source has it. 1: the site has it since now; 0; -ENOSPC, -ENOMEM: refused. */
int store_stored(struct store *s, uint32_t source, const struct store_key *k, uint8_t flags,
	uint64_t now_ns);
/** Source has it no more. 1: nor has the site; 0. */
int store_removed(struct store *s, uint32_t source, const struct store_key *k, uint8_t flags,
	uint64_t now_ns);
/** The same by its digest. */
int store_gone(struct store *s, uint32_t source, struct digest128 d, uint8_t flags,
	uint64_t now_ns);
/** Source has nothing. */
void store_clear(struct store *s, uint32_t source, uint64_t now_ns);

/** Of one tenant's keys, the others are left alone. -EBUSY: another source is listing. */
int store_listing_begin(struct store *s, uint32_t source, uint16_t tenant);
/** One key of the listing. Errors as store_stored(). */
int store_listed(struct store *s, const struct store_key *k, uint8_t flags, uint64_t now_ns);
/**
 * ok: it was whole. Returns how many objects the source turned out not to have; -ESTALE if so many
 * events came meanwhile that it proves nothing.
 */
int64_t store_listing_end(struct store *s, bool ok, uint64_t now_ns);

/** For the feed of the site's log. */
const struct sums *store_sums(const struct store *s);
void store_list(void *store, uint32_t bucket, void (*fn)(void *ctx, const struct log_record *r),
	void *ctx);
/** The only one that has it; -1: none, or several. */
int32_t store_sole_owner(const struct store *s, struct digest128 d);
/** Whether it can be had from the site: not from engines alone, not of a refused layout. */
bool store_is_readable(const struct store *s, struct digest128 d);
/** Whether the site has it. */
bool store_has(const struct store *s, struct digest128 d);
/** What is behind a digest; the key is valid until the object goes. false: not here. */
bool store_key_of(const struct store *s, struct digest128 d, struct store_key *out);
void store_stats_get(const struct store *s, struct store_stats *out);
/** Objects of one source. */
uint64_t store_held(const struct store *s, uint32_t source);
