/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Who may take a snapshot now, so that a restart of one master or of all its readers is no
 * avalanche: at most `permits` at once; the others come back later, each at another time. One
 * thread, pure; the jitter comes from a seed.
 */

struct gate {
	uint32_t permits, taken;
	uint32_t waiting; /* refused since the last one was let in: they spread over more time */
	uint64_t unit_ns; /* about how long one takes */
	uint64_t random;
};

void gate_init(struct gate *g, uint32_t permits, uint64_t unit_ns, uint64_t seed);
/** 0: in, until gate_leave(). Otherwise come back after so many ns. */
uint64_t gate_enter(struct gate *g);
void gate_leave(struct gate *g);

/*
 * Of one who was refused or cut: doubles to a limit, with jitter, and starts over when it
 * worked.
 */
struct backoff {
	uint64_t least_ns, most_ns, now_ns;
	uint64_t random;
};

void backoff_init(struct backoff *b, uint64_t least_ns, uint64_t most_ns, uint64_t seed);
/** How long to wait now: between half and all of the present step. */
uint64_t backoff_next(struct backoff *b);
void backoff_reset(struct backoff *b);
