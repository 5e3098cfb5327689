/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * How large pools and how much WAN two sites need that share what either prefills (the sizing
 * question of Mooncake RFC #2117). Tokens that are found cost nothing; every new one makes
 * block_bytes / block_tokens, at one of the sites, and crosses to the other.
 *
 *   new      tokens_per_s * (1 - reuse) * block_bytes / block_tokens   [bytes/s]
 *   WAN out  what a site prefills of it and the other shall have / efficiency
 *   pool     comes in a second * (eviction period + reuse span)        (Little's law)
 *
 * The eviction period is how long a block shall lie unused before it goes, the reuse span the mean
 * time from a block's coming to its last use: a block stays for their sum. reuse is that of this
 * eviction period; strait-replay prfaas --keep measures both on a trace. Pure, any thread.
 */

enum sizing_side { SIZING_DECODE, SIZING_PREFILL, SIZING_SIDES };

struct sizing {
	double tokens_per_s; /* input, found or not */
	double block_tokens, block_bytes;
	double reuse;  /* share of tokens found at the decode site */
	double remote; /* share of new tokens prefilled at the prefill site */
	double back;   /* share of what the decode site prefills that goes back */
	double evict_s[SIZING_SIDES], span_s[SIZING_SIDES];
	double line_bps;   /* 0: no share is told */
	double efficiency; /* of the WAN: bytes of objects by bytes on the wire */
	double peak;       /* the busiest seconds by the mean, 1 or more */
};

struct sizing_side_result {
	double in_bytes_per_s; /* that the pool takes in */
	double pool_bytes;
	double wan_bps;   /* out of the site, on the wire, mean */
	double cap_bps;   /* that carries the peak */
	double cap_share; /* of the line; above 1 it does not fit */
};

/** Typical ones: no reuse span, all goes back, 0.917 of the wire, no peak. */
void sizing_init(struct sizing *s);
/** 0, or -EINVAL with one sentence in err. */
int sizing_plan(const struct sizing *s, struct sizing_side_result out[static SIZING_SIDES],
	char *err, size_t err_len);
