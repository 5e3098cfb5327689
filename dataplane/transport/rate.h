/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How fast a session may send inside its hard cap: a delay-gated controller.
 *
 * Two measurements drive it. The queueing delay is the one-way delay of the newest packet of a
 * report, the least of the last four reports, over the least seen lately (the clocks of both ends
 * need not agree). The delivery rate is what left the bottleneck in about half a round trip: what
 * arrived, and the share lost behind it, known from times without a queue. Loss alone never slows
 * anything.
 *
 *   CAP      there is a cap and no queue was seen: send at the cap.
 *   STARTUP  no cap: double every round trip until a queue answers.
 *   CRUISE   delivery rate x (1 + k (target - queue) / RTT): a small standing queue keeps the
 *            line busy without overflowing it. The longer the queue stays empty the bolder the
 *            growth, up to doubling.
 *
 * A queue too shallow to be seen loses instead. High loss is therefore put to the test: a little
 * less is sent for three round trips. If as much arrives as before, the loss was our own and the
 * rate stays there for a while; if less arrives, it was the path's and the rate comes back.
 *
 * A queue that does not react to less load is not ours. Other classes than bulk then take its delay
 * for the path's and go on at their share; bulk keeps giving way, as long as the delay did not step
 * up at once and stay flat, which is a path change. The base delay expires. Rates are line bits/s,
 * times ns; one worker.
 */

enum rate_state {
	RATE_CAP,
	RATE_STARTUP,
	RATE_CRUISE,
};

enum { RATE_SPANS = 16, RATE_DELAYS = 4 };

struct rate {
	uint64_t cap_bps;  /* 0: unknown */
	uint64_t rate_bps; /* what to pace at */
	enum rate_state state;

	/* Delay. */
	bool any;
	int64_t base_ns;       /* least one-way delay in force */
	int64_t window_min_ns; /* of the current expiry window */
	uint64_t window_end_ns;
	int64_t last_owd_ns;
	uint64_t last_us;            /* receive time of the newest packet of the last report */
	int64_t delays[RATE_DELAYS]; /* of the last reports: a host that slept is no queue */
	uint32_t n_delays;
	uint64_t queue_ns; /* least of them over the base */
	/* A step of the delay that may be a path change: flat for a round trip makes it one. */
	bool step;
	int64_t step_min_ns, step_max_ns;
	uint64_t step_end_ns;
	/* Delay seen since the load was lowered. */
	bool lowered;
	int64_t lowered_min_ns, lowered_max_ns;
	uint64_t lowered_end_ns;

	/* Delivery. */
	uint64_t span_us, span_bytes, span_lost;
	uint64_t span_queue_ns; /* most queue seen in the span */
	double loss;         /* share lost behind the bottleneck: measured while it had no queue */
	uint64_t recent_bps; /* last span */
	uint64_t spans[RATE_SPANS]; /* ring of the last spans, about eight round trips */
	uint32_t n_spans;

	uint64_t empty_since_ns; /* the queue is well under the target since; 0: it is not */

	/* Is the loss our own? */
	bool testing;
	uint64_t test_before_bps, test_rate_bps; /* arriving, and sent, when the test began */
	double test_share;
	uint64_t lossy_since_ns; /* every span since lost more than a test asks for; 0: not so */
	uint64_t test_end_ns, test_next_ns;
	uint64_t ceiling_bps, ceiling_end_ns; /* found by a test, in force until; 0: none */
};

struct rate_report {
	uint64_t now_ns;
	uint64_t sent_ns;     /* when the newest packet left */
	uint64_t newest_us;   /* when it came, on the receiver's clock */
	uint64_t bytes, lost; /* line bytes newly known to have arrived, to be lost */
	uint64_t rtt_ns, min_rtt_ns;
	bool limited; /* the rate was what held the sender back */
	bool bulk;    /* only bulk transfers are live */
};

void rate_init(struct rate *r, uint64_t cap_bps);
void rate_set_cap(struct rate *r, uint64_t cap_bps);

/** A report with a newer newest packet than before. Returns the rate to pace at. */
uint64_t rate_report(struct rate *r, const struct rate_report *p);

/** Standing queue aimed for. */
uint64_t rate_target_ns(uint64_t min_rtt_ns);
