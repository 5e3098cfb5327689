/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/index.h"

#include <strait/strait.h>

#include <stdatomic.h>

/*
 * Answers from an index that is always behind: YES, NO or UNKNOWN with an age. The thread that
 * writes the index also says how complete it is; any registered reader asks. No locks.
 *
 * An object whose fetch failed although it was said to be there leaves a negative entry for a
 * short time, so that the next thousand requests do not run into the same (a table of 4096; a newer
 * one takes an older one's place).
 */

enum { EXISTENCE_NEGATIVE = 4096 };

struct existence {
	struct index *index;
	uint64_t mask;       /* bits of a value that mean it is there */
	uint64_t max_age_ns; /* older than that nothing is known */
	_Atomic bool complete, partial;
	_Atomic uint64_t as_of, complete_ns;
	_Atomic uint64_t negative[EXISTENCE_NEGATIVE]; /* 40 bits of digest, 24 of until, seconds */
	_Atomic uint64_t asked, unknown;
};

struct existence_age {
	uint64_t as_of, age_ns;
	bool known;
};

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

/** Any thread: fetching it failed; NO until then. */
void existence_negative(struct existence *e, struct digest128 d, uint64_t until_ns);

/** answers[i] is a strait_exist_answer. n <= 4096; any registered reader. */
void existence_ask(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	uint8_t *answers, struct existence_age *age);
/** How many of the first are YES. */
size_t existence_prefix(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	struct existence_age *age);
