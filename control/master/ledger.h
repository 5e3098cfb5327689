/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/orderbook.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What must survive the master: term, sites, edges seen, orders with their objects and open
 * shipments. One SQLite file in WAL mode, synchronous=FULL: what a commit returned for is there
 * after kill -9 and after power loss. A lock file beside it keeps a second master out; reading it
 * with sqlite3 while the master runs is fine.
 *
 * One thread. Calls block on the disk: about 2 ms a commit.
 */

struct ledger;

/**
 * Open or create path (mode 0600). NULL + errno + err: EBUSY another master has it, EPROTO newer
 * schema.
 */
struct ledger *ledger_open(const char *path, char *err, size_t err_len);
void ledger_close(struct ledger *l);
/** Why the last call failed. */
const char *ledger_error(struct ledger *l);

/** Raise the term by one, to min_term at least, durably. 0 or -EIO. */
int ledger_next_term(struct ledger *l, uint64_t min_term, uint64_t *term);

/*
 * ---- one transaction of changes: begin, put.., commit. Anything that fails: rollback. 0 or
 * -EIO. ----
 */

int ledger_begin(struct ledger *l);
int ledger_commit(struct ledger *l);
void ledger_rollback(struct ledger *l);
/**
 * The order's row and everything dirty below it. Its end, and objects of it that are at the
 * destination, get their place among the commits, as of now_ms.
 */
int ledger_order_put(struct ledger *l, const struct order *o, uint64_t now_ms);

/** Load every unfinished order into an empty book. 0 or -EIO + err. */
int ledger_restore(struct ledger *l, struct orderbook *b, uint64_t now_ms, char *err,
	size_t err_len);
/** Highest order number ever used. */
uint64_t ledger_last_order(struct ledger *l);

/*
 * ---- each a transaction of its own
 * ----------------------------------------------------------------
 */

struct ledger_site {
	const char *name, *label;
	uint64_t cap_bps;
};
int ledger_site_put(struct ledger *l, const struct ledger_site *s);
/** 0, -ENOENT, -EIO. */
int ledger_site_del(struct ledger *l, const char *name);
/**
 * Whether the ledger at path, in use or not, has a site of this name, or label if that counts, too;
 * false if it cannot be read.
 */
bool ledger_peek_site(const char *path, const char *name, bool label);
int ledger_sites(struct ledger *l, void (*cb)(const struct ledger_site *s, void *ctx), void *ctx);

struct ledger_edge {
	const char *site, *name, *mgmt_address, *program;
	uint64_t last_seen_ms;
	unsigned int flags; /* enum ledger_edge_flag */
};

enum ledger_edge_flag {
	LEDGER_EDGE_DRAINING = 1, /* an operator said so */
	LEDGER_EDGE_LOST = 2,     /* others have what it had, and it is not heard yet */
	LEDGER_EDGE_LEFT = 4,     /* it said that it stops, and sent nothing any more */
};
int ledger_edge_put(struct ledger *l, const struct ledger_edge *e);
int ledger_edges(struct ledger *l, void (*cb)(const struct ledger_edge *e, void *ctx), void *ctx);

/*
 * ---- finished orders, for people
 * ------------------------------------------------------------------
 */

struct ledger_order {
	uint64_t id, created_ms, finished_ms, deadline_ms, bytes;
	const char *from_site, *to_site, *text;
	unsigned int class, state;
	uint32_t objects, committed, existed, failed;
	unsigned int opened; /* enum order_opened */
	uint32_t appends;
	unsigned int way; /* enum order_way */
};
/** Newest first. */
int ledger_orders(struct ledger *l, uint32_t limit,
	void (*cb)(const struct ledger_order *o, void *ctx), void *ctx);
/** 0, -ENOENT, -EIO. */
int ledger_order(struct ledger *l, uint64_t id, void (*cb)(const struct ledger_order *o, void *ctx),
	void *ctx);

struct ledger_object {
	const void *key, *tenant;
	size_t key_len, tenant_len;
	unsigned int status;
	uint64_t length;
};
int ledger_objects(struct ledger *l, uint64_t order,
	void (*cb)(const struct ledger_object *o, void *ctx), void *ctx);
/** Where append n of an order begins, for each n from 0. */
int ledger_appends(struct ledger *l, uint64_t order,
	void (*cb)(uint32_t number, uint32_t first, void *ctx), void *ctx);
/** Lengths of the objects that the order carried: COMMITTED, not EXISTS. */
uint64_t ledger_carried_bytes(struct ledger *l, uint64_t order);
/** Order submitted with this key; 0: none. */
uint64_t ledger_idempotent(struct ledger *l, const char *key);
/** Orders by state. */
int ledger_counts(struct ledger *l, uint64_t counts[static ORDER_STATE_COUNT]);
/** Delete some orders finished before; returns how many, 0 when there are no more, or -EIO. */
int ledger_prune(struct ledger *l, uint64_t before_ms);

/*
 * ---- commits, in order (ledger_commits.c): each is durable with what it tells of
 * --------------------------------------------------------------------------------
 */

enum { LEDGER_COMMITS_MAX = 1 << 22 }; /* and none is kept longer than a finished order */

struct ledger_commit {
	uint64_t seq, at_ms, order;
	bool ended; /* the order has; else an object is at the destination */
	const char *from_site, *to_site;
	unsigned int class;
	/* of an object */
	struct ledger_object object;
	/* of an order's end */
	unsigned int state;
	uint32_t objects, committed, existed, failed;
	uint64_t bytes;
};

/** Random, of this ledger: seqs of another mean nothing here. */
uint32_t ledger_commit_epoch(const struct ledger *l);
/** Seq that the next commit gets; the first is 1. */
uint64_t ledger_commit_next(const struct ledger *l);
/** Oldest one that can be read; ledger_commit_next() if there is none. */
uint64_t ledger_commit_first(struct ledger *l);
/**
 * At most n from seq on, until cb returns false, which then was not taken. How many were taken;
 * -ESTALE: seq is not kept any more; -EIO.
 */
int ledger_commits(struct ledger *l, uint64_t seq, uint32_t n,
	bool (*cb)(const struct ledger_commit *c, void *ctx), void *ctx);
/** Whether all objects of an order, one at least, are of this tenant with such a prefix. */
bool ledger_order_is_of(struct ledger *l, uint64_t order, const void *tenant, size_t tenant_len,
	const void *prefix, size_t prefix_len);
