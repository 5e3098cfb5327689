/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/flows.h"

#include "tools/sim/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000ULL

/* Time to converge. */
#define SETTLE_NS (2 * NS_PER_S)
enum { SETTLE_RTTS = 20 };

int flows_init(struct flows *f, struct world *w, const struct plan *p)
{
	struct world_config cfg = w->cfg;
	uint64_t bytes;

	memset(f, 0, sizeof(*f));
	f->w[f->n++] = w;
	cfg.ncross = 0;
	cfg.beside = w;
	for (uint32_t i = 1; i < p->flows; i++) {
		int rc;

		cfg.seed = p->world.seed + i * UINT64_C(0x9e3779b97f4a7c15);
		f->w[i] = world_create(&cfg, NULL);
		if (!f->w[i])
			return -errno;
		f->n++;
		rc = sim_objects(f->w[i], p, &bytes);
		if (rc < 0)
			return rc;
	}
	for (uint32_t i = 0; i < f->n; i++)
		f->start_ns[i] = w->t0_ns + p->wait_ns + i * p->flow_start_ns;
	return 0;
}

void flows_fini(struct flows *f)
{
	for (uint32_t i = 1; i < f->n; i++)
		world_destroy(f->w[i]);
}

static uint64_t order_ns(const struct flows *f, const struct plan *p, uint32_t i)
{
	return f->ordered[i] < p->transfers ? f->start_ns[i] + f->ordered[i] * p->every_ns
					    : UINT64_MAX;
}

static void order(struct flows *f, const struct plan *p, uint32_t i)
{
	struct world *w = f->w[i];
	uint32_t n = f->ordered[i]++;
	uint32_t first = n > 0 ? load_deal(p, w->nobjects, n - 1) : 0;
	uint32_t end = load_deal(p, w->nobjects, n);
	int rc = world_order(w, first, end - first, i == 0 ? p->class_ : p->flow_class);

	if (rc < 0)
		world_fail(w, "transfer %u of %u objects could not start: %s", n, end - first,
			strerror(-rc));
}

/* What is due next, of all worlds; the lower one first. true: it is an order. */
static bool next(const struct flows *f, const struct plan *p, uint32_t *which, uint64_t *at)
{
	bool is_order = false;

	*at = UINT64_MAX;
	for (uint32_t i = 0; i < f->n; i++) {
		uint64_t of[] = { order_ns(f, p, i), world_next_ns(f->w[i]) };

		for (int j = 0; j < 2; j++)
			if (of[j] < *at) {
				*at = of[j];
				*which = i;
				is_order = j == 0;
			}
	}
	return is_order;
}

static bool is_done(const struct flows *f, const struct plan *p, uint32_t i)
{
	return f->ordered[i] == p->transfers && world_is_done(f->w[i]);
}

struct count {
	uint64_t at_ns, data[FLOWS_MAX];
	uint64_t symbols, in_line, dropped;
	struct histogram queueing;
};

static void count(const struct flows *f, uint64_t now_ns, struct count *c)
{
	memset(c, 0, sizeof(*c));
	c->at_ns = now_ns;
	for (uint32_t i = 0; i < f->n; i++) {
		const struct world_figures *x = &f->w[i]->f[WORLD_SOURCE];

		c->data[i] = x->data_in_bytes;
		c->symbols += x->symbols;
		c->in_line += x->symbols_line;
		c->dropped += x->symbols_queue;
		histogram_merge(&c->queueing, &f->w[i]->queueing);
	}
}

static double dropped(const struct count *a, const struct count *b)
{
	return b->symbols > a->symbols
		? (double)(b->dropped - a->dropped) / (double)(b->symbols - a->symbols)
		: 0;
}

/* c: at the last one's start, when all should have settled, when the first was done. */
static void measure(const struct flows *f, const struct plan *p, const struct count c[3], double *v)
{
	const enum sim_figure each[FLOWS_MAX] = { SIM_flow1_gbps, SIM_flow2_gbps, SIM_flow3_gbps,
		SIM_flow4_gbps };
	const struct world_config *cfg = &f->w[0]->cfg;
	double ns = (double)(c[2].at_ns - c[1].at_ns), sum = 0, squares = 0, least = 0;
	double line = cfg->symbol_bytes + STRAIT_OVERHEAD_BYTES + world_line_overhead(cfg);
	struct histogram queueing = c[2].queueing;

	if (c[1].at_ns == 0 || c[2].at_ns == 0 ||
		!(ns >= 4 * (double)cfg->link[WORLD_SOURCE].rtt_ns))
		return;
	for (uint32_t i = 0; i < f->n; i++) {
		double gbps = (double)(c[2].data[i] - c[1].data[i]) * 8 / ns;

		v[each[i]] = gbps;
		sum += gbps;
		squares += gbps * gbps;
		least = i == 0 || gbps < least ? gbps : least;
	}
	if (sum > 0) {
		v[SIM_jain] = sum * sum / (f->n * squares);
		v[SIM_least_share] = least * f->n / sum;
	}
	if (p->world.link[WORLD_SOURCE].rate_bps)
		v[SIM_flows_used] = (double)(c[2].in_line - c[1].in_line) * line * 8e9 /
			((double)p->world.link[WORLD_SOURCE].rate_bps * ns);
	v[SIM_flows_queue_loss] = dropped(&c[1], &c[2]);
	v[SIM_start_queue_loss] = dropped(&c[0], &c[1]);
	queueing.n -= c[1].queueing.n;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		queueing.buckets[i] -= c[1].queueing.buckets[i];
	v[SIM_flows_queue_ms_p95] = (double)histogram_quantile(&queueing, 0.95) / 1e6;
}

static void settle(struct flows *f, struct sim_result *out)
{
	double slowest = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		struct world *w = f->w[i];

		world_settle(w);
		if (w->error[0])
			world_fail(f->w[0], "flow %u: %.150s", i + 1, w->error);
		for (uint32_t j = 0; j < w->ntransfers; j++) {
			const struct world_transfer *t = &w->transfers[j];
			double took = (double)(t->closed_ns - t->ordered_ns) / 1e9;

			if (t->closed && took > slowest)
				slowest = took;
		}
	}
	out->figures[SIM_slowest_seconds] = slowest;
}

void flows_play(struct flows *f, const struct plan *p, uint64_t until_ns, struct sim_result *out)
{
	uint64_t settle_ns = SETTLE_RTTS * f->w[0]->cfg.link[WORLD_SOURCE].rtt_ns, at = 0;
	uint64_t closings = UINT64_MAX, last_ns = f->start_ns[f->n - 1];
	struct count *c = calloc(3, sizeof(*c));
	uint32_t which = 0;

	if (!c) {
		world_fail(f->w[0], "no memory for the figures");
		return;
	}
	if (settle_ns < SETTLE_NS)
		settle_ns = SETTLE_NS;
	for (;;) {
		bool is_order = next(f, p, &which, &at), over = true;
		uint64_t sum = 0;

		if (at > until_ns || f->w[which]->error[0])
			break;
		if (c[0].at_ns == 0 && at >= last_ns)
			count(f, at, &c[0]);
		if (c[1].at_ns == 0 && at >= last_ns + settle_ns)
			count(f, at, &c[1]);
		if (is_order) {
			if (f->w[which]->now_ns < at)
				f->w[which]->now_ns = at;
			order(f, p, which);
			closings = UINT64_MAX;
		} else if (!world_step(f->w[which])) {
			break;
		}
		for (uint32_t i = 0; i < f->n; i++)
			sum += f->w[i]->closings;
		if (sum == closings)
			continue;
		closings = sum;
		for (uint32_t i = 0; i < f->n; i++) {
			bool done = is_done(f, p, i);

			over = over && done;
			if (done && c[2].at_ns == 0)
				count(f, at, &c[2]);
		}
		if (over)
			break;
	}
	if (c[2].at_ns == 0)
		count(f, at < until_ns ? at : until_ns, &c[2]);
	settle(f, out);
	if (f->n > 1)
		measure(f, p, c, out->figures);
	free(c);
}
