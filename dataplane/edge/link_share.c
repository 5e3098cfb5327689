/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/link_share.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t demand(const struct link_share *l, uint64_t least_bps)
{
	uint64_t limit = l->limit_bps != 0 ? l->limit_bps : UINT64_MAX;

	if (l->used_bps == UINT64_MAX || l->share_bps == 0 ||
		l->used_bps >= l->share_bps - l->share_bps / 8)
		return limit;
	return min_u64(limit, l->used_bps + l->used_bps / 4 + least_bps);
}

void link_share_split(struct link_share *links, uint32_t n, uint64_t total_bps)
{
	uint64_t least = total_bps / LINK_SHARE_IDLE + 1, left = total_bps;
	uint32_t open = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct link_share *l = &links[i];
		uint64_t want = l->active ? demand(l, least) : least;

		if (!l->active && l->limit_bps != 0)
			want = min_u64(want, l->limit_bps);
		l->used_bps = want; /* from here on: what it would take */
		l->share_bps = l->active ? 0 : want;
		open += l->active;
	}
	/* Fill up: whoever wants less than an equal part gets it, the others share the rest. */
	for (uint32_t before = 0; open > 0 && before != open;) {
		uint64_t part = left / open;

		before = open;
		for (uint32_t i = 0; i < n; i++) {
			struct link_share *l = &links[i];

			if (!l->active || l->share_bps != 0 || l->used_bps > part)
				continue;
			l->share_bps = l->used_bps;
			left -= l->share_bps;
			open--;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		if (links[i].active && links[i].share_bps == 0)
			links[i].share_bps = left / open > 0 ? left / open : 1;
	if (open > 0)
		return;
	/* Nobody is hungry: what is left may be needed the next moment. */
	for (uint32_t i = 0; i < n; i++)
		open += links[i].active;
	for (uint32_t i = 0; i < n; i++)
		if (links[i].active) {
			uint64_t limit = links[i].limit_bps != 0 ? links[i].limit_bps : UINT64_MAX;

			links[i].share_bps = min_u64(limit, links[i].share_bps + left / open);
		}
}
