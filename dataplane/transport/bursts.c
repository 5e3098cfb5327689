/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/bursts.h"

enum {
	KNOWN = 32,   /* lost packets after which something can be said */
	WINDOW = 256, /* lost packets after which older ones weigh half */
};

/* Of what independent losses make. The mean of 256 at 5 % lies within a tenth of theirs. */
#define TIMES 1.5

void bursts_lost(struct bursts *b, bool follows)
{
	b->run = follows ? b->run + 1 : 1;
	/* A run of n weighs n * n: one more makes it 2 n - 1 heavier. */
	b->weight += 2 * (double)b->run - 1;
	b->lost++;
	if (b->lost > WINDOW) {
		b->lost /= 2;
		b->weight /= 2;
	}
}

bool bursts_are_none(const struct bursts *b, double p)
{
	return b->lost >= KNOWN && b->weight * (1 - p) <= TIMES * (1 + p) * b->lost;
}
