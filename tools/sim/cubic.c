/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/cubic.h"

#include <math.h>

/* RFC 9438 section 4. */
#define CUBIC_C     0.4
#define CUBIC_BETA  0.7
#define CUBIC_ALPHA (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA))

#define WINDOW_INITIAL 10.0 /* RFC 6928 */
#define WINDOW_MIN     2.0

/* RFC 9406 section 4.3. */
enum { HYSTART_SAMPLES = 8, HYSTART_MIN_NS = 4000000, HYSTART_MAX_NS = 16000000 };

void cubic_init(struct cubic *c)
{
	*c = (struct cubic){ .cwnd = WINDOW_INITIAL, .ssthresh = INFINITY };
	c->round_rtt_ns = c->last_rtt_ns = UINT64_MAX;
}

void cubic_round(struct cubic *c)
{
	c->last_rtt_ns = c->round_rtt_ns;
	c->round_rtt_ns = UINT64_MAX;
	c->round_samples = 0;
}

void cubic_rtt(struct cubic *c, uint64_t rtt_ns)
{
	uint64_t margin_ns;

	if (rtt_ns < c->round_rtt_ns)
		c->round_rtt_ns = rtt_ns;
	c->round_samples++;
	if (c->cwnd >= c->ssthresh || c->round_samples < HYSTART_SAMPLES ||
		c->last_rtt_ns == UINT64_MAX)
		return;
	margin_ns = c->last_rtt_ns / 8;
	if (margin_ns < HYSTART_MIN_NS)
		margin_ns = HYSTART_MIN_NS;
	if (margin_ns > HYSTART_MAX_NS)
		margin_ns = HYSTART_MAX_NS;
	if (c->round_rtt_ns >= c->last_rtt_ns + margin_ns)
		c->ssthresh = c->cwnd;
}

/* Section 4.2: K is chosen so that the curve passes the window at the start of the epoch. */
static void epoch_begin(struct cubic *c, uint64_t now_ns)
{
	c->epoch_ns = now_ns ? now_ns : 1;
	c->w_est = c->cwnd;
	if (c->cwnd < c->w_max) {
		c->k_s = cbrt((c->w_max - c->cwnd) / CUBIC_C);
		c->origin = c->w_max;
	} else {
		c->k_s = 0;
		c->origin = c->cwnd;
	}
}

static double curve(const struct cubic *c, double t_s)
{
	double x = t_s - c->k_s;

	return c->origin + CUBIC_C * x * x * x;
}

static void avoid(struct cubic *c, uint64_t now_ns, uint64_t srtt_ns, double n)
{
	double t_s;
	double target;

	if (c->epoch_ns == 0)
		epoch_begin(c, now_ns);
	t_s = (double)(now_ns - c->epoch_ns) / 1e9;
	/* Section 4.3; once the maximum is passed Reno grows by one segment a round. */
	c->w_est += (c->w_est < c->w_max ? CUBIC_ALPHA : 1) * n / c->cwnd;
	if (curve(c, t_s) < c->w_est) {
		c->cwnd = c->w_est;
		return;
	}
	target = curve(c, t_s + (double)srtt_ns / 1e9);
	if (target > 1.5 * c->cwnd)
		target = 1.5 * c->cwnd;
	if (target > c->cwnd)
		c->cwnd += (target - c->cwnd) / c->cwnd * n;
}

void cubic_acked(struct cubic *c, uint64_t now_ns, uint64_t srtt_ns, uint32_t segments)
{
	double n = segments;

	if (c->cwnd < c->ssthresh) {
		double grow = c->cwnd + n <= c->ssthresh ? n : c->ssthresh - c->cwnd;

		c->cwnd += grow;
		n -= grow;
	}
	if (n > 0)
		avoid(c, now_ns, srtt_ns, n);
}

static void reduce(struct cubic *c)
{
	/* Fast convergence, section 4.7: below the last maximum, leave room to newcomers. */
	c->w_max = c->cwnd < c->w_max ? c->cwnd * (1 + CUBIC_BETA) / 2 : c->cwnd;
	c->ssthresh = c->cwnd * CUBIC_BETA;
	if (c->ssthresh < WINDOW_MIN)
		c->ssthresh = WINDOW_MIN;
	c->epoch_ns = 0;
}

void cubic_lost(struct cubic *c)
{
	reduce(c);
	c->cwnd = c->ssthresh;
}

void cubic_timeout(struct cubic *c)
{
	reduce(c);
	c->cwnd = 1;
	c->round_rtt_ns = c->last_rtt_ns = UINT64_MAX;
	c->round_samples = 0;
}
