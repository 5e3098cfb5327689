/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/bench/options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What two edges' processes cannot do without, measured in the same two processes, on their CPUs,
 * while their workers are stopped: a device of the same arguments with buffers of the same pool
 * size carries frames of the same length in bursts of the same number.
 *
 *   copy   rte_eth_tx_burst() and rte_eth_rx_burst() of frames in which nothing was written
 *   seal   the ceilings of limit.h, no device: one side seals, the other opens and digests
 *   bare   both in one loop: seal into a buffer and send it; receive, open, digest
 *
 * No session, no headers, no reports. Figures are CPU time of the thread, sleeps on a full or empty
 * ring included, which are as short as the worker's. Both sides run the same phase at once. The
 * control thread calls all of it; it is the EAL's and has a cache of buffers.
 */

enum floor_phase {
	FLOOR_COPY,
	FLOOR_SEAL,
	FLOOR_BARE,
	FLOOR_PHASES,
};

struct floor;

/**
 * One side: 0 sends, 1 receives. device: memif arguments as of the edge's port, another name and
 * socket. pool: objects to send, not written; the receiver gets memory of its own for what it
 * opens. After eal_start(). NULL + errno.
 */
struct floor *floor_create(const struct bench_options *o, int side, const char *device,
	uint8_t *pool);

/** Wait for the other side. 0, -ETIME. */
int floor_connect(const struct floor *f);

/** A cache line of its own in memory that both processes share, zeroed. */
struct floor_line {
	_Alignas(64) _Atomic uint32_t turn;
	_Atomic bool over;
};

/**
 * Nanoseconds that a line takes from one CPU to the other, the least of some thousand; both sides
 * call it at once, and the receiver is told 0. A machine whose CPUs are virtual may move them apart
 * while it runs: 25 ns are two that share a cache, 150 two that do not, and every copy costs as
 * much more.
 */
double floor_line_ns(struct floor_line *l, int side);

/** CPU nanoseconds a packet over about this many seconds; 0: nothing moved. */
double floor_run(struct floor *f, enum floor_phase phase, double seconds);
