/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/redundancy.h"

#include <strait/wire.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#define LOSS_MAX 0.5

enum { STEPS_PER_OCTAVE = 16 };

#define LEVEL_FIRST 2.5e-3
#define LEVEL_SHARE 0.1 /* of all tails, the most that may fail */

/*
 * P[ Binomial(packets, loss) > losses ]: the upper tail itself, so tiny results keep their
 * precision.
 */
static double binomial_tail(uint32_t packets, uint32_t losses, double loss)
{
	const double odds = loss / (1 - loss);
	double term = pow(1 - loss, packets), sum = 0;

	for (uint32_t i = 0; i <= packets; i++) {
		if (i > losses) {
			sum += term;
			if (term < sum * 1e-17)
				break;
		}
		term *= odds * (packets - i) / (i + 1);
	}
	return sum;
}

/*
 * The search may start at a known lower bound: but for the cap the answer never falls when n grows.
 */
static uint32_t rows_from(uint32_t m, uint32_t n, double loss, double target)
{
	const uint32_t cap = STRAIT_ESI_COUNT - n;

	while (m < cap && binomial_tail(n + m, m, loss) > target)
		m++;
	return m < cap ? m : cap;
}

uint32_t redundancy_compute(uint32_t n, double loss, double target)
{
	if (n == 0 || n >= STRAIT_ESI_COUNT || !(loss > 0))
		return 0;
	return rows_from(0, n, loss > LOSS_MAX ? LOSS_MAX : loss, target);
}

static double step_loss(int step)
{
	return LOSS_MAX * exp2(-(double)step / STEPS_PER_OCTAVE);
}

/* The first table made: it takes 2.4 ms, and every session's is the same. */
static struct redundancy first;
enum { NOT_MADE, MAKING, MADE };
static int made;

int redundancy_init(struct redundancy *r, double target)
{
	int expected = NOT_MADE;

	if (!(target > 0 && target < 1))
		return -EINVAL;
	if (__atomic_load_n(&made, __ATOMIC_ACQUIRE) == MADE && first.target == target) {
		*r = first;
		return 0;
	}
	r->target = target;
	memset(r->rows, 0, sizeof(r->rows));
	for (int step = REDUNDANCY_LOSS_STEPS - 1; step >= 0; step--) {
		uint32_t m = 0;

		for (uint32_t n = 1; n <= STRAIT_BLOCK_SYMBOLS_MAX; n++) {
			m = rows_from(m, n, step_loss(step), target);
			r->rows[step][n] = (uint8_t)m;
		}
	}
	if (__atomic_compare_exchange_n(&made, &expected, MAKING, 0, __ATOMIC_ACQUIRE,
		    __ATOMIC_RELAXED)) {
		first = *r;
		__atomic_store_n(&made, MADE, __ATOMIC_RELEASE);
	}
	return 0;
}

uint32_t redundancy_rows(const struct redundancy *r, uint32_t n, double loss)
{
	int step;

	if (n == 0 || n > STRAIT_BLOCK_SYMBOLS_MAX || !(loss > 0))
		return 0;
	if (loss >= LOSS_MAX)
		return r->rows[0][n];
	if (loss <= step_loss(REDUNDANCY_LOSS_STEPS - 1))
		return r->rows[REDUNDANCY_LOSS_STEPS - 1][n];
	/*
	 * Rounded down to the greater loss; a loss on a step, but for rounding, counts as that
	 * step.
	 */
	step = (int)(-STEPS_PER_OCTAVE * log2(loss / LOSS_MAX) + 1e-9);
	return r->rows[step][n];
}

static struct redundancy levels[REDUNDANCY_LEVELS];

static void levels_init(void)
{
	double target = LEVEL_FIRST;

	for (int i = 0; i < REDUNDANCY_LEVELS; i++, target /= 5)
		redundancy_init(&levels[i], target);
}

const struct redundancy *redundancy_levels(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, levels_init);
	return levels;
}

unsigned int redundancy_level_of(uint64_t blocks)
{
	double target = LEVEL_FIRST;
	unsigned int level = 0;

	while (level + 1 < REDUNDANCY_LEVELS && (double)blocks * target > LEVEL_SHARE) {
		target /= 5;
		level++;
	}
	return level;
}
