/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void timeline_fini(struct timeline *t)
{
	free(t->heap);
	memset(t, 0, sizeof(*t));
}

static bool is_before(const struct timeline_entry *a, const struct timeline_entry *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

int timeline_add(struct timeline *t, uint64_t at_ns, int kind, void *what)
{
	struct timeline_entry e = { at_ns, t->order++, kind, what };
	size_t i = t->count;

	if (t->count == t->room) {
		size_t room = t->room * 2 + 64;
		struct timeline_entry *heap = realloc(t->heap, room * sizeof(*heap));

		if (heap == NULL)
			return -ENOMEM;
		t->heap = heap;
		t->room = room;
	}
	t->count++;
	for (; i > 0 && is_before(&e, &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
		t->heap[i] = t->heap[(i - 1) / 2];
	t->heap[i] = e;
	return 0;
}

const struct timeline_entry *timeline_first(const struct timeline *t)
{
	return t->count > 0 ? &t->heap[0] : NULL;
}

bool timeline_take(struct timeline *t, struct timeline_entry *out)
{
	struct timeline_entry last;
	size_t i = 0, child;

	if (t->count == 0)
		return false;
	*out = t->heap[0];
	last = t->heap[--t->count];
	while ((child = 2 * i + 1) < t->count) {
		if (child + 1 < t->count && is_before(&t->heap[child + 1], &t->heap[child]))
			child++;
		if (!is_before(&t->heap[child], &last))
			break;
		t->heap[i] = t->heap[child];
		i = child;
	}
	if (t->count > 0)
		t->heap[i] = last;
	return true;
}
