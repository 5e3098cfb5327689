/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Token bucket over line bytes (datagram + 66), the hard cap of a session. Everything a session
 * sends passes here: source, repair, control.
 *
 * Invariant: over any interval d the bytes let go are <= rate * d + burst. Burst is a number of
 * packets, shrunk on slow links so that it lasts at most 2 ms but never under 2 packets (packets of
 * packet_line_bytes; a larger one may exceed the burst by the difference). It is what a caller that
 * comes late may make up for: credit beyond it is lost, and with it rate. Integer arithmetic in
 * 2^-32 ns units, no drift. A debt is allowed: pacer_take() may be called for a packet of any size
 * once pacer_next_ns() has come.
 *
 * No errors. Owned by one worker.
 */
enum {
	PACER_BURST = 16,       /* packets; for who polls and is never late */
	PACER_BURST_MAX = 1024, /* more is taken for it */
};

struct pacer {
	uint64_t rate_bps; /* line bits/s; 0 = unlimited */
	uint64_t next_ns;  /* virtual departure time (GCRA), integer part */
	uint64_t byte_q32; /* ns * 2^32 a line byte takes, rounded up: never faster than the rate */
	uint64_t burst_ns; /* how far in the past next may lie: the burst less one packet */
	uint32_t next_q32; /* fraction of next_ns */
	uint32_t burst_packets;
};

/** burst_packets: 0 is PACER_BURST. */
void pacer_init(struct pacer *p, uint64_t rate_bps, uint32_t packet_line_bytes,
	uint32_t burst_packets);

/** Change the rate; credit earned is kept within the new burst. */
void pacer_set_rate(struct pacer *p, uint64_t now_ns, uint64_t rate_bps,
	uint32_t packet_line_bytes);

/** Earliest time a packet may leave; <= now_ns means now. */
uint64_t pacer_next_ns(const struct pacer *p);

/** Account a packet of line_bytes leaving at now_ns. */
void pacer_take(struct pacer *p, uint64_t now_ns, uint32_t line_bytes);

/** How many packets of line_bytes each, at most `most`, may be sent now. */
uint32_t pacer_count(const struct pacer *p, uint64_t now_ns, uint32_t line_bytes, uint32_t most);
