/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/audit.h"

#include <strait/wire.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void audit_init(struct audit *a, uint64_t rate_bps)
{
	memset(a, 0, sizeof(*a));
	a->rate_bps = rate_bps;
	a->line_overhead = STRAIT_LINE_OVERHEAD_BYTES;
}

void audit_fini(struct audit *a)
{
	for (size_t i = 0; i < a->npages; i++)
		free(a->pages[i]);
	free(a->pages);
	free(a->queues);
	memset(a, 0, sizeof(*a));
}

static bool is_before(const struct audit *a, size_t i, uint8_t queue, uint64_t index)
{
	return a->queues[i] != queue ? a->queues[i] < queue : a->pages[i]->index < index;
}

/* The page's place in the sorted list, new if need be; SIZE_MAX without memory. */
static size_t page_find(struct audit *a, uint8_t queue, uint64_t index)
{
	size_t low = 0;
	size_t high = a->npages;

	if (a->last < a->npages && a->queues[a->last] == queue && a->pages[a->last]->index == index)
		return a->last;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (is_before(a, mid, queue, index))
			low = mid + 1;
		else
			high = mid;
	}
	if (low < a->npages && a->queues[low] == queue && a->pages[low]->index == index)
		return low;
	if (a->npages == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 16;
		void *p = realloc(a->pages, cap * sizeof(*a->pages));

		if (!p)
			return SIZE_MAX;
		a->pages = p;
		p = realloc(a->queues, cap);
		if (!p)
			return SIZE_MAX;
		a->queues = p;
		a->cap = cap;
	}
	memmove(a->pages + low + 1, a->pages + low, (a->npages - low) * sizeof(*a->pages));
	memmove(a->queues + low + 1, a->queues + low, a->npages - low);
	a->pages[low] = calloc(1, sizeof(**a->pages));
	if (!a->pages[low]) {
		memmove(a->pages + low, a->pages + low + 1, (a->npages - low) * sizeof(*a->pages));
		memmove(a->queues + low, a->queues + low + 1, a->npages - low);
		return SIZE_MAX;
	}
	a->queues[low] = queue;
	a->pages[low]->index = index;
	a->npages++;
	return low;
}

static void rate_account(struct audit *a, uint64_t now_ns, size_t len)
{
	if (a->rate_bps == 0)
		return;
	a->level_bytes -= (double)(now_ns - a->at_ns) * (double)a->rate_bps / 8e9;
	if (a->level_bytes < 0)
		a->level_bytes = 0;
	a->at_ns = now_ns;
	a->level_bytes += (double)(len + a->line_overhead);
	if (a->level_bytes > a->excess_bytes)
		a->excess_bytes = a->level_bytes;
}

int audit_packet(struct audit *a, uint64_t now_ns, const uint8_t *packet, size_t len)
{
	uint64_t pn = 0;
	uint64_t *word;
	uint64_t bit;
	size_t page;

	if (len < STRAIT_HEADER_BYTES)
		return -EINVAL;
	for (int i = 0; i < 8; i++)
		pn = pn << 8 | packet[STRAIT_OFF_PACKET_NUMBER + i];
	a->packets++;
	rate_account(a, now_ns, len);
	page = page_find(a, packet[STRAIT_OFF_QUEUE], pn >> AUDIT_PAGE_SHIFT);
	if (page == SIZE_MAX)
		return -ENOMEM;
	a->last = page;
	word = &a->pages[page]->bits[(pn & ((1 << AUDIT_PAGE_SHIFT) - 1)) / 64];
	bit = 1ULL << (pn % 64);
	if (*word & bit)
		a->repeats++;
	*word |= bit;
	return 0;
}

uint64_t audit_generation(const struct audit *a)
{
	uint64_t generation = 0;

	for (size_t i = 0; i < a->npages; i++) {
		uint64_t g = a->pages[i]->index >> (STRAIT_GENERATION_SHIFT - AUDIT_PAGE_SHIFT);

		if (g > generation)
			generation = g;
	}
	return generation;
}
