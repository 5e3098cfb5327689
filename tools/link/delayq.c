/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/link/delayq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARITY 4

int delayq_init(struct delayq *q, size_t initial, size_t max)
{
	memset(q, 0, sizeof(*q));
	if (initial == 0 || initial > max)
		return -EINVAL;
	q->e = calloc(initial, sizeof(*q->e));
	if (!q->e)
		return -ENOMEM;
	q->cap = initial;
	q->max = max;
	return 0;
}

void delayq_fini(struct delayq *q)
{
	free(q->e);
	memset(q, 0, sizeof(*q));
}

static bool is_before(const struct delayq_entry *a, const struct delayq_entry *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static int grow(struct delayq *q)
{
	size_t cap = q->cap > q->max / 2 ? q->max : q->cap * 2;
	struct delayq_entry *e;

	if (q->cap == q->max)
		return -ENOSPC;
	e = reallocarray(q->e, cap, sizeof(*e));
	if (!e)
		return -ENOMEM;
	q->e = e;
	q->cap = cap;
	return 0;
}

int delayq_push(struct delayq *q, uint64_t due_ns, uint64_t payload)
{
	struct delayq_entry in = { due_ns, q->pushes, payload };
	size_t i;

	if (q->len == q->cap) {
		int rc = grow(q);

		if (rc < 0)
			return rc;
	}
	q->pushes++;
	for (i = q->len++; i > 0; i = (i - 1) / ARITY) {
		const struct delayq_entry *parent = &q->e[(i - 1) / ARITY];

		if (!is_before(&in, parent))
			break;
		q->e[i] = *parent;
	}
	q->e[i] = in;
	return 0;
}

bool delayq_pop_due(struct delayq *q, uint64_t now_ns, uint64_t *due_ns, uint64_t *payload)
{
	struct delayq_entry last;
	size_t i = 0;

	if (q->len == 0 || q->e[0].due_ns > now_ns)
		return false;
	*due_ns = q->e[0].due_ns;
	*payload = q->e[0].payload;
	last = q->e[--q->len];
	for (;;) {
		size_t first = i * ARITY + 1;
		size_t end = first + ARITY < q->len ? first + ARITY : q->len;
		size_t best = first;

		if (first >= q->len)
			break;
		for (size_t c = first + 1; c < end; c++)
			if (is_before(&q->e[c], &q->e[best]))
				best = c;
		if (!is_before(&q->e[best], &last))
			break;
		q->e[i] = q->e[best];
		i = best;
	}
	q->e[i] = last;
	return true;
}
