/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * Which packet numbers of one queue were received: the anti-replay window (RFC 6479) and the
 * source of ack ranges in one.
 *
 * A bitmap of `size` packet numbers (power of two) for each of three neighbouring key generations,
 * because a re-key jumps to the start of the next generation and must not push the last round
 * trip's numbers out of the window. Owned by one worker.
 */
struct pnwindow {
	uint64_t *bits;  /* 3 x size bits */
	uint32_t size;   /* packet numbers held a generation, power of two, >= 64 */
	uint64_t newest; /* highest packet number marked */
	bool any;        /* something was marked */
	struct pnwindow_generation {
		uint64_t generation;
		uint64_t newest; /* highest of this generation */
		bool used;
	} gen[3]; /* index generation % 3 */
};

/** 0, -EINVAL, -ENOMEM. */
int pnwindow_init(struct pnwindow *w, uint32_t size);
void pnwindow_fini(struct pnwindow *w);

/**
 * Could this number be new? false: seen before or too old. Call before authentication only as a
 * hint.
 */
bool pnwindow_is_new(const struct pnwindow *w, uint64_t pn);

/** Record an authentic packet. false when it was seen before or is older than the window. */
bool pnwindow_mark_any(struct pnwindow *w, uint64_t pn);

/** The same; in line for the one that follows the newest, as nearly all do. */
static inline bool pnwindow_mark(struct pnwindow *w, uint64_t pn)
{
	uint32_t plane = (pn >> STRAIT_GENERATION_SHIFT) % 3;

	if (!w->any || pn != w->newest + 1 || pn % (1U << STRAIT_GENERATION_SHIFT) == 0)
		return pnwindow_mark_any(w, pn);
	/* Its bit was that of a number that falls out of the window now. */
	w->bits[(size_t)plane * (w->size / 64) + (pn & (w->size - 1)) / 64] |= UINT64_C(1)
		<< (pn % 64);
	w->gen[plane].newest = w->newest = pn;
	return true;
}

/**
 * Walk received ranges downward from `from` (inclusive). Gives the highest range [*low, *high] with
 * *high <= from, clipped at `floor` and at what the window still holds. Crosses generations. false:
 * none left.
 */
bool pnwindow_range_below(const struct pnwindow *w, uint64_t from, uint64_t floor, uint64_t *low,
	uint64_t *high);
