/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/hold.h"

#include <math.h>
#include <string.h>

enum { AFTER_RTTS = 8, AFTER_MS = 200, FRESH_RTTS = 2 };

#define BETA        0.7   /* RFC 9438 section 4.6 */
#define GROWTH      0.4   /* its C */
#define FRIENDLY    0.53  /* packets a round trip, its section 4.3 */
#define LOSSY       0.002 /* of its own loses a path that TCP cannot fill */
#define START_SHARE 0.6
#define START_GAP   0.9 /* of the window to grow to at first */
#define PACKET_BITS 12304.0
#define NS_PER_MS   UINT64_C(1000000)

void hold_end(struct hold *h)
{
	memset(h, 0, sizeof(*h));
}

/* Seconds from a loss until the window is again what it was. */
static double regain_s(const struct hold *h, double beta)
{
	return cbrt(h->window_max * (1 - beta) / GROWTH);
}

static double window(const struct hold *h, const struct hold_report *p)
{
	double t = (double)(p->now_ns - h->epoch_ns) / 1e9, k = regain_s(h, BETA);
	double cubic = GROWTH * (t - k) * (t - k) * (t - k) + h->window_max;
	double reno = h->window_max * BETA + FRIENDLY * t * 1e9 / (double)p->rtt_ns;

	return cubic > reno ? cubic : reno;
}

/* More than the path loses of its own; a few packets are enough where it loses none. */
static bool is_overflow(const struct hold *h, double loss)
{
	double lost = (double)h->lost * 8 / PACKET_BITS;
	double usual = (double)(h->bytes + h->lost) * 8 / PACKET_BITS * loss;

	return lost > usual + 3 * sqrt(usual) + 0.5;
}

static void start(struct hold *h, const struct hold_report *p)
{
	double packets = (double)p->rtt_ns / 1e9 / PACKET_BITS, bps;

	bps = START_SHARE * (double)p->before_bps;
	if (bps < (double)p->rate_bps)
		bps = (double)p->rate_bps;
	h->on = true;
	h->window_max = bps * packets / START_GAP;
	/* As if some of the way back were gone. */
	h->epoch_ns = p->now_ns - (uint64_t)(1e9 * (regain_s(h, BETA) - regain_s(h, START_GAP)));
}

uint64_t hold_report(struct hold *h, const struct hold_report *p)
{
	if (p->loss > LOSSY) {
		hold_end(h);
		return 0;
	}
	if (p->over) {
		if (h->since_ns == 0) {
			h->since_ns = p->now_ns;
			h->round_end_ns = p->now_ns + p->rtt_ns;
		}
		h->seen_ns = p->now_ns;
	} else if (h->since_ns == 0 || p->now_ns - h->seen_ns >= FRESH_RTTS * p->rtt_ns) {
		hold_end(h);
		return 0;
	}
	h->bytes += p->bytes;
	h->lost += p->lost;
	if (p->now_ns >= h->round_end_ns) {
		if (is_overflow(h, p->loss)) {
			h->full = true;
			if (h->on) {
				h->window_max = window(h, p);
				h->epoch_ns = p->now_ns;
			}
		}
		h->bytes = h->lost = 0;
		h->round_end_ns = p->now_ns + p->rtt_ns;
	}
	if (!h->on && h->full &&
		p->now_ns - h->since_ns >= AFTER_RTTS * p->rtt_ns + AFTER_MS * NS_PER_MS)
		start(h, p);
	return h->on ? (uint64_t)(window(h, p) * PACKET_BITS * 1e9 / (double)p->rtt_ns) : 0;
}
