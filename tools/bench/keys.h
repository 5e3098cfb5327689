/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"
#include "tools/bench/options.h"
#include "tools/bench/result.h"

#include <stdbool.h>

/*
 * Benchmarks of the control plane: existence (exist), events into the index (index) and events
 * through the planner (diff). Keys are numbered; the digest of each follows from its number.
 */

static inline uint64_t keys_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline struct digest128 keys_digest(uint64_t n)
{
	return (struct digest128){ keys_mix(2 * n), keys_mix(2 * n + 1) };
}

/** Resident bytes of this process. */
uint64_t keys_resident(void);
/** Some of memory's cache lines, loaded 64 at a time: millions a second at most. */
double keys_line_ceiling(const uint8_t *region, size_t len, double seconds);

/** 0 or -errno. */
int exist_run(const struct bench_options *o, int cpu, struct result *r);
struct index;
/** The part of exist_run() that goes over the socket; adds keys to the index. */
int exist_socket_run(const struct bench_options *o, struct index *x, struct result *r);
int index_run(const struct bench_options *o, int cpu, struct result *r);
int diff_run(const struct bench_options *o, struct result *r);
/** A master under load: control.c. */
int control_load_run(const struct bench_options *o, struct result *r);
