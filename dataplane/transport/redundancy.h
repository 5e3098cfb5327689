/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * How many repair symbols: smallest m with P[ Binomial(n + m, loss) > m ] <= target, for n needed
 * symbols. The binomial tail is summed exactly in double precision; redundancy_init() fills an n x
 * loss grid, so the packet path looks values up. Grid step i stands for loss 0.5 * 2^(-i / 16); a
 * loss between two steps counts as the greater (at most 4.5 % more). Results are capped at 255 - n.
 * Read-only after init, so workers may share one.
 */
enum { REDUNDANCY_LOSS_STEPS = 256 };

struct redundancy {
	double target;
	uint8_t rows[REDUNDANCY_LOSS_STEPS][129]; /* [loss step][n] */
};

/** Fills the table (some ms). target in (0, 1). 0 or -EINVAL. */
int redundancy_init(struct redundancy *r, double target);

/**
 * Rows for n needed symbols (1..128) at this loss probability (0..0.5; higher counts as 0.5). 0
 * when loss is 0.
 */
uint32_t redundancy_rows(const struct redundancy *r, uint32_t n, double loss);

/*
 * Tables for the targets 2.5e-3, 5e-4, 1e-4, .. each a fifth of the one before, made once in a
 * process by the first caller (some 20 ms) and shared by all.
 */
enum {
	REDUNDANCY_LEVELS = 6,
	REDUNDANCY_LEVEL_LOOSE = 0,
	REDUNDANCY_LEVEL_URGENT = 2,
};
const struct redundancy *redundancy_levels(void);

/** The level at which one of so many blocks fails in at most a tenth of all cases. */
unsigned int redundancy_level_of(uint64_t blocks);

/** The function behind the table. */
uint32_t redundancy_compute(uint32_t n, double loss, double target);
