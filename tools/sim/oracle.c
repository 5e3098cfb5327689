/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/oracle.h"

#include "dataplane/transport/pacer.h"
#include "dataplane/transport/partition.h"
#include "tools/sim/histogram.h"
#include "tools/sim/load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ethernet, IPv4 and UDP headers. */
enum { FRAME_HEADER_BYTES = 42 };

/* Like a monotonic clock, not 0. */
#define START_NS 1000000000ULL

struct oracle {
	const struct plan *plan;
	struct link link;
	struct pacer pacer;
	struct histogram queueing;
	uint64_t now_ns, limit_ns, end_ns;
	uint64_t symbols, sent, line, lost;
};

/* One symbol, until it arrives. false: the time is up. */
static bool symbol_send(struct oracle *o, uint32_t len)
{
	uint32_t datagram = len + STRAIT_OVERHEAD_BYTES;
	uint64_t rate = o->link.cfg.rate_bps;
	uint64_t at_ns = UINT64_MAX;

	o->symbols++;
	while (at_ns == UINT64_MAX) {
		struct link_verdict v;
		uint64_t own_ns;

		if (pacer_next_ns(&o->pacer) > o->now_ns)
			o->now_ns = pacer_next_ns(&o->pacer);
		if (o->now_ns > o->limit_ns)
			return false;
		pacer_take(&o->pacer, o->now_ns, datagram + world_line_overhead(&o->plan->world));
		o->sent++;
		link_send(&o->link, o->now_ns,
			datagram + FRAME_HEADER_BYTES + (o->plan->world.ipv6 ? 20 : 0), &v);
		if (v.depart_ns == 0)
			continue;
		o->line++;
		own_ns = rate
			? (datagram + world_line_overhead(&o->plan->world)) * 8000000000ULL / rate
			: 0;
		histogram_add(&o->queueing,
			v.depart_ns - o->now_ns > own_ns ? v.depart_ns - o->now_ns - own_ns : 0);
		for (unsigned int i = 0; i < v.n; i++)
			if (!v.a[i].corrupt_seed && v.a[i].at_ns < at_ns)
				at_ns = v.a[i].at_ns;
		o->lost += at_ns == UINT64_MAX;
	}
	if (at_ns > o->end_ns)
		o->end_ns = at_ns;
	return true;
}

static bool stream_send(struct oracle *o, uint64_t bytes)
{
	uint32_t symbol = o->plan->world.symbol_bytes;

	for (; bytes > symbol; bytes -= symbol)
		if (!symbol_send(o, symbol))
			return false;
	return bytes == 0 || symbol_send(o, (uint32_t)bytes);
}

static bool orders_send(struct oracle *o, uint64_t *bytes)
{
	struct load count, load;
	struct world_object obj = { 0 };

	load_init(&count, o->plan);
	while (load_next(&count, &obj))
		;
	load_init(&load, o->plan);
	for (uint32_t i = 0; i < o->plan->transfers; i++) {
		uint64_t stream = 0, manifest = 0;

		while (load.n < load_deal(o->plan, count.n, i)) {
			obj = (struct world_object){ 0 };
			load_next(&load, &obj);
			manifest += load_manifest_bytes(&obj);
			if (!obj.gone && !obj.refuse)
				stream += obj.length;
		}
		*bytes += stream;
		if (!stream_send(o, manifest) || !stream_send(o, stream))
			return false;
	}
	return true;
}

static void measure(const struct oracle *o, uint64_t bytes, struct sim_result *out)
{
	const struct plan *p = o->plan;
	uint64_t rtt_ns = p->world.link[WORLD_SOURCE].rtt_ns;
	uint64_t rate = plan_rate_bps(p);
	double *v = out->figures;

	v[SIM_loss] = o->line ? (double)o->lost / (double)o->line : 0;
	v[SIM_queue_loss] = o->sent ? (double)(o->sent - o->line) / (double)o->sent : 0;
	v[SIM_seconds] = (double)(o->end_ns - START_NS) / 1e9;
	v[SIM_ideal_seconds] = (double)(rtt_ns / 2) / 1e9;
	if (rate)
		v[SIM_ideal_seconds] +=
			(double)bytes * 8 / ((double)rate * plan_eta(p) * (1 - v[SIM_loss]));
	if (v[SIM_seconds] > 0)
		v[SIM_efficiency] = v[SIM_ideal_seconds] / v[SIM_seconds];
	if (rtt_ns)
		v[SIM_extra_rtt] = (v[SIM_seconds] - v[SIM_ideal_seconds]) * 1e9 / (double)rtt_ns;
	v[SIM_overhead] = v[SIM_repair_rounds] = v[SIM_spurious_repair] = 0;
	v[SIM_feedback_ratio] = v[SIM_nonce_repeats] = 0;
	v[SIM_queue_delay_ms_p50] = (double)histogram_quantile(&o->queueing, 0.5) / 1e6;
	v[SIM_queue_delay_ms_p95] = (double)histogram_quantile(&o->queueing, 0.95) / 1e6;
	v[SIM_queue_delay_ms_max] = (double)o->queueing.max / 1e6;
}

void oracle_run(const struct plan *p, uint64_t limit_ns, struct sim_result *out)
{
	static struct oracle o; /* too large for some stacks; a process runs one seed at a time */
	static struct link_config l;

	memset(&o, 0, sizeof(o));
	memset(out, 0, sizeof(*out));
	out->seed = p->world.seed;
	for (int i = 0; i < SIM_FIGURE_COUNT; i++)
		out->figures[i] = NAN;
	o.plan = p;
	o.now_ns = o.end_ns = START_NS;
	o.limit_ns = START_NS + limit_ns;
	l = p->world.link[WORLD_SOURCE];
	l.nmtus = 0; /* it knows what passes */
	if (link_init(&o.link, &l, p->world.seed, WORLD_SOURCE, START_NS) < 0) {
		snprintf(out->error, sizeof(out->error), "the link cannot be");
		return;
	}
	pacer_init(&o.pacer, plan_rate_bps(p),
		p->world.symbol_bytes + STRAIT_OVERHEAD_BYTES + world_line_overhead(&p->world), 0);
	out->ok = orders_send(&o, &out->bytes);
	if (!out->ok)
		snprintf(out->error, sizeof(out->error), "not all got through in %.3f s",
			(double)limit_ns / 1e9);
	measure(&o, out->bytes, out);
}
