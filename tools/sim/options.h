/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command line of strait-sim. Link options (tools/link/link_options.h) describe both directions;
 * with --fb- instead of -- the feedback direction alone, which otherwise is like the data
 * direction.
 */

#include "tools/sim/plan.h"

struct sim_options {
	struct plan plan; /* of every seed, unless random */
	bool random;
	const char *csv, *plot; /* file names; the first seed's trace */
	bool json;
	bool help;
	bool counters;
	bool light; /* of random plans too */
	bool describe;
	uint64_t seed, seeds;
	uint32_t jobs; /* 0: one a CPU */
};

/* 0; -EINVAL with one line for the user in errbuf. */
int sim_options_parse(struct sim_options *o, int argc, char **argv, char *errbuf, size_t errlen);
void sim_options_help(void);

/* The plan of one seed. */
void sim_options_plan(const struct sim_options *o, uint64_t seed, struct plan *p);
