/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/link_rate.h"

#include <strait/wire.h>

#define INTERVAL_NS 200000000ULL
#define FRESH_NS    30000000000ULL
#define CONTROL_NS  60000000ULL /* two turns of a control thread, and the master's commit */

void link_stats_add(struct session_stats *sum, const struct session_stats *one)
{
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
		sum->counters[i] += one->counters[i];
	if (one->srtt_ns > sum->srtt_ns)
		sum->srtt_ns = one->srtt_ns;
	if (sum->min_rtt_ns == 0 || (one->min_rtt_ns != 0 && one->min_rtt_ns < sum->min_rtt_ns))
		sum->min_rtt_ns = one->min_rtt_ns;
	if (one->loss > sum->loss)
		sum->loss = one->loss;
	sum->cap_bps += one->cap_bps;
	sum->outstanding_bytes += one->outstanding_bytes;
	sum->backlog_bytes += one->backlog_bytes;
	sum->delivered_bytes += one->delivered_bytes;
	if (one->path_bytes < sum->path_bytes)
		sum->path_bytes = one->path_bytes;
	sum->up = sum->up && one->up;
	sum->dead = sum->dead || one->dead;
}

bool link_rate_update(struct link_rate *r, uint64_t now_ns, const struct session_stats *stats)
{
	uint64_t line = stats->counters[STRAIT_C_tx_bytes] +
		STRAIT_LINE_OVERHEAD_BYTES * stats->counters[STRAIT_C_tx_packets];
	uint64_t interval_ns = now_ns - r->at_ns, carried;
	bool was = r->at_ns != 0 && stats->delivered_bytes >= r->delivered_bytes &&
		line >= r->line_bytes;

	if (r->at_ns != 0 && interval_ns < INTERVAL_NS && was)
		return false;
	r->srtt_ns = stats->srtt_ns;
	r->loss = stats->loss;
	if (stats->cap_bps > r->cap_bps + r->cap_bps / 16)
		r->busy_since_ns = 0; /* what arrives now was sent under the lower one */
	r->cap_bps = stats->cap_bps;
	if (was) {
		carried = stats->delivered_bytes - r->delivered_bytes;
		r->used_bps =
			(uint64_t)((double)(line - r->line_bytes) * 8e9 / (double)interval_ns);
		/* Its queue did not run empty, even if nothing new came. */
		if (r->backlog_bytes > carried && stats->backlog_bytes > 0) {
			double bps = (double)carried * 8e9 / (double)interval_ns;

			if (r->busy_since_ns == 0)
				r->busy_since_ns = r->at_ns;
			/* What was sent first is known to have arrived a round trip later. */
			if (r->at_ns - r->busy_since_ns >= 2 * r->srtt_ns) {
				if (r->cap_bps > r->busy_cap_bps + r->busy_cap_bps / 16)
					r->busy_ns = 0; /* the mean would be of two caps */
				r->busy_cap_bps = r->cap_bps;
				r->busy_bps = r->busy_ns == 0
					? (uint64_t)bps
					: (uint64_t)(0.7 * (double)r->busy_bps + 0.3 * bps);
				r->busy_ns = now_ns;
			}
		} else {
			r->busy_since_ns = 0;
		}
	} else {
		r->busy_since_ns = r->used_bps = 0;
	}
	r->at_ns = now_ns;
	r->delivered_bytes = stats->delivered_bytes;
	r->backlog_bytes = stats->backlog_bytes;
	r->line_bytes = line;
	return true;
}

uint64_t link_rate_limit(uint64_t cap_bps, uint32_t symbol_bytes)
{
	if (cap_bps == 0)
		return UINT64_MAX;
	return (uint64_t)((double)cap_bps * symbol_bytes /
		(symbol_bytes + STRAIT_OVERHEAD_BYTES + STRAIT_LINE_OVERHEAD_BYTES));
}

/* 2 %: manifests, rows of the tails, control. */
static double at_cap(const struct link_rate *r, uint64_t cap_bps, uint32_t symbol_bytes)
{
	return (double)link_rate_limit(cap_bps, symbol_bytes) * (1 - r->loss) * 0.98;
}

uint64_t link_rate_goodput(const struct link_rate *r, uint64_t now_ns, uint64_t cap_bps,
	uint64_t most_bps, uint32_t symbol_bytes)
{
	bool fresh = r->busy_ns != 0 && now_ns - r->busy_ns < FRESH_NS;

	if (most_bps == 0)
		return fresh ? r->busy_bps : 0;
	/* What was measured says what the path can do only if the cap of then let more through. */
	if (r->busy_cap_bps != 0 && (cap_bps == 0 || r->busy_cap_bps < cap_bps))
		cap_bps = r->busy_cap_bps;
	if (cap_bps == 0)
		cap_bps = most_bps;
	if (fresh && (double)r->busy_bps < 0.9 * at_cap(r, cap_bps, symbol_bytes))
		return r->busy_bps;
	return (uint64_t)at_cap(r, most_bps, symbol_bytes);
}

uint64_t link_rate_latency_ns(const struct link_rate *r)
{
	return 2 * r->srtt_ns + CONTROL_NS;
}
