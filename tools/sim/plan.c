/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define NS_PER_MS 1000000ULL

double plan_eta(const struct plan *p)
{
	double symbol = p->world.symbol_bytes;

	return symbol / (symbol + STRAIT_OVERHEAD_BYTES + world_line_overhead(&p->world));
}

uint64_t plan_rate_bps(const struct plan *p)
{
	uint64_t rate = p->world.link[WORLD_SOURCE].rate_bps;
	uint64_t cap = p->world.cap_bps;

	return cap && (rate == 0 || cap < rate) ? cap : rate;
}

static double between(struct prng *r, double low, double high)
{
	return low + prng_unit(r) * (high - low);
}

static double log_between(struct prng *r, double low, double high)
{
	return exp(between(r, log(low), log(high)));
}

static void draw_link(struct link_config *l, struct prng *r)
{
	uint64_t rtt_ns = l->rtt_ns;

	l->queue_bdp = between(r, 0.1, 2);
	if (prng_chance(r, 0.7))
		l->loss = between(r, 0, 0.05);
	if (prng_chance(r, 0.25)) {
		l->ge_loss = log_between(r, 0.001, 0.02);
		l->ge_burst = log_between(r, 2, 64);
	}
	if (prng_chance(r, 0.25)) {
		l->reorder = between(r, 0, 0.3);
		l->reorder_ns = (uint64_t)log_between(r, 0.1e6, 10e6);
	}
	if (prng_chance(r, 0.25))
		l->dup = prng_chance(r, 0.2) ? 0.2 : between(r, 0, 0.02);
	if (prng_chance(r, 0.25))
		l->corrupt = log_between(r, 1e-4, 1e-2);
	for (uint64_t n = prng_chance(r, 0.15) ? 1 + prng_below(r, 3) : 0; n > 0; n--)
		l->cuts[l->ncuts++] = (struct link_cut){
			.at_ns = (uint64_t)between(r, 0, 500e6),
			.len_ns = (uint64_t)log_between(r, 5e6, 1e9),
		};
	for (uint64_t n = prng_chance(r, 0.15) ? 1 + prng_below(r, 3) : 0; n > 0; n--)
		l->steps[l->nsteps++] = (struct link_step){
			.at_ns = (uint64_t)between(r, 0, 500e6),
			.rtt_ns = (uint64_t)((double)rtt_ns * between(r, 0.5, 2)),
		};
}

static void draw_objects(struct plan *p, struct prng *r)
{
	double budget = log_between(r, 1e3, 24e6);

	switch (prng_below(r, 4)) {
	case 0: /* a crowd of small ones */
		p->object_bytes = 1;
		p->object_bytes_max = (uint64_t)log_between(r, 16, 65536);
		p->objects = 1 + (uint32_t)prng_below(r, 600);
		break;
	case 1: /* one */
		p->object_bytes = 1 + (uint64_t)budget;
		p->objects = 1;
		break;
	case 2: /* equal ones */
		p->objects = 1 + (uint32_t)prng_below(r, 40);
		p->object_bytes = 1 + (uint64_t)(budget / p->objects);
		break;
	default: /* all sizes */
		p->object_bytes = 1;
		p->object_bytes_max = 1 + (uint64_t)budget;
		p->objects = 1 + (uint32_t)prng_below(r, 12);
	}
	p->transfers = prng_chance(r, 0.3) ? 2 + (uint32_t)prng_below(r, 3) : 1;
	if (p->transfers > p->objects)
		p->transfers = p->objects;
	if (prng_chance(r, 0.1))
		p->gone = between(r, 0, 0.3);
	if (prng_chance(r, 0.1))
		p->refused = between(r, 0, 0.3);
	if (prng_chance(r, 0.2))
		p->no_digest = between(r, 0, 1);
	if (prng_chance(r, 0.1))
		p->lie = between(r, 0, 0.2);
}

/* Feedback that fares worse, or otherwise, than data: loss up to a half, bursts, a silence. */
static void draw_feedback(struct link_config *l, struct prng *r)
{
	if (prng_chance(r, 0.25))
		l->loss = between(r, 0, 0.5);
	if (prng_chance(r, 0.1)) {
		l->ge_loss = log_between(r, 0.01, 0.3);
		l->ge_burst = log_between(r, 2, 64);
	}
	if (prng_chance(r, 0.1)) {
		l->reorder = between(r, 0, 0.5);
		l->reorder_ns = (uint64_t)log_between(r, 0.1e6, 20e6);
	}
	if (prng_chance(r, 0.1)) {
		l->ncuts = 1;
		l->cuts[0].at_ns = (uint64_t)between(r, 0, 500e6);
		l->cuts[0].len_ns = (uint64_t)log_between(r, 5e6, 2e9);
	}
	if (prng_chance(r, 0.1)) /* a thin way back */
		l->rate_bps = (uint64_t)((double)l->rate_bps * log_between(r, 0.02, 1));
}

static void draw_cross(struct world_config *w, struct prng *r)
{
	double rate = (double)w->link[WORLD_SOURCE].rate_bps;

	for (uint64_t n = 1 + prng_below(r, 2); n > 0; n--) {
		struct cross_config *c = &w->cross[w->ncross++];

		c->direction = prng_chance(r, 0.8) ? WORLD_SOURCE : WORLD_SINK;
		c->start_ns = (uint64_t)between(r, 0, 300e6);
		c->len_ns = (uint64_t)log_between(r, 20e6, 2e9);
		if (prng_chance(r, 0.5)) {
			c->kind = CROSS_CUBIC;
			c->rtt_ns = (uint64_t)log_between(r, 50e3, 600e6);
		} else {
			c->kind = CROSS_CBR;
			c->rate_bps = (uint64_t)(rate * between(r, 0.05, 0.9));
		}
	}
}

/*
 * The network layer: which IP, and how large its packets may be. Both ways carry the same, and no
 * less than the smallest symbol asks for.
 */
static void draw_path(struct plan *p, struct prng *r)
{
	struct link_config *l = p->world.link;
	uint32_t ip = 28;

	p->world.ipv6 = prng_chance(r, 0.25);
	if (p->world.ipv6) {
		ip = 48;
		if (p->world.symbol_bytes == STRAIT_SYMBOL_BYTES_IPV4)
			p->world.symbol_bytes = STRAIT_SYMBOL_BYTES_IPV6;
	}
	for (uint64_t n = prng_chance(r, 0.15) ? 1 + prng_below(r, 2) : 0; n > 0; n--) {
		uint32_t most = p->world.symbol_bytes + STRAIT_OVERHEAD_BYTES + ip;
		uint32_t least = STRAIT_SYMBOL_BYTES_MIN + STRAIT_OVERHEAD_BYTES + ip;
		struct link_mtu m = {
			.at_ns = prng_chance(r, 0.2) ? 0 : (uint64_t)between(r, 0, 500e6),
			.bytes = (uint32_t)between(r, least, most + 1),
		};

		for (int side = 0; side < WORLD_SIDES; side++)
			l[side].mtus[l[side].nmtus++] = m;
	}
}

void plan_random(struct plan *p, uint64_t seed)
{
	struct link_config *l = p->world.link;
	struct prng rnd;
	struct prng *r = &rnd;

	memset(p, 0, sizeof(*p));
	prng_init(r, seed, 2000);
	world_config_defaults(&p->world);
	p->world.seed = seed;
	l[WORLD_SOURCE].rate_bps = (uint64_t)log_between(r, 20e6, 20e9);
	l[WORLD_SOURCE].rtt_ns = (uint64_t)log_between(r, 50e3, 600e6);
	draw_link(&l[WORLD_SOURCE], r);
	l[WORLD_SINK] = l[WORLD_SOURCE];
	draw_feedback(&l[WORLD_SINK], r);
	p->world.cap_bps = l[WORLD_SOURCE].rate_bps;
	if (prng_chance(r, 0.3))
		p->world.cap_bps = (uint64_t)((double)p->world.cap_bps * between(r, 0.3, 1.5));
	else if (prng_chance(r, 0.15))
		p->world.cap_bps = 0;
	if (prng_chance(r, 0.15))
		draw_cross(&p->world, r);
	if (prng_chance(r, 0.2))
		p->world.symbol_bytes = (uint16_t)between(r, STRAIT_SYMBOL_BYTES_MIN, 8933);
	p->world.control_delay_ns =
		(uint64_t)(prng_chance(r, 0.2) ? log_between(r, 1e4, 2e7) : 2e4);
	p->world.cold = prng_chance(r, 0.25);
	p->class_ = (uint8_t)prng_below(r, STRAIT_CLASS_COUNT);
	draw_objects(p, r);
	if (prng_chance(r, 0.2)) {
		p->world.credit_bytes = 1; /* raised to two objects */
		p->world.credit_objects = 1 + prng_below(r, 8);
	}
	if (prng_chance(r, 0.1))
		p->world.scratch_slots = 64;
	if (prng_chance(r, 0.1))
		p->world.row_slots = 64;
	if (prng_chance(r, 0.05))
		p->world.log_packets = 1024;
	p->key_len = prng_chance(r, 0.3) ? 0 : 40;
	for (uint64_t n = prng_chance(r, 0.1) ? 1 + prng_below(r, 2) : 0; n > 0; n--)
		p->restarts[p->nrestarts++] = (struct plan_restart){
			.at_ns = (uint64_t)between(r, 0, 400e6) + 400 * NS_PER_MS * p->nrestarts,
			.side = prng_chance(r, 0.5) ? WORLD_SOURCE : WORLD_SINK,
		};
	if (prng_chance(r, 0.25))
		p->world.attack = log_between(r, 0.001, 0.1);
	draw_path(p, r);
}

static void link_print(const struct link_config *l, const char *prefix, FILE *out)
{
	if (l->loss > 0)
		fprintf(out, " --%sloss %g", prefix, l->loss);
	if (l->ge_loss > 0)
		fprintf(out, " --%sge %g,%g", prefix, l->ge_loss, l->ge_burst);
	if (l->reorder > 0)
		fprintf(out, " --%sreorder %g,%g", prefix, l->reorder, (double)l->reorder_ns / 1e6);
	if (l->dup > 0)
		fprintf(out, " --%sdup %g", prefix, l->dup);
	if (l->corrupt > 0)
		fprintf(out, " --%scorrupt %g", prefix, l->corrupt);
	for (uint32_t i = 0; i < l->ncuts; i++)
		fprintf(out, " --%scut %g,%g", prefix, (double)l->cuts[i].at_ns / 1e6,
			(double)l->cuts[i].len_ns / 1e6);
	for (uint32_t i = 0; i < l->nsteps; i++)
		fprintf(out, " --%srtt-step %g,%g", prefix, (double)l->steps[i].at_ns / 1e6,
			(double)l->steps[i].rtt_ns / 1e6);
}

static void path_print(const struct world_config *w, FILE *out)
{
	const struct link_config *l = &w->link[WORLD_SOURCE];

	if (w->ipv6)
		fprintf(out, " --ipv6");
	for (uint32_t i = 0; i < l->nmtus; i++)
		fprintf(out, " --path-mtu %g,%u", (double)l->mtus[i].at_ns / 1e6, l->mtus[i].bytes);
}

static void cross_print(const struct cross_config *c, FILE *out)
{
	bool cubic = c->kind == CROSS_CUBIC;

	fprintf(out, " --%scross %s:%g,%g,%g", c->direction == WORLD_SINK ? "fb-" : "",
		cubic ? "cubic" : "cbr", (double)c->start_ns / 1e6, (double)c->len_ns / 1e6,
		cubic ? (double)c->rtt_ns / 1e6 : (double)c->rate_bps / 1e9);
}

void plan_print(const struct plan *p, FILE *out)
{
	static const char *const classes[STRAIT_CLASS_COUNT] = { "urgent", "normal", "bulk" };
	const struct world_config *w = &p->world;
	const struct link_config *l = &w->link[WORLD_SOURCE];

	fprintf(out, "seed %" PRIu64 ": --rate-gbps %g --rtt-ms %g --queue-bdp %g --cap-gbps %g",
		w->seed, (double)l->rate_bps / 1e9, (double)l->rtt_ns / 1e6, l->queue_bdp,
		(double)w->cap_bps / 1e9);
	link_print(l, "", out);
	link_print(&w->link[WORLD_SINK], "fb-", out);
	if (w->link[WORLD_SINK].rate_bps != l->rate_bps)
		fprintf(out, " --fb-rate-gbps %g", (double)w->link[WORLD_SINK].rate_bps / 1e9);
	for (uint32_t i = 0; i < w->ncross; i++)
		cross_print(&w->cross[i], out);
	path_print(w, out);
	fprintf(out, " --mtu %d --class %s --transfers %u --control-us %g%s",
		w->symbol_bytes + STRAIT_OVERHEAD_BYTES + (w->ipv6 ? 48 : 28), classes[p->class_],
		p->transfers, (double)w->control_delay_ns / 1e3, w->cold ? " --cold" : "");
	if (w->lan)
		fprintf(out, " --lan");
	for (uint32_t i = 0; i < p->nrestarts; i++)
		fprintf(out, " --restart-%s %g",
			p->restarts[i].side == WORLD_SOURCE ? "source" : "sink",
			(double)p->restarts[i].at_ns / 1e6);
	if (w->attack > 0)
		fprintf(out, " --attack %g", w->attack);
	fprintf(out,
		"; %u objects of %" PRIu64 "..%" PRIu64 " bytes; credit %" PRIu64 " bytes %" PRIu64
		" objects, scratch %u, rows %u, log %u, keys %u (0: as needed); gone %g refused %g"
		" undigested %g lies %g\n",
		p->objects, p->object_bytes, p->object_bytes_max, w->credit_bytes,
		w->credit_objects, w->scratch_slots, w->row_slots, w->log_packets, p->key_len,
		p->gone, p->refused, p->no_digest, p->lie);
}
