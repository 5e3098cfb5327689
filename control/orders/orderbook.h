/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/flight.h"

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
	ORDERBOOK_TEXT_MAX = 200,
	ORDERBOOK_IDEMPOTENCY_MAX = 128,
	ORDERBOOK_SHIPMENT_KEY_BYTES_MAX = 24 << 20, /* the manifest's limit, less its lengths */
	ORDERBOOK_DEADLINE_GRACE_MS = 2000,          /* the edge itself says DEADLINE first */
};

enum order_state {
	ORDER_QUEUED,
	ORDER_RUNNING,
	ORDER_DONE,
	ORDER_FAILED,
	ORDER_CANCELED,
	ORDER_STATE_COUNT,
};

enum object_state { OBJECT_READY, OBJECT_FOLLOWING, OBJECT_FLYING, OBJECT_FINAL };

struct order;
struct orderbook;

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
	uint8_t tenant_len;
	uint8_t state;  /* enum object_state */
	uint8_t status; /* enum strait_status; PENDING unless FINAL */
	uint8_t last;   /* status of the last attempt, for texts */
	bool dirty;
};

struct shipment {
	TAILQ_ENTRY(shipment) of_order;
	LIST_ENTRY(shipment) hashed;
	struct order *order;
	uint64_t wire;
	uint32_t attempt;
	char from_edge[ORDERBOOK_SITE_MAX], to_edge[ORDERBOOK_SITE_MAX];
	uint32_t *members; /* indices of the order's objects */
	uint32_t count;
	uint32_t open; /* objects still FLYING */
	bool dirty;
	bool is_new; /* not told to the edge: tell it when this is durable */
	bool cancel; /* the edge is to stop */
	/* what the edge says of its progress, and of that what results have told already */
	uint64_t progress_total_bytes, progress_done_bytes, counted_bytes;
	uint32_t acked; /* for the owner: results of this connection acknowledged */
};

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
	uint32_t count, pending, committed, existed, failed;
	uint64_t committed_bytes; /* lengths of objects that are there */
	uint64_t existed_bytes;   /* of these, of those that were there before */
	uint32_t next_attempt;
	uint64_t next_due_ms; /* earliest due_ms among ready; UINT64_MAX: none */
	struct order_object *objects;
	uint8_t *names;
	struct object_list ready;
	struct order_object *dirty_objects;
	struct shipment_list shipments;
	uint64_t rate_bps, rate_bytes, rate_ms; /* for the owner: goodput, measured since */
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
	const struct orderbook_key *keys;
	size_t count;
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
/**
 * Everything still flying in a shipment ends with status: refused, or its edge is lost. 0 or
 * -ENOENT.
 */
int orderbook_shipment_end(struct orderbook *b, uint64_t wire, unsigned int status,
	const char *text, uint64_t now_ms);
/** 0, -ENOENT (not live). */
int orderbook_cancel(struct orderbook *b, uint64_t id, uint64_t now_ms);
/** End what passed its deadline. */
void orderbook_tick(struct orderbook *b, uint64_t now_ms);

struct orderbook_sites {
	/** A connected edge of the site to send from or to; NULL: none now. */
	const char *(*edge)(void *ctx, const char *site);
	void *ctx;
};
/** Make shipments of everything that is ready, due and has both edges. */
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

/** Bytes known to be at the destination, and bytes in all as far as known. */
void order_progress(const struct order *o, uint64_t *done_bytes, uint64_t *total_bytes);

const char *order_state_name(enum order_state s);
bool order_is_final(const struct order *o);
