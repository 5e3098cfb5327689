/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/control_queue.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void control_queue_init(struct control_queue *q,
	int (*push)(void *ctx, const struct worker_command *c), void *ctx)
{
	memset(q, 0, sizeof(*q));
	q->push = push;
	q->ctx = ctx;
}

void control_queue_fini(struct control_queue *q)
{
	for (int i = 0; i < WORKERS_MAX; i++)
		free(q->lanes[i].waiting);
	memset(q->lanes, 0, sizeof(q->lanes));
}

static int lane_grow(struct control_lane *l)
{
	struct worker_command *bigger;
	size_t capacity = l->capacity ? l->capacity * 2 : 256;

	if (l->capacity > SIZE_MAX / 2 / sizeof(*bigger))
		return -ENOMEM;
	bigger = malloc(capacity * sizeof(*bigger));
	if (bigger == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < l->count; i++)
		bigger[i] = l->waiting[(l->head + i) & (l->capacity - 1)];
	free(l->waiting);
	l->waiting = bigger;
	l->head = 0;
	l->capacity = capacity;
	return 0;
}

int control_queue_push(struct control_queue *q, const struct worker_command *c)
{
	struct control_lane *l = &q->lanes[c->worker];

	if (l->count == 0 && q->push(q->ctx, c) == 0)
		return 0;
	if (l->count == l->capacity && lane_grow(l) < 0)
		return -ENOMEM;
	l->waiting[(l->head + l->count) & (l->capacity - 1)] = *c;
	l->count++;
	return 0;
}

bool control_queue_flush(struct control_queue *q)
{
	bool all = true;

	for (int i = 0; i < WORKERS_MAX; i++) {
		struct control_lane *l = &q->lanes[i];

		while (l->count > 0 && q->push(q->ctx, &l->waiting[l->head]) == 0) {
			l->head = (l->head + 1) & (l->capacity - 1);
			l->count--;
		}
		all = all && l->count == 0;
	}
	return all;
}

static void lane_purge(struct control_lane *l, const struct tx_transfer *tx,
	const struct rx_transfer *rx)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct worker_command *c = &l->waiting[(l->head + i) & (l->capacity - 1)];

		if ((tx != NULL && c->tx == tx) || (rx != NULL && c->rx == rx))
			continue;
		l->waiting[(l->head + kept++) & (l->capacity - 1)] = *c;
	}
	l->count = kept;
}

void control_queue_purge(struct control_queue *q, const struct tx_transfer *tx,
	const struct rx_transfer *rx)
{
	for (int i = 0; i < WORKERS_MAX; i++)
		lane_purge(&q->lanes[i], tx, rx);
}
