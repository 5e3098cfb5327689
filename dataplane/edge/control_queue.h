/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/worker.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Commands on their way to the workers, in order for each, however full its ring is.
 *
 * A worker's command ring is bounded; what it does not take waits here and goes first next
 * time; others' commands do not wait for it. A command names its worker. Control thread only. push
 * stands for worker_command(), so that orders and ingest can be tested without a worker.
 */

/* Of one worker. */
struct control_lane {
	struct worker_command *waiting;
	size_t head, count, capacity;
};

struct control_queue {
	int (*push)(void *ctx, const struct worker_command *c);
	/* Memory that is made from now on is worker n's, on its NUMA node; n < 0: anybody's. */
	void (*place)(void *ctx, int worker); /* NULL: it does not matter */
	void *ctx;
	struct control_lane lanes[WORKERS_MAX];
};

void control_queue_init(struct control_queue *q,
	int (*push)(void *ctx, const struct worker_command *c), void *ctx);
void control_queue_fini(struct control_queue *q);

/** Around the creation of what a worker will use. */
static inline void control_queue_place(const struct control_queue *q, int worker)
{
	if (q->place != NULL)
		q->place(q->ctx, worker);
}

/** Hand a command over, now or later. 0, or -ENOMEM: the command is lost. */
int control_queue_push(struct control_queue *q, const struct worker_command *c);

/** Try what waits. true: nothing is left. */
bool control_queue_flush(struct control_queue *q);

/** Forget waiting commands about a transfer that its session closed. One of tx, rx is NULL. */
void control_queue_purge(struct control_queue *q, const struct tx_transfer *tx,
	const struct rx_transfer *rx);
