/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Do losses come singly or in bursts?
 *
 * A block of 128 symbols can be repaired from its rows when it loses a few. Where losses are
 * independent it loses as many whether its symbols follow each other or are spread over time; a
 * burst is what interleaving is for. So the question is how long the run of consecutive lost
 * packets is that a lost packet belongs to: the mean over lost packets, not over runs, since one
 * run of 20 is what breaks a block however many single losses there are beside it. With independent
 * losses at rate p it is (1 + p) / (1 - p). What is not known counts as bursts.
 */
struct bursts {
	double lost;   /* packets, decaying */
	double weight; /* sum over them of the length of the run they belong to */
	uint32_t run;  /* of the last one so far */
};

/** A packet was lost; `follows`: the one sent just before it was too. */
void bursts_lost(struct bursts *b, bool follows);

/** At a loss of p, what is lost is lost singly. False until enough was lost to tell. */
bool bursts_are_none(const struct bursts *b, double p);
