/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What a normal session holds beside somebody who fills every queue, as TCP does.
 *
 * Who follows the queueing delay gives up everything there: the delay never falls to the target,
 * however little is sent. Sessions among themselves come down to the target within some round
 * trips; so when the queue stays over it longer, and packets are lost in front of the line, that
 * is somebody else. From then on a window is held as CUBIC would hold it (RFC 9438), which shares
 * with TCP as TCP does and with other sessions that hold as well. It starts at a little more than
 * half of what was sent before. A path that loses of its own has no such neighbor. When the queue
 * was below the target for a round trip nothing is held any more.
 *
 * Time is an argument; rates are line bits/s, times ns. One worker.
 */
struct hold {
	uint64_t since_ns; /* the queue is over the target since; 0: it is not */
	uint64_t seen_ns;  /* it was seen so last */
	uint64_t round_end_ns, bytes, lost;
	bool full; /* packets were lost in front of the line since */
	bool on;
	double window_max; /* packets: where the last loss was */
	uint64_t epoch_ns;
};

struct hold_report {
	uint64_t now_ns, rtt_ns;
	uint64_t bytes, lost; /* line bytes that arrived, and were lost, by this report */
	double loss;          /* share that the path loses of its own */
	bool over;            /* the queue is over the target */
	uint64_t before_bps;  /* sent before anybody else was there */
	uint64_t rate_bps;    /* sent now */
};

/** The rate to send at least. 0: nothing is held. */
uint64_t hold_report(struct hold *h, const struct hold_report *p);

/** Nothing is held any more. */
void hold_end(struct hold *h);
