/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/expand.h"

#include "control/sources/kv_event.h"

#include <errno.h>
#include <stdlib.h>

struct expansion {
	struct site_node *node;
	size_t n, pending; /* questions under way, and one while they are put */
	void (*done)(const struct expanded *list, size_t n, void *ctx);
	void *ctx;
	struct digest128 *digests;
	struct query_answer *answers;
};

/* To one source, about some of them. */
struct part {
	struct expansion *x;
	size_t n;
	uint32_t which[];
};

static void finish(struct expansion *x)
{
	struct store *store = site_node_store(x->node);
	struct expanded *list;

	if (--x->pending > 0)
		return;
	list = calloc(x->n + 1, sizeof(*list));
	for (size_t i = 0; list != NULL && i < x->n; i++) {
		const struct query_answer *a = &x->answers[i];
		struct store_key k;

		if ((a->known && !a->there) || !store_is_readable(store, x->digests[i]) ||
			!store_key_of(store, x->digests[i], &k))
			continue;
		list[i] = (struct expanded){ k.data, k.len, a->size > 0 ? a->size : k.size,
			k.tenant };
	}
	x->done(list, list != NULL ? x->n : 0, x->ctx);
	free(list);
	free(x->digests);
	free(x->answers);
	free(x);
}

static void on_answers(const struct query_answer *answers, size_t n, void *ctx)
{
	struct part *p = ctx;

	for (size_t i = 0; i < n; i++)
		p->x->answers[p->which[i]] = answers[i];
	finish(p->x);
	free(p);
}

/* Ask a source about what it alone has, from the first of them on. */
static void ask(struct expansion *x, struct follower *f, const int32_t *owners, uint32_t first)
{
	struct kv_text *keys = calloc(x->n, sizeof(*keys));
	struct part *p = malloc(sizeof(*p) + x->n * sizeof(p->which[0]));
	struct store_key k;

	if (keys == NULL || p == NULL)
		goto out;
	*p = (struct part){ .x = x };
	for (uint32_t i = first; i < x->n; i++) {
		if (owners[i] != owners[first] ||
			!store_key_of(site_node_store(x->node), x->digests[i], &k))
			continue;
		keys[p->n] = (struct kv_text){ k.data, (uint32_t)k.len };
		p->which[p->n++] = i;
	}
	if (follower_query(f, keys, p->n, on_answers, p) < 0)
		goto out;
	x->pending++;
	p = NULL;
out:
	free(keys);
	free(p);
}

static void ask_all(struct expansion *x)
{
	int32_t *owners = calloc(x->n + 1, sizeof(*owners));

	for (uint32_t i = 0; owners != NULL && i < x->n; i++)
		owners[i] = store_sole_owner(site_node_store(x->node), x->digests[i]);
	for (uint32_t i = 0; owners != NULL && i < x->n; i++) {
		int32_t owner = owners[i];
		struct follower *f;

		if (owner < 0)
			continue;
		f = site_node_owner(x->node, (uint32_t)owner);
		if (f != NULL)
			ask(x, f, owners, i);
		for (uint32_t k = i; k < x->n; k++)
			if (owners[k] == owner)
				owners[k] = -1;
	}
	free(owners);
}

int expand_start(struct site_node *n, const struct digest128 *d, size_t count,
	void (*done)(const struct expanded *list, size_t n, void *ctx), void *ctx)
{
	struct expansion *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return -ENOMEM;
	*x = (struct expansion){ .node = n, .n = count, .pending = 1, .done = done, .ctx = ctx };
	x->digests = malloc((count + 1) * sizeof(*x->digests));
	x->answers = calloc(count + 1, sizeof(*x->answers));
	if (x->digests == NULL || x->answers == NULL) {
		free(x->digests);
		free(x->answers);
		free(x);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++)
		x->digests[i] = d[i];
	ask_all(x);
	finish(x);
	return 0;
}
