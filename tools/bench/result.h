/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/bench/options.h"

#include <stdio.h>

/*
 * Named figures of a benchmark, each with a value a run; printed as one JSON object of medians or
 * as a table of least, median and most.
 */

enum { RESULT_FIGURES = 40, RESULT_NAME_BYTES = 40 };

struct result {
	uint32_t n;
	struct figure {
		char name[RESULT_NAME_BYTES];
		uint32_t n;
		double values[BENCH_RUNS_MAX];
	} figures[RESULT_FIGURES];
};

/** One more value of this figure; the name is copied. Ignored when the table is full. */
void result_add(struct result *r, const char *name, double value);
/** 0 where there is none. */
double result_median(const struct result *r, const char *name);
void result_print(const struct result *r, const struct bench_options *o, int cpu, FILE *to);

/** Median of n values, which are put in order. */
double result_middle(double *v, uint32_t n);
/** Distance of the quartiles as a share of the median. */
double result_spread(double *v, uint32_t n);
