/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A pool of units of one size, by number, of which the least recently used goes first; it keeps
 * account of how long what went had been there and unused. Time is an argument and never goes
 * back. One thread.
 */

struct lru_node;

struct lru {
	struct lru_node **slots;
	uint32_t bits;
	struct lru_node *newest, *oldest;
	uint64_t count, max;
	uint64_t keep_ns; /* 0: only when full */
	uint64_t inserted, evicted;
	double age_sum_s, span_sum_s; /* of evicted */
	double held_sum;              /* units times seconds */
	uint64_t held_ns;             /* up to when */
};

/** 0 or -ENOMEM. max: units, 0 for one that keeps none. */
int lru_init(struct lru *l, uint64_t max, uint64_t keep_ns);
void lru_fini(struct lru *l);
/** It is there; it was used now. */
bool lru_use(struct lru *l, uint64_t id, uint64_t now_ns);
bool lru_has(const struct lru *l, uint64_t id);
/** As lru_use() if it is there. 0 or -ENOMEM. */
int lru_add(struct lru *l, uint64_t id, uint64_t now_ns);
/** Drop what keep_ns says; account up to now. */
void lru_tick(struct lru *l, uint64_t now_ns);
