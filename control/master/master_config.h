/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The master's configuration file:
 *
 *   listen: 0.0.0.0:7400
 *   tls: { ca: /etc/strait/ca.pem, cert: /etc/strait/master.pem, key: /etc/strait/master.key }
 *   insecure_loopback: false    # true: no TLS, listen must be in 127.0.0.0/8
 *   ledger: /var/lib/strait/master.db
 *   sites:
 *     - { name: a, label: eu, cap: 10G }
 *     - { name: b, follow: b.yaml }   # two levels: this master is the site's own, too; the file
 *                               # is one of --role site, without master and tls
 *     - { name: c, label: eu, pools_at: [a/a1] }   # edge a1 of site a has its pools, too
 *   links:                      # cap of one direction between two sites
 *     - { from: a, to: b, cap: 1G }
 *   policies:                   # what is replicated by itself; the first that matches counts,
 *                               # and without one nothing is
 *     - from: eu                # a site's name, a label, or "*"
 *       to: us
 *       allow: true
 *       class: bulk             # or normal
 *       profile: lan            # or wan; absent: lan where both sites have one label
 *       cap: 1G                 # of each such link
 *       after: 0                # so many requests must have missed it there first
 *       least: 64K              # object sizes; absent: any
 *       most: 64M
 *       ttl: 1h                 # what waited so long is not shipped any more; absent: never;
 *                               # eviction-age: orders end when the source will have evicted them
 *       pause_below: 10m        # bulk waits while the destination evicts what is younger
 *       tenants: [default]      # absent: all
 *   keys: 1000000               # expected, in all sites; it grows beyond
 *   evicted_for: 1h             # so long a site is not sent again what it evicted
 *   forget_after: 1h            # what a site master held that is gone so long
 *   secret: /etc/strait/deployment.secret    # for locate and fetch, which name keys
 *   report_interval: 1s         # 100ms to 60s
 *   keep_finished: 7d           # how long finished orders can be looked up
 *   edge_lost: 15s              # away so long, its orders go to another edge; 1s at least
 *   open_order_idle: 10m        # an open order that gets no objects so long is sealed; 1s at least
 *   log_level: info
 *
 * Caps are bits per second on the line; absent: no cap of the master. The lowest of the caps of
 * both sites and of the link counts, but for the profile lan, where those of sites do not: they are
 * of the WAN.
 */

struct master_site_config {
	char *name, *label, *cap, *follow;
	char **pools_at; /* "site/edge" */
	unsigned int pools_at_count;
	uint64_t cap_bps;
};

struct master_link_config {
	char *from, *to, *cap;
	uint64_t cap_bps;
};

struct master_policy_config {
	char *from, *to, *allow, *class, *cap, *least, *most, *ttl, *pause_below;
	char *profile; /* NULL: by the labels */
	char **tenants;
	unsigned int tenants_count;
	uint64_t after;
	bool allowed, ttl_by_age, lan;
	uint8_t shipping_class; /* enum strait_class */
	uint64_t cap_bps, least_bytes, most_bytes, ttl_ns, pause_below_ns;
};

enum { MASTER_LABEL_MAX = 127 }; /* bytes */

struct master_tls_files {
	char *ca, *cert, *key;
};

/* What libcyaml fills, and values parsed from it. */
struct master_config {
	char *listen, *ledger, *report_interval, *keep_finished, *open_order_idle, *edge_lost,
		*log_level;
	struct master_tls_files *tls;
	bool insecure_loopback;
	struct master_site_config *sites;
	unsigned int sites_count;
	struct master_link_config *links;
	unsigned int links_count;
	struct master_policy_config *policies;
	unsigned int policies_count;
	uint64_t *keys_told; /* as the file has it, where 0 is not the same as nothing */
	uint64_t keys;
	char *evicted_for, *forget_after, *secret;
	uint64_t edge_lost_ms;
	uint64_t report_ms, keep_finished_ms, open_idle_ms, evicted_ns, forget_after_ns;
};

/** NULL + errno + err with file and line. */
struct master_config *master_config_load(const char *path, char *err, size_t err_len);
/** Our certificate, which must be for role master, and the rest of TLS. NULL + errno + err. */
struct rpc_tls *master_config_tls(const struct master_config *cfg, char *err, size_t err_len);
/**
 * For --check-config: what only the start would find, without a change to anything. Certificates,
 * the ledger's directory, links of sites that neither file nor ledger has. 0 or -EINVAL + err.
 */
int master_config_check(const struct master_config *cfg, const char *path, char *err,
	size_t err_len);
/** Whether a policy's from or to means a site. */
bool master_policy_means(const char *pattern, const char *site, const char *label);
void master_config_free(struct master_config *cfg);
/** As YAML, defaults filled in. malloc'd. */
char *master_config_print(const struct master_config *cfg);
