/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/run.h"

#include "dataplane/transport/partition.h"
#include "tools/sim/draw.h"
#include "tools/sim/flows.h"
#include "tools/sim/load.h"
#include "tools/sim/oracle.h"
#include "tools/sim/phases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S 1000000000ULL

int sim_objects(struct world *w, const struct plan *p, uint64_t *bytes)
{
	struct world_object drawn = { 0 };
	struct load load;

	load_init(&load, p);
	for (*bytes = 0; load_next(&load, &drawn); drawn = (struct world_object){ 0 }) {
		uint32_t i = world_add_objects(w, 1, drawn.length);
		struct world_object *o;

		if (i == UINT32_MAX)
			return -ENOMEM;
		o = &w->objects[i];
		o->key_len = drawn.key_len;
		o->gone = drawn.gone;
		o->refuse = drawn.refuse;
		o->with_digest = drawn.with_digest;
		o->lie = drawn.lie;
		*bytes += drawn.length;
	}
	return 0;
}

static uint64_t largest_object(const struct plan *p)
{
	return p->object_bytes_max > p->object_bytes ? p->object_bytes_max : p->object_bytes;
}

struct size {
	uint64_t symbols, bytes;
};

/* Source symbols of both streams of a transfer, as the core cuts them, and their bytes. */
static void source_size(const struct world *w, const struct world_transfer *t, struct size *out)
{
	struct partition part;
	uint64_t stream = 0;
	uint64_t manifest = 0;

	for (uint32_t i = t->first; i < t->first + t->count; i++) {
		stream += w->objects[i].length;
		manifest += load_manifest_bytes(&w->objects[i]);
	}
	if (partition_init(&part, stream, w->cfg.symbol_bytes) == 0)
		out->symbols += part.symbols;
	if (partition_init(&part, manifest, w->cfg.symbol_bytes) == 0)
		out->symbols += part.symbols;
	out->bytes += stream + manifest;
}

/* Where the path may ask for smaller symbols, their number says nothing: bytes do. */
static double overhead(const struct world *w, const struct size *source)
{
	const struct world_figures *f = &w->f[WORLD_SOURCE];

	if (w->cfg.link[WORLD_SOURCE].nmtus > 0)
		return ((double)f->symbols_in_bytes - (double)source->bytes) /
			(double)source->bytes;
	return ((double)f->symbols_in - (double)source->symbols) / (double)source->symbols;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* Bytes that were to arrive: without what the source had lost, or the sink refused. */
static uint64_t published_bytes(const struct world *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->nobjects; i++)
		if (w->objects[i].published)
			n += w->objects[i].length;
	return n;
}

/* What is lost of symbols that the last object did not wait for cannot have cost time. */
static double loss_until_verified(const struct world *w)
{
	const struct world_figures *f = &w->f[WORLD_SOURCE];

	return w->verified_ns ? share(w->verified.lost, w->verified.line)
			      : share(f->symbols_lost, f->symbols_line);
}

static void measure(struct world *w, const struct plan *p, struct sim_result *out)
{
	const struct world_figures *f = &w->f[WORLD_SOURCE];
	double *v = out->figures;
	uint64_t rtt_ns = w->cfg.link[WORLD_SOURCE].rtt_ns;
	uint64_t rate = plan_rate_bps(p);
	uint64_t end_ns = w->verified_ns ? w->verified_ns : w->now_ns;
	uint64_t spurious = world_counter(w, WORLD_SOURCE, STRAIT_C_tx_spurious);
	struct size source = { 0 };
	struct phases_beside beside;

	for (uint32_t i = 0; i < w->ntransfers; i++)
		source_size(w, &w->transfers[i], &source);
	v[SIM_loss] = share(f->symbols_lost, f->symbols_line);
	v[SIM_queue_loss] = share(f->symbols_queue, f->symbols);
	v[SIM_seconds] = (double)(end_ns - w->t0_ns) / 1e9;
	v[SIM_ideal_seconds] = (double)(rtt_ns / 2) / 1e9;
	if (rate)
		v[SIM_ideal_seconds] += (double)published_bytes(w) * 8 /
			((double)rate * plan_eta(p) * (1 - loss_until_verified(w)));
	if (v[SIM_seconds] > 0)
		v[SIM_efficiency] = v[SIM_ideal_seconds] / v[SIM_seconds];
	if (rtt_ns)
		v[SIM_extra_rtt] = (v[SIM_seconds] - v[SIM_ideal_seconds]) * 1e9 / (double)rtt_ns;
	/* With objects that are not sent there is nothing to compare with. */
	if (source.symbols && p->nrestarts == 0 && !(p->gone > 0) && !(p->refused > 0))
		v[SIM_overhead] = overhead(w, &source);
	v[SIM_repair_rounds] = (double)world_counter(w, WORLD_SOURCE, STRAIT_C_tx_repair_rounds);
	/* What the source heard of, or what it did not hear of. */
	v[SIM_spurious_repair] =
		share(spurious > w->spurious.count ? spurious : w->spurious.count, f->symbols);
	v[SIM_feedback_ratio] = share(w->f[WORLD_SINK].line_bytes, f->line_bytes);
	v[SIM_recovery_rtt] = phases_recovery_rtt(w);
	v[SIM_queue_delay_ms_p50] = (double)histogram_quantile(&w->queueing, 0.5) / 1e6;
	v[SIM_queue_delay_ms_p95] = (double)histogram_quantile(&w->queueing, 0.95) / 1e6;
	v[SIM_queue_delay_ms_max] = (double)w->queueing.max / 1e6;
	phases_beside(w, &beside);
	v[SIM_cross_gbps] = beside.cross_gbps;
	v[SIM_cross_share] = beside.cross_share;
	v[SIM_given_up] = beside.given_up;
	v[SIM_given_up_ms] = beside.given_up_ms;
	v[SIM_taken_back_ms] = beside.taken_back_ms;
	v[SIM_nonce_repeats] = (double)world_nonce_repeats(w);
	if (w->attack)
		v[SIM_attacks] = (double)attack_tries(w->attack);
	for (int side = 0; side < WORLD_SIDES; side++)
		for (int c = 0; c < STRAIT_COUNTER_COUNT; c++)
			out->counters[side][c] =
				world_counter(w, (enum world_side)side, (enum strait_counter)c);
}

/*
 * Far beyond anything but a wedge: 40 times the ideal, 400 RTT, and the cuts, on top of a minute.
 */
static uint64_t time_limit(const struct plan *p, uint64_t bytes)
{
	uint64_t rate = plan_rate_bps(p);
	uint64_t ns = 60 * NS_PER_S + p->wait_ns + p->transfers * p->every_ns;

	if (p->limit_ns)
		return p->limit_ns;
	if (rate)
		ns += (uint64_t)(40.0 * (double)bytes * 8e9 / (double)rate);
	for (int side = 0; side < WORLD_SIDES; side++) {
		const struct link_config *l = &p->world.link[side];

		ns += 200 * l->rtt_ns;
		for (uint32_t i = 0; i < l->ncuts; i++)
			ns += l->cuts[i].at_ns + 3 * l->cuts[i].len_ns;
		for (uint32_t i = 0; i < l->nsteps; i++)
			ns += l->steps[i].at_ns + 100 * l->steps[i].rtt_ns;
	}
	return ns;
}

static void play(struct world *w, const struct plan *p, struct sim_result *out)
{
	uint64_t until_ns;
	uint32_t first = 0;
	int rc;

	if (sim_objects(w, p, &out->bytes) < 0) {
		world_fail(w, "no memory for the objects");
		return;
	}
	if (p->flows > 1 || p->wait_ns || p->every_ns) {
		struct flows f;

		until_ns = w->t0_ns + time_limit(p, out->bytes);
		rc = flows_init(&f, w, p);
		if (rc < 0)
			world_fail(w, "the flows could not start: %s", strerror(-rc));
		else
			flows_play(&f, p, until_ns, out);
		flows_fini(&f);
		return;
	}
	for (uint32_t i = 0; i < p->transfers; i++) {
		uint32_t end = load_deal(p, w->nobjects, i);

		rc = world_order(w, first, end - first, p->class_);
		if (rc < 0) {
			world_fail(w, "transfer %u of %u objects could not start: %s", i,
				end - first, strerror(-rc));
			return;
		}
		first = end;
	}
	until_ns = w->t0_ns + time_limit(p, out->bytes);
	for (uint32_t i = 0; i < p->nrestarts; i++) {
		uint64_t at_ns = w->t0_ns + p->restarts[i].at_ns;

		if (at_ns > w->now_ns && !world_run(w, at_ns - w->now_ns) && !w->error[0]) {
			/* Virtual time stands at the last event before the restart. */
			rc = world_restart(w, p->restarts[i].side);
			if (rc < 0)
				world_fail(w, "restart failed: %s", strerror(-rc));
		}
	}
	world_run(w, until_ns - w->now_ns);
	world_settle(w);
}

/* The bound beside what was reached, over the same link. */
static void compare(const struct plan *p, struct sim_result *out)
{
	struct sim_result oracle;

	oracle_run(p, time_limit(p, out->bytes), &oracle);
	if (!oracle.ok)
		return;
	out->figures[SIM_oracle_seconds] = oracle.figures[SIM_seconds];
	out->figures[SIM_oracle_efficiency] = oracle.figures[SIM_efficiency];
	out->figures[SIM_oracle_extra_rtt] = oracle.figures[SIM_extra_rtt];
	if (out->ok)
		out->figures[SIM_oracle_ratio] =
			out->figures[SIM_seconds] / oracle.figures[SIM_seconds];
}

static uint64_t planned_bytes(const struct plan *p)
{
	struct world_object o = { 0 };
	uint64_t bytes = 0;
	struct load load;

	for (load_init(&load, p); load_next(&load, &o);)
		bytes += o.length;
	return bytes;
}

void sim_run(const struct plan *p, struct sim_result *out)
{
	struct world_config cfg = p->world;
	struct world *w;

	if (p->oracle) {
		oracle_run(p, time_limit(p, planned_bytes(p)), out);
		return;
	}
	memset(out, 0, sizeof(*out));
	out->seed = cfg.seed;
	for (int i = 0; i < SIM_FIGURE_COUNT; i++)
		out->figures[i] = NAN;
	world_config_size(&cfg, largest_object(p));
	if (cfg.link[WORLD_SOURCE].ncuts || cfg.ncross || p->csv || p->plot)
		cfg.trace_bin_ns = phases_bin_ns(&cfg);
	w = world_create(&cfg, NULL);
	if (!w) {
		snprintf(out->error, sizeof(out->error), "the sessions did not come up: %s",
			strerror(errno));
		return;
	}
	play(w, p, out);
	measure(w, p, out);
	memcpy(out->error, w->error, sizeof(out->error));
	out->ok = !w->error[0];
	draw_trace(w, p, out);
	world_destroy(w);
	if (p->with_oracle)
		compare(p, out);
}
