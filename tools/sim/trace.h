/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What happened over time in a world, in bins of equal length since t0: for recovery after cuts,
 * for what is given up to other traffic, for --csv and --plot. One thread. Bytes are of the line
 * unless said; data direction.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct trace_bin {
	uint64_t offered_bytes; /* the source put on the wire */
	uint64_t good_bytes;    /* payload of data that arrived intact, copies of the link aside */
	uint64_t cross_bytes;   /* other traffic that arrived */
	uint64_t packets, lost; /* sent by the source; lost at or after the queue */
	uint64_t queue_bytes;   /* largest backlog of the bottleneck a packet found */
	uint64_t outstanding_bytes, rtt_ns; /* the source's view at the end of the bin */
};

struct trace {
	uint64_t t0_ns, bin_ns; /* 0: off */
	uint64_t next_ns;       /* the end of the newest bin */
	struct trace_bin *bins;
	size_t n, cap;
};

void trace_init(struct trace *t, uint64_t t0_ns, uint64_t bin_ns);
void trace_fini(struct trace *t);

/* The bin of now_ns, which does not go back; NULL when off or without memory. */
struct trace_bin *trace_at(struct trace *t, uint64_t now_ns);

/*
 * Merge bins until they are of at least bin_ns; sums, maxima, and the newest of what is a state.
 * The result replaces the bins.
 */
void trace_merge(struct trace *t, uint64_t bin_ns);

/* One line a bin, with a header line; rates in Gbit/s. */
void trace_csv(const struct trace *t, FILE *out);
