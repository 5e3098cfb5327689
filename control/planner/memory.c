/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/memory.h"

#include "control/base/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WAYS = 8,
	TIME_BITS = 24,
	COUNT_BITS = 8,
	TIME_MASK = (1 << TIME_BITS) - 1,
	COUNT_MAX = (1 << COUNT_BITS) - 1,
	KEEP_MAX_S = 90 * 86400, /* half of what 24 bits can tell */
};

/* tag 32, count 8, time 24; 0: free (a used entry has a count) */
struct memory {
	uint64_t *lines;
	uint64_t mask;
	uint32_t keep_s;
};

static size_t image_bytes(const struct memory *m)
{
	return (m->mask + 1) * WAYS * sizeof(*m->lines);
}

struct memory *memory_create(size_t entries, uint32_t keep_s)
{
	struct memory *m;
	size_t lines = 1;

	if (keep_s == 0 || keep_s > KEEP_MAX_S || entries > SIZE_MAX / 16) {
		errno = EINVAL;
		return NULL;
	}
	while (lines * WAYS < entries)
		lines *= 2;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return NULL;
	m->mask = lines - 1;
	m->keep_s = keep_s;
	m->lines = pages_get(image_bytes(m));
	if (m->lines != NULL)
		return m;
	free(m);
	errno = ENOMEM;
	return NULL;
}

void memory_destroy(struct memory *m)
{
	if (m == NULL)
		return;
	pages_put(m->lines, image_bytes(m));
	free(m);
}

static uint64_t *line_of(const struct memory *m, struct digest128 d)
{
	return &m->lines[((d.lo ^ d.hi >> 7) & m->mask) * WAYS];
}

void memory_prefetch(const struct memory *m, struct digest128 d)
{
	__builtin_prefetch(line_of(m, d), 1);
}

static uint32_t tag_of(struct digest128 d)
{
	return (uint32_t)(d.lo >> 32);
}

static uint32_t age(uint64_t entry, uint64_t now_s)
{
	return (uint32_t)(now_s - entry) & TIME_MASK;
}

static uint32_t count_of(uint64_t entry)
{
	return (uint32_t)(entry >> TIME_BITS) & COUNT_MAX;
}

static bool is_live(const struct memory *m, uint64_t entry, uint64_t now_s)
{
	uint32_t a = age(entry, now_s);

	/* Slightly in the future: a clock that stepped back. */
	return count_of(entry) > 0 && (a < m->keep_s || a > TIME_MASK - m->keep_s);
}

static uint64_t *find(const struct memory *m, struct digest128 d, uint64_t now_s)
{
	uint64_t *line = line_of(m, d);

	for (int i = 0; i < WAYS; i++)
		if (line[i] >> (TIME_BITS + COUNT_BITS) == tag_of(d) && is_live(m, line[i], now_s))
			return &line[i];
	return NULL;
}

uint32_t memory_get(const struct memory *m, struct digest128 d, uint64_t now_s)
{
	const uint64_t *entry = find(m, d, now_s);

	return entry == NULL ? 0 : count_of(*entry);
}

uint32_t memory_mark(struct memory *m, struct digest128 d, uint64_t now_s)
{
	uint64_t *line = line_of(m, d), *entry = find(m, d, now_s);
	uint32_t count = entry == NULL ? 0 : count_of(*entry);

	for (int i = 0; i < WAYS && entry == NULL; i++)
		if (!is_live(m, line[i], now_s))
			entry = &line[i];
	if (entry == NULL) {
		entry = line;
		for (int i = 1; i < WAYS; i++)
			if (age(line[i], now_s) > age(*entry, now_s))
				entry = &line[i];
	}
	if (count < COUNT_MAX)
		count++;
	*entry = (uint64_t)tag_of(d) << (TIME_BITS + COUNT_BITS) | (uint64_t)count << TIME_BITS |
		(now_s & TIME_MASK);
	return count;
}

void memory_forget(struct memory *m, struct digest128 d)
{
	uint64_t *line = line_of(m, d);

	for (int i = 0; i < WAYS; i++)
		if (line[i] >> (TIME_BITS + COUNT_BITS) == tag_of(d))
			line[i] = 0;
}

size_t memory_count(const struct memory *m, uint32_t least, uint64_t now_s)
{
	size_t n = 0;

	for (size_t i = 0; i < (m->mask + 1) * WAYS; i++)
		n += count_of(m->lines[i]) >= least && is_live(m, m->lines[i], now_s);
	return n;
}

const void *memory_image(const struct memory *m, size_t *len)
{
	*len = image_bytes(m);
	return m->lines;
}

int memory_restore(struct memory *m, const void *image, size_t len)
{
	if (len != image_bytes(m))
		return -EINVAL;
	memcpy(m->lines, image, len);
	return 0;
}
