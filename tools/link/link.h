/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Model of one direction of a WAN link. strait-sim runs it in virtual time, strait-wan on the
 * wall clock; both give the time as an argument, so the model has no clock, does no I/O and
 * allocates nothing. The caller keeps the packets; the model only says when (and whether) each
 * arrives. A struct link belongs to one thread. The same configuration, seed and sequence of
 * link_send() calls give the same verdicts bit for bit.
 *
 * A packet meets, in this order:
 *   1. the bottleneck queue: bounded in bytes, tail drop (lost_queue). The bytes still to be
 *      serialized are the queue; an idle link takes any packet;
 *   2. serialization at rate_bps of max(frame, 60) + 24 bytes (preamble 8, FCS 4, gap 12). The
 *      remainder of the division is carried, so the rate is exact;
 *   3. a cut in force when its last bit leaves the queue (lost_cut). What left before the cut
 *      still arrives;
 *   4. burst loss: two-state Gilbert-Elliott chain, the bad state loses everything, the good
 *      state nothing (lost_burst). Bursts last in time, as those of a line do: one step is what a
 *      packet of LINK_GE_BYTES takes at rate_bps, so that a full line loses ge_burst packets on
 *      average, and a sparse one, such as that of the feedback, what falls into the same time. A
 *      link without rate makes a step a packet;
 *   5. independent loss (lost_random);
 *   6. the path MTU in force then: larger packets vanish without a word (lost_mtu);
 *   7. the one-way delay (rtt / 2) in force when it leaves the queue, reordering (extra delay for
 *      some), duplication, corruption.
 * All loss but lost_queue therefore happens after the queue and has cost link capacity, as on a
 * real line: that is where errors and drops further down the path are.
 *
 * A delay step to a smaller RTT makes later packets overtake earlier ones, as a path change does.
 *
 * Units: _ns nanoseconds, _bps bits a second, bytes. AT_MS of cuts and steps counts from start_ns.
 * Bounds: time below 2^63 ns; LINK_CUTS_MAX cuts, LINK_STEPS_MAX steps; at most two arrivals a
 * packet.
 */

#include "tools/link/prng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LINK_OVERHEAD_BYTES = 24,
	LINK_ETHERNET_BYTES = 14,
	LINK_GE_BYTES = 1538, /* a packet of MTU 1500 on the line */
	LINK_FRAME_MIN = 60,
	LINK_CUTS_MAX = 64,
	LINK_STEPS_MAX = 256,
	LINK_MTUS_MAX = 16,
	LINK_ARRIVALS_MAX = 2,
	LINK_FLIPS_MAX = 16,
	LINK_RND_STREAMS = 5,
};

struct link_cut {
	uint64_t at_ns;
	uint64_t len_ns;
};

struct link_step {
	uint64_t at_ns;
	uint64_t rtt_ns;
};

/* The largest IP packet that passes, Ethernet header not counted, from some time on. */
struct link_mtu {
	uint64_t at_ns;
	uint32_t bytes;
};

struct link_config {
	uint64_t rate_bps;     /* 0: infinitely fast, no queue */
	uint64_t rtt_ns;       /* each direction delays by half of it */
	double queue_bdp;      /* queue as a multiple of rate x rtt; used when queue_bytes is 0 */
	uint64_t queue_bytes;  /* 0: use queue_bdp */
	double loss;           /* independent loss probability */
	double ge_loss;        /* mean loss of the burst process, 0 = off */
	double ge_burst;       /* mean burst length in full packets of a full line, >= 1 */
	double reorder;        /* probability of an extra delay */
	uint64_t reorder_ns;   /* extra delay, uniform in 1..reorder_ns */
	double dup;            /* probability of a second copy */
	double corrupt;        /* probability, per arriving copy, of flipped bits */
	uint32_t corrupt_bits; /* 1..corrupt_bits bits are flipped, at most LINK_FLIPS_MAX */
	uint32_t ncuts;
	uint32_t nsteps; /* link_init sorts its copy by at_ns */
	struct link_cut cuts[LINK_CUTS_MAX];
	struct link_step steps[LINK_STEPS_MAX];
	uint32_t nmtus;
	struct link_mtu mtus[LINK_MTUS_MAX]; /* the latest that began counts */
};

struct link_counters {
	uint64_t offered;
	uint64_t delivered; /* arrivals, copies included */
	uint64_t lost_random;
	uint64_t lost_burst;
	uint64_t lost_queue;
	uint64_t lost_cut;
	uint64_t lost_mtu;  /* larger than the path carries */
	uint64_t reordered; /* given an extra delay */
	uint64_t duplicated;
	uint64_t corrupted;
	uint64_t offered_bytes; /* on the wire, with overhead */
	uint64_t carried_bytes; /* serialized: offered without lost_queue */
	uint64_t delivered_bytes;
	uint64_t queue_high_bytes;
};

/* One arrival of a packet at the far end. */
struct link_arrival {
	uint64_t at_ns;
	uint64_t corrupt_seed; /* 0: intact, else give it to link_corrupt() */
	bool late;             /* got the extra delay of reordering */
	bool copy;             /* the duplicate */
};

struct link_verdict {
	unsigned int n;     /* arrivals: 0 lost, 1, or 2 when duplicated */
	uint64_t depart_ns; /* its last bit left the queue; 0 when the queue dropped it */
	struct link_arrival a[LINK_ARRIVALS_MAX];
};

struct link {
	struct link_config cfg;
	struct link_counters c;
	uint64_t start_ns;
	uint64_t queue_ns; /* the queue's bound as time to serialize it */
	uint64_t queue_high_ns;
	uint64_t busy_until_ns;
	uint64_t busy_frac; /* part of a ns beyond busy_until_ns, in 1/rate_bps */
	uint32_t step;      /* steps already in force */
	uint64_t owd_ns;
	bool ge_bad;
	double ge_enter;
	double ge_leave;
	uint64_t ge_at_ns; /* the chain stands where it was at this departure */
	double ge_step_ns; /* 0: a step a packet */
	struct prng rnd[LINK_RND_STREAMS];
};

/* What the commands use unless told otherwise: 10 Gbit/s, 100 ms, queue of 1 BDP, no loss. */
void link_config_defaults(struct link_config *cfg);

/*
 * Prepare one direction. stream tells apart links of the same seed (0 for A to B, 1 for B to A).
 * cfg is copied. Returns 0, or -EINVAL when a probability is outside [0, 1], ge_burst is below
 * what ge_loss allows, or a list is too long.
 */
int link_init(struct link *l, const struct link_config *cfg, uint64_t seed, uint64_t stream,
	uint64_t start_ns);

/*
 * Send a frame of frame_bytes (Ethernet header to payload, without FCS) at now_ns, which must not
 * go backwards. Fills *v and returns v->n: the number of arrivals, 0 when the packet is lost.
 * a[0] is the original; a[1] the copy, which may be due before a late original.
 */
int link_send(struct link *l, uint64_t now_ns, uint32_t frame_bytes, struct link_verdict *v);

/*
 * A frame of other traffic that shares only the bottleneck: it waits in the queue and takes its
 * time on the line as one of link_send() does, then goes its own way. It draws no random number, so
 * the packets of link_send() meet the same losses with and without it, and moves no counter.
 * Returns false when it finds the queue full, else *depart_ns is when its last bit left.
 */
bool link_share(struct link *l, uint64_t now_ns, uint32_t frame_bytes, uint64_t *depart_ns);

/* Bytes waiting to be serialized at now_ns. */
uint64_t link_backlog_bytes(const struct link *l, uint64_t now_ns);

/*
 * Flip 1..max_bits distinct bits of frame[first..len), chosen by seed (link_arrival.corrupt_seed).
 * Bytes before first are left alone: give the end of the UDP header to keep the packet routable.
 * Returns the number of bits flipped; 0 when there is no byte to touch.
 */
unsigned int link_corrupt(uint64_t seed, uint32_t max_bits, uint8_t *frame, size_t len,
	size_t first);

/* The queue's size in bytes after queue_bdp is applied. */
uint64_t link_config_queue_bytes(const struct link_config *cfg);

/* Longest time a packet can spend in the model: full queue, largest delay, reordering. */
uint64_t link_config_max_delay_ns(const struct link_config *cfg);

/* Mean loss of the independent and the burst process together. */
double link_config_mean_loss(const struct link_config *cfg);
