/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the scenario tests share: a small world (100 Mbit/s, 20 ms: a BDP of 162 packets), and an
 * end that explains itself. The first include of a test program.
 */

#include "tools/sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS       1000000ULL
#define S        1000000000ULL
#define KIB      1024ULL
#define MIB      (1024ULL * 1024)
#define SYMBOL   STRAIT_SYMBOL_BYTES_IPV4
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static inline struct world_config small_config(uint64_t seed)
{
	struct world_config cfg;

	world_config_defaults(&cfg);
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 100000000;
		cfg.link[side].rtt_ns = 20 * MS;
	}
	cfg.cap_bps = 100000000;
	cfg.seed = seed;
	return cfg;
}

static inline struct world *world_open(const struct world_config *cfg, const struct world_hooks *h)
{
	struct world *w = world_create(cfg, h);

	assert_non_null(w);
	return w;
}

static inline void order(struct world *w, uint32_t objects, uint64_t length)
{
	uint32_t first = world_add_objects(w, objects, length);

	assert_int_not_equal(first, UINT32_MAX);
	assert_true(world_order(w, first, objects, STRAIT_CLASS_NORMAL) >= 0);
}

/* Run to the end; everything must be as its objects ask for. */
static inline void finish_open(struct world *w, uint64_t limit_ns)
{
	world_run(w, limit_ns);
	if (world_settle(w) < 0)
		fail_msg("seed %llu: %s", (unsigned long long)w->cfg.seed, w->error);
}

static inline void finish(struct world *w, uint64_t limit_ns)
{
	finish_open(w, limit_ns);
	world_destroy(w);
}

/* One object of some size over this link, to the end. */
static inline void ship(const struct world_config *cfg, const struct world_hooks *h,
	uint64_t length, uint64_t limit_ns)
{
	struct world *w = world_open(cfg, h);

	order(w, 1, length);
	finish(w, limit_ns);
}

static inline unsigned int packet_type(const uint8_t *packet)
{
	return packet[STRAIT_OFF_VERSION_TYPE] & 15;
}

static inline uint32_t packet_u32(const uint8_t *packet, size_t offset)
{
	return (uint32_t)packet[offset] << 24 | (uint32_t)packet[offset + 1] << 16 |
		(uint32_t)packet[offset + 2] << 8 | packet[offset + 3];
}
