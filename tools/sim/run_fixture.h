/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/sim/options.h"
#include "tools/sim/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* For tests: a run of the simulator as a command line after `first` names it. seed 0: its own. */
static inline void run_line(const char *first, const char *line, uint64_t seed,
	struct sim_result *r)
{
	char copy[300], option[16], error[200];
	char *argv[40] = { "strait-sim", option };
	int argc = 2;
	struct sim_options o;
	struct plan p;

	strcpy(option, first);
	strcpy(copy, line);
	for (char *s = strtok(copy, " "); s; s = strtok(NULL, " "))
		argv[argc++] = s;
	assert_int_equal(sim_options_parse(&o, argc, argv, error, sizeof(error)), 0);
	sim_options_plan(&o, seed != 0 ? seed : o.seed, &p);
	sim_run(&p, r);
}
