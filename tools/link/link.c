/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/link/link.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define NS_PER_S 1000000000ULL

/* One stream of random numbers per impairment, so that each is unmoved by the others. */
enum { RND_GE, RND_LOSS, RND_REORDER, RND_DUP, RND_CORRUPT };

void link_config_defaults(struct link_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->rate_bps = 10 * NS_PER_S;
	cfg->rtt_ns = NS_PER_S / 10;
	cfg->queue_bdp = 1.0;
	cfg->ge_burst = 1.0;
	cfg->corrupt_bits = 8;
}

/* n * mul / div without overflow in between; saturates. */
static uint64_t scale(uint64_t n, uint64_t mul, uint64_t div)
{
	unsigned __int128 v = (unsigned __int128)n * mul / div;

	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

uint64_t link_config_queue_bytes(const struct link_config *cfg)
{
	double bytes;

	if (cfg->queue_bytes)
		return cfg->queue_bytes;
	bytes = cfg->queue_bdp * (double)scale(cfg->rate_bps, cfg->rtt_ns, 8 * NS_PER_S);
	return bytes < 0x1.0p62 ? (uint64_t)bytes : 1ULL << 62;
}

uint64_t link_config_max_delay_ns(const struct link_config *cfg)
{
	uint64_t rtt_ns = cfg->rtt_ns;
	uint64_t queue_ns = 0;

	for (uint32_t i = 0; i < cfg->nsteps; i++)
		if (cfg->steps[i].rtt_ns > rtt_ns)
			rtt_ns = cfg->steps[i].rtt_ns;
	if (cfg->rate_bps) {
		/* An idle link takes any packet, whatever the queue: add the longest frame. */
		uint64_t bytes = link_config_queue_bytes(cfg) + UINT16_MAX + LINK_OVERHEAD_BYTES;

		queue_ns = scale(bytes, 8 * NS_PER_S, cfg->rate_bps);
	}
	return rtt_ns / 2 + queue_ns + (cfg->reorder > 0 ? cfg->reorder_ns : 0);
}

double link_config_mean_loss(const struct link_config *cfg)
{
	return 1.0 - (1.0 - cfg->loss) * (1.0 - cfg->ge_loss);
}

static bool is_probability(double p)
{
	return p >= 0.0 && p <= 1.0;
}

/* Stable insertion sort: lists are short and given by hand. */
static void steps_sort(struct link_step *s, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		struct link_step key = s[i];
		uint32_t j = i;

		for (; j > 0 && s[j - 1].at_ns > key.at_ns; j--)
			s[j] = s[j - 1];
		s[j] = key;
	}
}

int link_init(struct link *l, const struct link_config *cfg, uint64_t seed, uint64_t stream,
	uint64_t start_ns)
{
	if (!is_probability(cfg->loss) || !is_probability(cfg->ge_loss) ||
		!is_probability(cfg->reorder) || !is_probability(cfg->dup) ||
		!is_probability(cfg->corrupt) || !(cfg->queue_bdp >= 0.0) ||
		cfg->ncuts > LINK_CUTS_MAX || cfg->nsteps > LINK_STEPS_MAX ||
		cfg->nmtus > LINK_MTUS_MAX)
		return -EINVAL;
	memset(l, 0, sizeof(*l));
	l->cfg = *cfg;
	l->start_ns = start_ns;
	l->busy_until_ns = start_ns;
	l->owd_ns = cfg->rtt_ns / 2;
	if (cfg->rate_bps)
		l->queue_ns = scale(link_config_queue_bytes(cfg), 8 * NS_PER_S, cfg->rate_bps);
	steps_sort(l->cfg.steps, cfg->nsteps);
	for (unsigned int i = 0; i < LINK_RND_STREAMS; i++)
		prng_init(&l->rnd[i], seed, stream * LINK_RND_STREAMS + i);
	if (cfg->ge_loss > 0) {
		/*
		 * Stationary share of the bad state = ge_loss, mean stay in it = ge_burst packets.
		 * Entering needs a probability: burst >= loss / (1 - loss).
		 */
		if (!(cfg->ge_burst >= 1.0) || cfg->ge_loss >= 1.0)
			return -EINVAL;
		l->ge_leave = 1.0 / cfg->ge_burst;
		l->ge_enter = l->ge_leave * cfg->ge_loss / (1.0 - cfg->ge_loss);
		if (l->ge_enter > 1.0)
			return -EINVAL;
		l->ge_bad = prng_chance(&l->rnd[RND_GE], cfg->ge_loss);
		l->ge_at_ns = start_ns;
		if (cfg->rate_bps)
			l->ge_step_ns = LINK_GE_BYTES * 8e9 / (double)cfg->rate_bps;
	}
	return 0;
}

uint64_t link_backlog_bytes(const struct link *l, uint64_t now_ns)
{
	if (l->busy_until_ns <= now_ns)
		return 0;
	return scale(l->busy_until_ns - now_ns, l->cfg.rate_bps, 8 * NS_PER_S);
}

/* Queue and serialization. Returns false when the packet finds the queue full. */
static bool bottleneck_take(struct link *l, uint64_t now_ns, uint64_t wire_bytes)
{
	uint64_t backlog_ns;
	uint64_t ticks;

	if (l->cfg.rate_bps == 0) {
		l->busy_until_ns = now_ns;
		return true;
	}
	if (l->busy_until_ns <= now_ns) {
		/* A link just gone idle keeps its fraction of a ns, so back to back is exact. */
		if (l->busy_until_ns < now_ns)
			l->busy_frac = 0;
		l->busy_until_ns = now_ns;
	}
	ticks = wire_bytes * 8 * NS_PER_S + l->busy_frac;
	backlog_ns = l->busy_until_ns - now_ns;
	if (backlog_ns > 0 && backlog_ns + ticks / l->cfg.rate_bps > l->queue_ns)
		return false;
	l->busy_until_ns += ticks / l->cfg.rate_bps;
	l->busy_frac = ticks % l->cfg.rate_bps;
	backlog_ns = l->busy_until_ns - now_ns;
	if (backlog_ns > l->queue_high_ns) {
		l->queue_high_ns = backlog_ns;
		l->c.queue_high_bytes = scale(backlog_ns, l->cfg.rate_bps, 8 * NS_PER_S);
	}
	return true;
}

static bool is_cut(const struct link *l, uint64_t at_ns)
{
	uint64_t t = at_ns - l->start_ns;

	for (uint32_t i = 0; i < l->cfg.ncuts; i++)
		if (t >= l->cfg.cuts[i].at_ns && t - l->cfg.cuts[i].at_ns < l->cfg.cuts[i].len_ns)
			return true;
	return false;
}

/*
 * Where the chain is after the steps since the packet before, drawn at once: of the distance to the
 * stationary state (1 - enter - leave)^steps is left.
 */
static bool ge_loses(struct link *l)
{
	double steps = 1, left = 1 - l->ge_enter - l->ge_leave;
	double bad = l->cfg.ge_loss;

	if (l->ge_step_ns > 0)
		steps = (double)(l->busy_until_ns - l->ge_at_ns) / l->ge_step_ns;
	l->ge_at_ns = l->busy_until_ns;
	/* Back to back is the common case, and exact to a ns it is not. */
	if (steps < 0.99 || steps > 1.01)
		left = left > 0 ? pow(left, steps) : 0;
	l->ge_bad = prng_chance(&l->rnd[RND_GE], bad + ((l->ge_bad ? 1 : 0) - bad) * left);
	return l->ge_bad;
}

/*
 * Both loss processes draw for every packet that left the queue, whatever the other says, so
 * packet number n meets the same loss whether or not the other process is on.
 */
static bool path_loses(struct link *l)
{
	bool burst = l->cfg.ge_loss > 0 && ge_loses(l);
	bool random = l->cfg.loss > 0 && prng_chance(&l->rnd[RND_LOSS], l->cfg.loss);

	if (is_cut(l, l->busy_until_ns))
		l->c.lost_cut++;
	else if (burst)
		l->c.lost_burst++;
	else if (random)
		l->c.lost_random++;
	else
		return false;
	return true;
}

/* Larger than what passes further on; routers there do not tell. */
static bool is_too_large(const struct link *l, uint32_t frame_bytes)
{
	uint64_t t = l->busy_until_ns - l->start_ns, latest = 0;
	uint32_t bytes = UINT32_MAX;

	for (uint32_t i = 0; i < l->cfg.nmtus; i++) {
		const struct link_mtu *m = &l->cfg.mtus[i];

		if (m->at_ns > t || m->at_ns < latest)
			continue;
		latest = m->at_ns;
		bytes = m->bytes;
	}
	return frame_bytes > LINK_ETHERNET_BYTES && frame_bytes - LINK_ETHERNET_BYTES > bytes;
}

static void arrival_add(struct link *l, struct link_verdict *v, uint64_t at_ns, uint64_t wire_bytes)
{
	struct link_arrival *a = &v->a[v->n++];

	*a = (struct link_arrival){ .at_ns = at_ns };
	if (l->cfg.corrupt > 0 && prng_chance(&l->rnd[RND_CORRUPT], l->cfg.corrupt)) {
		a->corrupt_seed = prng_next(&l->rnd[RND_CORRUPT]) | 1;
		l->c.corrupted++;
	}
	l->c.delivered++;
	l->c.delivered_bytes += wire_bytes;
}

static uint64_t wire_size(uint32_t frame_bytes)
{
	return LINK_OVERHEAD_BYTES +
		(uint64_t)(frame_bytes > LINK_FRAME_MIN ? frame_bytes : LINK_FRAME_MIN);
}

bool link_share(struct link *l, uint64_t now_ns, uint32_t frame_bytes, uint64_t *depart_ns)
{
	if (!bottleneck_take(l, now_ns, wire_size(frame_bytes)))
		return false;
	*depart_ns = l->busy_until_ns;
	return true;
}

int link_send(struct link *l, uint64_t now_ns, uint32_t frame_bytes, struct link_verdict *v)
{
	uint64_t wire_bytes = wire_size(frame_bytes);
	uint64_t at_ns;

	v->n = 0;
	v->depart_ns = 0;
	l->c.offered++;
	l->c.offered_bytes += wire_bytes;
	if (!bottleneck_take(l, now_ns, wire_bytes)) {
		l->c.lost_queue++;
		return 0;
	}
	l->c.carried_bytes += wire_bytes;
	v->depart_ns = l->busy_until_ns;
	if (path_loses(l))
		return 0;
	if (is_too_large(l, frame_bytes)) {
		l->c.lost_mtu++;
		return 0;
	}
	while (l->step < l->cfg.nsteps && l->cfg.steps[l->step].at_ns <= v->depart_ns - l->start_ns)
		l->owd_ns = l->cfg.steps[l->step++].rtt_ns / 2;
	at_ns = v->depart_ns + l->owd_ns;
	arrival_add(l, v, at_ns, wire_bytes);
	if (l->cfg.reorder > 0 && prng_chance(&l->rnd[RND_REORDER], l->cfg.reorder)) {
		v->a[0].late = true;
		if (l->cfg.reorder_ns)
			v->a[0].at_ns += 1 + prng_below(&l->rnd[RND_REORDER], l->cfg.reorder_ns);
		l->c.reordered++;
	}
	if (l->cfg.dup > 0 && prng_chance(&l->rnd[RND_DUP], l->cfg.dup)) {
		/* The copy follows the original in its place, without its extra delay. */
		arrival_add(l, v, at_ns, wire_bytes);
		v->a[1].copy = true;
		l->c.duplicated++;
	}
	return (int)v->n;
}

unsigned int link_corrupt(uint64_t seed, uint32_t max_bits, uint8_t *frame, size_t len,
	size_t first)
{
	uint64_t done[LINK_FLIPS_MAX];
	struct prng rnd;
	unsigned int want;
	unsigned int n = 0;
	uint64_t bits;

	if (first >= len || seed == 0)
		return 0;
	prng_init(&rnd, seed, 0);
	bits = (uint64_t)(len - first) * 8;
	if (max_bits < 1)
		max_bits = 1;
	if (max_bits > LINK_FLIPS_MAX)
		max_bits = LINK_FLIPS_MAX;
	/* At most 16 of at least 8 bits: keep well below, so distinct bits are soon found. */
	if (max_bits > bits / 2)
		max_bits = (uint32_t)(bits / 2);
	want = 1 + (unsigned int)prng_below(&rnd, max_bits);
	while (n < want) {
		uint64_t bit = prng_below(&rnd, bits);
		bool again = false;

		for (unsigned int i = 0; i < n; i++)
			again |= done[i] == bit;
		if (again)
			continue;
		done[n++] = bit;
		frame[first + bit / 8] ^= (uint8_t)(1U << (bit % 8));
	}
	return n;
}
