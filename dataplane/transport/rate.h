/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/hold.h"

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
 *   CRUISE   delivery rate x (1 + (target - queue) / (RTT / 2)): a small standing queue keeps the
 *            line busy without overflowing it. The queue meant is the one that a packet sent now
 *            will meet: what was seen, and what was sent since beyond what the line takes. So a
 *            start at a cap above the line drains at once and does not swing. When the queue stays
 *            empty growth gets bolder, up to a quarter a round trip.
 *
 * A queue too shallow to be seen loses instead. High loss is therefore put to the test: a little
 * less is sent for a round trip and a half. If as much arrives as before, the loss was our own and
 * the rate stays there for a while; if less arrives, it was the path's and the rate comes back.
 * What is the path's is a share: a higher rate that loses a larger one is tested anew. The test
 * comes soon at a rate that never went through without loss, late at one that did. A burst counts
 * little: it loses many packets in few places. Nor does what may only be late: loss must be seen
 * for longer than that, and a test is given up when more reordering shows meanwhile.
 *
 * A rate at which no queue was seen is proven. A queue that appears while no more was sent is
 * somebody else's. Bulk then gives up all but a thirtieth of its rate until the queue is gone,
 * and comes back fast; should the queue go at once it was ours after all, and the line is slower
 * than was proven. To somebody who takes a hundredth of the line at most it does not give way but
 * leaves the room: it aims at a third of the target for a while. Urgent keeps its rate. Normal
 * follows what the line delivers, and if the queue does not react to less load, takes its delay
 * for the path's; beside a flow that fills every queue, as TCP does, it holds its part (hold.h).
 * A delay that steps up and stays flat is a path change, unless it loses: a queue that overflows
 * is flat too. The base delay expires. After a pause, or when the queue that bulk gives way to
 * does not move for long, a higher base is put on trial: it holds when more load neither raises
 * the delay nor loses.
 *
 * Sessions on one line become equal because the target grows as a session's rate falls: all see
 * the same queue, so who has less grows at the cost of who has more. Equal caps are the measure;
 * without caps it is a fixed rate. Urgent keeps its rate until the queue overflows for long, which
 * somebody that gives way would not let happen; then it shares like the others. Bulk yields to bulk
 * in turns.
 *
 * What a receiver says of its times is not trusted: nothing arrives faster than it was sent.
 * Rates are line bits/s, times ns; one worker.
 */

enum rate_state {
	RATE_CAP,
	RATE_STARTUP,
	RATE_CRUISE,
};

enum { RATE_SPANS = 8, RATE_DELAYS = 4 };

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
	uint64_t report_us; /* the same of the report before */
	uint64_t last_sent_ns;
	uint64_t last_us;            /* receive time of the newest packet of the last report */
	int64_t delays[RATE_DELAYS]; /* of the last reports: a host that slept is no queue */
	uint32_t n_delays;
	uint64_t queue_ns; /* least of them over the base */
	/* A step of the delay that may be a path change: flat for a round trip makes it one. */
	bool step;
	int64_t step_min_ns, step_max_ns;
	uint64_t step_end_ns;
	uint64_t step_bytes, step_lost; /* a queue that overflows is flat too */
	/* A higher base is on trial: more load must neither raise the delay nor lose. */
	bool trial;
	int64_t trial_base_ns; /* the one before */
	uint64_t trial_end_ns, trial_bytes, trial_lost;
	/* Delay seen since the load was lowered. */
	bool lowered;
	uint64_t lowered_bytes, lowered_lost;
	int64_t lowered_min_ns, lowered_max_ns;
	uint64_t lowered_end_ns;

	/* Delivery. */
	uint64_t span_us, span_bytes, span_lost;
	uint64_t span_sent_ns;  /* its packets were sent in this time */
	uint64_t span_queue_ns; /* most queue seen in the span */
	double loss;         /* share lost behind the bottleneck: measured while it had no queue */
	uint64_t recent_bps; /* last span */
	uint64_t spans[RATE_SPANS]; /* ring of the last spans, about four round trips */
	uint32_t n_spans;

	/* Somebody else's queue. */
	uint64_t proven_bps, proven_ns;     /* went through without a queue; seen last */
	uint64_t over_ns;                   /* until then a queue may be of our own excess */
	bool yielding, recovering;          /* bulk gives way; takes it back */
	int64_t yield_min_ns, yield_max_ns; /* delay seen in the running look at a foreign queue */
	uint64_t yield_look_ns;             /* it ends; 0: none runs */
	uint64_t crowd_since_ns, crowd_seen_ns,
		crowd_end_ns;         /* urgent beside who does not yield either */
	uint64_t peak_bps;            /* most that was delivered */
	uint64_t trickle_ns;          /* somebody was there who takes next to nothing */
	uint64_t yield_ns, yield_bps; /* since when; delivered before */
	uint64_t clear_ns;            /* no queue is seen since; 0: one is */

	struct hold hold; /* normal beside who fills every queue */

	uint64_t empty_since_ns; /* the queue is well under the target since; 0: it is not */

	/* Is the loss our own? */
	bool testing;
	uint64_t test_before_bps, test_sent_bps; /* arriving, and sent, before the test */
	uint64_t test_rate_bps;                  /* in force when it began */
	double test_share;
	uint64_t lossy_since_ns; /* every span since lost more than a test asks for; 0: not so */
	uint64_t test_end_ns, test_next_ns;
	/* Reports in a row that lost much. */
	uint64_t reports_lossy, reports_spread, reports_lost, reports_bytes;
	uint64_t reports_sent_ns, reports_us; /* its packets were sent, arrived in this time */
	uint64_t guilty_bps; /* the path lost so much of this rate by itself; 0: not known */
	double guilty_share;
	uint64_t test_queue_ns;        /* seen when the test began */
	uint64_t test_seen_ns;         /* the loss that began it was, for so long */
	uint64_t full_ns, full_end_ns; /* the queue overflowed with so much in it; in force until */
	bool test_counts;              /* the lower rate shows in the reports by now */
	uint64_t ceiling_bps, ceiling_end_ns; /* found by a test, in force until; 0: none */
	uint64_t own_end_ns;                  /* until then a loss may well be our own */
	bool found_own;                       /* a test has just told so */
};

struct rate_report {
	uint64_t now_ns;
	uint64_t sent_ns;      /* when the newest packet left */
	uint64_t newest_us;    /* when it came, on the receiver's clock */
	uint64_t bytes, lost;  /* line bytes newly known to have arrived, to be lost */
	uint64_t spread_lost;  /* the same without all but the first packets of each gap */
	uint64_t flying_bytes; /* line bytes sent after the newest packet; 0: not known */
	uint64_t rtt_ns, min_rtt_ns;
	uint64_t late_ns; /* packets arrived so much later than younger ones */
	bool limited;     /* the rate was what held the sender back */
	bool bulk;        /* only bulk transfers are live */
	bool urgent;      /* the first in turn is urgent */
};

void rate_init(struct rate *r, uint64_t cap_bps);
void rate_set_cap(struct rate *r, uint64_t cap_bps);

/** A report with a newer newest packet than before. Returns the rate to pace at. */
uint64_t rate_report(struct rate *r, const struct rate_report *p);

/** Packets lost now were probably too many: they say nothing about the path. */
static inline bool rate_loses_itself(const struct rate *r, uint64_t now_ns)
{
	return now_ns < r->own_end_ns;
}

/** true once after a test found that the loss before it was our own; `loss` is the path's. */
static inline bool rate_poll_own(struct rate *r)
{
	bool found = r->found_own;

	r->found_own = false;
	return found;
}

/** Standing queue aimed for. */
uint64_t rate_target_ns(uint64_t min_rtt_ns);
