/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/base/config.h"

#include <stdbool.h>
#include <stdint.h>

/* The configuration file as libcyaml reads it; config.c turns it into struct edge_config. */

struct raw_pool {
	char *tenant, *path, *size, *gateway, *site;
	bool create;
};

struct raw_port {
	char *device, *mac, *address, *gateway, *next_hop_mac;
	uint32_t *udp_port, *mtu, *buffers, *queues; /* NULL: not given */
	uint32_t dscp;
};

struct raw_eal {
	bool hugepages, telemetry;
	char *memory, *log_level;
};

struct raw_worker {
	int32_t *cpu;
	uint32_t *count;
	int32_t *cpus; /* of several */
	uint32_t cpus_count;
	bool poll_mode;
	uint32_t *max_sleep_us;
	uint32_t *burst;
	uint32_t realtime;
};

struct raw_control {
	char *listen, *advertise, *drain_timeout;
};

struct raw_master {
	char *address;
};

struct raw_tls {
	char *ca, *cert, *key;
};

struct raw_peer {
	char *site, *cap;
};

struct raw_window {
	char *bytes;
	uint32_t *objects;
};

struct raw_credit {
	struct raw_window urgent, normal, bulk;
};

struct raw_session {
	uint32_t *scratch_slots, *row_slots, *log_packets, *window_packets;
};

struct raw_debug {
	char *socket, *capture_dir, *key_log;
};

struct raw_config {
	char *site, *edge, *state_dir, *log_level, *crypto, *cap, *total_cap, *lan_cap;
	bool insecure_loopback;
	struct raw_pool *pools;
	uint32_t pools_count;
	struct raw_port port;
	struct raw_eal eal;
	struct raw_worker worker;
	struct raw_control control;
	struct raw_master master;
	struct raw_tls tls;
	struct raw_peer *peers;
	uint32_t peers_count;
	struct raw_credit credit;
	struct raw_session session;
	struct raw_debug debug;
};

extern const struct cyaml_schema_value config_schema;
