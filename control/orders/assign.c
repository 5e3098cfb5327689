/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/assign.h"

#include <string.h>

/* The criteria in their order; the lowest wins. */
enum { TRIED, AVOIDED, OTHER_TO, OTHER_FROM, BYTES, BYTES_TO, COUNT, COUNT_TO, CRITERIA };

struct rank {
	uint64_t by[CRITERIA];
};

static uint64_t is_other(const char *had, const char *name)
{
	return had != NULL && strcmp(had, name) != 0;
}

static void rank_fill(struct rank *r, const struct assign_edge *from, const struct assign_edge *to,
	const struct assign_rule *rule)
{
	r->by[TRIED] = from->tried;
	r->by[AVOIDED] = rule->avoid != NULL && rule->avoid(rule->ctx, from->name, to->name);
	r->by[OTHER_TO] = is_other(rule->to, to->name);
	r->by[OTHER_FROM] = is_other(rule->from, from->name);
	r->by[BYTES] = from->backlog_bytes;
	r->by[BYTES_TO] = to->backlog_bytes;
	r->by[COUNT] = from->shipments;
	r->by[COUNT_TO] = to->shipments;
}

static bool is_before(const struct rank *a, const struct rank *b)
{
	for (int i = 0; i < CRITERIA; i++)
		if (a->by[i] != b->by[i])
			return a->by[i] < b->by[i];
	return false;
}

bool assign_pick(const struct assign_edge *from, size_t from_n, const struct assign_edge *to,
	size_t to_n, const struct assign_rule *rule, size_t *from_i, size_t *to_i)
{
	struct rank best, r;

	for (size_t i = 0; i < from_n; i++)
		for (size_t k = 0; k < to_n; k++) {
			rank_fill(&r, &from[i], &to[k], rule);
			if ((i > 0 || k > 0) && !is_before(&r, &best))
				continue;
			best = r;
			*from_i = i;
			*to_i = k;
		}
	return from_n > 0 && to_n > 0;
}
