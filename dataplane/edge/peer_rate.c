/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/link_share.h"
#include "dataplane/edge/peer_private.h"

/*
 * What links carry and may carry: measured rates for the orders' deadlines, and the edge's total
 * cap shared among its links.
 */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t peer_cap(const struct peer *p)
{
	uint64_t total = p->ps->cfg.total_cap_bps, share = p->share_bps;

	if (total == 0)
		return p->cap_bps;
	if (share == 0) /* no shares were made since it came: the next tick does */
		share = total / LINK_SHARE_IDLE + 1;
	return p->cap_bps == 0 ? share : min_u64(share, p->cap_bps);
}

/* The lower one of two caps; 0 is none. */
static uint64_t lower_cap(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* To what the link's cap may rise, whatever others send. 0: it has none. */
static uint64_t highest(const struct peer *p)
{
	return lower_cap(p->most_bps != 0 ? p->most_bps : p->cap_bps, p->own_bps);
}

/* To what peer_cap() rises when there is something to send. 0: no cap. live: links that have it. */
static uint64_t attainable(const struct peer *p, uint32_t live)
{
	uint64_t total = p->ps->cfg.total_cap_bps;
	uint32_t active = live + (p->link.live == 0);

	if (total == 0)
		return highest(p);
	total = total / active > p->share_bps ? total / active : p->share_bps;
	return lower_cap(highest(p), total);
}

/*
 * An eighth of the cap is split evenly, so that a queue that just got something need not wait; the
 * rest by backlog, so that all queues end at the same time.
 */
uint64_t peer_queue_cap(const struct peer_session *s, uint32_t queue)
{
	uint64_t even = s->cap_bps / s->queue_count, backlog = 0;

	if (s->cap_bps == 0 || s->queue_count == 1)
		return s->cap_bps;
	for (uint32_t i = 0; i < s->queue_count; i++)
		backlog += s->queues[i].backlog_bytes;
	if (backlog != 0)
		even = even / 8 +
			(uint64_t)((double)(s->cap_bps - s->cap_bps / 8) *
				(double)s->queues[queue].backlog_bytes / (double)backlog);
	return even != 0 ? even : 1; /* 0 would be no cap */
}

static bool tell_cap(struct peer_session *s, uint32_t queue, uint64_t bps)
{
	struct worker_command c = { .type = WORKER_SESSION_CAP,
		.session = s->queues[queue].session,
		.worker = (uint8_t)queue,
		.value = bps };

	if (c.session == NULL)
		return true;
	if (control_queue_push(s->ps->queue, &c) < 0)
		return false;
	s->queues[queue].cap_bps = bps;
	return true;
}

/* First those that get less, as the workers are told one after the other. */
static bool tell_caps(struct peer_session *s)
{
	bool all = true;

	for (int more = 0; more < 2; more++)
		for (uint32_t i = 0; i < s->queue_count; i++) {
			uint64_t bps = peer_queue_cap(s, i), had = s->queues[i].cap_bps;

			if (bps != had && (had != 0 && (bps == 0 || bps > had)) == (more == 1))
				all = tell_cap(s, i, bps) && all;
		}
	s->cap_untold = !all;
	return all;
}

bool peer_apply_cap(struct peer *p)
{
	uint64_t bps = peer_cap(p);

	if (p->cur == NULL || (p->cur->cap_bps == bps && !p->cur->cap_untold))
		return true;
	p->cur->cap_bps = bps;
	return tell_caps(p->cur);
}

/* Small changes are not worth a command. */
static bool is_far_off(const struct peer_session *s)
{
	for (uint32_t i = 0; i < s->queue_count; i++) {
		uint64_t bps = peer_queue_cap(s, i), had = s->queues[i].cap_bps;

		if ((bps > had ? bps - had : had - bps) > had / 16)
			return true;
	}
	return false;
}

void peers_split(struct peers *ps, peers_stats_fn *stats, void *ctx)
{
	struct session_stats figures;
	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry) {
		struct peer_session *s = p->cur;

		if (s == NULL || s->queue_count < 2 || p->link.live == 0 || s->cap_bps == 0)
			continue;
		for (uint32_t i = 0; i < s->queue_count; i++)
			if (stats(ctx, (uint8_t)i, s->queues[i].session, &figures))
				s->queues[i].backlog_bytes = figures.backlog_bytes;
		if (is_far_off(s))
			(void)tell_caps(s);
	}
}

bool peer_session_figures(const struct peer_session *s, peers_stats_fn *stats, void *ctx,
	struct session_stats *out)
{
	struct session_stats one;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->queue_count; i++) {
		if (s->queues[i].session == NULL ||
			!stats(ctx, (uint8_t)i, s->queues[i].session, n == 0 ? out : &one))
			continue;
		if (n++ > 0)
			link_stats_add(out, &one);
	}
	return n > 0 && n == s->queue_count;
}

static void share(struct peers *ps)
{
	struct link_share links[PEERS_MAX];
	struct peer *of[PEERS_MAX];
	uint32_t n = 0;

	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry) {
		uint64_t had = min_u64(p->share_before_bps, p->share_bps);

		if (n == PEERS_MAX)
			break;
		links[n] = (struct link_share){ .limit_bps = p->cap_bps,
			.used_bps = p->active && had != 0 ? p->rate.used_bps : UINT64_MAX,
			.active = p->link.live > 0,
			.share_bps = had };
		of[n++] = p;
	}
	link_share_split(links, n, ps->cfg.total_cap_bps);
	/* First those that get less, so that the sum is kept at every instant. */
	for (int more = 0; more < 2; more++)
		for (uint32_t i = 0; i < n; i++) {
			if ((links[i].share_bps > of[i]->share_bps) != (more == 1))
				continue;
			of[i]->share_before_bps = of[i]->share_bps;
			of[i]->share_bps = links[i].share_bps;
			of[i]->active = links[i].active;
			(void)peer_apply_cap(of[i]);
		}
}

void peers_measure(struct peers *ps, uint64_t now_ns, peers_stats_fn *stats, void *ctx)
{
	struct session_stats figures;
	bool again = false;
	uint32_t live = 0;
	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry) {
		if (p->cur != NULL && peer_session_figures(p->cur, stats, ctx, &figures))
			again |= link_rate_update(&p->rate, now_ns, &figures);
		again |= (p->link.live > 0) != p->active;
		live += p->link.live > 0;
	}
	if (again && ps->cfg.total_cap_bps != 0)
		share(ps);
	LIST_FOREACH(p, &ps->peers, entry) {
		/* A share grows when others end. */
		uint64_t limit = link_rate_limit(lower_cap(highest(p), ps->cfg.total_cap_bps),
			ps->cfg.symbol_bytes);

		p->link.goodput_bps =
			link_rate_goodput(&p->rate, now_ns, peer_cap(p), attainable(p, live),
				p->link.queues[0].symbol_bytes != 0 ? p->link.queues[0].symbol_bytes
								    : ps->cfg.symbol_bytes);
		p->link.limit_bps = limit != UINT64_MAX ? limit : 0;
		p->link.latency_ns = link_rate_latency_ns(&p->rate);
		p->link.tail_bytes = (uint64_t)((double)p->link.goodput_bps / 8e9 * 1.125 *
			(double)p->rate.srtt_ns);
	}
}
