/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"
#include "control/rpc/rpc.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Configuration of strait-master --role site:
 *
 *   site: a
 *   secret: /etc/strait/deployment.secret   # 16 bytes or more, the same at all sites, mode 0600
 *   sources:
 *     - name: mooncake-1
 *       events: tcp://10.0.0.5:5557          # --kv_events_bind_endpoint of the Mooncake master
 *       admin: http://10.0.0.5:9003          # its metrics port
 *       list_every: 10m                      # to half as long again: finds what went in silence
 *     - name: pool                           # an embedded pool
 *       pool: /dev/shm/strait/a.pool
 *       tenant: default
 *       publish: tcp://127.0.0.1:5557        # its events as a Mooncake master's; absent: not
 *     - name: vllm-0                         # an inference engine: vllm or sglang
 *       engine: vllm
 *       events: tcp://10.0.0.6:5557          # of each data-parallel rank one source
 *       replay: tcp://10.0.0.6:5558          # its replay_endpoint; absent: none
 *       topic: kv-events                     # absent: any
 *       keys: ["{hash}"]                     # objects of a block (control/sources/block_names.h)
 *       media: [GPU, CPU]                    # absent: any
 *       tenant: default
 *   tenants:                                 # 1 to 64
 *     - name: default
 *       socket: /run/strait/exist-default.sock   # where its processes ask; absent: nobody does
 *       users: [vllm, 1001]                  # who they are: names or numbers of this machine;
 *       groups: [inference]                  # neither: root and the master's own user alone
 *   keys: 1000000                            # expected; it grows beyond
 *   memory: 8G                               # of key strings
 *   max_age: 30s                             # older than that nothing is known
 *   negative_for: 5s                         # so long what could not be fetched is NO; 0: never
 *   state_dir: /var/lib/strait-site          # what was brought and evicted, over a restart
 *   master: 10.0.0.1:7400                    # the inter-dc master; absent: none
 *   tls: { ca: ca.pem, cert: site-a.pem, key: site-a.key }   # role site-master
 *   insecure_loopback: false                 # true instead of tls: a master in 127.0.0.0/8
 *   evicted_for: 1h                          # so long nothing that was evicted is taken again
 *   layouts: /etc/strait/layouts.yaml        # control/keys/keys.h; absent: keys are opaque
 *   log_level: info
 */

enum { SITE_SOURCES_MAX = 1024 };

struct site_source_config {
	char *name, *events, *admin, *list_every; /* a Mooncake master */
	char *pool, *tenant, *publish;            /* an embedded pool */
	char *engine, *replay, *topic;            /* an inference engine */
	char **keys, **media;
	unsigned int keys_count, media_count;
	uint64_t list_every_ns;
	uint16_t tenant_number;
};

struct site_tenant_config {
	char *name, *socket;
	char **users, **groups;
	unsigned int users_count, groups_count;
	uint32_t *uids, *gids; /* resolved: tenant.h */
	struct digest_key key; /* derived */
	uint8_t id[16];        /* equal where the key is, tells nothing about it */
};

struct site_tls_files {
	char *ca, *cert, *key;
};

struct site_config {
	char *site, *secret, *memory, *max_age, *log_level, *state_dir, *master, *evicted_for;
	char *layouts, *negative_for;
	struct site_tls_files *tls;
	bool insecure_loopback;
	struct site_source_config *sources;
	unsigned int sources_count;
	struct site_tenant_config *tenants;
	unsigned int tenants_count;
	uint64_t *keys_told; /* as the file has it, where 0 is not the same as nothing */
	uint64_t keys;
	uint64_t memory_bytes, max_age_ns, evicted_ns, negative_ns;
};

/** NULL + errno + err with file and line. */
struct site_config *site_config_load(const char *path, char *err, size_t err_len);
void site_config_free(struct site_config *cfg);
/** For cfg->master. The certificate must be of role site-master and of this site. NULL + errno. */
struct rpc_tls *site_config_tls(const struct site_config *cfg, char *err, size_t err_len);
/**
 * For --check-config: what only the start would find, certificates and the state directory. 0 or
 * -EINVAL + err.
 */
int site_config_check(const struct site_config *cfg, const char *path, char *err, size_t err_len);
/** As YAML, defaults filled in. malloc'd. */
char *site_config_print(const struct site_config *cfg);

/**
 * A tenant's digest key: HKDF-SHA256 (RFC 5869, no salt) of the deployment's secret, info
 * "strait digest " and the tenant's name. 0 or -EINVAL.
 */
int site_tenant_key(const void *secret, size_t len, const char *tenant, struct digest_key *out);
/** Names a tenant's key without telling it: its digest of "strait tenant id". */
void site_tenant_id(const struct digest_key *key, uint8_t out[static 16]);
