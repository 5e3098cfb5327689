/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/phases.h"

#include <math.h>

#define NS_PER_S  1000000000ULL
#define NS_PER_MS 1000000ULL

/* Rates are taken over one RTT in so many bins, and over at least this beside other traffic. */
enum { BINS_PER_RTT = 20 };
#define BESIDE_WINDOW_NS (100 * NS_PER_MS)
#define BESIDE_SETTLE_NS NS_PER_S

uint64_t phases_bin_ns(const struct world_config *cfg)
{
	uint64_t ns = cfg->link[WORLD_SOURCE].rtt_ns / BINS_PER_RTT;

	return ns < 50000 ? 50000 : ns > 5 * NS_PER_MS ? 5 * NS_PER_MS : ns;
}

static uint64_t good(const struct trace_bin *b)
{
	return b->good_bytes;
}

static uint64_t offered(const struct trace_bin *b)
{
	return b->offered_bytes;
}

static uint64_t crossing(const struct trace_bin *b)
{
	return b->cross_bytes;
}

static double sum(const struct trace *t, uint64_t first, uint64_t n,
	uint64_t (*of)(const struct trace_bin *))
{
	uint64_t total = 0;

	for (uint64_t i = first; i < first + n && i < t->n; i++)
		total += of(&t->bins[i]);
	return (double)total;
}

/* NAN when the cut met no steady transfer, or the transfer ended before it could recover. */
static double cut_recovery(const struct world *w, const struct link_cut *cut)
{
	const struct trace *t = &w->trace;
	uint64_t rtt_ns = w->cfg.link[WORLD_SOURCE].rtt_ns;
	uint64_t bins = (rtt_ns + t->bin_ns - 1) / t->bin_ns;
	uint64_t before_end = (cut->at_ns + rtt_ns / 2) / t->bin_ns;
	uint64_t end_ns = cut->at_ns + cut->len_ns;
	double before;

	if (before_end < bins || bins == 0)
		return NAN;
	before = sum(t, before_end - bins, bins, good);
	if (!(before > 0))
		return NAN;
	for (uint64_t i = end_ns / t->bin_ns + 1; i + bins <= t->n; i++)
		if (sum(t, i, bins, good) >= 0.95 * before)
			return (double)((i + bins) * t->bin_ns - end_ns) / (double)rtt_ns;
	return NAN;
}

double phases_recovery_rtt(const struct world *w)
{
	const struct link_config *l = &w->cfg.link[WORLD_SOURCE];
	double worst = NAN;

	for (uint32_t i = 0; i < l->ncuts && w->trace.bin_ns; i++) {
		double r = cut_recovery(w, &l->cuts[i]);

		if (!isnan(r) && !(r <= worst))
			worst = r;
	}
	return worst;
}

void phases_mark(struct world *w)
{
	const struct world_figures *f = &w->f[WORLD_SOURCE];
	const struct world_mark *last = &w->marks[(w->n_marks - 1) % WORLD_MARKS];
	uint64_t step = w->cfg.link[WORLD_SOURCE].rtt_ns / WORLD_MARKS;

	if (w->n_marks > 0 && w->now_ns < last->at_ns + step)
		return;
	w->marks[w->n_marks++ % WORLD_MARKS] =
		(struct world_mark){ w->now_ns, f->symbols_line, f->symbols_lost };
}

void phases_verified(struct world *w)
{
	const struct world_figures *f = &w->f[WORLD_SOURCE];
	uint64_t way_ns = w->cfg.link[WORLD_SOURCE].rtt_ns / 2;

	/* The first mark after it has all of it. */
	w->verified = (struct world_mark){ w->now_ns, f->symbols_line, f->symbols_lost };
	for (uint32_t i = 1; i <= w->n_marks && i <= WORLD_MARKS; i++) {
		const struct world_mark *m = &w->marks[(w->n_marks - i) % WORLD_MARKS];

		if (m->at_ns + way_ns < w->now_ns)
			break;
		w->verified = *m;
	}
}

/* From at_ns until the rate over a window is on the wanted side of the limit. */
static double until_rate_ms(const struct trace *t, uint64_t at_ns, uint64_t end_ns, uint64_t bins,
	double limit, bool above)
{
	for (uint64_t i = (at_ns + t->bin_ns - 1) / t->bin_ns; (i + bins) * t->bin_ns <= end_ns;
		i++) {
		double now = sum(t, i, bins, offered) / (double)bins;

		if (above ? now >= limit : now <= limit)
			return (double)((i + bins) * t->bin_ns - at_ns) / 1e6;
	}
	return NAN;
}

void phases_beside(const struct world *w, struct phases_beside *out)
{
	const struct trace *t = &w->trace;
	const struct cross_config *c = NULL;
	uint64_t end_ns = (w->verified_ns ? w->verified_ns : w->now_ns) - w->t0_ns;
	uint64_t rtt_ns = w->cfg.link[WORLD_SOURCE].rtt_ns;
	uint64_t window_ns = rtt_ns > BESIDE_WINDOW_NS ? rtt_ns : BESIDE_WINDOW_NS;
	uint64_t bins, first, last, settled;
	double before = 0, on, beside;

	*out = (struct phases_beside){ NAN, NAN, NAN, NAN, NAN };
	for (uint32_t i = 0; i < w->cfg.ncross && !c; i++)
		if (w->cfg.cross[i].direction == WORLD_SOURCE)
			c = &w->cfg.cross[i];
	if (!c || t->bin_ns == 0 || c->start_ns + window_ns >= end_ns)
		return;
	first = c->start_ns / t->bin_ns;
	last = (c->start_ns + c->len_ns < end_ns ? c->start_ns + c->len_ns : end_ns) / t->bin_ns;
	on = sum(t, first, last - first, crossing);
	beside = sum(t, first, last - first, offered);
	out->cross_gbps = on * 8 / (double)((last - first) * t->bin_ns);
	if (on + beside > 0)
		out->cross_share = on / (on + beside);
	bins = NS_PER_S / t->bin_ns;
	if (bins > first)
		bins = first;
	if (bins)
		before = sum(t, first - bins, bins, offered) / (double)bins;
	if (!(before > 0))
		return;
	settled = first + BESIDE_SETTLE_NS / t->bin_ns;
	if (settled < last)
		out->given_up = 1 -
			sum(t, settled, last - settled, offered) / (double)(last - settled) /
				before;
	bins = (window_ns + t->bin_ns - 1) / t->bin_ns;
	out->given_up_ms =
		until_rate_ms(t, c->start_ns, last * t->bin_ns, bins, 0.1 * before, false);
	out->taken_back_ms =
		until_rate_ms(t, c->start_ns + c->len_ns, end_ns, bins, 0.9 * before, true);
}
