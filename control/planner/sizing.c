/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/sizing.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void sizing_init(struct sizing *s)
{
	memset(s, 0, sizeof(*s));
	s->back = 1;
	s->efficiency = 0.917;
	s->peak = 1;
}

static bool is_share(double v)
{
	return v >= 0 && v <= 1;
}

static bool is_amount(double v)
{
	return v > 0 && v <= 1e18;
}

static const char *fault(const struct sizing *s)
{
	if (!is_amount(s->tokens_per_s))
		return "throughput: above 0 tokens a second";
	if (!is_amount(s->block_tokens) || !is_amount(s->block_bytes))
		return "block: above 0 tokens and bytes";
	if (!is_share(s->reuse))
		return "reuse: from 0 to 1";
	if (!is_share(s->remote) || !is_share(s->back))
		return "shares: from 0 to 1";
	for (int i = 0; i < SIZING_SIDES; i++)
		if (!is_amount(s->evict_s[i]) || !(s->span_s[i] >= 0 && s->span_s[i] <= 1e18))
			return "eviction period: above 0; reuse span: 0 or more";
	if (!(s->efficiency > 0 && s->efficiency <= 1))
		return "efficiency: above 0, up to 1";
	if (!(s->peak >= 1 && s->peak <= 1e6))
		return "peak: 1 or more times the mean";
	if (!(s->line_bps >= 0 && s->line_bps <= 1e18))
		return "line: 0 or more bits a second";
	return NULL;
}

int sizing_plan(const struct sizing *s, struct sizing_side_result out[static SIZING_SIDES],
	char *err, size_t err_len)
{
	const char *why = fault(s);
	double made, made_at[SIZING_SIDES], leaves[SIZING_SIDES];

	if (why != NULL) {
		snprintf(err, err_len, "%s", why);
		return -EINVAL;
	}
	made = s->tokens_per_s * (1 - s->reuse) * s->block_bytes / s->block_tokens;
	made_at[SIZING_PREFILL] = leaves[SIZING_PREFILL] = made * s->remote;
	made_at[SIZING_DECODE] = made * (1 - s->remote);
	leaves[SIZING_DECODE] = made_at[SIZING_DECODE] * s->back;
	for (int i = 0; i < SIZING_SIDES; i++) {
		struct sizing_side_result *r = &out[i];

		r->in_bytes_per_s = made_at[i] + leaves[SIZING_SIDES - 1 - i];
		r->pool_bytes = r->in_bytes_per_s * (s->evict_s[i] + s->span_s[i]);
		r->wan_bps = leaves[i] * 8 / s->efficiency;
		r->cap_bps = r->wan_bps * s->peak;
		r->cap_share = s->line_bps > 0 ? r->cap_bps / s->line_bps : 0;
	}
	return 0;
}
