/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/master/ledger.h"
#include "control/master/master_config.h"
#include "control/orders/orderbook.h"
#include "control/orders/shares.h"
#include "control/rpc/rpc.h"
#include "control/rpc/strait.pb-c.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * strait-master in the inter-dc role, put together of
 *
 *   master.c      the loop: timers, commit cycle, start and stop
 *   sites.c       what sites, links and edges there are
 *   clients.c     connections: who may do what
 *   edges.c       messages of edges: registration, results, reports; shipments to them
 *   failover.c    edges that drain, or are lost
 *   links.c       each edge's share of the caps of links and sites (links.h)
 *   operators.c   requests of straitctl
 *   unwritten.c   what they are told while the ledger cannot be written
 *   commits.c     who follows what is committed (commits.h)
 *   view.c        orders, sites and edges as messages for people
 *   replication.c what sites hold by the word of their site masters, and orders for what is
 *                 missing (replication.h)
 *   local_sites.c sites whose sources this master follows itself (local_sites.h)
 *
 * Whatever happens to an order happens in the order book first; master_changed() then has it
 * committed within MASTER_COMMIT_MS, and only after the commit are edges and operators told. One
 * thread.
 */

enum {
	MASTER_COMMIT_MS = 10,   /* changes of this long share a commit */
	MASTER_TICK_MS = 100,    /* deadlines and retries */
	MASTER_WATCH_MS = 500,   /* between replies to ORDER_WATCH */
	MASTER_AVOID_MS = 30000, /* a pair of edges that did not reach each other gets no orders */
	MASTER_REFUSED_MS = 300000, /* a refused edge tries again more often than that */
	MASTER_ORDERS_LIVE_MAX = 65536,
	MASTER_VERSION = 1, /* of the control protocol */
	MASTER_POOL_SITES_MAX = 16,
};

#define MASTER_PROGRAM "strait-master 0.1.0"

struct master;

struct site {
	TAILQ_ENTRY(site) entry;
	char name[ORDERBOOK_SITE_MAX], label[MASTER_LABEL_MAX + 1];
	uint64_t cap_bps;
	bool configured, stored; /* by the file, by `straitctl site add` */
};

struct edge {
	TAILQ_ENTRY(edge) entry; /* by site, then name */
	char site[ORDERBOOK_SITE_MAX], name[ORDERBOOK_SITE_MAX];
	char full[ORDERBOOK_EDGE_MAX]; /* "site/edge" */
	/* Sites but its own whose pools it says it has, too; they count if pools_at names it. */
	char pool_sites[MASTER_POOL_SITES_MAX][ORDERBOOK_SITE_MAX];
	uint32_t pool_site_count;
	char mgmt_address[256], program[64];
	struct client *client; /* NULL: not connected */
	uint64_t since_ms, last_seen_ms;
	Strait__EdgeReport *report; /* NULL: none yet */
	uint8_t boot_id[16];        /* of the process that registered last */
	char refused[256];          /* why its last registration was; "": it was not */
	uint64_t refused_ms;
	bool leaving;              /* it takes no orders: it is to stop */
	bool draining;             /* an operator said so; durable, as are left and shares.fenced */
	bool left;                 /* it said that it stops and sends nothing any more */
	struct shares_edge shares; /* of caps; whether it is lost, and since when it is away */
};

/* A result message whose acknowledgement waits for the commit. */
struct pending_ack {
	uint64_t wire;
	uint32_t next;
};

struct client {
	LIST_ENTRY(client) entry;
	struct master *master;
	struct rpc_conn *conn;
	/* role edge */
	struct edge *edge; /* NULL until it registered */
	struct pending_ack *acks;
	size_t nacks, acks_room;
	/* role site-master */
	bool site_master; /* registered, and not replaced since */
	uint16_t slot;
	/* role operator */
	uint64_t await_order; /* answer when the commit is done; 0: nothing */
	uint64_t watch_order; /* 0: none */
	/* role operator or tenant */
	struct subscription *commits; /* NULL: none */
};

struct master {
	struct event_base *base;
	struct master_config *cfg;
	const char *cfg_path;
	struct rpc_tls *tls;
	struct rpc_listener *listener;
	struct ledger *ledger;
	struct orderbook *book;
	struct event *commit_timer, *tick_timer, *watch_timer;
	struct signals *signals;
	TAILQ_HEAD(, site) sites;
	TAILQ_HEAD(, edge) edges;
	LIST_HEAD(, client) clients;
	TAILQ_HEAD(, subscription) subscriptions; /* commits.h */
	uint32_t subscriptions_count;
	struct event *commits_timer;
	struct replication *replication;
	struct local_sites *locals;
	struct shares shares; /* links.h */
	uint64_t term, started_ns;
	bool commit_wanted, stopping;
	char ledger_trouble[256]; /* "": commits work */
};

/* ---- master.c ---- */

struct master_options {
	const char *config;
	uint64_t min_term;
};

/** Run until SIGTERM. 0 or -errno; reasons are logged. */
int master_run(const struct master_options *opt, struct master_config *cfg);
/** Have everything committed soon. */
void master_changed(struct master *m);

/* ---- sites.c ---- */

struct site *site_find(struct master *m, const char *name);
/** The site, new or changed. NULL: out of memory. */
struct site *site_put(struct master *m, const char *name, const char *label, uint64_t cap_bps);
void site_remove(struct master *m, struct site *s);
struct edge *edge_find(struct master *m, const char *site, const char *name);
struct edge *edge_put(struct master *m, const char *site, const char *name);
/** Load sites and edges of configuration and ledger. */
int sites_load(struct master *m);
/** Sites of a new configuration in place of the old one's. */
void sites_configure(struct master *m);
void sites_free(struct master *m);
/** Edges of the site that take orders, by name, for orderbook_plan(); ctx is the master. */
size_t sites_edges(void *ctx, const char *site, const char **names, size_t max);
/** The first of them. NULL: none. */
const char *sites_edge(struct master *m, const char *site);
/** It is connected, and neither drains nor stops. */
bool edge_takes(const struct edge *e);
/** For orderbook_plan(): why a site whose edges are connected has none to take orders. */
const char *sites_why(void *ctx, const char *site);
/** An edge of the site by its name, or the one whose "site/edge" is given. NULL: unknown. */
struct edge *edge_of(struct master *m, const char *site, const char *name);
/** Whether the edge's word that it has pools of that site counts: the site's pools_at names it. */
bool sites_allow_pools(const struct master *m, const struct edge *e, const char *site);
/** For orderbook_plan(); ctx is the master. Wholly by what is connected and configured now. */
enum order_way sites_way(void *ctx, const char *from, const char *to, const char **edge);
/** Whether an order from there to there could go out. */
bool sites_reach(struct master *m, const char *from, const char *to);
/**
 * Whether that could ever be: not if one of them never had an edge and no edge is to have pools of
 * both. Then nothing is planned, which would only be in others' way.
 */
bool sites_may_reach(struct master *m, const char *from, const char *to);
/** Whether an edge that has its pools is connected. */
bool sites_has_edge(struct master *m, const char *site);
/** The policy that counts from site to site; NULL: none. */
const struct master_policy_config *policy_find(const struct master *m, const struct site *from,
	const struct site *to);
/**
 * Cap from site to site: the lowest of the link's, the policy's and, over the WAN, both sites'; 0:
 * none.
 */
uint64_t sites_cap(struct master *m, const char *from, const char *to);
/** Of these the link's and the policy's, which count in one direction between two sites. */
uint64_t sites_pair_cap(struct master *m, const struct site *from, const struct site *to);

/* ---- clients.c ---- */

extern const struct rpc_handler client_handler;
void clients_close(struct master *m);

/* ---- edges.c ---- */

int edge_message(struct client *c, uint16_t type, const uint8_t *body, size_t len);
void edge_disconnected(struct client *c);
/** After a commit: tell edges of new and canceled shipments of this order. */
void edges_tell(struct master *m, const struct order *o);
/** After a commit: acknowledge results. */
void edges_acknowledge(struct master *m);
/** Tell the edge of a shipment again, or for the first time. */
void edges_start(struct master *m, struct shipment *s);
/** It sends this one, or copies it. */
bool edge_ships(const struct edge *e, const struct shipment *s);
/** Have the ledger know what it should of the edge. 0, or -EIO, which was logged. */
int edge_remember(struct master *m, const struct edge *e);

/* ---- failover.c ---- */

/** Give up on edges that are gone where another one could do their work. Every second. */
void edges_failover(struct master *m);
/**
 * Take orders from the edge "site/edge" or give it some again; hand_over: what it has goes to
 * others now. 0, 1 (it is done, but no other takes orders, so nothing was handed over), -ENOENT,
 * -EEXIST (several edges have this name), -EIO.
 */
int edge_drain(struct master *m, const char *name, bool drain, bool hand_over, const char *by);
/** active, draining, drained or gone. */
const char *edge_state(const struct master *m, const struct edge *e);
/** Shipments it sends or gets, and what they have left. */
void edge_load(const struct master *m, const struct edge *e, uint64_t *orders, uint64_t *bytes);
/** It sends or gets this one. */
bool edge_has(const struct edge *e, const struct shipment *s);

/* ---- operators.c ---- */

int operator_message(struct client *c, uint16_t type, const uint8_t *body, size_t len);
/** After a commit: answer what waited for it. */
void operators_committed(struct master *m);
/** Progress to those who watch. */
void operators_watch(struct master *m);
/** Error and text in reply to a request. */
void operator_refuse(struct client *c, int err, const char *text);

/* ---- unwritten.c ---- */

/** After a commit that failed: tell who waited for it, and drop what was new. */
void operators_unwritten(struct master *m);
/** While the ledger cannot be written, refuse what would change orders. true: answered. */
bool operators_refuse_unwritten(struct client *c, const Strait__Request *r);

/* ---- view.c ---- */

/* A reply under construction; everything in it is freed at once. */
struct view {
	Strait__Reply reply;
	char text[256];
	bool failed; /* out of memory */
};

void view_init(struct view *v);
void view_fini(struct view *v);
void view_fail(struct view *v, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Live or from the ledger, with objects. 0, -ENOENT, -EIO. */
int view_order(struct view *v, struct master *m, uint64_t id, bool with_objects);
int view_orders(struct view *v, struct master *m, uint32_t limit);
void view_site(struct view *v, struct master *m, const struct site *s);
void view_edge(struct view *v, const struct master *m, const struct edge *e);
/** A zeroed item more of an array of pointers in the reply; freed with it. NULL: v->failed. */
void *view_append(struct view *v, void *array, size_t *n, size_t size);
/** A copy that is freed with the item that holds it. NULL: v->failed. */
char *view_dup(struct view *v, const char *text);
void view_dup_bytes(struct view *v, ProtobufCBinaryData *out, const void *data, size_t len);
/** One more name of a list of the reply, which its item frees. */
void view_add_name(struct view *v, char ***list, size_t *n, const char *name);
void view_counter(struct view *v, const char *name, uint64_t value);
