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
struct existence;
/* Keys as clients have them: 16 bytes each. */
enum { KEYS_BYTES = 16 };
static inline void keys_key(uint64_t n, uint8_t out[static KEYS_BYTES])
{
	struct digest128 d = keys_digest(n);

	__builtin_memcpy(out, &d, sizeof(d));
}
/**
 * The part of exist_run() that a client has through libstrait: in memory with all the keys
 * (keys_key(), digests by that secret), and over the socket; adds keys to the index.
 */
int exist_client_run(const struct bench_options *o, struct existence *e,
	const struct digest_key *secret, struct result *r);
int index_run(const struct bench_options *o, int cpu, struct result *r);
int diff_run(const struct bench_options *o, struct result *r);
/** A master under load: control.c. */
int control_load_run(const struct bench_options *o, struct result *r);
