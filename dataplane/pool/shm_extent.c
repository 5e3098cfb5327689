/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_extent.h"

#include <errno.h>
#include <string.h>

/*
 * Longest walk of the wanted size's own class, whose runs may be too short by up to 1/16; after it
 * only classes that surely fit are asked.
 */
#define CLASS_WALK_MAX 1024u

unsigned int shm_extent_class(uint32_t npages)
{
	unsigned int log2;

	if (npages < 16)
		return npages;
	log2 = 31 - (unsigned int)__builtin_clz(npages);
	return (log2 - 3) * 16 + ((npages >> (log2 - 4)) & 15);
}

static void run_mark(struct shm_extents *x, uint32_t page, uint32_t npages, uint32_t flag)
{
	x->pages[page].tag = npages | flag;
	x->pages[page + npages - 1].tag = npages | flag;
}

static void free_insert(struct shm_extents *x, uint32_t page, uint32_t npages)
{
	unsigned int class = shm_extent_class(npages);
	uint32_t head = x->state->head[class];

	run_mark(x, page, npages, SHM_TAG_FREE);
	x->pages[page].prev = SHM_NONE;
	x->pages[page].next = head;
	if (head < x->page_count)
		x->pages[head].prev = page;
	x->state->head[class] = page;
	x->state->nonempty[class / 64] |= 1ull << (class % 64);
}

static void free_unlink(struct shm_extents *x, uint32_t page)
{
	struct shm_page *run = &x->pages[page];
	unsigned int class = shm_extent_class(run->tag & ~SHM_TAG_FREE);

	if (run->next < x->page_count)
		x->pages[run->next].prev = run->prev;
	if (run->prev < x->page_count)
		x->pages[run->prev].next = run->next;
	else
		x->state->head[class] = run->next;
	if (x->state->head[class] >= x->page_count)
		x->state->nonempty[class / 64] &= ~(1ull << (class % 64));
}

/* A free run starts at page, and its length stays inside the arena: never trust the file. */
static bool free_is_sane(const struct shm_extents *x, uint32_t page)
{
	uint32_t len;

	if (page >= x->page_count || !(x->pages[page].tag & SHM_TAG_FREE))
		return false;
	len = x->pages[page].tag & ~SHM_TAG_FREE;
	return len > 0 && len <= x->page_count - page;
}

static uint32_t class_first_fit(const struct shm_extents *x, unsigned int class, uint32_t npages)
{
	uint32_t page = x->state->head[class];

	for (uint32_t i = 0; i < CLASS_WALK_MAX && free_is_sane(x, page); i++) {
		if ((x->pages[page].tag & ~SHM_TAG_FREE) >= npages)
			return page;
		page = x->pages[page].next;
	}
	return SHM_NONE;
}

static unsigned int class_next_nonempty(const struct shm_extents *x, unsigned int from)
{
	for (unsigned int w = from / 64; w < SHM_CLASS_WORDS; w++) {
		uint64_t bits = x->state->nonempty[w];

		if (w == from / 64)
			bits &= ~0ull << (from % 64);
		if (bits != 0)
			return w * 64 + (unsigned int)__builtin_ctzll(bits);
	}
	return SHM_CLASSES;
}

uint32_t shm_extent_alloc(struct shm_extents *x, uint32_t npages, uint32_t owner)
{
	uint32_t page, len;
	unsigned int class;

	if (npages == 0 || npages > x->page_count)
		return SHM_NONE;
	class = shm_extent_class(npages);
	page = class_first_fit(x, class, npages);
	if (page == SHM_NONE) {
		class = class_next_nonempty(x, class + 1);
		if (class == SHM_CLASSES)
			return SHM_NONE;
		page = class_first_fit(x, class, npages);
		if (page == SHM_NONE)
			return SHM_NONE;
	}
	len = x->pages[page].tag & ~SHM_TAG_FREE;
	free_unlink(x, page);
	if (len > npages)
		free_insert(x, page + npages, len - npages);
	run_mark(x, page, npages, 0);
	x->pages[page].next = owner;
	x->state->free_pages -= npages;
	return page;
}

void shm_extent_free(struct shm_extents *x, uint32_t page)
{
	uint32_t len, tag;

	if (page >= x->page_count)
		return;
	len = x->pages[page].tag;
	if (len == 0 || (len & SHM_TAG_FREE) || len > x->page_count - page)
		return;
	x->state->free_pages += len;
	if (free_is_sane(x, page + len)) {
		tag = x->pages[page + len].tag & ~SHM_TAG_FREE;
		free_unlink(x, page + len);
		len += tag;
	}
	if (page > 0 && (x->pages[page - 1].tag & SHM_TAG_FREE)) {
		tag = x->pages[page - 1].tag & ~SHM_TAG_FREE;
		if (tag > 0 && tag <= page) {
			free_unlink(x, page - tag);
			page -= tag;
			len += tag;
		}
	}
	free_insert(x, page, len);
}

void shm_extent_rebuild_start(struct shm_extents *x, uint32_t *cursor)
{
	memset(x->state, 0, sizeof(*x->state));
	for (unsigned int i = 0; i < SHM_CLASSES; i++)
		x->state->head[i] = SHM_NONE;
	*cursor = 0;
}

static void rebuild_gap(struct shm_extents *x, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	x->state->free_pages += to - from;
	free_insert(x, from, to - from);
}

int shm_extent_rebuild_add(struct shm_extents *x, uint32_t *cursor, uint32_t page, uint32_t npages,
	uint32_t owner)
{
	if (page < *cursor || npages == 0 || page >= x->page_count || npages > x->page_count - page)
		return -EINVAL;
	rebuild_gap(x, *cursor, page);
	run_mark(x, page, npages, 0);
	x->pages[page].next = owner;
	*cursor = page + npages;
	return 0;
}

void shm_extent_rebuild_finish(struct shm_extents *x, uint32_t *cursor)
{
	rebuild_gap(x, *cursor, x->page_count);
}

uint32_t shm_extent_walk(const struct shm_extents *x, uint32_t page, uint32_t *owner)
{
	uint32_t tag, len;

	if (page >= x->page_count)
		return 0;
	tag = x->pages[page].tag;
	len = tag & ~SHM_TAG_FREE;
	if (len > x->page_count - page)
		return 0;
	*owner = tag & SHM_TAG_FREE ? SHM_NONE : x->pages[page].next;
	return len;
}

uint32_t shm_extent_longest(const struct shm_extents *x)
{
	uint32_t best = 0;

	for (unsigned int class = SHM_CLASSES; class -- > 0;) {
		uint32_t page = x->state->head[class];

		for (uint32_t i = 0; i < CLASS_WALK_MAX && free_is_sane(x, page); i++) {
			uint32_t len = x->pages[page].tag & ~SHM_TAG_FREE;

			if (len > best)
				best = len;
			page = x->pages[page].next;
		}
		if (best > 0)
			break;
	}
	return best;
}
