/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/lru.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BITS_FIRST = 12, BITS_MAX = 30 };

struct lru_node {
	struct lru_node *chain, *newer, *older;
	uint64_t id, since_ns, used_ns;
};

int lru_init(struct lru *l, uint64_t max, uint64_t keep_ns)
{
	memset(l, 0, sizeof(*l));
	l->bits = BITS_FIRST;
	l->max = max;
	l->keep_ns = keep_ns;
	l->slots = calloc((size_t)1 << l->bits, sizeof(struct lru_node *));
	return l->slots == NULL ? -ENOMEM : 0;
}

void lru_fini(struct lru *l)
{
	while (l->newest != NULL) {
		struct lru_node *n = l->newest;

		l->newest = n->older;
		free(n);
	}
	free(l->slots);
	memset(l, 0, sizeof(*l));
}

static size_t slot_of(uint64_t id, uint32_t bits)
{
	return (id * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits);
}

static struct lru_node **find(const struct lru *l, uint64_t id)
{
	struct lru_node **p = &l->slots[slot_of(id, l->bits)];

	while (*p != NULL && (*p)->id != id)
		p = &(*p)->chain;
	return p;
}

static void unlink_node(struct lru *l, struct lru_node *n)
{
	*(n->newer != NULL ? &n->newer->older : &l->newest) = n->older;
	*(n->older != NULL ? &n->older->newer : &l->oldest) = n->newer;
}

static void link_newest(struct lru *l, struct lru_node *n)
{
	n->newer = NULL;
	n->older = l->newest;
	*(l->newest != NULL ? &l->newest->newer : &l->oldest) = n;
	l->newest = n;
}

static void account(struct lru *l, uint64_t now_ns)
{
	if (now_ns <= l->held_ns)
		return;
	l->held_sum += (double)l->count * (double)(now_ns - l->held_ns) * 1e-9;
	l->held_ns = now_ns;
}

static void evict(struct lru *l, uint64_t now_ns)
{
	struct lru_node *n = l->oldest;

	account(l, now_ns);
	unlink_node(l, n);
	*find(l, n->id) = n->chain;
	l->count--;
	l->evicted++;
	l->age_sum_s += (double)(now_ns - n->used_ns) * 1e-9;
	l->span_sum_s += (double)(n->used_ns - n->since_ns) * 1e-9;
	free(n);
}

void lru_tick(struct lru *l, uint64_t now_ns)
{
	while (l->keep_ns != 0 && l->oldest != NULL && l->oldest->used_ns + l->keep_ns <= now_ns)
		evict(l, l->oldest->used_ns + l->keep_ns);
	account(l, now_ns);
}

bool lru_has(const struct lru *l, uint64_t id)
{
	return *find(l, id) != NULL;
}

bool lru_use(struct lru *l, uint64_t id, uint64_t now_ns)
{
	struct lru_node *n = *find(l, id);

	if (n == NULL)
		return false;
	n->used_ns = now_ns;
	unlink_node(l, n);
	link_newest(l, n);
	return true;
}

static int grow(struct lru *l)
{
	struct lru_node **slots = calloc((size_t)2 << l->bits, sizeof(struct lru_node *));

	if (slots == NULL)
		return -ENOMEM;
	for (struct lru_node *n = l->newest; n != NULL; n = n->older) {
		struct lru_node **p = &slots[slot_of(n->id, l->bits + 1)];

		n->chain = *p;
		*p = n;
	}
	free(l->slots);
	l->slots = slots;
	l->bits++;
	return 0;
}

int lru_add(struct lru *l, uint64_t id, uint64_t now_ns)
{
	struct lru_node *n, **p;

	lru_tick(l, now_ns);
	if (l->max == 0 || lru_use(l, id, now_ns))
		return 0;
	if (l->count >> l->bits > 0 && l->bits < BITS_MAX && grow(l) < 0)
		return -ENOMEM;
	n = malloc(sizeof(*n));
	if (n == NULL)
		return -ENOMEM;
	while (l->count >= l->max)
		evict(l, now_ns);
	n->id = id;
	n->since_ns = n->used_ns = now_ns;
	p = &l->slots[slot_of(id, l->bits)];
	n->chain = *p;
	*p = n;
	link_newest(l, n);
	l->count++;
	l->inserted++;
	return 0;
}
