/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/bursts.h"

enum {
	KNOWN = 32,   /* lost packets after which something can be said */
	WINDOW = 256, /* lost packets after which older ones weigh half */
	PART = 64,    /* packets, half a block */
	HOLD = 2000,  /* lost packets for which 128 that lost too many count */
	/*
	 * 128 packets of independent losses have more than the rows for them in one case of 10,000,
	 * and two more than that in one of a million.
	 */
	MARGIN = 2,
};

/* Of what independent losses make. The mean of 256 at 5 % lies within a tenth of theirs. */
#define TIMES 1.5

static void run_count(struct bursts *b, uint32_t at)
{
	b->run = b->lost > 0 && at == b->last + 1 ? b->run + 1 : 1;
	/* A run of n weighs n * n: one more makes it 2 n - 1 heavier. */
	b->weight += 2 * (double)b->run - 1;
	b->lost++;
	if (b->lost > WINDOW) {
		b->lost /= 2;
		b->weight /= 2;
	}
}

static void block_count(struct bursts *b, uint32_t at, uint32_t most)
{
	uint32_t parts = at / PART - b->last / PART;

	if (parts > 0) {
		b->before = parts == 1 ? b->here : 0;
		b->here = 0;
	}
	b->here++;
	if (b->hold > 0)
		b->hold--;
	if (b->here + b->before > most + MARGIN)
		b->hold = HOLD;
}

void bursts_lost(struct bursts *b, uint32_t at, uint32_t most)
{
	run_count(b, at);
	block_count(b, at, most);
	b->last = at;
}

bool bursts_are_none(const struct bursts *b, double p)
{
	return b->lost >= KNOWN && b->hold == 0 && b->weight * (1 - p) <= TIMES * (1 + p) * b->lost;
}
