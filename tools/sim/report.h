/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output of strait-sim: JSON lines or a table, and the summary over all seeds. Numbers have a
 * fixed number of decimals, so the same runs print the same bytes. main's thread only.
 */

#include "tools/sim/run.h"

#include <stdio.h>

struct sim_report {
	FILE *out;
	bool json;
	bool counters;
	struct sim_result *results; /* all seeds, for the summary */
	uint64_t n, ok;
};

/* Call for each result in seed order; results must be those of r->results in order. */
void sim_report_result(struct sim_report *r, const struct sim_result *s);
void sim_report_summary(struct sim_report *r);
