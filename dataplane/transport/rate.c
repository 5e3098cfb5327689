/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rate.h"

#include <math.h>
#include <string.h>

enum {
	START_BPS = 50000000, /* without a cap */
	FLOOR_BPS = 1000000,
	FAR_CAP = 8, /* times what was ever delivered: as good as none */
	BASE_WINDOW_S = 10,
	CEILING_S = 10,      /* what a test of the loss found holds so long */
	TEST_AFTER_MS = 200, /* bursts are shorter */
	TEST_AGAIN_S = 20,   /* after a test that found the path guilty */
	TEST_REPORTS = 2,    /* of a rate not proven */
	LATE_TIMES = 4,      /* of a time so much longer what is late is a small part */
	PROVEN_S = 60,
	IDLE_MS = 200, /* and some round trips: the base is learned anew */
	TRIAL_RTTS = 6,
	LOOK_MS = 1500, /* a foreign queue that stays as it is so long may be the path's delay */
	CROWD_MS = 500,
	CROWD_S = 60,
	BASE_WINDOW_YIELD_S = 60, /* while bulk gives way: the queue it sees is somebody else's */
};

#define TEST_SHARE    0.08  /* loss beyond this is tested */
#define TEST_REST     0.015 /* what may be left of it without another test */
#define GUILTY_RATE   1.25  /* times a rate at which the path was found guilty: looked at again, */
#define GUILTY_MORE   0.1   /* ... when so much of what still passed then is lost, too */
#define GROWN         0.8   /* of the rate was sent then */
#define MOST_SHARE    0.8   /* of a round trip is the most queue that anybody accepts */
#define URGENT_LEAST  0.25  /* of its cap, for one that comes late */
#define URGENT_SHARE  0.96  /* of its rate that urgent keeps beside others */
#define ALONE         0.97  /* of its cap has who is alone on the line */
#define TRICKLE       0.99  /* of the rate goes through beside one that is not worth giving way */
#define REFERENCE_BPS UINT64_C(3000000000)
#define NS_PER_S      UINT64_C(1000000000)
#define NS_PER_MS     UINT64_C(1000000)

void rate_init(struct rate *r, uint64_t cap_bps)
{
	memset(r, 0, sizeof(*r));
	r->cap_bps = cap_bps;
	r->rate_bps = cap_bps != 0 ? cap_bps : START_BPS;
	r->state = cap_bps != 0 ? RATE_CAP : RATE_STARTUP;
}

void rate_set_cap(struct rate *r, uint64_t cap_bps)
{
	if (cap_bps == 0 && r->state == RATE_CAP)
		r->state = RATE_CRUISE;
	r->cap_bps = cap_bps;
	if (r->state == RATE_CAP || (cap_bps != 0 && r->rate_bps > cap_bps))
		r->rate_bps = cap_bps;
}

uint64_t rate_target_ns(uint64_t min_rtt_ns)
{
	uint64_t target = min_rtt_ns / 12;

	/* Batching in hosts and emulators makes delays of a millisecond that are nobody's queue. */
	if (target < 3 * NS_PER_MS / 2)
		target = 3 * NS_PER_MS / 2;
	return target < 8 * NS_PER_MS ? target : 8 * NS_PER_MS;
}

/* Half of a queue that overflowed below the target is all there is to aim at. */
static uint64_t target_of(const struct rate *r, const struct rate_report *p)
{
	uint64_t target = rate_target_ns(p->min_rtt_ns);

	return p->now_ns < r->full_end_ns && r->full_ns / 2 < target ? r->full_ns / 2 : target;
}

static void rebase(struct rate *r, int64_t base_ns)
{
	r->base_ns = r->window_min_ns = base_ns;
	r->n_delays = 0;
	r->step = r->lowered = false;
}

/* A queue that is full is flat as well, but loses. */
static bool overflows(const struct rate *r, uint64_t bytes, uint64_t lost)
{
	return (double)lost > (0.02 + 1.5 * r->loss) * (double)(bytes + lost);
}

/* A jump of the delay that stays flat for a round trip is another path. */
static void step_watch(struct rate *r, const struct rate_report *p, int64_t owd, int64_t elapsed)
{
	int64_t jump = owd - r->last_owd_ns;

	if (!r->step && jump > (int64_t)NS_PER_MS && jump > elapsed / 2) {
		r->step = true;
		r->step_min_ns = r->step_max_ns = owd;
		r->step_end_ns = p->now_ns + p->min_rtt_ns + 4 * NS_PER_MS;
		r->step_bytes = r->step_lost = 0;
		return;
	}
	if (!r->step)
		return;
	r->step_bytes += p->bytes;
	r->step_lost += p->lost;
	r->step_min_ns = owd < r->step_min_ns ? owd : r->step_min_ns;
	r->step_max_ns = owd > r->step_max_ns ? owd : r->step_max_ns;
	if (p->now_ns < r->step_end_ns)
		return;
	r->step = false;
	jump = r->step_min_ns - r->base_ns;
	if (r->step_max_ns - r->step_min_ns < jump / 4 + (int64_t)NS_PER_MS / 2 &&
		!overflows(r, r->step_bytes, r->step_lost))
		rebase(r, r->step_min_ns);
}

/*
 * A queue is in every sample; a host that was late is in some. STARTUP must react faster, and where
 * reports are far apart no host is late for two.
 */
static uint64_t queue_of(const struct rate *r, const struct rate_report *p)
{
	uint32_t n = r->state == RATE_STARTUP || p->min_rtt_ns > 30 * NS_PER_MS ? 2 : RATE_DELAYS;
	int64_t least = INT64_MAX;

	for (uint32_t i = 1; i <= n && i <= r->n_delays; i++) {
		int64_t owd = r->delays[(r->n_delays - i) % RATE_DELAYS];

		least = owd < least ? owd : least;
	}
	return least > r->base_ns ? (uint64_t)(least - r->base_ns) : 0;
}

/* The delay may be a longer path's or somebody's queue: go on as if it were the path's, and see. */
static void trial_begin(struct rate *r, const struct rate_report *p, int64_t base_ns)
{
	if (!r->trial)
		r->trial_base_ns = r->base_ns;
	r->trial = true;
	r->trial_end_ns = p->now_ns + TRIAL_RTTS * p->rtt_ns;
	r->trial_bytes = r->trial_lost = 0;
	r->window_end_ns = p->now_ns + BASE_WINDOW_S * NS_PER_S;
	rebase(r, base_ns);
}

static void trial_watch(struct rate *r, const struct rate_report *p)
{
	if (!r->trial)
		return;
	r->trial_bytes += p->bytes;
	r->trial_lost += p->lost;
	if (r->base_ns <= r->trial_base_ns + (int64_t)NS_PER_MS / 2) {
		r->trial = false;
	} else if (r->queue_ns > 2 * rate_target_ns(p->min_rtt_ns) + NS_PER_MS ||
		(r->trial_lost > 8 * 1500 && overflows(r, r->trial_bytes, r->trial_lost))) {
		r->trial = false;
		rebase(r, r->trial_base_ns);
	} else if (p->now_ns >= r->trial_end_ns) {
		if (p->limited)
			r->trial = false;
		else
			r->trial_end_ns = p->now_ns + TRIAL_RTTS * p->rtt_ns;
	}
}

static void delay_update(struct rate *r, const struct rate_report *p)
{
	int64_t owd = (int64_t)(p->newest_us * 1000) - (int64_t)p->sent_ns;
	int64_t elapsed = (int64_t)((p->newest_us - r->last_us) * 1000);
	bool yielding = p->bulk && r->queue_ns > rate_target_ns(p->min_rtt_ns);

	if (!r->any) {
		r->any = true;
		r->window_end_ns = p->now_ns + BASE_WINDOW_S * NS_PER_S;
		rebase(r, owd);
	} else if (elapsed > (int64_t)(IDLE_MS * NS_PER_MS + 4 * p->rtt_ns)) {
		/* Nothing was heard of the path for so long that it may be another one. */
		if (owd > r->base_ns + (int64_t)NS_PER_MS)
			trial_begin(r, p, owd);
	} else {
		step_watch(r, p, owd, elapsed);
	}
	if (owd < r->window_min_ns)
		r->window_min_ns = owd;
	if (owd < r->base_ns)
		r->base_ns = owd;
	if (p->now_ns >= r->window_end_ns + (yielding ? BASE_WINDOW_YIELD_S * NS_PER_S : 0)) {
		r->base_ns = r->window_min_ns;
		r->window_min_ns = owd;
		r->window_end_ns = p->now_ns + BASE_WINDOW_S * NS_PER_S;
	}
	r->delays[r->n_delays++ % RATE_DELAYS] = owd;
	r->queue_ns = queue_of(r, p);
	trial_watch(r, p);
	r->last_owd_ns = owd;
	r->last_us = p->newest_us;
}

static void span_reset(struct rate *r)
{
	r->span_us = r->span_bytes = r->span_lost = r->span_queue_ns = r->span_sent_ns = 0;
}

/*
 * Time the span took: at the receiver by its clock, but never less than its packets took to be sent
 * by ours. Nothing arrives faster than it was sent, whatever a peer says of its times.
 */
static double span_s(const struct rate *r)
{
	double received = (double)r->span_us / 1e6, sent = (double)r->span_sent_ns / 1e9;

	return received > sent ? received : sent;
}

/* true: a span ended; its loss and what arrived are in *share and *arriving. */
static bool delivery_update(struct rate *r, const struct rate_report *p, uint64_t elapsed_us,
	double *share, uint64_t *arriving)
{
	uint64_t total, sent, target = rate_target_ns(p->min_rtt_ns);

	if (!p->limited || elapsed_us * 1000 > p->rtt_ns / 2) {
		/* The sender was idle or the path was cut: what arrived says nothing about the
		 * line. */
		span_reset(r);
		return false;
	}
	r->span_us += elapsed_us;
	r->span_sent_ns += p->sent_ns - r->last_sent_ns;
	r->span_bytes += p->bytes;
	r->span_lost += p->lost;
	if (r->queue_ns > r->span_queue_ns)
		r->span_queue_ns = r->queue_ns;
	if (r->span_us * 1000 < p->rtt_ns / 2 || r->span_us < 1000)
		return false;
	total = r->span_bytes + r->span_lost;
	*share = total > 0 ? (double)r->span_lost / (double)total : 0;
	*arriving = (uint64_t)((double)r->span_bytes * 8 / span_s(r));
	if (total > 0 && !r->testing && r->span_queue_ns <= target)
		r->loss += (*share - r->loss) / 8;
	r->recent_bps = (uint64_t)((double)r->span_bytes * 8 / span_s(r) /
		(1 - (r->loss < 0.5 ? r->loss : 0.5)));
	r->spans[r->n_spans++ % RATE_SPANS] = r->recent_bps;
	if (r->recent_bps > r->peak_bps)
		r->peak_bps = r->recent_bps;
	sent = (uint64_t)((double)total * 8 / span_s(r));
	if (sent > r->recent_bps)
		sent = r->recent_bps;
	if (r->span_queue_ns <= target / 4 && *share <= TEST_SHARE &&
		(sent >= r->proven_bps || p->now_ns - r->proven_ns > PROVEN_S * NS_PER_S)) {
		r->proven_bps = sent;
		r->proven_ns = p->now_ns;
	}
	span_reset(r);
	return true;
}

static uint64_t best_span(const struct rate *r)
{
	uint64_t best = 0;

	for (uint32_t i = 1; i <= RATE_SPANS && i <= r->n_spans; i++)
		if (r->spans[(r->n_spans - i) % RATE_SPANS] > best)
			best = r->spans[(r->n_spans - i) % RATE_SPANS];
	return best;
}

/* Of the last round trip: beside others the best is luck. */
static uint64_t last_spans(const struct rate *r)
{
	uint64_t sum = 0, n = r->n_spans < 2 ? r->n_spans : 2;

	for (uint32_t i = 1; i <= n; i++)
		sum += r->spans[(r->n_spans - i) % RATE_SPANS];
	return n > 0 ? sum / n : 0;
}

/* What the line gives us; from the span that is not over when there is none yet. 0: not known. */
static double line_bps(const struct rate *r, const struct rate_report *p)
{
	bool shares = !p->urgent || p->now_ns < r->crowd_end_ns;
	bool queued = shares && r->queue_ns > rate_target_ns(p->min_rtt_ns);
	double bps = (double)(p->bulk   ? r->recent_bps
			       : queued ? last_spans(r)
					: best_span(r)),
	       lost;

	if (bps > 0 || r->span_us < 1000 || r->span_us * 1000 < p->rtt_ns / 6)
		return bps;
	lost = (double)r->span_lost / (double)(r->span_bytes + r->span_lost + 1);
	return (double)r->span_bytes * 8 / span_s(r) / (1 - (lost < 0.5 ? lost : 0.5));
}

/* The queue that a packet sent now will meet, when the line takes so much of ours. */
static double queue_ahead(const struct rate *r, const struct rate_report *p, double bps)
{
	double sent = (double)p->flying_bytes * 8e9 / bps;
	double gone = (double)(p->now_ns - p->sent_ns), q = (double)r->queue_ns + sent - gone;

	if (p->flying_bytes == 0)
		return (double)r->queue_ns;
	return q > 0 ? q : 0;
}

static void set_rate(struct rate *r, double bps)
{
	if (r->cap_bps != 0 && bps >= (double)r->cap_bps)
		bps = (double)r->cap_bps;
	if (r->ceiling_bps != 0 && bps > (double)r->ceiling_bps)
		bps = (double)r->ceiling_bps;
	r->rate_bps = bps < FLOOR_BPS ? FLOOR_BPS : (uint64_t)bps;
	if (r->cap_bps != 0 && r->rate_bps > r->cap_bps)
		r->rate_bps = r->cap_bps; /* below the floor too */
}

/* Sent with `bps` a share was lost, and so much arrived. */
static void test_begin(struct rate *r, const struct rate_report *p, uint64_t bps, double share,
	uint64_t arriving)
{
	r->testing = true;
	r->test_counts = false;
	r->test_before_bps = arriving;
	r->test_sent_bps = bps;
	r->test_rate_bps = r->rate_bps;
	r->test_share = share < 0.4 ? share : 0.4;
	r->test_end_ns = p->now_ns + p->rtt_ns;
	r->test_queue_ns = r->queue_ns;
	r->test_seen_ns = UINT64_MAX;
	/* A little below, lest what is left of a loss of our own passes for the path's. */
	set_rate(r, (double)bps * (1 - r->test_share * 1.1));
}

static void test_end(struct rate *r, const struct rate_report *p, double share, uint64_t arriving)
{
	r->testing = false;
	r->reports_lossy = 0;
	if ((double)arriving < (double)r->test_before_bps * (1 - r->test_share / 2)) {
		/* Less sent, less arrived: the path loses whatever the load. */
		r->guilty_bps = r->test_sent_bps;
		r->guilty_share = 1 - (double)r->test_before_bps / (double)r->test_sent_bps;
		r->test_next_ns = p->now_ns + TEST_AGAIN_S * NS_PER_S;
		/* The cap may have changed meanwhile. */
		set_rate(r, (double)(r->state == RATE_CAP ? r->cap_bps : r->test_rate_bps));
		return;
	}
	r->state = RATE_CRUISE;
	if (share > TEST_REST && r->rate_bps > FLOOR_BPS) {
		/* As much arrives and some is lost still: the rest may be ours too. */
		test_begin(r, p, r->rate_bps, share, arriving);
		return;
	}
	r->loss = share;
	r->found_own = true;
	r->n_spans = 0;
	r->ceiling_bps = (uint64_t)((double)arriving / (1 - (share < 0.5 ? share : 0.5)));
	r->ceiling_end_ns = p->now_ns + CEILING_S * NS_PER_S;
	r->test_next_ns = p->now_ns + 6 * p->rtt_ns;
	r->full_ns = r->test_queue_ns;
	r->full_end_ns = p->now_ns + PROVEN_S * NS_PER_S;
	if (r->proven_bps > r->ceiling_bps)
		r->proven_bps = r->ceiling_bps;
	set_rate(r, (double)r->ceiling_bps);
}

/* Loss was seen for a time that packets may be late, as is known by now: it is no loss. */
static void test_doubt(struct rate *r, const struct rate_report *p)
{
	if (r->test_seen_ns >= LATE_TIMES * p->late_ns)
		return;
	r->testing = false;
	r->reports_lossy = 0;
	set_rate(r, (double)(r->state == RATE_CAP ? r->cap_bps : r->test_rate_bps));
}

static bool is_proven(const struct rate *r)
{
	return (double)r->rate_bps <= (double)r->proven_bps * 1.05;
}

/* Reports in a row that each lost much, in many places. */
static void lossy_count(struct rate *r, const struct rate_report *p, uint64_t elapsed_us)
{
	uint64_t total = p->bytes + p->lost;

	if (!p->limited || elapsed_us * 1000 > p->rtt_ns / 2 ||
		(double)p->spread_lost <= TEST_SHARE * (double)total) {
		r->reports_lossy = r->reports_spread = r->reports_lost = r->reports_bytes = 0;
		r->reports_sent_ns = r->reports_us = 0;
		return;
	}
	r->reports_lossy++;
	r->reports_us += elapsed_us;
	r->reports_spread += p->spread_lost;
	r->reports_lost += p->lost;
	r->reports_bytes += total;
	if (r->last_sent_ns != 0)
		r->reports_sent_ns += p->sent_ns - r->last_sent_ns;
}

/*
 * A path that was found guilty is left alone for a while, unless more is sent by now and a larger
 * share of it lost: that part is ours.
 */
static bool test_may(const struct rate *r, const struct rate_report *p, double share)
{
	return p->now_ns >= r->test_next_ns ||
		(r->guilty_bps != 0 && (double)r->rate_bps > GUILTY_RATE * (double)r->guilty_bps &&
			share > r->guilty_share + GUILTY_MORE * (1 - r->guilty_share));
}

/* The rate never went through and loses much: try less, without waiting for more to show. */
static void test_soon(struct rate *r, const struct rate_report *p, uint64_t elapsed_us)
{
	uint64_t seen_ns = r->reports_us * 1000;
	double share, lost, sent, bps;

	/* The newest may only be late. */
	if (seen_ns < p->min_rtt_ns / 8 || seen_ns < LATE_TIMES * p->late_ns)
		return;
	if (r->testing || is_proven(r) || r->reports_lossy < TEST_REPORTS || elapsed_us == 0 ||
		r->queue_ns > rate_target_ns(p->min_rtt_ns) || r->reports_bytes < 200 * 1500)
		return;
	share = (double)r->reports_spread / (double)r->reports_bytes;
	lost = (double)r->reports_lost / (double)r->reports_bytes;
	if (!test_may(r, p, lost))
		return;
	/*
	 * What was sent is taken from the rate, since few packets say too little; while it grows,
	 * from the packets that the reports are about. All that was lost counts: a full queue takes
	 * packets in a row, too.
	 */
	bps = (double)r->rate_bps;
	sent = r->reports_sent_ns == 0
		? bps
		: (double)r->reports_bytes * 8e9 / (double)r->reports_sent_ns;
	if (sent < GROWN * bps)
		bps = sent;
	test_begin(r, p, (uint64_t)bps, share, (uint64_t)(bps * (1 - lost)));
	r->test_seen_ns = seen_ns;
}

/* A span ended with this share of its packets lost and this rate arriving. */
static void loss_test(struct rate *r, const struct rate_report *p, double share, uint64_t arriving)
{
	if (r->ceiling_bps != 0 && p->now_ns >= r->ceiling_end_ns)
		r->ceiling_bps = 0;
	if (share <= TEST_SHARE)
		r->lossy_since_ns = 0;
	else if (r->lossy_since_ns == 0)
		r->lossy_since_ns = p->now_ns;
	if (r->testing && r->test_counts)
		test_end(r, p, share, arriving);
	else if (!r->testing && r->lossy_since_ns != 0 && test_may(r, p, share) &&
		p->now_ns - r->lossy_since_ns >= 3 * p->rtt_ns + TEST_AFTER_MS * NS_PER_MS)
		test_begin(r, p, r->rate_bps, share, arriving);
}

/* Less load for four round trips and the queue stayed: it is not ours. */
static void lowered_watch(struct rate *r, const struct rate_report *p, uint64_t target)
{
	int64_t owd = r->last_owd_ns, fell;

	if (!r->lowered) {
		r->lowered = true;
		r->lowered_min_ns = r->lowered_max_ns = owd;
		r->lowered_end_ns = p->now_ns + 4 * p->rtt_ns;
		r->lowered_bytes = r->lowered_lost = 0;
		return;
	}
	r->lowered_bytes += p->bytes;
	r->lowered_lost += p->lost;
	r->lowered_min_ns = owd < r->lowered_min_ns ? owd : r->lowered_min_ns;
	r->lowered_max_ns = owd > r->lowered_max_ns ? owd : r->lowered_max_ns;
	if (p->now_ns < r->lowered_end_ns)
		return;
	r->lowered = false;
	fell = r->lowered_max_ns - owd;
	if (!p->bulk && 10 * (r->lowered_min_ns - r->base_ns) > 11 * (int64_t)target &&
		fell < (owd - r->base_ns) / 8 && !overflows(r, r->lowered_bytes, r->lowered_lost))
		rebase(r, r->lowered_min_ns);
}

/* Near the end of the window the own standing queue must go once, or it would become the base. */
static bool must_drain(const struct rate *r, const struct rate_report *p, uint64_t target)
{
	return p->now_ns + 6 * p->rtt_ns > r->window_end_ns &&
		r->window_min_ns > r->base_ns + (int64_t)target / 4;
}

/* What our own rate cannot have caused. */
static bool is_foreign(const struct rate *r, const struct rate_report *p, uint64_t target)
{
	uint64_t least = target / 3 > 3 * NS_PER_MS / 2 ? target / 3 : 3 * NS_PER_MS / 2;

	return r->proven_bps != 0 && p->now_ns >= r->over_ns && r->queue_ns > least && !r->step &&
		!r->trial;
}

/* The queue that bulk gives way to has not moved for long: put it on trial. */
static void look(struct rate *r, const struct rate_report *p)
{
	int64_t owd = r->last_owd_ns, queue;

	if (r->yield_look_ns == 0) {
		r->yield_min_ns = r->yield_max_ns = owd;
		r->yield_look_ns = p->now_ns + 10 * p->rtt_ns + LOOK_MS * NS_PER_MS;
		return;
	}
	r->yield_min_ns = owd < r->yield_min_ns ? owd : r->yield_min_ns;
	r->yield_max_ns = owd > r->yield_max_ns ? owd : r->yield_max_ns;
	if (p->now_ns < r->yield_look_ns)
		return;
	r->yield_look_ns = 0;
	queue = r->yield_min_ns - r->base_ns;
	if (queue < (int64_t)NS_PER_MS ||
		r->yield_max_ns - r->yield_min_ns > queue / 8 + (int64_t)NS_PER_MS / 2)
		return;
	trial_begin(r, p, r->yield_min_ns);
	r->yielding = false;
	r->recovering = true;
	r->n_spans = 0;
}

/* Somebody takes next to nothing: there is room for it when the queue is kept short. */
static bool is_trickle(const struct rate *r, uint64_t target)
{
	uint64_t before = r->rate_bps < r->proven_bps ? r->rate_bps : r->proven_bps;

	return r->queue_ns <= target && (double)r->recent_bps > TRICKLE * (double)before &&
		(double)before > ALONE * (double)r->cap_bps && r->cap_bps != 0;
}

/* Bulk beside others. true: the rate is settled. */
static bool give_way(struct rate *r, const struct rate_report *p, uint64_t target)
{
	double least = (double)r->proven_bps / 30, step;

	if (r->queue_ns > target / 2)
		r->clear_ns = 0;
	else if (r->clear_ns == 0)
		r->clear_ns = p->now_ns;
	if (!p->bulk) {
		r->yielding = r->recovering = false;
		return false;
	}
	if (!r->yielding && is_foreign(r, p, target)) {
		if (is_trickle(r, target)) {
			r->trickle_ns = p->now_ns;
			r->state = RATE_CRUISE;
			return false;
		}
		r->yielding = true;
		r->recovering = false;
		r->yield_ns = p->now_ns;
		r->yield_look_ns = 0;
		r->yield_bps = r->recent_bps;
		r->state = RATE_CRUISE;
	}
	if (r->yielding && r->clear_ns != 0 && p->now_ns - r->clear_ns >= p->rtt_ns) {
		/* Gone as soon as we slowed down: it was ours. */
		if (r->clear_ns - r->yield_ns < 3 * p->rtt_ns && r->yield_bps != 0)
			r->proven_bps = r->yield_bps < r->proven_bps ? r->yield_bps : r->proven_bps;
		r->yielding = false;
		r->recovering = true;
		r->n_spans = 0;
	}
	if (r->yielding)
		look(r, p);
	if (r->yielding) {
		if ((double)r->rate_bps > least)
			set_rate(r,
				(double)r->rate_bps / 2 > least ? (double)r->rate_bps / 2 : least);
		return true;
	}
	if (!r->recovering)
		return false;
	step = (double)(p->newest_us - r->report_us) * 1000 / (double)p->rtt_ns;
	set_rate(r, (double)r->rate_bps * (1 + 0.6 * (step < 1 ? step : 1)));
	if (r->rate_bps >= r->proven_bps || r->rate_bps == r->cap_bps) {
		set_rate(r, (double)r->proven_bps);
		r->recovering = false;
	}
	return true;
}

/*
 * The slower a session is, the more queue it accepts: all see the same queue, so who has less
 * grows at the cost of who has more until they are equal. Equal caps give a common measure of slow.
 * Without a cap, or with one far above anything ever delivered, it is a fixed rate and a weaker
 * law, since it has to cover all lines there are.
 */
static uint64_t share_target(const struct rate *r, const struct rate_report *p, uint64_t target)
{
	double bps = (double)r->recent_bps, times, most = MOST_SHARE * (double)p->min_rtt_ns;

	if (p->bulk && p->now_ns < r->trickle_ns + 4 * p->rtt_ns && r->trickle_ns != 0)
		return target / 3 > NS_PER_MS ? target / 3 : NS_PER_MS;
	if (bps <= 0)
		return target;
	if (r->cap_bps != 0 && r->cap_bps / FAR_CAP <= r->peak_bps)
		times = sqrt((double)r->cap_bps / bps);
	else
		times = sqrt(sqrt((double)REFERENCE_BPS / bps));
	if (times < 0.7)
		times = 0.7;
	if (most < 4 * (double)rate_target_ns(0))
		most = 4 * (double)rate_target_ns(0);
	if (p->now_ns < r->full_end_ns && most > 0.8 * (double)r->full_ns)
		most = 0.8 * (double)r->full_ns;
	times *= (double)target;
	return (uint64_t)(times < most ? times : most);
}

/* A queue is or was there: aim at the target. */
static void cruise(struct rate *r, const struct rate_report *p, uint64_t target)
{
	double bps = line_bps(r, p), tau = (double)p->min_rtt_ns / 2, calm, gain;

	if (r->queue_ns > target / 2 || !p->limited)
		r->empty_since_ns = 0;
	else if (r->empty_since_ns == 0)
		r->empty_since_ns = p->now_ns;
	if (r->queue_ns > target && !r->hold.on)
		lowered_watch(r, p, target);
	else
		r->lowered = false;
	if (bps == 0 || (!p->limited && r->queue_ns <= target))
		return;
	/* Growth shows a round trip later: bolder only after two. */
	calm = r->empty_since_ns == 0 ? 0
				      : (double)(p->now_ns - r->empty_since_ns) / (double)p->rtt_ns;
	if (calm > 2)
		bps *= 1 + (calm - 2 < 4 ? (calm - 2) / 16 : 0.25);
	if (tau < 4 * (double)NS_PER_MS)
		tau = 4 * (double)NS_PER_MS;
	gain = 1 + ((double)target - queue_ahead(r, p, bps)) / tau;
	if (must_drain(r, p, target) && gain > 0.9)
		gain = 0.9;
	if (gain > 1.3)
		gain = 1.3;
	if (gain < 0.3)
		gain = 0.3;
	set_rate(r, bps * gain);
	if (r->cap_bps != 0 && r->rate_bps == r->cap_bps && calm > 8)
		r->state = RATE_CAP;
}

/* Beside somebody who fills every queue normal holds its part. */
static void keep(struct rate *r, const struct rate_report *p, uint64_t target)
{
	struct hold_report h = {
		.now_ns = p->now_ns,
		.rtt_ns = p->rtt_ns,
		.bytes = p->bytes,
		.lost = p->spread_lost,
		.loss = r->loss,
		.over = r->queue_ns > target,
		.before_bps =
			r->proven_bps > r->cap_bps && r->cap_bps != 0 ? r->cap_bps : r->proven_bps,
		.rate_bps = r->rate_bps,
	};
	uint64_t least;

	if (p->bulk || p->urgent || r->step || r->trial) {
		hold_end(&r->hold);
		return;
	}
	if (!p->limited)
		return;
	least = hold_report(&r->hold, &h);
	if (r->rate_bps < least)
		set_rate(r, (double)least);
}

static void startup(struct rate *r, const struct rate_report *p, uint64_t elapsed_us)
{
	double step = (double)elapsed_us * 1000 / (double)p->rtt_ns;

	if (p->limited)
		set_rate(r, (double)r->rate_bps * (1 + 0.6 * (step < 1 ? step : 1)));
}

/* Urgent does not give way, but a queue that overflows all the time belongs to others like it. */
static void crowd_watch(struct rate *r, const struct rate_report *p, uint64_t target)
{
	if (!p->limited || r->queue_ns <= target ||
		!overflows(r, p->bytes + p->lost - p->spread_lost, p->spread_lost)) {
		if (r->queue_ns <= target || p->now_ns - r->crowd_seen_ns > 4 * p->rtt_ns)
			r->crowd_since_ns = 0;
		return;
	}
	r->crowd_seen_ns = p->now_ns;
	if (r->crowd_since_ns == 0)
		r->crowd_since_ns = p->now_ns;
	if (p->now_ns - r->crowd_since_ns >= 8 * p->rtt_ns + CROWD_MS * NS_PER_MS)
		r->crowd_end_ns = p->now_ns + CROWD_S * NS_PER_S;
}

uint64_t rate_report(struct rate *r, const struct rate_report *p)
{
	uint64_t elapsed_us = r->any ? p->newest_us - r->last_us : 0;
	uint64_t target = target_of(r, p), arriving;
	double share;

	r->report_us = r->any ? r->last_us : p->newest_us;
	delay_update(r, p);
	lossy_count(r, p, elapsed_us);
	if (r->testing && !r->test_counts && p->now_ns >= r->test_end_ns) {
		r->test_counts = true; /* from here on reports are of what was sent since */
		span_reset(r);
		test_doubt(r, p);
	} else if (delivery_update(r, p, elapsed_us, &share, &arriving)) {
		loss_test(r, p, share, arriving);
	}
	test_soon(r, p, elapsed_us);
	r->last_sent_ns = p->sent_ns;
	if (r->testing || r->queue_ns > 2 * target)
		r->own_end_ns = p->now_ns + 2 * p->rtt_ns;
	if (r->testing)
		return r->rate_bps;
	if (!give_way(r, p, target)) {
		if (r->queue_ns > (r->state == RATE_STARTUP ? target / 2 : target) &&
			line_bps(r, p) > 0)
			r->state = RATE_CRUISE;
		if (r->state == RATE_CRUISE)
			cruise(r, p, share_target(r, p, target));
		else if (r->state == RATE_STARTUP)
			startup(r, p, elapsed_us);
	}
	crowd_watch(r, p, target);
	keep(r, p, share_target(r, p, target));
	if (p->urgent && p->now_ns >= r->crowd_end_ns) {
		double least = 0;

		/* A little less than proven, which is a measurement. */
		if (is_foreign(r, p, target))
			least = URGENT_SHARE * (double)r->proven_bps;
		/* It found the queue there: enough to be noticed by those who keep theirs. */
		else if (r->queue_ns > target)
			least = URGENT_LEAST * (double)r->cap_bps;
		if ((double)r->rate_bps < least)
			set_rate(r, least);
	}
	if (!is_proven(r))
		r->over_ns = p->now_ns + 2 * p->rtt_ns;
	return r->rate_bps;
}
