/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Round trip estimator: RFC 9002 section 5 smoothing, and a minimum that expires, since clouds move
 * paths every few seconds. Times in ns.
 */
struct rtt {
	uint64_t smoothed_ns, variation_ns, latest_ns;
	uint64_t min_ns;                       /* over the last one to two windows */
	uint64_t window_min_ns, window_end_ns; /* running minimum of the current window */
	bool measured;
};

enum { RTT_MIN_WINDOW_MS = 10000 };

/** Until the first sample the estimate is initial_ns with variation initial_ns / 2. */
void rtt_init(struct rtt *r, uint64_t initial_ns);

/** A sample: round trip with the peer's reporting delay already taken off (never below 1 us). */
void rtt_sample(struct rtt *r, uint64_t now_ns, uint64_t rtt_ns);
