/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/gate.h"

static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void gate_init(struct gate *g, uint32_t permits, uint64_t unit_ns, uint64_t seed)
{
	*g = (struct gate){ .permits = permits,
		.unit_ns = unit_ns > 0 ? unit_ns : 1,
		.random = seed };
}

uint64_t gate_enter(struct gate *g)
{
	uint64_t span;

	if (g->taken < g->permits) {
		g->taken++;
		g->waiting = 0;
		return 0;
	}
	if (g->waiting < 1000)
		g->waiting++;
	/* The n-th in line comes when n / permits snapshots were taken, give or take one. */
	span = g->unit_ns * (1 + g->waiting / (g->permits > 0 ? g->permits : 1));
	return g->unit_ns / 2 + draw(&g->random) % span + 1;
}

void gate_leave(struct gate *g)
{
	if (g->taken > 0)
		g->taken--;
}

void backoff_init(struct backoff *b, uint64_t least_ns, uint64_t most_ns, uint64_t seed)
{
	*b = (struct backoff){ least_ns, most_ns, least_ns, seed };
}

uint64_t backoff_next(struct backoff *b)
{
	uint64_t step = b->now_ns, half = step / 2;

	b->now_ns = step > b->most_ns / 2 ? b->most_ns : step * 2;
	return half + draw(&b->random) % (step - half + 1);
}

void backoff_reset(struct backoff *b)
{
	b->now_ns = b->least_ns;
}
