/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/draw.h"

#include "tools/sim/plot.h"

#include <math.h>
#include <stdio.h>

#define NS_PER_MS 1000000ULL

enum { POINTS_MAX = 600, LINES_MAX = 10000 };

static uint64_t span_ns(const struct trace *t)
{
	return t->n * t->bin_ns;
}

/* What is out of the ordinary, on `out`. */
static void title(const struct plan *p, FILE *out)
{
	const struct link_config *l = &p->world.link[WORLD_SOURCE];

	fprintf(out, "%g Gbit/s, %g ms", (double)l->rate_bps / 1e9, (double)l->rtt_ns / 1e6);
	if (p->world.cap_bps == 0)
		fprintf(out, ", cap unknown");
	else if (p->world.cap_bps != l->rate_bps)
		fprintf(out, ", cap %g Gbit/s", (double)p->world.cap_bps / 1e9);
	if (l->loss > 0)
		fprintf(out, ", loss %g %%", 100 * l->loss);
	if (l->ge_loss > 0)
		fprintf(out, ", loss %g %% in bursts of %g", 100 * l->ge_loss, l->ge_burst);
	if (l->reorder > 0)
		fprintf(out, ", %g %% up to %g ms late", 100 * l->reorder,
			(double)l->reorder_ns / 1e6);
	if (p->world.ncross)
		fprintf(out, ", with other traffic");
}

static void spans(struct plot *plot, const struct world_config *c)
{
	const struct link_config *l = &c->link[WORLD_SOURCE];

	for (uint32_t i = 0; i < l->ncuts && plot->nspans < PLOT_SPANS_MAX; i++)
		plot->spans[plot->nspans++] = (struct plot_span){
			.from_s = (double)l->cuts[i].at_ns / 1e9,
			.to_s = (double)(l->cuts[i].at_ns + l->cuts[i].len_ns) / 1e9,
			.label = "cut",
		};
	for (uint32_t i = 0; i < c->ncross && plot->nspans < PLOT_SPANS_MAX; i++)
		if (c->cross[i].direction == WORLD_SOURCE)
			plot->spans[plot->nspans++] = (struct plot_span){
				.from_s = (double)c->cross[i].start_ns / 1e9,
				.to_s = (double)(c->cross[i].start_ns + c->cross[i].len_ns) / 1e9,
				.label = c->cross[i].kind == CROSS_CUBIC ? "CUBIC flow"
									 : "constant flow",
			};
}

void draw_trace(struct world *w, const struct plan *p, const struct sim_result *r)
{
	static const char *const classes[STRAIT_CLASS_COUNT] = { "urgent", "normal", "bulk" };
	const struct link_config *l = &p->world.link[WORLD_SOURCE];
	struct plot plot = { .trace = &w->trace };
	char head[300] = "", sub[300];
	FILE *words;

	if (p->csv) {
		trace_merge(&w->trace,
			span_ns(&w->trace) > LINES_MAX * NS_PER_MS ? 10 * NS_PER_MS : NS_PER_MS);
		trace_csv(&w->trace, p->csv);
		fflush(p->csv);
	}
	if (!p->plot)
		return;
	trace_merge(&w->trace, span_ns(&w->trace) / POINTS_MAX);
	words = fmemopen(head, sizeof(head) - 1, "w");
	if (words) {
		title(p, words);
		fclose(words);
	}
	snprintf(sub, sizeof(sub),
		"%.4g MiB %s, seed %llu: %.3f s, efficiency %.4f, overhead %.2f %%, %.2f RTT "
		"beyond ideal, queueing delay p95 %.2f ms; points of %.3g ms",
		(double)r->bytes / (1 << 20), classes[p->class_], (unsigned long long)r->seed,
		r->figures[SIM_seconds], r->figures[SIM_efficiency], 100 * r->figures[SIM_overhead],
		r->figures[SIM_extra_rtt], r->figures[SIM_queue_delay_ms_p95],
		(double)w->trace.bin_ns / 1e6);
	plot.title = head;
	plot.subtitle = sub;
	plot.rate_gbps = (double)l->rate_bps / 1e9;
	if (l->rate_bps) {
		plot.queue_limit_bytes = (double)link_config_queue_bytes(l);
		plot.bdp_bytes = (double)plan_rate_bps(p) * (double)l->rtt_ns / 8e9;
	}
	spans(&plot, &w->cfg);
	plot_svg(&plot, p->plot);
	fflush(p->plot);
}
