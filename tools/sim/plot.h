/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A trace as one SVG picture: rates, bottleneck queue, outstanding data and loss over time, one
 * panel each over a common time axis. Self-contained, no scripts; text in the viewer's sans serif.
 * Pure but for the FILE it writes to.
 */

#include "tools/sim/trace.h"

#include <stdint.h>
#include <stdio.h>

enum { PLOT_SPANS_MAX = 96 };

struct plot {
	const struct trace *trace; /* every bin is a point: some hundreds are enough */
	const char *title, *subtitle;
	double rate_gbps, queue_limit_bytes, bdp_bytes; /* reference lines; 0: none */
	uint32_t nspans;
	struct plot_span { /* shaded */
		double from_s, to_s;
		const char *label; /* "cut", "cubic" */
	} spans[PLOT_SPANS_MAX];
};

void plot_svg(const struct plot *p, FILE *out);
