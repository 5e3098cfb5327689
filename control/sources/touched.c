/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/touched.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS_MIN = 1024 };

void touched_init(struct touched *t, uint32_t max)
{
	*t = (struct touched){ .max = max };
}

void touched_clear(struct touched *t)
{
	free(t->slots);
	touched_init(t, t->max);
}

void touched_fini(struct touched *t)
{
	free(t->slots);
	t->slots = NULL;
}

static bool is_free(struct digest128 d)
{
	return d.hi == 0 && d.lo == 0;
}

static struct digest128 *find(const struct touched *t, struct digest128 d)
{
	uint32_t i = (uint32_t)d.lo & t->mask;

	while (!is_free(t->slots[i]) && !digest_equal(t->slots[i], d))
		i = (i + 1) & t->mask;
	return &t->slots[i];
}

static int grow(struct touched *t)
{
	struct touched to = { .max = t->max, .count = t->count, .zero = t->zero };

	to.mask = t->slots == NULL ? SLOTS_MIN - 1 : t->mask * 2 + 1;
	to.slots = calloc((size_t)to.mask + 1, sizeof(*to.slots));
	if (to.slots == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; t->slots != NULL && i <= t->mask; i++)
		if (!is_free(t->slots[i]))
			*find(&to, t->slots[i]) = t->slots[i];
	free(t->slots);
	*t = to;
	return 0;
}

int touched_add(struct touched *t, struct digest128 d)
{
	struct digest128 *slot;

	if (is_free(d)) {
		t->zero = true;
		return 0;
	}
	if ((t->slots == NULL || t->count > t->mask / 2) && grow(t) < 0)
		return -ENOMEM;
	slot = find(t, d);
	if (!is_free(*slot))
		return 0;
	if (t->count == t->max)
		return -ENOSPC;
	*slot = d;
	t->count++;
	return 0;
}

bool touched_has(const struct touched *t, struct digest128 d)
{
	if (is_free(d))
		return t->zero;
	return t->slots != NULL && !is_free(*find(t, d));
}
