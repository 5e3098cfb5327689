/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/world.h"

#include <errno.h>
#include <inttypes.h>

/* Bursts the pacer may let go (16 packets), and the packet that finds the last byte of credit. */
enum { CAP_BURST_PACKETS = 17 };

/* What the fields of an object ask for. 0: any refusal or the object itself. */
static bool is_as_asked(const struct world_object *o)
{
	if (o->gone && o->tx_status == o->gone)
		return !o->published;
	if (o->refuse && o->tx_status == o->refuse)
		return !o->published;
	if (o->gone || o->refuse)
		return false;
	if (o->lie && o->with_digest)
		return o->tx_status == STRAIT_STATUS_DIGEST && !o->published;
	/* EXISTS: published before a restart, but the source had not heard of it. */
	return (o->tx_status == STRAIT_STATUS_COMMITTED || o->tx_status == STRAIT_STATUS_EXISTS) &&
		o->published;
}

/*
 * After a restart, bytes may be left of an object that the source found gone in the meantime:
 * nobody orders it again, so it is for the pool to reclaim.
 */
static void object_check(struct world *w, uint32_t i)
{
	const struct world_object *o = &w->objects[i];

	if (o->tx_status == STRAIT_STATUS_PENDING)
		world_fail(w, "object %u has no final status at the source", i);
	else if (!is_as_asked(o))
		world_fail(w, "object %u ended as %s at the source, %s%s at the sink", i,
			strait_status_name(o->tx_status), strait_status_name(o->rx_status),
			o->published ? ", published" : "");
	else if (o->src)
		world_fail(w, "object %u is still leased at the source", i);
	else if (o->dst && (w->restarts == 0 || o->published))
		world_fail(w, "object %u is still half placed at the sink", i);
}

int world_settle(struct world *w)
{
	struct session_stats stats;
	double burst = CAP_BURST_PACKETS *
		(double)(w->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES +
			world_line_overhead(&w->cfg));

	for (uint32_t i = 0; i < w->ntransfers; i++) {
		const struct world_transfer *t = &w->transfers[i];

		if (!t->closed)
			world_fail(w, "transfer %u is still open at the source after %.3f s", i,
				(double)(w->now_ns - w->t0_ns) / 1e9);
		for (uint32_t j = t->first; t->closed && j < t->first + t->count; j++)
			object_check(w, j);
	}
	for (size_t i = 0; i < sizeof(w->rx) / sizeof(w->rx[0]); i++)
		if (w->rx[i].rx)
			world_fail(w, "a transfer is still open at the sink after %.3f s",
				(double)(w->now_ns - w->t0_ns) / 1e9);
	if (world_nonce_repeats(w))
		world_fail(w, "%" PRIu64 " nonces repeated", world_nonce_repeats(w));
	for (int side = 0; side < WORLD_SIDES; side++) {
		double excess = w->audit[side].excess_bytes;

		if (w->cap_excess_bytes > excess)
			excess = w->cap_excess_bytes;
		if (w->cfg.cap_bps && excess > burst)
			world_fail(w, "the cap was exceeded by %.0f bytes", excess);
		session_stats(w->session[side], &stats);
		if (stats.outstanding_bytes && w->ntransfers && side == WORLD_SOURCE &&
			stats.backlog_bytes)
			world_fail(w, "%" PRIu64 " bytes of backlog without a transfer",
				stats.backlog_bytes);
		if (w->dead[side])
			world_fail(w, "a session died");
	}
	return w->error[0] ? -EPROTO : 0;
}
