/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rate.h"

#include <string.h>

enum {
	START_BPS = 50000000, /* without a cap */
	FLOOR_BPS = 1000000,
	BASE_WINDOW_S = 10,
	CEILING_S = 10,           /* what a test of the loss found holds so long */
	TEST_AFTER_MS = 200,      /* bursts are shorter */
	TEST_AGAIN_S = 20,        /* after a test that found the path guilty */
	BASE_WINDOW_YIELD_S = 60, /* while bulk gives way: the queue it sees is somebody else's */
};

#define TEST_SHARE 0.08 /* loss beyond this is tested */
#define NS_PER_S   UINT64_C(1000000000)
#define NS_PER_MS  UINT64_C(1000000)

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

static void rebase(struct rate *r, int64_t base_ns)
{
	r->base_ns = r->window_min_ns = base_ns;
	r->n_delays = 0;
	r->step = r->lowered = false;
}

/* A jump of the delay that stays flat for a round trip is another path. */
static void step_watch(struct rate *r, const struct rate_report *p, int64_t owd, int64_t elapsed)
{
	int64_t jump = owd - r->last_owd_ns;

	if (!r->step && jump > (int64_t)NS_PER_MS && jump > elapsed / 2) {
		r->step = true;
		r->step_min_ns = r->step_max_ns = owd;
		r->step_end_ns = p->now_ns + p->min_rtt_ns + 4 * NS_PER_MS;
		return;
	}
	if (!r->step)
		return;
	r->step_min_ns = owd < r->step_min_ns ? owd : r->step_min_ns;
	r->step_max_ns = owd > r->step_max_ns ? owd : r->step_max_ns;
	if (p->now_ns < r->step_end_ns)
		return;
	r->step = false;
	jump = r->step_min_ns - r->base_ns;
	if (r->step_max_ns - r->step_min_ns < jump / 4 + (int64_t)NS_PER_MS / 2)
		rebase(r, r->step_min_ns);
}

/* A queue is in every sample; a host that was late is in some. STARTUP must react faster. */
static uint64_t queue_of(const struct rate *r)
{
	uint32_t n = r->state == RATE_STARTUP ? 2 : RATE_DELAYS;
	int64_t least = INT64_MAX;

	for (uint32_t i = 1; i <= n && i <= r->n_delays; i++) {
		int64_t owd = r->delays[(r->n_delays - i) % RATE_DELAYS];

		least = owd < least ? owd : least;
	}
	return least > r->base_ns ? (uint64_t)(least - r->base_ns) : 0;
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
	r->queue_ns = queue_of(r);
	r->last_owd_ns = owd;
	r->last_us = p->newest_us;
}

/* true: a span ended; its loss and what arrived are in *share and *arriving. */
static bool delivery_update(struct rate *r, const struct rate_report *p, uint64_t elapsed_us,
	double *share, uint64_t *arriving)
{
	uint64_t total;

	if (!p->limited || elapsed_us * 1000 > p->rtt_ns / 2) {
		/* The sender was idle or the path was cut: what arrived says nothing about the
		 * line. */
		r->span_us = r->span_bytes = r->span_lost = r->span_queue_ns = 0;
		return false;
	}
	r->span_us += elapsed_us;
	r->span_bytes += p->bytes;
	r->span_lost += p->lost;
	if (r->queue_ns > r->span_queue_ns)
		r->span_queue_ns = r->queue_ns;
	if (r->span_us * 1000 < p->rtt_ns / 2 || r->span_us < 1000)
		return false;
	total = r->span_bytes + r->span_lost;
	*share = total > 0 ? (double)r->span_lost / (double)total : 0;
	*arriving = r->span_bytes * 8 * 1000000 / r->span_us;
	if (total > 0 && !r->testing && r->span_queue_ns <= rate_target_ns(p->min_rtt_ns))
		r->loss += (*share - r->loss) / 8;
	r->recent_bps = (uint64_t)((double)r->span_bytes * 8e6 / (double)r->span_us /
		(1 - (r->loss < 0.5 ? r->loss : 0.5)));
	r->spans[r->n_spans++ % RATE_SPANS] = r->recent_bps;
	r->span_us = r->span_bytes = r->span_lost = r->span_queue_ns = 0;
	return true;
}

static uint64_t best_span(const struct rate *r)
{
	uint64_t best = 0;

	for (uint32_t i = 0; i < RATE_SPANS && i < r->n_spans; i++)
		best = r->spans[i] > best ? r->spans[i] : best;
	return best;
}

static void set_rate(struct rate *r, double bps)
{
	if (r->cap_bps != 0 && bps >= (double)r->cap_bps)
		bps = (double)r->cap_bps;
	if (r->ceiling_bps != 0 && bps > (double)r->ceiling_bps)
		bps = (double)r->ceiling_bps;
	r->rate_bps = bps < FLOOR_BPS ? FLOOR_BPS : (uint64_t)bps;
}

static void test_begin(struct rate *r, const struct rate_report *p, double share, uint64_t arriving)
{
	r->testing = true;
	r->test_before_bps = arriving;
	r->test_rate_bps = r->rate_bps;
	r->test_share = share < 0.4 ? share : 0.4;
	r->test_end_ns = p->now_ns + 3 * p->rtt_ns;
	set_rate(r, (double)r->rate_bps * (1 - r->test_share));
}

static void test_end(struct rate *r, const struct rate_report *p, double share, uint64_t arriving)
{
	r->testing = false;
	if ((double)arriving < (double)r->test_before_bps * (1 - r->test_share / 2)) {
		/* Less sent, less arrived: the path loses whatever the load. */
		r->test_next_ns = p->now_ns + TEST_AGAIN_S * NS_PER_S;
		set_rate(r, (double)r->test_rate_bps);
		return;
	}
	r->loss = share;
	r->n_spans = 0;
	r->state = RATE_CRUISE;
	r->ceiling_bps = (uint64_t)((double)arriving / (1 - (share < 0.5 ? share : 0.5)));
	r->ceiling_end_ns = p->now_ns + CEILING_S * NS_PER_S;
	r->test_next_ns = p->now_ns + 6 * p->rtt_ns;
	set_rate(r, (double)r->ceiling_bps);
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
	if (r->testing && p->now_ns >= r->test_end_ns)
		test_end(r, p, share, arriving);
	else if (!r->testing && r->lossy_since_ns != 0 && p->now_ns >= r->test_next_ns &&
		p->now_ns - r->lossy_since_ns >= 3 * p->rtt_ns + TEST_AFTER_MS * NS_PER_MS)
		test_begin(r, p, share, arriving);
}

/* Less load for four round trips and the queue stayed: it is not ours. */
static void lowered_watch(struct rate *r, const struct rate_report *p, uint64_t target)
{
	int64_t owd = r->last_owd_ns, fell;

	if (!r->lowered) {
		r->lowered = true;
		r->lowered_min_ns = r->lowered_max_ns = owd;
		r->lowered_end_ns = p->now_ns + 4 * p->rtt_ns;
		return;
	}
	r->lowered_min_ns = owd < r->lowered_min_ns ? owd : r->lowered_min_ns;
	r->lowered_max_ns = owd > r->lowered_max_ns ? owd : r->lowered_max_ns;
	if (p->now_ns < r->lowered_end_ns)
		return;
	r->lowered = false;
	fell = r->lowered_max_ns - owd;
	if (!p->bulk && r->lowered_min_ns - r->base_ns > 2 * (int64_t)target &&
		fell < (owd - r->base_ns) / 8)
		rebase(r, r->lowered_min_ns);
}

/* Near the end of the window the own standing queue must go once, or it would become the base. */
static bool must_drain(const struct rate *r, const struct rate_report *p, uint64_t target)
{
	return p->now_ns + 6 * p->rtt_ns > r->window_end_ns &&
		r->window_min_ns > r->base_ns + (int64_t)target / 4;
}

static void over_target(struct rate *r, const struct rate_report *p, uint64_t target)
{
	double excess =
		r->queue_ns > target ? (double)(r->queue_ns - target) / (double)p->min_rtt_ns : 0;
	double most = p->bulk ? 0.6 : 0.4, gain = p->bulk ? 1.5 : 0.4;
	double bps = (double)(p->bulk ? r->recent_bps : best_span(r));

	r->empty_since_ns = 0;
	if (bps == 0)
		return; /* not measured yet */
	r->state = RATE_CRUISE;
	lowered_watch(r, p, target);
	excess *= gain;
	if (must_drain(r, p, target))
		excess += 0.1;
	bps *= 1 - (excess < most ? excess : most);
	/* While the own overshoot drains, do not follow the delivery rate up again. */
	if (bps < (double)r->rate_bps || !p->bulk)
		set_rate(r, bps);
}

static void under_target(struct rate *r, const struct rate_report *p, uint64_t target)
{
	double bps = (double)best_span(r), room, calm;

	r->lowered = false;
	if (r->queue_ns > target / 2 || !p->limited)
		r->empty_since_ns = 0;
	else if (r->empty_since_ns == 0)
		r->empty_since_ns = p->now_ns;
	if (r->state != RATE_CRUISE || bps == 0 || !p->limited)
		return;
	room = (double)(target - r->queue_ns) / (double)p->min_rtt_ns;
	calm = r->empty_since_ns == 0 ? 0
				      : (double)(p->now_ns - r->empty_since_ns) / (double)p->rtt_ns;
	/* Spans reach back half a round trip and growth shows one later: bolder only after
	 * three. */
	if (must_drain(r, p, target)) {
		set_rate(r, bps * 0.9);
		return;
	}
	bps *= 1 + room / 2 + (calm > 3 ? (calm - 3 < 8 ? (calm - 3) / 8 : 1) : 0);
	set_rate(r, bps);
	if (r->cap_bps != 0 && r->rate_bps == r->cap_bps && calm > 8)
		r->state = RATE_CAP;
}

static void startup(struct rate *r, const struct rate_report *p, uint64_t elapsed_us)
{
	double step = (double)elapsed_us * 1000 / (double)p->rtt_ns;

	if (p->limited)
		set_rate(r, (double)r->rate_bps * (1 + 0.6 * (step < 1 ? step : 1)));
}

uint64_t rate_report(struct rate *r, const struct rate_report *p)
{
	uint64_t elapsed_us = r->any ? p->newest_us - r->last_us : 0;
	uint64_t target = rate_target_ns(p->min_rtt_ns), arriving;
	double share;

	delay_update(r, p);
	if (delivery_update(r, p, elapsed_us, &share, &arriving))
		loss_test(r, p, share, arriving);
	if (r->testing)
		return r->rate_bps;
	if (r->queue_ns > (r->state == RATE_STARTUP ? target / 2 : target))
		over_target(r, p, target);
	else if (r->state == RATE_STARTUP)
		startup(r, p, elapsed_us);
	else
		under_target(r, p, target);
	return r->rate_bps;
}
