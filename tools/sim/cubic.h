/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Congestion window of CUBIC (RFC 9438), the flow that Strait has to share a line with: cubic
 * growth around the last maximum, the Reno-friendly region, fast convergence, beta 0.7. Slow start
 * ends when the delay rises, a plain form of HyStart++ (RFC 9406) without its conservative phase.
 * What is lost and what is in flight is tcp.h's business. Pure; one thread. Windows are in
 * segments, times in ns.
 */

#include <stdbool.h>
#include <stdint.h>

struct cubic {
	double cwnd, ssthresh;
	double w_max; /* window before the last reduction */
	double k_s;   /* from the start of the epoch until w_max is reached again, seconds */
	double w_est; /* what Reno would have */
	double origin;
	uint64_t epoch_ns; /* 0: none runs */
	/* Smallest RTT of this round and the one before it. */
	uint64_t round_rtt_ns, last_rtt_ns;
	uint32_t round_samples;
};

void cubic_init(struct cubic *c);

/* A round trip began. */
void cubic_round(struct cubic *c);

/* An RTT sample; may end slow start. */
void cubic_rtt(struct cubic *c, uint64_t rtt_ns);

/* Segments were acknowledged outside of recovery; srtt_ns is the smoothed RTT. */
void cubic_acked(struct cubic *c, uint64_t now_ns, uint64_t srtt_ns, uint32_t segments);

/* Congestion: once for all losses of one window. */
void cubic_lost(struct cubic *c);

/* The retransmission timer ran out. */
void cubic_timeout(struct cubic *c);
