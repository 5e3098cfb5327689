/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/bench/options.h"

#include <stddef.h>
#include <stdint.h>

/*
 * One timed stretch of the real sender or receiver, over and over.
 *
 * Sessions live in virtual time, in which a line of LINE_BPS carries the packets: what the path
 * does then depends on the code alone, and the pacer, whose cap lies above that line, is asked but
 * never waits. How much payload passed is divided by the CPU time it took.
 */

struct stretch {
	double seconds;          /* CPU time in the path under test */
	double wall_seconds;     /* what passed meanwhile */
	uint64_t payload_bytes;  /* source symbols */
	uint64_t packets;        /* of the path under test */
	uint64_t rows, resent;   /* repair symbols; source symbols sent again */
	uint64_t blocks_decoded; /* rx */
	double blocks;           /* source blocks begun */
	/* Cycles of the time stamp counter, all packets of the stretch together. */
	uint64_t feedback_cycles; /* tx: reading reports; rx: writing them */
	uint64_t standin_cycles;  /* tx: the stand-in's part, not the sender's */
};

/** Packets of the ring: those of the ceilings, or what --ring-mib holds. */
uint32_t bench_ring_slots(const struct bench_options *o);

struct tx_bench;

/** pool is the caller's. NULL + errno; ERANGE: no loss makes the sender plan so many rows. */
struct tx_bench *tx_bench_create(const struct bench_options *o, const uint8_t *pool);
void tx_bench_destroy(struct tx_bench *b);
/** Adds to *out. 0, or -errno: the session refused its peer or stalled. */
int tx_bench_run(struct tx_bench *b, double seconds, struct stretch *out);

struct rx_bench;

/** Sends from pool. NULL + errno. */
struct rx_bench *rx_bench_create(const struct bench_options *o, const uint8_t *pool);
void rx_bench_destroy(struct rx_bench *b);
/** Adds to *out. 0, or -errno: -EBADMSG a packet or a digest was wrong, -ETIME the pair stalled. */
int rx_bench_run(struct rx_bench *b, double seconds, struct stretch *out);
