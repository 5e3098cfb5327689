/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/record.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * What one site should get and has not: a queue per class and source, oldest first, that is also a
 * set, so that an arrival or an eviction takes an object out again in O(1). No difference of two
 * sites is ever computed. Sources are taken from as if they had one queue; one that cannot be
 * reached is passed by without a look at what waits for it.
 *
 * Objects of a set are useless alone. They wait beside the queue until the whole set is at the
 * source or the destination already (wanted here + there already == members), and then come
 * together. A set that falls apart again goes back to waiting. Pure, one thread.
 */

enum {
	WANTED_URGENT,
	WANTED_NORMAL,
	WANTED_BULK,
	WANTED_CLASSES,
};

struct wanted;

struct wanted_object {
	struct digest128 digest;
	uint64_t set;
	uint64_t since_ns;
	uint32_t size, position;
	uint16_t tenant;
	uint16_t from; /* site that has it */
	uint8_t class;
	uint16_t without; /* bits of sites that said, when asked, that it is not there */
};

struct wanted_stats {
	uint64_t objects, bytes; /* that can be taken now */
	uint64_t waiting;        /* for the rest of their set */
	uint64_t oldest_ns;      /* since when the oldest that can be taken does; 0: none */
	uint64_t refused;        /* no room: only a backfill brings them back */
	uint32_t from;           /* sources (bits) of what can be taken */
};

/** max: objects and sets it may hold, about 80 bytes each. NULL + errno. */
struct wanted *wanted_create(uint32_t max);
void wanted_destroy(struct wanted *w);

/**
 * It is missing here and `from` has it. alone: do not wait for its set (somebody asked for it). If
 * it is wanted already, a more urgent class or alone counts, and `from` if the one it was to come
 * from is held. -ENOSPC, -ENOMEM: refused. -EINVAL.
 */
int wanted_add(struct wanted *w, const struct log_record *r, uint16_t from, uint8_t class,
	bool alone, uint64_t now_ns);
/**
 * It is not wanted any more. here: because it came, which counts for its set; otherwise because no
 * site has it now. Nothing to do if it is not there.
 */
void wanted_del(struct wanted *w, struct digest128 d, bool here);
/** A member of a set that was never wanted because it is here, and `from` has it, too. */
int wanted_have(struct wanted *w, const struct log_record *r, uint64_t now_ns);
bool wanted_has(const struct wanted *w, struct digest128 d);
void wanted_prefetch(const struct wanted *w, struct digest128 d);
/** These said that they do not have it. */
void wanted_without(struct wanted *w, struct digest128 d, uint16_t sites);
/** Another site to take it from; there it is the last to be taken. */
void wanted_from(struct wanted *w, struct digest128 d, uint16_t from);

/**
 * Take the next objects, the most urgent class first, oldest first, and of what is taken together
 * the ones early in their chain first. Whole sets come in one piece if max allows. They are not
 * wanted any more: wanted_add() them again if they fail. Returns how many.
 */
size_t wanted_take(struct wanted *w, struct wanted_object *out, size_t max);
/** Whether wanted_take() leaves a class alone. */
void wanted_hold(struct wanted *w, uint8_t class, bool hold);
/** Sources (bits) that wanted_take() leaves alone; what came with a set is taken all the same. */
void wanted_hold_from(struct wanted *w, uint32_t sources);

enum wanted_verdict { WANTED_KEEP, WANTED_HERE, WANTED_GONE };
/** What of a source could be taken since until_ns and was not. Returns how many went. */
size_t wanted_drop(struct wanted *w, uint16_t from, uint64_t until_ns);
/** Judge every object of anti-entropy buckets first .. last; fn may change where it is from. */
void wanted_sweep(struct wanted *w, uint32_t first, uint32_t last,
	enum wanted_verdict (*fn)(const struct wanted_object *o, uint16_t *from, void *ctx),
	void *ctx);

/**
 * Forget sets that did not become whole since before_ns. Returns how many objects went with
 * them.
 */
size_t wanted_expire(struct wanted *w, uint64_t before_ns);
void wanted_stats_get(const struct wanted *w, struct wanted_stats *out);
