/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The trace of a finished run as CSV and as a picture, where the plan asks for them. */

#include "tools/sim/run.h"

/* Merges the bins of the world's trace. */
void draw_trace(struct world *w, const struct plan *p, const struct sim_result *r);
