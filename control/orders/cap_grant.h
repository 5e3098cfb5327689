/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/cap_share.h"

/*
 * How shares of a cap change hands without ever adding up to more than the cap.
 *
 * What an edge may send is what it was told last and confirmed, and whatever it was told since: the
 * highest of these is its bound. A share that falls is told at once; one that grows gets what the
 * bounds of all leave of the cap, so it waits for the word of those that gave something up. Nothing
 * depends on how long messages take, or whether one is lost: it is told again, with a new number.
 *
 *   plan    told_bps of some changes: tell the edge (cap_grant_told), with a number that grows
 *   acked   the edge has done what message number n said
 *   set     this is what the edge says it has; or it surely sends nothing any more
 *
 * Pure; any thread. Line bits/s, CAP_NONE is no cap, 0 that nothing was granted yet.
 */

struct cap_grant {
	uint64_t told_bps;
	uint64_t bound_bps;
	uint64_t told_seq; /* of the message that said so; 0: none did yet */
};

/**
 * Next told_bps of each grant of flow i, which has the share_bps it should have; groups are those
 * of cap_share(). A change of less than 1/64 is left alone where nobody needs it. Returns how many
 * changed: their told_seq is 0.
 */
size_t cap_grant_plan(struct cap_grant *const *grants, const struct cap_flow *flows, size_t n,
	struct cap_group *groups, size_t groups_n);
/** Message seq (> 0) tells the edge this grant as it is now. */
void cap_grant_told(struct cap_grant *g, uint64_t seq);
/** The edge has obeyed message seq and all before. */
void cap_grant_acked(struct cap_grant *g, uint64_t seq);
/** What the edge has for certain; 0: it sends nothing. */
void cap_grant_set(struct cap_grant *g, uint64_t bps);
