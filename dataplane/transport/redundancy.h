/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * How many repair symbols: smallest m with P[ Binomial(n + m, loss) > m ] <= target, for n needed symbols.
 * The binomial tail is summed exactly in double precision; an n x loss grid is cached on first use per
 * instance, so the packet path looks values up. Results are capped at 255 - n.
 */
enum { REDUNDANCY_LOSS_STEPS = 64 };

struct redundancy {
	double target;
	uint8_t rows[REDUNDANCY_LOSS_STEPS][129]; /* [loss step][n] */
};

/** Fills the table (some ms). target in (0, 1). 0 or -EINVAL. */
int redundancy_init(struct redundancy *r, double target);

/** Rows for n needed symbols (1..128) at this loss probability (0..0.5; higher counts as 0.5). 0 when loss is 0. */
uint32_t redundancy_rows(const struct redundancy *r, uint32_t n, double loss);

/** The function behind the table. */
uint32_t redundancy_compute(uint32_t n, double loss, double target);
