/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/cap_share.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool is_grouped(const struct cap_flow *f)
{
	for (int k = 0; k < CAP_GROUPS; k++)
		if (f->group[k] != CAP_NO_GROUP)
			return true;
	return false;
}

static void take(struct cap_flow *f, struct cap_group *groups, uint64_t bps)
{
	f->share_bps += bps;
	for (int k = 0; k < CAP_GROUPS; k++)
		if (f->group[k] != CAP_NO_GROUP)
			groups[f->group[k]].left_bps -= bps;
}

static uint64_t least(const struct cap_flow *f, const struct cap_group *groups)
{
	uint64_t bps = CAP_NONE;

	for (int k = 0; k < CAP_GROUPS; k++) {
		const struct cap_group *g;
		uint64_t part;

		if (f->group[k] == CAP_NO_GROUP)
			continue;
		g = &groups[f->group[k]];
		part = max_u64(min_u64(g->cap_bps / CAP_IDLE, g->cap_bps / (2 * g->members)),
			min_u64(CAP_LEAST_BPS, g->cap_bps / (8 * g->members)));
		bps = min_u64(bps, part);
	}
	return bps;
}

/* An equal part of what is left of each of its groups. */
static uint64_t part_of(const struct cap_flow *f, const struct cap_group *groups)
{
	uint64_t bps = CAP_NONE;

	for (int k = 0; k < CAP_GROUPS; k++)
		if (f->group[k] != CAP_NO_GROUP)
			bps = min_u64(bps, groups[f->group[k]].left_bps / groups[f->group[k]].open);
	return bps;
}

/*
 * Raise the shares of the flows that are active, or of those that are not, all by the same, until
 * each has what it wants or a group of it is used up.
 */
static void fill(struct cap_flow *flows, size_t n, struct cap_group *groups, size_t groups_n,
	bool active, bool wants)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		flows[i].open = flows[i].active == active && is_grouped(&flows[i]);
		left += flows[i].open;
	}
	while (left > 0) {
		uint64_t lowest = CAP_NONE;

		for (size_t g = 0; g < groups_n; g++)
			groups[g].open = 0;
		for (size_t i = 0; i < n; i++)
			for (int k = 0; k < CAP_GROUPS && flows[i].open; k++)
				if (flows[i].group[k] != CAP_NO_GROUP)
					groups[flows[i].group[k]].open++;
		for (size_t i = 0; i < n; i++) {
			struct cap_flow *f = &flows[i];

			if (!f->open)
				continue;
			f->level_bps = part_of(f, groups);
			if (wants && f->want_bps != CAP_NONE)
				f->level_bps = min_u64(f->level_bps, f->want_bps);
			lowest = min_u64(lowest, f->level_bps);
		}
		for (size_t i = 0; i < n; i++) {
			if (!flows[i].open || flows[i].level_bps != lowest)
				continue;
			take(&flows[i], groups, lowest);
			flows[i].open = false;
			left--;
		}
	}
}

void cap_share(struct cap_flow *flows, size_t n, struct cap_group *groups, size_t groups_n)
{
	for (size_t g = 0; g < groups_n; g++) {
		groups[g].left_bps = groups[g].cap_bps;
		groups[g].members = 0;
	}
	for (size_t i = 0; i < n; i++) {
		flows[i].share_bps = is_grouped(&flows[i]) ? 0 : CAP_NONE;
		for (int k = 0; k < CAP_GROUPS; k++)
			if (flows[i].group[k] != CAP_NO_GROUP)
				groups[flows[i].group[k]].members++;
	}
	for (size_t i = 0; i < n; i++)
		if (!flows[i].active && is_grouped(&flows[i]))
			take(&flows[i], groups, least(&flows[i], groups));
	fill(flows, n, groups, groups_n, true, true);
	fill(flows, n, groups, groups_n, true, false);
	fill(flows, n, groups, groups_n, false, false);
}
