/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/flight.h"
#include "control/orders/progress_rate.h"
#include "control/orders/way.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * The orders a master has not finished, as a state machine without I/O.
 *
 *   order    QUEUED -> RUNNING -> DONE | FAILED (any object failed) | CANCELED
 *   object   READY -> FLYING -> FINAL, back to READY when it is retried (retry.h);
 *            FOLLOWING while another order ships the same object to the same site (flight.h): a
 *            success of the leader is the follower's too, after a failure the next follower leads
 *
 * An open order (orderbook_open.c) takes more objects by appends, numbered from 1 by the client,
 * until it is sealed: on request, when nothing was appended for a time, or by its end. What is
 * appended is ready at once and goes out as a shipment of its own.
 *
 * A shipment is what one source edge is told at once: some objects of one order and the
 * destination edge. Its number on the wire is attempt << 40 | order, so the first shipment of an
 * order has the order's number, and a retry is a new number which the edge has not finished
 * already.
 *
 * The owner calls in with events, then orderbook_plan(), then writes what is on the dirty list to
 * its ledger in one transaction, then tells edges what changed (new, closed and canceled
 * shipments) and calls orderbook_flushed(), which forgets finished orders and closed shipments.
 * Nothing is told before it is durable.
 *
 * One thread. Times are Unix ms (deadlines are): a clock that steps back delays a retry by
 * RETRY_DELAY_MAX_MS at most. Nothing here is freed but by orderbook_flushed(),
 * orderbook_destroy() and a refused orderbook_submit().
 */

enum {
	ORDERBOOK_OBJECTS_MAX = 65536, /* of an order */
	ORDERBOOK_SITE_MAX = 64,
	ORDERBOOK_EDGE_MAX = 2 * ORDERBOOK_SITE_MAX, /* "edge", or "site/edge" of one that copies */
	ORDERBOOK_TEXT_MAX = 200,
	ORDERBOOK_IDEMPOTENCY_MAX = 128,
	ORDERBOOK_SHIPMENT_KEY_BYTES_MAX = 24 << 20, /* the manifest's limit, less its lengths */
	ORDERBOOK_DEADLINE_GRACE_MS = 2000,          /* the edge itself says DEADLINE first */
	ORDERBOOK_OPEN_MAX = 4096,                   /* open orders at a time */
	ORDERBOOK_FLYING_MAX = 64,                   /* shipments from one site to another */
	ORDERBOOK_FLYING_URGENT = 16,                /* ... and so many more of urgent orders */
	ORDERBOOK_OPEN_IDLE_MS = 600000,
	ORDERBOOK_EDGES_MAX = 32, /* of a site, that take orders */
};

enum order_state {
	ORDER_QUEUED,
	ORDER_RUNNING,
	ORDER_DONE,
	ORDER_FAILED,
	ORDER_CANCELED,
	ORDER_STATE_COUNT,
};

enum order_opened {
	ORDER_CLOSED,  /* was never open */
	ORDER_OPEN,    /* takes appends */
	ORDER_SEALED,  /* on request */
	ORDER_EXPIRED, /* nothing was appended for too long */
	ORDER_ENDED,   /* was open when it was canceled or its deadline passed */
	ORDER_OPENED_COUNT,
};

enum object_state { OBJECT_READY, OBJECT_FOLLOWING, OBJECT_FLYING, OBJECT_FINAL };

struct order;
struct orderbook;

/* An edge that had a shipment once. Never goes away. */
struct orderbook_edge {
	LIST_ENTRY(orderbook_edge) entry;
	char site[ORDERBOOK_SITE_MAX], name[ORDERBOOK_SITE_MAX];
	uint32_t number; /* among those of its site */
	void *owner;     /* for the owner: what it knows this edge as; NULL at first */
	/* Of all it sends or gets, counted by each plan. */
	uint64_t backlog_bytes;
	uint32_t shipments;
};

struct order_object {
	struct flight_member member; /* first: cast back */
	TAILQ_ENTRY(order_object) ready;
	struct order_object *next_dirty;
	struct order *order;
	struct shipment *shipment; /* while FLYING */
	const uint8_t *name;       /* tenant, then key */
	uint64_t length;           /* 0: not known */
	uint64_t due_ms;           /* READY: not before */
	uint32_t last_shipment;    /* attempt number of the shipment it flies or ended in, + 1 */
	uint16_t key_len;
	uint16_t attempts;
	uint16_t tried; /* bits of edges of the source that did not have it */
	uint8_t tenant_len;
	uint8_t state;      /* enum object_state */
	uint8_t status;     /* enum strait_status; PENDING unless FINAL */
	uint8_t last;       /* status of the last attempt, for texts */
	bool dirty, stored; /* stored: its row exists */
};

struct shipment {
	TAILQ_ENTRY(shipment) of_order;
	LIST_ENTRY(shipment) hashed;
	struct order *order;
	uint64_t wire;
	uint32_t attempt;
	/* Names at the order's sites; of ORDER_LOCAL both are "site/edge" of who copies. */
	char from_edge[ORDERBOOK_EDGE_MAX], to_edge[ORDERBOOK_EDGE_MAX];
	struct orderbook_edge *from, *to; /* the same; of ORDER_LOCAL NULL */
	uint64_t bytes;                   /* of its objects, as far as known then */
	uint32_t *members;                /* indices of the order's objects */
	uint32_t count;
	uint32_t open; /* objects still FLYING */
	bool dirty;
	bool is_new; /* not told to the edge: tell it when this is durable */
	bool cancel; /* the edge is to stop */
	/* what the edge says of its progress, and of that what results have told already */
	uint64_t progress_total_bytes, progress_done_bytes, counted_bytes;
	uint32_t acked; /* for the owner: results of this connection acknowledged */
};

/* Names of the objects of one append. */
struct order_names {
	struct order_names *next;
	uint8_t bytes[];
};

struct orderbook_link;

TAILQ_HEAD(shipment_list, shipment);
TAILQ_HEAD(object_list, order_object);

struct order {
	TAILQ_ENTRY(order) live;
	TAILQ_ENTRY(order) dirty_entry;
	LIST_ENTRY(order) hashed;
	uint64_t id;
	char from_site[ORDERBOOK_SITE_MAX], to_site[ORDERBOOK_SITE_MAX];
	char idempotency[ORDERBOOK_IDEMPOTENCY_MAX + 1]; /* "": none */
	char text[ORDERBOOK_TEXT_MAX];                   /* why it waits or failed */
	uint64_t created_ms, finished_ms, deadline_ms;   /* 0: not yet, none */
	uint8_t class;                                   /* enum strait_class */
	enum order_state state;
	bool dirty, stored, canceled; /* stored: its row exists */
	bool reserved;                /* address space for the most objects */
	uint32_t count, pending, committed, existed, failed;
	uint64_t committed_bytes; /* lengths of objects that are there */
	uint64_t existed_bytes;   /* of these, of those that were there before */
	uint32_t next_attempt;
	uint64_t next_due_ms; /* earliest due_ms among ready; UINT64_MAX: none */
	/*
	 * They are pointed to and never move: an open order has address space for
	 * ORDERBOOK_OBJECTS_MAX of them, of which only what is used takes memory.
	 */
	struct order_object *objects;
	struct order_names *names;
	uint8_t way;                                /* enum order_way, of what was shipped last */
	struct orderbook_edge *last_from, *last_to; /* that it had last; NULL: none */
	uint8_t opened;                             /* enum order_opened */
	uint32_t appends; /* number of the last one; 0: only what came with the submission */
	uint32_t appends_stored;
	uint32_t *append_first; /* first object of append n at [n]; NULL: was never open */
	uint64_t appended_ms;
	struct orderbook_link *link;
	struct object_list ready;
	struct order_object *dirty_objects;
	struct shipment_list shipments;
	struct progress_rate rate; /* for the owner: goodput */
	uint64_t told_bytes;       /* of all objects, as the client says; 0: not known */
	uint64_t seen_bytes;       /* of an object, as the edge before found them; 0: none did */
};

struct orderbook_key {
	const uint8_t *key, *tenant;
	size_t key_len, tenant_len;
};

struct orderbook_spec {
	const char *from_site, *to_site;
	const char *idempotency; /* NULL: none */
	unsigned int class;
	uint64_t deadline_ms;
	uint64_t bytes; /* of all objects; 0: not known */
	const struct orderbook_key *keys;
	size_t count; /* 0 only with open */
	bool open;
};

/** next_id: the first order's number. NULL + errno. */
struct orderbook *orderbook_create(uint64_t next_id, uint64_t seed);
void orderbook_destroy(struct orderbook *b);

/**
 * A new order. NULL + errno + err for people: EINVAL (class, same site, no objects, key or tenant
 * length, deadline passed), E2BIG (too many objects), EEXIST (a key twice), ENOMEM. Sites are not
 * checked for existence.
 */
struct order *orderbook_submit(struct orderbook *b, const struct orderbook_spec *spec,
	uint64_t now_ms, char *err, size_t err_len);
/** Live orders only; NULL: finished or never heard of. */
struct order *orderbook_find(struct orderbook *b, uint64_t id);
struct order *orderbook_find_idempotent(struct orderbook *b, const char *key);
struct shipment *orderbook_find_shipment(struct orderbook *b, uint64_t wire);
size_t orderbook_count(const struct orderbook *b);
/** In the order of dispatch: class, deadline, number. */
struct order *orderbook_first(struct orderbook *b);

/**
 * One result of the source edge. index counts in the shipment. Repeated and late results change
 * nothing. 0, -ENOENT (no such shipment: finished long ago, the edge may forget it), -EINVAL
 * (index out of range).
 */
int orderbook_result(struct orderbook *b, uint64_t wire, uint32_t index, unsigned int status,
	uint64_t length, uint64_t now_ms);
/** What the edge says of why the shipment's order fails, in place of our own count. */
void orderbook_explain(struct orderbook *b, uint64_t wire, const char *text);
/**
 * Everything still flying in a shipment ends with status: refused, or its edge is lost. 0 or
 * -ENOENT.
 */
int orderbook_shipment_end(struct orderbook *b, uint64_t wire, unsigned int status,
	const char *text, uint64_t now_ms);
/**
 * Everything still flying in a shipment is ready again at once, for other edges: it is no attempt
 * that failed. text: why. 0 or -ENOENT.
 */
int orderbook_hand_over(struct orderbook *b, uint64_t wire, const char *text, uint64_t now_ms);
/** What it has still to bring, as far as is known. */
uint64_t shipment_left_bytes(const struct shipment *s);
/** One edge copies; none sends. */
bool shipment_is_local(const struct shipment *s);
/**
 * More objects for an open order. number: which append this is, so that a repetition is known; 0:
 * the next, whatever it is. 0 + *taken = its number, also when it was taken before. Else err says
 * why: -ENOENT (not live), -ESHUTDOWN (sealed or never open), -ERANGE (not the next one), -EEXIST
 * (number is that of an append of other objects, or a key is there twice), -EINVAL, -E2BIG,
 * -ENOMEM. A key of an earlier append is no error: it shares that object's result.
 */
int orderbook_append(struct orderbook *b, uint64_t id, uint32_t number,
	const struct orderbook_key *keys, size_t count, uint64_t now_ms, uint32_t *taken, char *err,
	size_t err_len);
/** Nothing more will be appended; again and again is the same. 0, -ENOENT (not live). */
int orderbook_seal(struct orderbook *b, uint64_t id, uint64_t now_ms);
/** Seal open orders to which nothing was appended for so long. */
void orderbook_set_open_idle(struct orderbook *b, uint64_t ms);
/** Objects of append n of an order that was open once: [*first, *end). */
void order_append_range(const struct order *o, uint32_t n, uint32_t *first, uint32_t *end);
const char *order_opened_name(enum order_opened s);

/** Forget an order that was never stored, and of which nobody was told. Else nothing is done. */
void orderbook_drop(struct orderbook *b, uint64_t id, uint64_t now_ms);
/** 0, -ENOENT (not live). */
int orderbook_cancel(struct orderbook *b, uint64_t id, uint64_t now_ms);
/** End what passed its deadline. */
void orderbook_tick(struct orderbook *b, uint64_t now_ms);

struct orderbook_sites {
	/**
	 * Edges of the site to send from or to, by name: those that are connected and take orders.
	 * At most max, which is ORDERBOOK_EDGES_MAX.
	 */
	size_t (*edges)(void *ctx, const char *site, const char **names, size_t max);
	void *ctx;
	/**
	 * How from one site to another. Of ORDER_LOCAL *edge is "site/edge" of the one that copies.
	 * NULL: all over the WAN.
	 */
	enum order_way (*way)(void *ctx, const char *from, const char *to, const char **edge);
	/** Whether this pair is to be avoided while there is another (assign.h). NULL: none is. */
	bool (*avoid)(void *ctx, const char *from_site, const char *from, const char *to_site,
		const char *to);
	/** What is wrong with edges of a site of which none takes orders. NULL: they are away. */
	const char *(*why)(void *ctx, const char *site);
};
/**
 * Make shipments of everything that is ready, due and has both edges, in the order of dispatch,
 * each by the pair of edges that assign.h tells. What an edge of the source site did not find is
 * asked of each of the others, whose pools may be their own, before it ends NOT_FOUND. sites is
 * remembered.
 *
 * Up to ORDERBOOK_FLYING_MAX from one site to another: a slow destination fills neither the
 * edge's table of orders nor the way of others.
 */
void orderbook_plan(struct orderbook *b, const struct orderbook_sites *sites, uint64_t now_ms);

/** Orders with something to write, linked by dirty_entry; their objects by next_dirty. */
struct order *orderbook_dirty(struct orderbook *b);
/** All of it is durable and told. Frees finished orders and shipments without open objects. */
void orderbook_flushed(struct orderbook *b);

/*
 * After a restart: orderbook_restore() for each unfinished order (lowest number first) and fill
 * in objects[] with what the ledger has (status, length, attempts, last_shipment);
 * orderbook_restore_shipment() for each shipment that has open objects; orderbook_restored()
 * once. Objects whose last_shipment is such a shipment are FLYING.
 */
struct order *orderbook_restore(struct orderbook *b, uint64_t id, const struct orderbook_spec *spec,
	char *err, size_t err_len);
/** 0, -EINVAL (members do not fit the order), -ENOMEM. */
int orderbook_restore_shipment(struct orderbook *b, struct order *o, uint32_t attempt,
	const char *from_edge, const char *to_edge, const uint32_t *members, uint32_t count);
int orderbook_restored(struct orderbook *b, uint64_t now_ms);
/** It was open once, and is not any more. */
void orderbook_restore_closed(struct orderbook *b, struct order *o, enum order_opened how);
/** Append number's first object, each in order, then orderbook_restored(). 0, -EINVAL, -ENOMEM. */
int orderbook_restore_append(struct order *o, uint32_t number, uint32_t first);

/** Bytes known to be at the destination, and bytes in all as far as known. */
void order_progress(const struct order *o, uint64_t *done_bytes, uint64_t *total_bytes);

const char *order_state_name(enum order_state s);
bool order_is_final(const struct order *o);
