/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Site masters as an inter-dc master sees them, all in one process: each registers with a
 * certificate of its own over mutual TLS, feeds its log (control/log/feed.h, ring.h) as
 * control/site/uplink.h does, and reports once a second. What is behind them is made up: clients
 * in sub-clusters, each of which keeps as many objects as the others, stores the blocks of one
 * request at a time and evicts its oldest. An object's digest follows from its number, so that
 * 50 M of them take no memory here. One thread, that of the event base.
 */

enum {
	FLEET_SITES = 16,
	FLEET_SUBCLUSTERS = 100,
	FLEET_CLIENTS = 10000,
	FLEET_REQUEST = 32, /* objects stored, and as many evicted, by one request */
};

struct event_base;
struct fleet;

struct fleet_config {
	const char *dir;     /* of certificates: sNN.pem and sNN.key, ca.pem */
	const char *address; /* of the inter-dc master */
	uint64_t keys;       /* in all sites, evenly */
};

/** NULL + errno; err says more. */
struct fleet *fleet_create(struct event_base *base, const struct fleet_config *cfg, char *err,
	size_t err_len);
void fleet_destroy(struct fleet *f);

/** Events a second of all sites from now on; 0: none. */
void fleet_rate(struct fleet *f, double events_per_s);
uint64_t fleet_events(const struct fleet *f);
/** Name of a site, "s00". */
const char *fleet_site(uint32_t site);
/** For how long the oldest event after seq waits at now_ns; 0: there is none. */
uint64_t fleet_behind_ns(const struct fleet *f, uint32_t site, uint64_t seq, uint64_t now_ns);
/** Bytes of log frames sent. */
uint64_t fleet_bytes(const struct fleet *f);
