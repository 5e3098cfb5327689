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

void peer_apply_cap(struct peer *p)
{
	struct worker_command c = { .type = WORKER_SESSION_CAP, .value = peer_cap(p) };

	if (p->cur == NULL || p->cur->cap_bps == c.value)
		return;
	p->cur->cap_bps = c.value;
	c.session = p->cur->session;
	control_queue_push(p->ps->queue, &c);
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
			peer_apply_cap(of[i]);
		}
}

void peers_measure(struct peers *ps, uint64_t now_ns,
	bool (*stats)(void *ctx, const struct session *s, struct session_stats *out), void *ctx)
{
	struct session_stats figures;
	bool again = false;
	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry) {
		if (p->cur != NULL && stats(ctx, p->cur->session, &figures))
			again |= link_rate_update(&p->rate, now_ns, &figures);
		again |= (p->link.live > 0) != p->active;
	}
	if (again && ps->cfg.total_cap_bps != 0)
		share(ps);
	LIST_FOREACH(p, &ps->peers, entry) {
		uint64_t limit = link_rate_limit(peer_cap(p), ps->cfg.symbol_bytes);

		p->link.goodput_bps = link_rate_goodput(&p->rate, now_ns, peer_cap(p),
			p->link.symbol_bytes != 0 ? p->link.symbol_bytes : ps->cfg.symbol_bytes);
		/* A share grows when others end. */
		if (ps->cfg.total_cap_bps != 0)
			limit = link_rate_limit(p->cap_bps != 0
					? min_u64(p->cap_bps, ps->cfg.total_cap_bps)
					: ps->cfg.total_cap_bps,
				ps->cfg.symbol_bytes);
		p->link.limit_bps = limit != UINT64_MAX ? limit : 0;
		p->link.latency_ns = link_rate_latency_ns(&p->rate);
		p->link.tail_bytes = (uint64_t)((double)p->link.goodput_bps / 8e9 * 1.125 *
			(double)p->rate.srtt_ns);
	}
}
