/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/bench/options.h"
#include "tools/bench/result.h"

/*
 * Two edges' packet paths at saturation: two processes joined by memif, each with the appliance's
 * worker, port and buffers on a CPU of its own and a control thread that answers its events. No
 * TLS, no master, no pool file: both know the session's secret, objects lie in memory.
 *
 * gbps is payload of committed objects by the wall clock; core_gbps the same by the CPU time of the
 * busier process, which others on the machine do not touch; cpu_s_per_gb counts both processes. In
 * turn with slices of that the same processes measure their floor (edge_floor.h):
 * cpu_s_per_gb_floor is the sum of copies, seal and open apart, cpu_s_per_gb_bare all of it in one
 * loop, cpu_ratio and cpu_ratio_bare their shares of cpu_s_per_gb, slice by slice.
 */

/** Adds o->runs values of each figure. 0 or -errno: -ETIME the edges stalled. */
int edge_bench_run(const struct bench_options *o, struct result *r);
