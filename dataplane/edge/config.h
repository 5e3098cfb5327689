/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"
#include "dataplane/edge/eal.h"
#include "dataplane/edge/peer.h"
#include "dataplane/edge/port.h"

#include <strait/strait.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * The edge's configuration file (YAML, doc/examples/edge.yaml) and what follows from it.
 *
 * Loading checks everything that can be checked without a device or the pool's memory, and
 * every error names file and line and says what to do. Strings live as long as the
 * configuration.
 */

#define EDGE_VERSION "0.1.0"

/* Of the key crypto: what follows is the device. */
#define EDGE_CRYPTODEV_PREFIX "cryptodev:"

enum {
	EDGE_POOLS_MAX = 16,
	EDGE_CAPS_MAX = 256,
	EDGE_SOCKET_MAX = 108, /* sun_path */
};

struct edge_pool_config {
	const char *tenant, *path;
	const char *site;    /* whose pool it is; NULL: the edge's own */
	const char *gateway; /* socket of the pool's gateway (pool/gateway.h); NULL: none */
	uint64_t size_bytes; /* of the file, when it is created */
	bool create;
};

struct edge_config {
	const char *path; /* of the file */
	const char *site, *edge, *state_dir;
	uint64_t drain_timeout_ns;

	struct edge_pool_config pools[EDGE_POOLS_MAX];
	uint32_t pool_count;

	struct port_config port;
	struct eal_config eal;
	unsigned int workers;
	unsigned int cpus[PORT_WORKERS_MAX]; /* of each worker, with pin */
	bool pin, poll_mode;
	uint32_t max_sleep_us; /* 0: as suits the port (port_sleep_us()) */
	uint32_t burst;        /* packets; 0: as suits the port (port_burst()) */
	uint32_t realtime;     /* SCHED_RR priority of the workers; 0: none */

	const char *listen, *advertise; /* advertise NULL: listen */
	const char *master;
	struct rpc_tls_config tls;

	/* Backend of the packet cipher: ipsec-mb, openssl or cryptodev:<device>; NULL: the best. */
	const char *crypto;
	const char *devices[2]; /* the port's, and a crypto device or NULL: for the EAL */

	uint64_t cap_bps, total_cap_bps; /* of a link; of all together */
	uint64_t lan_cap_bps;            /* of a link of the LAN profile; 0: cap_bps */
	struct peer_cap caps[EDGE_CAPS_MAX];
	uint32_t cap_count;
	struct session_credit credit[STRAIT_CLASS_COUNT]; /* 0: from the pool's size */
	uint32_t log_packets, window_packets, scratch_slots, row_slots;

	const char *socket, *capture_dir, *key_log; /* NULL: none */

	void *raw; /* what was read, defaults filled in */
};

/** 0, or -errno with one sentence in err. edge_config_fini() in any case. */
int edge_config_load(struct edge_config *cfg, const char *path, char *err, size_t err_len);
/**
 * Sites but its own whose pools it has, once each. Returns how many, into room for EDGE_POOLS_MAX.
 */
uint32_t edge_config_pool_sites(const struct edge_config *cfg, const char **sites);
void edge_config_fini(struct edge_config *cfg);

/** Everything as it is used, as YAML that can be loaded again. malloc'd. NULL + errno. */
char *edge_config_print(const struct edge_config *cfg);

/** Fill in credit that was not configured, for a pool with this much room. */
void edge_config_credit(struct edge_config *cfg, uint64_t pool_bytes);

/** Can a pool of this size be created there? 0, or -errno with what to do in err. */
int edge_config_pool_fits(const struct edge_pool_config *pool, char *err, size_t err_len);
