/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/index.h"

#include <strait/strait.h>

#include <stdatomic.h>

/*
 * Answers from an index that is always behind: YES, NO or UNKNOWN with an age, the same whether a
 * thread of the site master asks or a process that maps its memory. No locks, no system calls
 * (the clock's time is the caller's), any number of threads.
 *
 * A reader in another process cannot see whether the writer still lives but by its beat: the
 * writer leaves the time several times a second, and a view without a recent one is not to be asked
 * (exist_view_is_served()). Whatever became of the writer, what is known is no older than
 * max_age_ns.
 */

enum {
	EXIST_NEGATIVE = 4096,
	EXIST_COMPLETE = 1, /* of the state: nothing is missing, */
	EXIST_PARTIAL = 2,  /* or not, but what is not there may be there all the same */
	EXIST_LOSS = 4,     /* one more whenever something was lost */
	EXIST_UNTIL_BITS = 24,
};
#define EXIST_BEAT_NS UINT64_C(1000000000)
/*
 * No negative entry is for longer. Times come round in 13 days: only in so long before that is an
 * entry that was over taken for one that is not.
 */
#define EXIST_NEGATIVE_MAX_NS UINT64_C(3600000000000)

/* Beside the index, in memory that clients map; written by one thread of the site master. */
struct exist_shared {
	_Atomic uint64_t state, as_of, complete_ns;
	_Atomic uint64_t beat_ns;     /* 0: it ended */
	uint64_t mask;                /* bits of a value that mean it is there */
	uint64_t max_age_ns;          /* older than that nothing is known */
	_Atomic uint64_t negative_ns; /* all entries are over then */
	/* 40 bits of a digest, 24 of the time until when. 0: none */
	_Atomic uint64_t negative[EXIST_NEGATIVE];
};

struct exist_view {
	struct index_view index;
	const struct exist_shared *shared;
};

struct exist_age {
	uint64_t as_of, age_ns;
	bool known;
};

/** Whether the writer showed a sign of life lately. Not asked by the writer's own threads. */
bool exist_view_is_served(const struct exist_view *v, uint64_t now_ns);

/** answers[i] is a strait_exist_answer. Any n. */
void exist_view_ask(const struct exist_view *v, const struct digest128 *d, size_t n,
	uint64_t now_ns, uint8_t *answers, struct exist_age *age);
/** How many of the first are YES. */
size_t exist_view_prefix(const struct exist_view *v, const struct digest128 *d, size_t n,
	uint64_t now_ns, struct exist_age *age);

/** Whether fetching it failed lately. */
bool exist_view_is_negative(const struct exist_view *v, struct digest128 d, uint64_t now_ns);
/** The writer: the entry for that, and where it stands. */
uint64_t exist_negative_entry(struct digest128 d, uint64_t until_ns);
static inline size_t exist_negative_place(struct digest128 d)
{
	return d.hi % EXIST_NEGATIVE;
}
static inline bool exist_negative_names(uint64_t entry, struct digest128 d)
{
	return entry != 0 && entry >> EXIST_UNTIL_BITS == d.lo >> EXIST_UNTIL_BITS;
}
