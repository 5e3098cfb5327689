/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/worker.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Commands on their way to a worker, in order, however full its ring is.
 *
 * A worker's command ring is bounded; what it does not take waits here and goes first next
 * time. Control thread only. push stands for worker_command(), so that orders and ingest can
 * be tested without a worker.
 */

struct control_queue {
	int (*push)(void *ctx, const struct worker_command *c);
	void *ctx;
	struct worker_command *waiting;
	size_t head, count, capacity;
};

void control_queue_init(struct control_queue *q,
	int (*push)(void *ctx, const struct worker_command *c), void *ctx);
void control_queue_fini(struct control_queue *q);

/** Hand a command over, now or later. 0, or -ENOMEM: the command is lost. */
int control_queue_push(struct control_queue *q, const struct worker_command *c);

/** Try what waits. true: nothing is left. */
bool control_queue_flush(struct control_queue *q);

/** Forget waiting commands about a transfer that its session closed. One of tx, rx is NULL. */
void control_queue_purge(struct control_queue *q, const struct tx_transfer *tx,
	const struct rx_transfer *rx);
