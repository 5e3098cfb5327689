/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * How old objects get at a site before they are evicted, from what its log tells: of n objects of
 * which r go each second, each stays n / r seconds (Little's law). Nobody has to tell when an
 * object came. The rate is that of the last minute, and of less after a start: what went before
 * counts no more, so that a site that evicts nothing any more is known as such a minute later.
 * Pure, one thread.
 */

enum { TURNOVER_SLOTS = 12 };

struct turnover {
	uint64_t removed; /* since looked_ns */
	uint64_t began_ns, looked_ns;
	uint64_t slot; /* which of all time the newest is */
	double went[TURNOVER_SLOTS];
	double rate; /* a second */
};

#define TURNOVER_SPAN_NS  UINT64_C(60000000000)
#define TURNOVER_KNOWN_NS UINT64_C(5000000000) /* before that it says nothing */

static inline void turnover_removed(struct turnover *t)
{
	t->removed++;
}

/** About once a second. */
void turnover_look(struct turnover *t, uint64_t now_ns);
/** Of a site with so many objects; 0: not known, or so little goes that they stay for a day. */
uint64_t turnover_age_ns(const struct turnover *t, uint64_t objects);
