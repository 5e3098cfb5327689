/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether an order can meet its deadline on a link, and whether it would make another one of its
 * class miss that one's: the test of EDF scheduling, one pass over the link's orders in the
 * order of dispatch (class, then deadline; those without a deadline last). Orders of higher
 * classes and those with an earlier or the same deadline go before it, whatever the numbers of
 * the others.
 *
 *   feasible_begin(); feasible_add() for each other one in the order of dispatch; feasible_end()
 *
 * The master asks when an order is submitted, the source edge when it has found the objects. Pure;
 * any thread. Times are Unix ms.
 */

struct feasible_order {
	uint64_t id;
	uint64_t bytes; /* still to be carried; 0: not known, counts nothing */
	uint64_t deadline_ms;
	unsigned int class;
};

struct feasible_link {
	uint64_t now_ms;
	uint64_t rate_bps;   /* goodput to be expected; 0: not known, everything is feasible */
	uint64_t latency_ms; /* from the last byte sent to the order's end */
	uint64_t tail_bytes; /* so many bytes of an order, its last, carry rows: a sixteenth more */
};

struct feasible {
	struct feasible_link link;
	struct feasible_order own;
	bool placed;
	uint64_t ahead_bytes; /* of the others so far, */
	uint64_t own_ahead;   /* ... and of those that go before our own */
	uint64_t finish_ms;   /* our own, at the earliest */
	uint64_t victim, victim_finish_ms, victim_deadline_ms; /* id 0: none */
};

/**
 * What an edge can bring over a link whose caps let link_bps through (0: there are none), when it
 * expects expected_bps (0: it does not know) and its share of the caps now is share_bps (0: none).
 * Goodput, all of them. A share is low because its edge has nothing to do; with an order it rises.
 */
uint64_t feasible_rate(uint64_t link_bps, uint64_t expected_bps, uint64_t share_bps);
void feasible_begin(struct feasible *f, const struct feasible_link *link,
	const struct feasible_order *own);
void feasible_add(struct feasible *f, const struct feasible_order *other);
/**
 * Whether it can be: own deadline 0 always can, since it goes last in its class. If not, why has
 * the numbers.
 */
bool feasible_end(struct feasible *f, char *why, size_t len);
