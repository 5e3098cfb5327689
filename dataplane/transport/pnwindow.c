/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/pnwindow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A generation's numbers fit its bitmap's index at most once, so the window is no longer than that.
 */
#define SIZE_MAX_PNS (1U << STRAIT_GENERATION_SHIFT)

static uint64_t generation_of(uint64_t pn)
{
	return pn >> STRAIT_GENERATION_SHIFT;
}

static uint64_t generation_start(uint64_t generation)
{
	return generation << STRAIT_GENERATION_SHIFT;
}

static uint64_t *word_of(const struct pnwindow *w, uint64_t pn)
{
	size_t plane = (size_t)(generation_of(pn) % 3) * (w->size / 64);

	return &w->bits[plane + (pn & (w->size - 1)) / 64];
}

static bool get_bit(const struct pnwindow *w, uint64_t pn)
{
	return (*word_of(w, pn) >> (pn % 64)) & 1;
}

int pnwindow_init(struct pnwindow *w, uint32_t size)
{
	memset(w, 0, sizeof(*w));
	if (size < 64 || size > SIZE_MAX_PNS || (size & (size - 1)) != 0)
		return -EINVAL;
	w->bits = calloc((size_t)3 * (size / 64), sizeof(w->bits[0]));
	if (w->bits == NULL)
		return -ENOMEM;
	w->size = size;
	return 0;
}

void pnwindow_fini(struct pnwindow *w)
{
	free(w->bits);
	memset(w, 0, sizeof(*w));
}

/* Three generations are held, counted back from the newest packet's. */
static bool is_generation_held(const struct pnwindow *w, uint64_t generation)
{
	uint64_t newest = generation_of(w->newest);

	return !w->any || generation > newest || newest - generation <= 2;
}

/* The generation's state, NULL when nothing of it was received. */
static const struct pnwindow_generation *find(const struct pnwindow *w, uint64_t generation)
{
	const struct pnwindow_generation *g = &w->gen[generation % 3];

	return g->used && g->generation == generation ? g : NULL;
}

bool pnwindow_is_new(const struct pnwindow *w, uint64_t pn)
{
	const struct pnwindow_generation *g = find(w, generation_of(pn));

	if (!is_generation_held(w, generation_of(pn)))
		return false;
	if (g == NULL || pn > g->newest)
		return true;
	return g->newest - pn < w->size && !get_bit(w, pn);
}

static void clear_all(struct pnwindow *w, const struct pnwindow_generation *g)
{
	memset(word_of(w, generation_start(g->generation)), 0, w->size / 8);
}

/*
 * Slide a generation's bitmap up to pn: the numbers skipped were not received. Only their bits are
 * cleared, for the others of the last word belong to the oldest numbers still held.
 */
static void slide(struct pnwindow *w, struct pnwindow_generation *g, uint64_t pn)
{
	uint64_t skipped = pn - g->newest, first = g->newest + 1;

	g->newest = pn;
	if (skipped >= w->size) {
		clear_all(w, g);
		return;
	}
	while (skipped > 0) {
		uint64_t n = 64 - first % 64 < skipped ? 64 - first % 64 : skipped;

		*word_of(w, first) &= ~(~0ULL >> (64 - n) << (first % 64));
		first += n;
		skipped -= n;
	}
}

bool pnwindow_mark_any(struct pnwindow *w, uint64_t pn)
{
	const uint64_t generation = generation_of(pn);
	struct pnwindow_generation *g = &w->gen[generation % 3];

	if (!pnwindow_is_new(w, pn))
		return false;
	if (find(w, generation) == NULL) {
		g->used = true;
		g->generation = generation;
		g->newest = pn;
		clear_all(w, g);
	} else if (pn > g->newest) {
		slide(w, g, pn);
	}
	*word_of(w, pn) |= 1ULL << (pn % 64);
	if (!w->any || pn > w->newest)
		w->newest = pn;
	w->any = true;
	return true;
}

/*
 * Highest pn in [low, from] whose bit is `value`. false: none. All of one generation and of its
 * window.
 */
static bool scan_down(const struct pnwindow *w, uint64_t from, uint64_t low, bool value,
	uint64_t *found)
{
	uint64_t pn = from;

	for (;;) {
		uint64_t word = *word_of(w, pn);
		uint64_t base = pn & ~63ULL;

		if (!value)
			word = ~word;
		word &= ~0ULL >> (63 - pn % 64);
		if (word != 0) {
			*found = base + 63 - (uint64_t)__builtin_clzll(word);
			return *found >= low;
		}
		if (base <= low)
			return false;
		pn = base - 1;
	}
}

/* Lowest number of a generation that the window holds and the caller asks for. */
static uint64_t lowest_of(const struct pnwindow *w, const struct pnwindow_generation *g,
	uint64_t floor)
{
	uint64_t low = generation_start(g->generation);

	if (g->newest - low >= w->size)
		low = g->newest - w->size + 1;
	return low > floor ? low : floor;
}

bool pnwindow_range_below(const struct pnwindow *w, uint64_t from, uint64_t floor, uint64_t *low,
	uint64_t *high)
{
	const struct pnwindow_generation *g;
	uint64_t bottom, hole, generation;
	bool found = false;

	if (!w->any)
		return false;
	if (from > w->newest)
		from = w->newest;
	for (generation = generation_of(from); !found; generation--) {
		if (!is_generation_held(w, generation) || from < floor)
			return false;
		g = find(w, generation);
		if (g != NULL) {
			bottom = lowest_of(w, g, floor);
			if (from > g->newest)
				from = g->newest;
			found = from >= bottom && scan_down(w, from, bottom, true, high);
		}
		if (found)
			break;
		if (generation == 0)
			return false;
		from = generation_start(generation) - 1;
	}

	/* A range goes on into the generation before when it reaches that one's last number. */
	for (from = *high;;) {
		if (scan_down(w, from, bottom, false, &hole)) {
			*low = hole + 1;
			return true;
		}
		*low = bottom;
		if (bottom == floor || bottom != generation_start(generation) || generation == 0)
			return true;
		g = find(w, --generation);
		if (g == NULL || g->newest != bottom - 1 || !is_generation_held(w, generation))
			return true;
		from = g->newest;
		bottom = lowest_of(w, g, floor);
	}
}
