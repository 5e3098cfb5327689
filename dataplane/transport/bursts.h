/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Do losses come singly, or so close to each other that blocks must be interleaved?
 *
 * A block of 128 symbols is repaired by its rows when it loses a few. Where losses are independent
 * it loses as many whether its symbols follow each other or are spread over time; what comes in
 * bursts must be spread. Two signs of bursts, each of which the other does not see:
 *
 * - The length of the run of consecutive lost packets that a lost packet belongs to: the mean over
 *   lost packets, not over runs. With independent losses at rate p it is (1 + p) / (1 - p).
 * - 128 packets in a row that lost more than the rows of a block would repair, as in one rare long
 *   burst among single losses, or while a path loses every tenth packet for some ms. That counts
 *   until 2,000 more were lost.
 *
 * What is not known counts as bursts.
 */
struct bursts {
	double lost;   /* packets, decaying */
	double weight; /* sum over them of the length of the run they belong to */
	uint32_t last, run;
	uint32_t here, before; /* lost of the present 64 packets and of those just before */
	uint32_t hold;         /* lost packets until 128 that lost too many are forgotten */
};

/**
 * A packet was lost, `at` its place in the order of sending, which rises but for a new beginning
 * now and then. The rows of a block of 128 repair `most`.
 */
void bursts_lost(struct bursts *b, uint32_t at, uint32_t most);

/** At a loss of p, what is lost is lost singly. False until enough was lost to tell. */
bool bursts_are_none(const struct bursts *b, double p);
