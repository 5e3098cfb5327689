/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/cap_grant.h"

enum { SMALL = 64 };

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t add_u64(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* left_bps of a group: what told ones, or bounds, leave of its cap. */
static void count(struct cap_grant *const *grants, const struct cap_flow *flows, size_t n,
	struct cap_group *groups, size_t groups_n, bool bounds)
{
	for (size_t g = 0; g < groups_n; g++) {
		groups[g].left_bps = groups[g].cap_bps;
		groups[g].over = false;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t bps = bounds ? grants[i]->bound_bps : grants[i]->told_bps;

		for (int k = 0; k < CAP_GROUPS; k++) {
			struct cap_group *g;

			if (flows[i].group[k] == CAP_NO_GROUP)
				continue;
			g = &groups[flows[i].group[k]];
			g->over = g->over || bps > g->left_bps;
			g->left_bps -= min_u64(bps, g->left_bps);
		}
	}
}

/* Those it shares with have more together than there is. */
static bool is_over(const struct cap_flow *f, const struct cap_group *groups)
{
	for (int k = 0; k < CAP_GROUPS; k++)
		if (f->group[k] != CAP_NO_GROUP && groups[f->group[k]].over)
			return true;
	return false;
}

static uint64_t room(const struct cap_flow *f, const struct cap_group *groups)
{
	uint64_t bps = CAP_NONE;

	for (int k = 0; k < CAP_GROUPS; k++)
		if (f->group[k] != CAP_NO_GROUP)
			bps = min_u64(bps,
				groups[f->group[k]].frozen ? 0 : groups[f->group[k]].left_bps);
	return bps;
}

static bool raise_one(struct cap_grant *g, const struct cap_flow *f, struct cap_group *groups)
{
	uint64_t next = min_u64(f->share_bps, add_u64(g->bound_bps, room(f, groups)));
	uint64_t more;

	if (next <= g->told_bps || next - g->told_bps <= g->told_bps / SMALL)
		return false;
	more = next > g->bound_bps ? next - g->bound_bps : 0;
	for (int k = 0; k < CAP_GROUPS; k++)
		if (f->group[k] != CAP_NO_GROUP)
			groups[f->group[k]].left_bps -= more;
	g->bound_bps += more;
	g->told_bps = next;
	g->told_seq = 0;
	return true;
}

size_t cap_grant_plan(struct cap_grant *const *grants, const struct cap_flow *flows, size_t n,
	struct cap_group *groups, size_t groups_n)
{
	size_t changed = 0;

	count(grants, flows, n, groups, groups_n, false);
	for (size_t i = 0; i < n; i++) {
		struct cap_grant *g = grants[i];

		if (flows[i].share_bps >= g->told_bps)
			continue;
		if (g->told_bps - flows[i].share_bps <= g->told_bps / SMALL &&
			!is_over(&flows[i], groups))
			continue;
		g->told_bps = flows[i].share_bps;
		g->told_seq = 0;
		changed++;
	}
	count(grants, flows, n, groups, groups_n, true);
	for (size_t i = 0; i < n; i++)
		if (flows[i].share_bps > grants[i]->told_bps)
			changed += raise_one(grants[i], &flows[i], groups);
	return changed;
}

void cap_grant_told(struct cap_grant *g, uint64_t seq)
{
	if (g->told_seq == 0)
		g->told_seq = seq;
}

void cap_grant_acked(struct cap_grant *g, uint64_t seq)
{
	if (g->told_seq != 0 && g->told_seq <= seq)
		g->bound_bps = g->told_bps;
}

void cap_grant_set(struct cap_grant *g, uint64_t bps)
{
	*g = (struct cap_grant){ .told_bps = bps, .bound_bps = bps, .told_seq = 1 };
}
