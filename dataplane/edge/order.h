/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/way.h"
#include "control/rpc/strait.pb-c.h"
#include "dataplane/edge/control_queue.h"
#include "dataplane/pool/pool.h"

#include <strait/status.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * Orders at the source edge: from ORDER_START to one final status an object.
 *
 *   LOOKUP    objects are looked up in the pool, a slice at a time; missing ones end NOT_FOUND.
 *             A gateway's pool (pool/gateway.h) brings them first: then what was brought
 *             travels while more is looked up, and only so much is held at once
 *   ACTIVE    parts (one transfer each; an order over wire.h's limits has several) wait for a
 *             session or travel on one
 *   DONE      every object has its final status; kept until the master has all results
 *
 * Final statuses go to the order's log, whose positions only grow; the log is sent from the
 * last acknowledged position, again each second, until the master has it. A session that was
 * reset gives its parts back: what is not final is opened again on the next session, leases
 * kept.
 *
 * An order with a deadline is weighed against the link's others when its objects are found, and
 * ends DEADLINE at once with the numbers if it cannot be; later it ends so as soon as what the
 * pool still holds of it, and of those before it, is more than the link's cap lets through by then.
 *
 * Over a link of several queues an order's objects are dealt in order, each to the queue that has
 * the fewest bytes so far: all queues end at about the same time and what comes first in the order
 * arrives first, prefixes included. The parts of each queue are its own.
 *
 * An order whose way is local (order_copy.c) has no link to another edge: the control thread copies
 * its objects, a slice at a time, from a pool of one site to a pool of another.
 *
 * Objects are leased when the session wants them and released with their final status.
 *
 * Control thread only. Times are CLOCK_MONOTONIC ns unless named unix.
 */

enum {
	ORDERS_MAX = 4096,
	ORDER_LOOKUP_SLICE = 256,    /* objects looked up per orders_run() */
	ORDER_RESULTS_BATCH = 2048,  /* results a message */
	ORDER_QUEUE_BYTES = 1 << 20, /* an order takes one queue for each so many bytes */
	ORDER_NORMAL_SLOTS = 48,     /* of a session's transfers, all but urgent may use */
	ORDER_CHECK_MS = 100,        /* between looks for deadlines that cannot be kept */
	ORDER_REOPENS_MAX = 64,      /* refused or reset so often in a row: give up */
};

struct orders;
struct order;

/** One queue of a link: a session of one worker with one of the peer's. */
struct order_queue {
	struct session *session; /* NULL: none now */
	uint16_t symbol_bytes;
	uint32_t live; /* transfers handed to the session */
};

/** What orders see of a peer edge; embedded in struct peer, which keeps it up to date. */
struct order_link {
	struct order_queue queues[WORKERS_MAX]; /* all of them or none have a session */
	uint32_t queue_count;                   /* in use; 0: 1 */
	uint32_t live;                          /* of all queues */
	uint32_t orders;                        /* orders that are not done: the peer is wanted */
	bool unreachable;                       /* tried long enough: orders end */
	uint64_t goodput_bps;                   /* to be expected; 0: not known */
	uint64_t limit_bps;                     /* more is not possible; 0: not known */
	uint64_t latency_ns;                    /* from the last byte sent to the end */
	uint64_t tail_bytes;                    /* of a transfer, sent with rows */
	uint64_t scan_bytes;                    /* for orders_run() */
};

struct order_ops {
	/** Pool of a tenant, NULL: there is none. */
	struct pool *(*pool)(void *ctx, const uint8_t *tenant, size_t len);
	/** The same of a site, NULL: none here. tenant NULL: any. Only for orders to copy. */
	struct pool *(*pool_of)(void *ctx, const char *site, const uint8_t *tenant, size_t len);
	/**
	 * The link an order needs; starts connecting. NULL: too many peers. Never goes away.
	 */
	struct order_link *(*link)(void *ctx, const Strait__OrderStart *m);
	/** Something changed that orders_run() or orders_flush() should see soon. */
	void (*kick)(void *ctx);
};

struct orders *orders_create(const struct order_ops *ops, void *ctx, struct control_queue *queue);
/** All sessions are gone. Leases are released. */
void orders_destroy(struct orders *os);

/**
 * ORDER_START. Returns the status of the ORDER_ACCEPT: PENDING, or why it is refused with
 * *text. The term was checked. A known order goes on: what it misses is sent again, and failed
 * objects the master knows about and lists as pending are tried again.
 */
uint8_t orders_start(struct orders *os, uint64_t now_ns, const Strait__OrderStart *m,
	const char **text);
/** ORDER_CANCEL. false: unknown order. */
bool orders_cancel(struct orders *os, uint64_t order);
/** ORDER_RESULTS_ACK. */
void orders_ack(struct orders *os, const Strait__OrderResultsAck *m);
/** The master's connection is new: everything not acknowledged is to be sent again. */
void orders_resend(struct orders *os);

/** Look up, start what fits, end what is overdue or unreachable. true: call again at once. */
bool orders_run(struct orders *os, uint64_t now_ns, uint64_t unix_ms);
/** There are orders to copy: call orders_copy(). */
bool orders_are_copied(const struct orders *os);
/** Copy a slice. Returns in how many ns to call again, UINT64_MAX: orders_run() comes first. */
uint64_t orders_copy(struct orders *os, uint64_t now_ns);
/** Objects and bytes that were copied since the start. */
void orders_copied(const struct orders *os, uint64_t *objects, uint64_t *bytes);
/** Results not sent yet, or not acknowledged for a second. send returns non-zero to stop. */
void orders_flush(struct orders *os, uint64_t now_ns,
	int (*send)(void *ctx, const Strait__OrderResults *m), void *ctx);

/**
 * TX events of a session, TX_REJECTED as TX_CLOSED with RESET. Consumes transfers that
 * closed.
 */
void orders_event(struct orders *os, uint64_t now_ns, const struct session_event *ev);
/** Free closed transfers no command can name any more. */
void orders_reap(struct orders *os, uint64_t now_ns);

/** Start nothing more. */
void orders_drain(struct orders *os);
/** Transfers handed to sessions. */
uint32_t orders_live(const struct orders *os);
/** Not done. */
uint32_t orders_pending(const struct orders *os);

/** Progress of every order that is not done: calls back with bytes of objects. */
void orders_progress(struct orders *os,
	void (*cb)(void *ctx, uint64_t order, uint64_t total, uint64_t done), void *ctx);
