/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rtt.h"

#include <string.h>

#define MIN_WINDOW_NS ((uint64_t)RTT_MIN_WINDOW_MS * 1000000)

enum { SAMPLE_MIN_NS = 1000 };

void rtt_init(struct rtt *r, uint64_t initial_ns)
{
	memset(r, 0, sizeof(*r));
	r->smoothed_ns = initial_ns;
	r->variation_ns = initial_ns / 2;
	r->latest_ns = initial_ns;
	r->min_ns = initial_ns;
}

/* The minimum of the last whole window and of the running one, so it is one to two windows old. */
static void update_min(struct rtt *r, uint64_t now_ns, uint64_t rtt_ns)
{
	if (!r->measured) {
		r->min_ns = r->window_min_ns = rtt_ns;
		r->window_end_ns = now_ns + MIN_WINDOW_NS;
		return;
	}
	if (now_ns >= r->window_end_ns) {
		/* After a silence the finished window is too old to count. */
		r->min_ns = now_ns - r->window_end_ns < MIN_WINDOW_NS ? r->window_min_ns : rtt_ns;
		r->window_min_ns = rtt_ns;
		r->window_end_ns = now_ns + MIN_WINDOW_NS;
	}
	if (rtt_ns < r->window_min_ns)
		r->window_min_ns = rtt_ns;
	if (rtt_ns < r->min_ns)
		r->min_ns = rtt_ns;
}

void rtt_sample(struct rtt *r, uint64_t now_ns, uint64_t rtt_ns)
{
	uint64_t deviation;

	if (rtt_ns < SAMPLE_MIN_NS)
		rtt_ns = SAMPLE_MIN_NS;
	update_min(r, now_ns, rtt_ns);
	r->latest_ns = rtt_ns;
	if (!r->measured) {
		r->smoothed_ns = rtt_ns;
		r->variation_ns = rtt_ns / 2;
		r->measured = true;
		return;
	}
	/* Variation before the mean, as in the pseudocode of RFC 9002 appendix A.7. */
	deviation = r->smoothed_ns > rtt_ns ? r->smoothed_ns - rtt_ns : rtt_ns - r->smoothed_ns;
	r->variation_ns = (3 * r->variation_ns + deviation) / 4;
	r->smoothed_ns = (7 * r->smoothed_ns + rtt_ns) / 8;
}
