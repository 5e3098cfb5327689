/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/feasible.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool goes_before(const struct feasible_order *a, const struct feasible_order *b)
{
	uint64_t da = a->deadline_ms != 0 ? a->deadline_ms : UINT64_MAX;
	uint64_t db = b->deadline_ms != 0 ? b->deadline_ms : UINT64_MAX;

	return a->class != b->class ? a->class < b->class : da < db;
}

/* What an order takes of the link. */
static uint64_t weight(const struct feasible *f, const struct feasible_order *o)
{
	return o->bytes + (o->bytes < f->link.tail_bytes ? o->bytes : f->link.tail_bytes) / 16;
}

static uint64_t finish(const struct feasible *f, uint64_t bytes)
{
	/* Rounded up; 2^64 ms are far beyond any deadline. */
	double ms = (double)bytes * 8000 / (double)f->link.rate_bps + 0.999;

	return ms < 1e15 ? f->link.now_ms + f->link.latency_ms + (uint64_t)ms : UINT64_MAX;
}

uint64_t feasible_rate(uint64_t link_bps, uint64_t expected_bps, uint64_t share_bps)
{
	if (expected_bps == 0)
		return link_bps;
	if (link_bps == 0)
		return expected_bps;
	/* All of its share is expected: the share is what it is low by, and it rises. */
	if (share_bps != 0 && expected_bps <= share_bps &&
		expected_bps >= share_bps - share_bps / 8)
		return link_bps;
	return expected_bps < link_bps ? expected_bps : link_bps;
}

void feasible_begin(struct feasible *f, const struct feasible_link *link,
	const struct feasible_order *own)
{
	memset(f, 0, sizeof(*f));
	f->link = *link;
	f->own = *own;
}

static void place(struct feasible *f)
{
	f->placed = true;
	f->own_ahead = f->ahead_bytes;
	if (f->link.rate_bps != 0)
		f->finish_ms = finish(f, f->ahead_bytes + weight(f, &f->own));
}

void feasible_add(struct feasible *f, const struct feasible_order *other)
{
	uint64_t with;

	if (!f->placed && goes_before(&f->own, other))
		place(f);
	f->ahead_bytes += weight(f, other);
	if (!f->placed || f->victim != 0 || f->link.rate_bps == 0 || other->deadline_ms == 0 ||
		other->class != f->own.class)
		return;
	with = finish(f, f->ahead_bytes + weight(f, &f->own));
	/*
	 * One that is late whatever happens is nobody's victim. One that is so only by the margin
	 * in latency_ms still is: or the first that falls behind a little would be pushed on.
	 */
	if (with <= other->deadline_ms ||
		finish(f, f->ahead_bytes) > other->deadline_ms + f->link.latency_ms)
		return;
	f->victim = other->id;
	f->victim_finish_ms = with;
	f->victim_deadline_ms = other->deadline_ms;
}

static double seconds(uint64_t from_ms, uint64_t to_ms)
{
	return to_ms == UINT64_MAX ? 1e12 : ((double)to_ms - (double)from_ms) / 1000;
}

bool feasible_end(struct feasible *f, char *why, size_t len)
{
	const struct feasible_link *l = &f->link;

	if (!f->placed)
		place(f);
	if (f->own.deadline_ms == 0 || l->rate_bps == 0)
		return true;
	if (f->finish_ms > f->own.deadline_ms) {
		snprintf(why, len,
			"%.1f MB go before it and it has %.1f MB: at %.1f Mbit/s it ends in %.2f s "
			"at the earliest, its deadline is in %.2f s",
			(double)f->own_ahead / 1e6, (double)f->own.bytes / 1e6,
			(double)l->rate_bps / 1e6, seconds(l->now_ms, f->finish_ms),
			seconds(l->now_ms, f->own.deadline_ms));
		return false;
	}
	if (f->victim == 0)
		return true;
	snprintf(why, len,
		"its %.1f MB would make order %" PRIu64
		" end in %.2f s at %.1f Mbit/s, whose deadline is in %.2f s",
		(double)f->own.bytes / 1e6, f->victim, seconds(l->now_ms, f->victim_finish_ms),
		(double)l->rate_bps / 1e6, seconds(l->now_ms, f->victim_deadline_ms));
	return false;
}
