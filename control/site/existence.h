/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/client/exist_view.h"

/*
 * The writer's side of answers about existence (control/client/exist_view.h): the thread that
 * writes the index also says how complete it is, and that it lives. Where the index is shared
 * (index_create_shared() with EXISTENCE_SHARED bytes), processes that map it see the same.
 *
 * An object whose fetch failed although it was said to be there leaves a negative entry for a
 * short time, so that the next thousand requests do not run into the same (a table of 4096; a newer
 * one takes an older one's place). An object that comes clears its entry.
 */

enum { EXISTENCE_SHARED = sizeof(struct exist_shared) };

struct existence {
	struct index *index;
	struct exist_view view;
	struct exist_shared *shared;
	struct exist_shared own;         /* where the index is not shared */
	_Atomic uint64_t asked, unknown; /* by the threads of this process */
};

/** e must not move. */
void existence_init(struct existence *e, struct index *x, uint64_t mask, uint64_t max_age_ns);

/** The writer: seq was applied, and at complete_ns nothing was missing. */
void existence_current(struct existence *e, uint64_t seq, uint64_t complete_ns);
/**
 * The writer: something is missing from now on; everything is UNKNOWN until
 * existence_current().
 */
void existence_lost(struct existence *e);
/** The writer: whether what the index does not have may be there all the same. */
void existence_partial(struct existence *e, bool partial);
/** The writer, several times a second: it lives. 0: it ends. */
void existence_beat(struct existence *e, uint64_t now_ns);

/** The writer: fetching it failed; NO until then, at most EXIST_NEGATIVE_MAX_NS from now. */
void existence_negative(struct existence *e, struct digest128 d, uint64_t until_ns);
/** The writer: it is there since now. */
void existence_arrived(struct existence *e, struct digest128 d);

/** exist_view_ask() and exist_view_prefix(), counted. Any thread. */
void existence_ask(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	uint8_t *answers, struct exist_age *age);
size_t existence_prefix(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	struct exist_age *age);
