/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/trace.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Prefill as a service (arXiv 2604.15039) in virtual time: requests of a trace arrive at a decode
 * site that can prefill a little itself; those with more uncached tokens than a threshold are
 * prefilled at another site, and their KV blocks cross a WAN.
 *
 *   sites  FIFO prefill on a number of instances of one speed; a pool of blocks, least recently
 *          used first to go (of one request the end of the prefix before its beginning)
 *   WAN    one unit (512 tokens, the trace's block) after the other at the cap, earliest deadline
 *          first; units become ready while the prefill goes on; half an RTT later they are there.
 *          A fluid model: `efficiency` is what strait-sim measured of the transport, headers
 *          included
 *   needed the end of the prefill plus the deadline. A request that has not all of its blocks
 *          then is a miss: what it has not got is not sent any more, and the decode site
 *          prefills it itself
 *
 * What a unit's tail of less than 512 tokens holds is sent for the request, but not kept. Time is
 * the trace's, in ns; no randomness. One thread.
 */

enum prfaas_mode {
	PRFAAS_STRAIT, /* shipped in one stream, kept; what the decode site made goes back, too */
	PRFAAS_NONE,   /* shipped the same way, but for this request alone: each cache for itself */
	PRFAAS_SERIAL, /* as strait, but key by key, each waiting for the last one */
	PRFAAS_LOCAL,  /* no prefill site at all */
	PRFAAS_MODES,
};

enum { PRFAAS_UNIT_TOKENS = REPLAY_TRACE_BLOCK_TOKENS };

struct prfaas_site_config {
	uint32_t instances;
	double tokens_per_s; /* of one instance */
	uint64_t pool_bytes;
};

struct prfaas_config {
	enum prfaas_mode mode;
	uint32_t block_tokens; /* of an object; divides 512 */
	uint64_t block_bytes;  /* of all ranks of a block */
	uint32_t ranks;        /* objects a block */
	uint64_t threshold_tokens;
	uint64_t cap_bps; /* each direction, on the wire */
	double efficiency;
	uint64_t rtt_ns, deadline_ns;
	uint32_t serial_rtts; /* round trips a key of PRFAAS_SERIAL */
	uint64_t keep_ns;     /* drop what was unused so long, whatever the pools' size; 0: no */
	struct prfaas_site_config prefill, decode;
};

struct prfaas_site_result {
	double hit_rate; /* of whole units asked for at the beginning of a prefill, by prefix */
	double new_bytes_per_s;
	double eviction_age_s; /* mean time unused of what was dropped; 0: nothing was */
	double reuse_span_s;   /* mean time from a unit's coming to its last use */
	double mean_bytes;     /* held, over time */
	uint64_t evictions;
};

struct prfaas_result {
	uint64_t requests, remote, misses;
	double seconds;       /* first arrival to the last first token */
	double tokens_per_s;  /* input, whole units */
	double hit_rate;      /* of these, in the decode site's pool at arrival */
	double reuse;         /* share of these that needed not come to the pool anew */
	double remote_share;  /* of new tokens: prefilled at the prefill site */
	double there_rate;    /* of units shipped for a request: there before needed */
	double wan_gbps[2];   /* mean on the wire; 0: to the decode site, 1: back */
	double wan_peak_gbps; /* to the decode site, best 10 s */
	double wait_s[3];     /* from the end of a remote prefill to all there: p50, p90, p99 */
	double ttft_s[4];     /* mean, p50, p90, p99 */
	struct prfaas_site_result prefill, decode;
};

struct prfaas;

/**
 * The paper's link share and threshold (13 % of 100 Gbit/s; 19,400 tokens) and KV of its hybrid
 * model: an instance makes 3.19 Gbit/s. What is not told is assumed: 4 such instances of 10,000
 * tokens/s, and at the decode site 8 of 2,500.
 */
void prfaas_config_default(struct prfaas_config *cfg);
/** NULL + errno. */
struct prfaas *prfaas_create(const struct prfaas_config *cfg);
void prfaas_destroy(struct prfaas *p);
/** The next request, not earlier than the last one. 0, -EINVAL (earlier) or -ENOMEM. */
int prfaas_request(struct prfaas *p, const struct replay_request *req);
/** Let all finish. 0 or -ENOMEM. */
int prfaas_finish(struct prfaas *p, struct prfaas_result *out);

const char *prfaas_mode_name(enum prfaas_mode mode);
