/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Both ends of one TCP flow that always has data, as cross traffic: selective acknowledgments with
 * delayed ones in order (RFC 5681, 2018), loss found from what arrived of later transmissions (the
 * path keeps order: three of them, RFC 6675's threshold and RACK's idea), retransmission timer (RFC
 * 6298, at least 200 ms), a receive window. Congestion control is cubic.h. Counts segments, not
 * bytes. No links here: cross.c carries segments and acknowledgments. One thread; allocates in
 * tcp_init() only.
 */

#include "tools/sim/cubic.h"

#include <stddef.h>

struct tcp_segment {
	uint64_t seq, xmit; /* xmit: number of the transmission */
	uint64_t sent_ns;
};

struct tcp_ack {
	uint64_t cum;                /* all below arrived */
	uint64_t sack_from, sack_to; /* and these; empty: none */
	uint64_t xmit;               /* newest transmission that arrived */
	uint64_t echo_ns;            /* its sent_ns */
};

struct tcp {
	struct cubic cubic;
	uint64_t window; /* 2^n: segments between the oldest unacknowledged and the newest */

	/* Sender. */
	uint64_t una, next, xmit;
	uint64_t recover; /* losses below belong to a reduction already made */
	bool recovering;
	uint32_t flying;
	uint64_t newest_xmit; /* known to have arrived */
	uint64_t round_end;
	uint64_t srtt_ns, rttvar_ns, min_rtt_ns;
	uint64_t rto_ns, rto_due_ns; /* due 0: off */
	uint64_t reductions, timeouts, resent;
	uint8_t *state; /* by seq */
	uint64_t *last; /* by seq: its newest transmission */
	struct tcp_sent {
		uint64_t seq, xmit;
	} * sent; /* not yet known to have arrived or be lost, in order of transmission */
	uint64_t sent_head, sent_tail;
	uint64_t *again; /* to be sent again */
	uint64_t again_head, again_tail;

	/* Receiver. */
	uint8_t *got; /* by seq */
	uint64_t expected;
	uint64_t delivered; /* segments that arrived the first time */
	uint32_t unacked;
	struct tcp_ack delayed;
	uint64_t delay_due_ns; /* 0: none is delayed */
};

/* window_segments is rounded up to 2^n. 0, -ENOMEM. */
int tcp_init(struct tcp *t, uint64_t window_segments);
void tcp_fini(struct tcp *t);

/* The next segment to send now. false: the window is full. */
bool tcp_send(struct tcp *t, uint64_t now_ns, struct tcp_segment *out);

/* An acknowledgment came back. */
void tcp_acked(struct tcp *t, uint64_t now_ns, const struct tcp_ack *a);

/* When a timer runs out, UINT64_MAX: none. The sender's; the receiver's. */
uint64_t tcp_timer_ns(const struct tcp *t);
uint64_t tcp_delay_ns(const struct tcp *t);

/* The sender's timer ran out: call tcp_send() after it. */
void tcp_timeout(struct tcp *t, uint64_t now_ns);

/* A segment arrived. true: *out is to be sent back now. */
bool tcp_receive(struct tcp *t, uint64_t now_ns, const struct tcp_segment *s, struct tcp_ack *out);

/* The receiver's timer ran out: *out is to be sent back now. */
void tcp_delayed(struct tcp *t, struct tcp_ack *out);
