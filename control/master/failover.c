/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/master/links.h"
#include "control/master/master.h"

#include <strait/status.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Edges that drain, are lost, or come back: who has their orders. */

bool edge_has(const struct edge *e, const struct shipment *s)
{
	return edge_ships(e, s) ||
		(!shipment_is_local(s) && strcmp(s->to_edge, e->name) == 0 &&
			strcmp(s->order->to_site, e->site) == 0);
}

void edge_load(const struct master *m, const struct edge *e, uint64_t *orders, uint64_t *bytes)
{
	*orders = *bytes = 0;
	for (const struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		const struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order) {
			if (s->open == 0 || !edge_has(e, s))
				continue;
			(*orders)++;
			*bytes += shipment_left_bytes(s);
		}
	}
}

const char *edge_state(const struct master *m, const struct edge *e)
{
	uint64_t orders, bytes;

	if (e->client == NULL)
		return "gone";
	if (edge_takes(e))
		return "active";
	edge_load(m, e, &orders, &bytes);
	return orders > 0 ? "draining" : "drained";
}

/* Another edge of the site takes orders. */
static bool has_another(const struct master *m, const struct edge *e)
{
	const struct edge *other;

	TAILQ_FOREACH(other, &m->edges, entry)
		if (other != e && strcmp(other->site, e->site) == 0 && edge_takes(other))
			return true;
	return false;
}

/* copies: only those that it copies and another edge can, too. */
static void hand_over(struct master *m, const struct edge *e, bool copies, const char *why)
{
	for (struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order) {
			if (s->open == 0 || !edge_has(e, s) ||
				(copies &&
					(!shipment_is_local(s) ||
						!sites_reach(m, o->from_site, o->to_site))))
				continue;
			log_warn("master", "handed over order=%" PRIu64 " edge=%s: %s", o->id,
				e->full, why);
			orderbook_hand_over(m->book, s->wire, why, clock_unix_ms());
			master_changed(m);
		}
	}
}

void edges_failover(struct master *m)
{
	static const char why[] = "its edge is gone, another takes over";
	uint64_t now_ns = clock_now_ns();
	struct edge *e;

	TAILQ_FOREACH(e, &m->edges, entry) {
		/* it left for good, or is expected back for a while */
		if (e->client != NULL ||
			(!e->left && now_ns - e->shares.down_ns < m->cfg->edge_lost_ms * 1000000))
			continue;
		/* who copies sends nothing, so nobody is fenced */
		hand_over(m, e, true, why);
		if (!has_another(m, e))
			continue;
		if (!e->shares.lost && !e->left) {
			log_warn("master", "edge is lost, others of its site take over edge=%s",
				e->full);
			shares_lost(&m->shares, &e->shares);
			(void)edge_remember(m, e);
		}
		hand_over(m, e, false, why);
	}
}

int edge_drain(struct master *m, const char *name, bool drain, bool hand, const char *by)
{
	struct edge *e, *found = NULL;
	bool before;

	TAILQ_FOREACH(e, &m->edges, entry) {
		if (strcmp(e->full, name) != 0 && strcmp(e->name, name) != 0)
			continue;
		if (found != NULL)
			return -EEXIST;
		found = e;
	}
	if (found == NULL)
		return -ENOENT;
	before = found->draining;
	found->draining = drain;
	if (before != drain) {
		if (edge_remember(m, found) != 0) {
			found->draining = before;
			return -EIO;
		}
		log_info("master", "edge %s edge=%s by=%s", drain ? "drains" : "takes orders again",
			found->full, by);
	}
	if (drain && hand && has_another(m, found))
		hand_over(m, found, false, "its edge drains, another takes over");
	master_changed(m);
	return drain && hand && !has_another(m, found) ? 1 : 0;
}
