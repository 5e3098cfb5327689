/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/master/master.h"
#include "control/planner/federation.h"

#include <strait/wire.h>

/*
 * The registry of site masters (sub-masters) and what follows from their logs. Site masters connect
 * with a certificate of role site-master and their site; one process a site, and a second one is
 * refused while the first answers. One that is gone for forget_after is forgotten with all it held
 * (expired), until it comes back. The decisions are those of control/planner/federation.h; here
 * they meet connections, names, configuration and the order book. Everything of it is rebuilt from
 * the site masters after a restart; only orders are durable. The master's thread.
 *
 * Up to INDEX_SITES sites are followed, in the order of their configuration; others can still be
 * given orders by hand.
 */

struct replication_tenant {
	char name[STRAIT_TENANT_BYTES_MAX + 1];
	uint8_t id[16];
	bool has_id;
};

struct replication_slot {
	bool used;
	char site[ORDERBOOK_SITE_MAX];
	struct client *client; /* NULL: not connected */
	uint64_t since_ms, report_ns, refused_ns;
	uint64_t gone_ms, gone_ns; /* since when; 0: never was connected, or is */
	bool left, expired;        /* it said so; what it held is forgotten */
	bool takes_failed;
	uint8_t boot_id[16];
	char address[128], program[64], refused[256], gone[128];
	Strait__SiteReport *report; /* NULL: none yet */
	uint16_t tenants[FEDERATION_TENANTS];
	uint32_t tenant_count;
};

struct replication {
	struct federation *f;
	struct replication_slot slot[INDEX_SITES];
	struct replication_tenant tenant[FEDERATION_TENANTS];
	uint32_t tenants;
	char *secret; /* NULL: keys cannot be named here */
	size_t secret_len;
	uint64_t orders; /* submitted since the start */
};

int replication_create(struct master *m);
void replication_destroy(struct master *m);
/** Sites or policies have changed. */
void replication_configure(struct master *m);
void replication_tick(struct master *m);
/** The order has changed: what failed in it for good counts at once, durable or not. */
void replication_order_changed(struct master *m, const struct order *o);
/** The order has ended and is durable. */
void replication_order_final(struct master *m, const struct order *o);

/* ---- failed.c: what could not be fetched is told to those who might say that it is there ---- */

/** What of the order has failed, if somebody waits for it; that is durable. */
void failed_order(struct master *m, const struct order *o);
/** Nobody has it who could be asked; the site wanted it. */
void failed_fetch(struct master *m, int slot, const Strait__OrderObject *o);
/** The same of at most FEDERATION_BATCH of which no key is known here. */
void failed_nowhere(struct master *m, int slot, const struct digest128 *d, size_t n);

int sitemaster_message(struct client *c, uint16_t type, const uint8_t *body, size_t len);
/** Why, for the log. Also of clients that are no site masters: nothing. */
void sitemaster_disconnected(struct client *c, const char *why);

/** -1: not followed. */
int replication_slot(const struct replication *r, const char *site);
/** The digest of a key. -ENOKEY: there is no secret here; -EINVAL. */
int replication_digest(const struct replication *r, const Strait__OrderObject *o,
	struct digest128 *out);
/** Number of a tenant that a site has. -ENOENT. */
int replication_tenant_find(const struct replication *r, const char *name, size_t len);

/**
 * Whose objects a policy is for: a bit each, 0 for all. false: for none, as no site that was here
 * has a tenant that it names.
 */
bool replication_policy_tenants(const struct replication *r, const struct master_policy_config *p,
	uint64_t *mask);

/* ---- replication_view.c: requests of operators ---- */

void view_replication(struct view *v, struct master *m);
void view_locate(struct view *v, struct master *m, const Strait__Request *r);
void view_backfill(struct view *v, struct master *m, const Strait__Request *r);
void view_fetch(struct view *v, struct master *m, const Strait__Request *r);
void view_replication_fini(struct view *v);
