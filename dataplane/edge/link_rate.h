/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/session.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What a link carries: the goodput an order may count on, from the session's figures.
 *
 * While the link has more to send than it carried in an interval its goodput is what it can do;
 * otherwise only its cap is known. A rate that is about the cap's is the cap's: being busy with a
 * start or with repair for a moment is no reason to refuse orders.
 *
 * Pure. Times are ns, rates of links (caps) line bits/s, goodput stream bits/s.
 */

struct link_rate {
	uint64_t at_ns, delivered_bytes, backlog_bytes, line_bytes;
	uint64_t busy_since_ns; /* 0: it was not */
	uint64_t busy_ns;       /* when busy_bps was measured last; 0: never */
	uint64_t busy_bps;      /* goodput */
	uint64_t cap_bps;       /* of the session */
	uint64_t busy_cap_bps;  /* the same when busy_bps was measured */
	uint64_t used_bps;      /* on the line, last interval */
	uint64_t srtt_ns;
	double loss;
};

/** Figures of one more queue into those of a link: sums; of round trips and loss the worst. */
void link_stats_add(struct session_stats *sum, const struct session_stats *one);
/** The session's figures; of a new session also. true: an interval is over, used_bps is new. */
bool link_rate_update(struct link_rate *r, uint64_t now_ns, const struct session_stats *stats);
/**
 * Goodput to be expected; 0: not known. cap_bps: that of now; most_bps: to which it rises when
 * there is something to send, so that a cap which is low because nobody sends refuses nothing.
 */
uint64_t link_rate_goodput(const struct link_rate *r, uint64_t now_ns, uint64_t cap_bps,
	uint64_t most_bps, uint32_t symbol_bytes);
/** Goodput that cannot be exceeded; UINT64_MAX: not known. */
uint64_t link_rate_limit(uint64_t cap_bps, uint32_t symbol_bytes);
/** From the last byte sent to the sender's knowledge of the end, with one repair. */
uint64_t link_rate_latency_ns(const struct link_rate *r);
