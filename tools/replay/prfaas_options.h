/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/options.h"

/* The options of `strait-replay prfaas` alone. Pure, one thread. */

enum prfaas_option {
	PRFAAS_OPT_MODE,
	PRFAAS_OPT_THRESHOLD,
	PRFAAS_OPT_CAP,
	PRFAAS_OPT_EFFICIENCY,
	PRFAAS_OPT_RTT,
	PRFAAS_OPT_DEADLINE,
	PRFAAS_OPT_SERIAL_RTTS,
	PRFAAS_OPT_KEEP,
	PRFAAS_OPT_SPEED,
	PRFAAS_OPT_TO_POOL,
	PRFAAS_OPT_PREFILL_INSTANCES,
	PRFAAS_OPT_PREFILL_RATE,
	PRFAAS_OPT_PREFILL_POOL,
	PRFAAS_OPT_DECODE_INSTANCES,
	PRFAAS_OPT_DECODE_RATE,
	PRFAAS_OPT_DECODE_POOL,
};

#define PRFAAS_OPTION(first, name, n)                                                              \
	{                                                                                          \
		name, required_argument, NULL, (first) + PRFAAS_OPT_##n                            \
	}
/** Their part of getopt_long()'s table. */
#define PRFAAS_OPTIONS_LONG(first)                                                                 \
	PRFAAS_OPTION(first, "mode", MODE), PRFAAS_OPTION(first, "threshold", THRESHOLD),          \
		PRFAAS_OPTION(first, "cap", CAP), PRFAAS_OPTION(first, "efficiency", EFFICIENCY),  \
		PRFAAS_OPTION(first, "rtt", RTT), PRFAAS_OPTION(first, "deadline", DEADLINE),      \
		PRFAAS_OPTION(first, "serial-rtts", SERIAL_RTTS),                                  \
		PRFAAS_OPTION(first, "keep", KEEP), PRFAAS_OPTION(first, "speed", SPEED),          \
		PRFAAS_OPTION(first, "to-pool", TO_POOL),                                          \
		PRFAAS_OPTION(first, "prefill-instances", PREFILL_INSTANCES),                      \
		PRFAAS_OPTION(first, "prefill-rate", PREFILL_RATE),                                \
		PRFAAS_OPTION(first, "prefill-pool", PREFILL_POOL),                                \
		PRFAAS_OPTION(first, "decode-instances", DECODE_INSTANCES),                        \
		PRFAAS_OPTION(first, "decode-rate", DECODE_RATE),                                  \
		PRFAAS_OPTION(first, "decode-pool", DECODE_POOL)

#define PRFAAS_OPTIONS_USAGE                                                                       \
	"  --mode MODE          strait, none (each cache for itself), serial (key by key),\n"      \
	"                       local (no prefill site) or all (default)\n"                        \
	"  --threshold TOKENS   more uncached ones go to the prefill site (19400)\n"               \
	"  --cap RATE           of the WAN, each direction (13G: 13 % of 100G)\n"                  \
	"  --efficiency F       of it for objects (0.917: headers, and 0.985 of the rest)\n"       \
	"  --rtt TIME           of the WAN (30ms)\n"                                               \
	"  --deadline TIME      after a remote prefill's end all is to be there (1s)\n"            \
	"  --serial-rtts N      round trips a key, copied serially (2)\n"                          \
	"  --keep TIME          pools drop what was unused for TIME, and have room for all\n"      \
	"  --speed F            requests come F times as fast (1)\n"                               \
	"  --pool FILE --to-pool FILE  live, by the clock: pools of the prefill site and of the\n" \
	"                       decode site, between which something replicates; serial\n"         \
	"                       copies by itself, and nothing is to replicate\n"                   \
	"  --prefill-instances N, --prefill-rate TOKENS, --prefill-pool SIZE\n"                    \
	"                       the prefill site: instances, tokens/s of each (4, 10000, 2T)\n"    \
	"  --decode-instances N, --decode-rate TOKENS, --decode-pool SIZE\n"                       \
	"                       prefill at the decode site, its pool (8, 2500, 2T)\n"

/** 0 or -EINVAL with one sentence in err. */
int prfaas_option_parse(struct replay_options *o, int opt, const char *name, const char *arg,
	char *err, size_t err_len);
/** Its own defaults for what other verbs have others for. */
void prfaas_options_settle(struct replay_options *o);
/** Take over what other options say, once all are checked. */
void prfaas_options_take(struct replay_options *o);
