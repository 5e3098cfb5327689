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
	free(q->waiting);
	q->waiting = NULL;
	q->head = q->count = q->capacity = 0;
}

static int queue_grow(struct control_queue *q)
{
	struct worker_command *bigger;
	size_t capacity = q->capacity ? q->capacity * 2 : 256;

	if (q->capacity > SIZE_MAX / 2 / sizeof(*bigger))
		return -ENOMEM;
	bigger = malloc(capacity * sizeof(*bigger));
	if (bigger == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < q->count; i++)
		bigger[i] = q->waiting[(q->head + i) & (q->capacity - 1)];
	free(q->waiting);
	q->waiting = bigger;
	q->head = 0;
	q->capacity = capacity;
	return 0;
}

int control_queue_push(struct control_queue *q, const struct worker_command *c)
{
	if (q->count == 0 && q->push(q->ctx, c) == 0)
		return 0;
	if (q->count == q->capacity && queue_grow(q) < 0)
		return -ENOMEM;
	q->waiting[(q->head + q->count) & (q->capacity - 1)] = *c;
	q->count++;
	return 0;
}

bool control_queue_flush(struct control_queue *q)
{
	while (q->count > 0) {
		if (q->push(q->ctx, &q->waiting[q->head]) < 0)
			return false;
		q->head = (q->head + 1) & (q->capacity - 1);
		q->count--;
	}
	return true;
}

void control_queue_purge(struct control_queue *q, const struct tx_transfer *tx,
	const struct rx_transfer *rx)
{
	size_t kept = 0;

	for (size_t i = 0; i < q->count; i++) {
		const struct worker_command *c = &q->waiting[(q->head + i) & (q->capacity - 1)];

		if ((tx != NULL && c->tx == tx) || (rx != NULL && c->rx == rx))
			continue;
		q->waiting[(q->head + kept++) & (q->capacity - 1)] = *c;
	}
	q->count = kept;
}
