/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/order.h"
#include "dataplane/transport/manifest.h"

/*
 * Shared by order.c (table, messages, log), order_run.c (lookup, transfers, events), order_cut.c
 * (parts), order_deadline.c and order_copy.c (from pool to pool).
 */

struct order_copy;
struct copy_link;

struct order_object {
	uint32_t name; /* offset in order->names: tenant, then key */
	uint16_t key_len;
	uint8_t tenant_len;
	uint8_t status;  /* enum strait_status */
	uint64_t length; /* 0: not known */
	uint64_t digest;
	uint64_t lease; /* handle, 0: none */
	bool found;     /* in the pool, with length and digest */
	bool in_part;
	const uint8_t *data; /* while leased */
};

struct order_log_entry {
	uint32_t index;
	uint8_t status;
};

/* Objects sequence[first, end) of the order, which travel as one transfer on one queue. */
struct order_part {
	struct order *order;
	uint32_t first, end;
	uint8_t queue;
	struct order_tx *live;
	uint32_t reopens; /* in a row without an object finished */
	uint64_t not_before_ns;
	bool done;
};

/* One transfer of a part. Outlives its closing until no command can name it. */
struct order_tx {
	TAILQ_ENTRY(order_tx) entry;
	struct order_part *part;
	struct tx_transfer *tx;
	struct session *session;
	uint8_t queue; /* of the link, and so its worker */
	uint32_t *map; /* object of the transfer -> object of the order */
	uint32_t objects;
	uint32_t wanted; /* objects the session was told about */
	uint32_t asked;  /* objects it asked for; more than wanted: no memory, next turn */
	uint8_t refused; /* status of OPEN_ACK, PENDING: not refused */
	bool canceling;
	uint64_t closed_ns;
};

enum order_state {
	ORDER_LOOKUP,
	ORDER_ACTIVE,
	ORDER_DONE,
};

struct order {
	TAILQ_ENTRY(order) sorted;
	LIST_ENTRY(order) hashed;
	struct orders *orders;
	struct order_link *link;
	uint64_t id, deadline_ms;
	uint8_t class_;
	bool lan;                /* its transfers are of the LAN profile */
	struct order_copy *copy; /* NULL: it is to travel */
	enum order_state state;
	uint8_t end_status; /* not PENDING: what is not final ends so */
	bool forget;
	uint64_t done_ns;

	struct order_object *objects;
	uint32_t object_count;
	uint32_t looked_up; /* all below are final or found */
	uint32_t remaining; /* objects without final status */
	uint8_t *names;
	uint64_t bytes_total, bytes_done;
	uint64_t bytes_left;    /* of objects without final status, once looked up */
	uint64_t bytes_waiting; /* ... and of these, of objects never leased: surely not sent */
	char refusal[256];      /* why it ended DEADLINE, with the results; "": it did not */

	uint64_t uncut_bytes; /* brought by a gateway, leased, and in no part yet */
	uint64_t uncut_limit; /* then they travel */

	struct order_part *parts;
	uint32_t part_count;
	uint32_t *sequence; /* objects in parts, those of a part together */
	uint32_t sequence_count;
	uint32_t cut_queues; /* the link had when parts were cut */
	uint32_t live;

	struct order_log_entry *log;
	uint32_t log_count, log_capacity;
	uint32_t log_sent, log_acked;
	uint64_t log_sent_ns;
};

enum { ORDER_BUCKETS = 1024 };

/*
 * The master's order: an id is attempt << 40 | order, and each append to an open order is an
 * attempt of its own.
 */
static inline uint64_t order_number(const struct order *o)
{
	return o->id & ((UINT64_C(1) << 40) - 1);
}

TAILQ_HEAD(order_list, order);
TAILQ_HEAD(order_tx_list, order_tx);
LIST_HEAD(order_bucket, order);

struct orders {
	const struct order_ops *ops;
	void *ctx;
	struct control_queue *queue;
	struct order_list sorted; /* by class, deadline, id */
	struct order_bucket buckets[ORDER_BUCKETS];
	struct order_tx_list closed;
	LIST_HEAD(, copy_link) copy_links;
	uint64_t copied_objects, copied_bytes;
	uint32_t count, pending, live;
	uint32_t copies; /* of pending, those to copy */
	uint64_t checked_ns;
	uint64_t now_ns; /* of the call going on */
	bool draining;
	bool starved; /* no memory for a command, or not confirmed: orders_run() tries again */
};

/* order.c */
void order_object_final(struct order *o, uint32_t index, uint8_t status);
/* End what is not final and not in a live transfer; live ones are canceled. */
void order_end(struct order *o, uint8_t status);
/* DONE when nothing is left. */
void order_settle(struct order *o, uint64_t now_ns);
static inline uint32_t link_queues(const struct order_link *l)
{
	return l->queue_count > 1 ? l->queue_count : 1;
}

/* The session a transfer was handed to is still the link's. */
static inline bool order_tx_is_current(const struct order_tx *t)
{
	return t->session == t->part->order->link->queues[t->queue].session;
}

/* order_copy.c */
/* The order is to be copied: between which pools, at which pace. NULL, or why not. */
const char *order_copy_init(struct order *o, const Strait__OrderStart *m);
/* The pool that an object is copied from. */
struct pool *order_copy_source(const struct order *o, const uint8_t *tenant, size_t len);
/* Its objects were looked up. */
void order_copy_begin(struct order *o);
/* What was copied of the object is dropped. */
void order_copy_drop(struct order *o, uint32_t index);
void order_copy_fini(struct order *o);
void orders_copy_fini(struct orders *os);

/* order_cut.c */
/* bytes_total and what is left of them. */
void order_count_bytes(struct order *o);
/*
 * Deal the objects whose length is known to the link's queues and cut each queue's into transfers
 * within the limits of wire.h. Depends on keys, lengths and the number of queues only, so that a
 * repeated order has the same layout and finds its partial objects. -ENOMEM.
 */
int order_cut_parts(struct order *o);
/* Parts of what was found since: behind those there are, which stay. -ENOMEM: none. */
int order_cut_more(struct order *o);
void order_entry(const struct order *o, const struct order_object *obj, struct manifest_entry *e);
/* order_run.c */
/* order_deadline.c */
/* Of an order just looked up: end it if its deadline cannot be kept. */
void order_admit(struct order *o, uint64_t unix_ms);
/* End what cannot be in time any more, whatever happens. */
void orders_check_deadlines(struct orders *os, uint64_t now_ns, uint64_t unix_ms);
void order_tx_free(struct order_tx *t);
