/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/config_schema.h"

#include "dataplane/edge/config.h"

/* Fields of the structure named last in each table. */
#define TEXT(type, name)                                                                           \
	CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER, type, name, 1, CYAML_UNLIMITED)
#define TEXT_OPT(type, name)                                                                       \
	CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, name, 0,     \
		CYAML_UNLIMITED)
#define UINT_OPT(type, name) CYAML_FIELD_UINT(#name, CYAML_FLAG_OPTIONAL, type, name)
/* A pointer, so that an explicit 0 is told from what is not there. */
#define COUNT_OPT(type, name)                                                                      \
	CYAML_FIELD_UINT_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, name)
#define BOOL_OPT(type, name)    CONFIG_FIELD_BOOL(#name, CYAML_FLAG_OPTIONAL, type, name)
#define MAP(type, name, fields) CYAML_FIELD_MAPPING(#name, CYAML_FLAG_DEFAULT, type, name, fields)
#define MAP_OPT(type, name, fields)                                                                \
	CYAML_FIELD_MAPPING(#name, CYAML_FLAG_OPTIONAL, type, name, fields)

static const struct cyaml_schema_field pool_fields[] = {
	TEXT_OPT(struct raw_pool, tenant),
	TEXT(struct raw_pool, path),
	TEXT_OPT(struct raw_pool, size),
	BOOL_OPT(struct raw_pool, create),
	TEXT_OPT(struct raw_pool, gateway),
	TEXT_OPT(struct raw_pool, site),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_value pool_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct raw_pool, pool_fields),
};

static const struct cyaml_schema_field port_fields[] = {
	TEXT(struct raw_port, device),
	TEXT_OPT(struct raw_port, mac),
	TEXT(struct raw_port, address),
	TEXT_OPT(struct raw_port, gateway),
	TEXT_OPT(struct raw_port, next_hop_mac),
	COUNT_OPT(struct raw_port, udp_port),
	COUNT_OPT(struct raw_port, mtu),
	UINT_OPT(struct raw_port, dscp),
	COUNT_OPT(struct raw_port, buffers),
	COUNT_OPT(struct raw_port, queues),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field eal_fields[] = {
	BOOL_OPT(struct raw_eal, hugepages),
	TEXT_OPT(struct raw_eal, memory),
	TEXT_OPT(struct raw_eal, log_level),
	BOOL_OPT(struct raw_eal, telemetry),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_value cpu_schema = {
	CYAML_VALUE_INT(CYAML_FLAG_DEFAULT, int32_t),
};

static const struct cyaml_schema_field worker_fields[] = {
	COUNT_OPT(struct raw_worker, count),
	CYAML_FIELD_INT_PTR("cpu", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct raw_worker,
		cpu),
	CYAML_FIELD_SEQUENCE("cpus", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct raw_worker,
		cpus, &cpu_schema, 0, PORT_WORKERS_MAX),
	BOOL_OPT(struct raw_worker, poll_mode),
	COUNT_OPT(struct raw_worker, max_sleep_us),
	COUNT_OPT(struct raw_worker, burst),
	UINT_OPT(struct raw_worker, realtime),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field control_fields[] = {
	TEXT(struct raw_control, listen),
	TEXT_OPT(struct raw_control, advertise),
	TEXT_OPT(struct raw_control, drain_timeout),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field master_fields[] = {
	TEXT(struct raw_master, address),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field tls_fields[] = {
	TEXT_OPT(struct raw_tls, ca),
	TEXT_OPT(struct raw_tls, cert),
	TEXT_OPT(struct raw_tls, key),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field peer_fields[] = {
	TEXT(struct raw_peer, site),
	TEXT(struct raw_peer, cap),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_value peer_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct raw_peer, peer_fields),
};

static const struct cyaml_schema_field window_fields[] = {
	TEXT_OPT(struct raw_window, bytes),
	COUNT_OPT(struct raw_window, objects),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field credit_fields[] = {
	MAP_OPT(struct raw_credit, urgent, window_fields),
	MAP_OPT(struct raw_credit, normal, window_fields),
	MAP_OPT(struct raw_credit, bulk, window_fields),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field session_fields[] = {
	COUNT_OPT(struct raw_session, scratch_slots),
	COUNT_OPT(struct raw_session, row_slots),
	COUNT_OPT(struct raw_session, log_packets),
	COUNT_OPT(struct raw_session, window_packets),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field debug_fields[] = {
	TEXT_OPT(struct raw_debug, socket),
	TEXT_OPT(struct raw_debug, capture_dir),
	TEXT_OPT(struct raw_debug, key_log),
	CYAML_FIELD_END,
};

static const struct cyaml_schema_field fields[] = {
	TEXT(struct raw_config, site),
	TEXT(struct raw_config, edge),
	TEXT(struct raw_config, state_dir),
	TEXT_OPT(struct raw_config, log_level),
	TEXT_OPT(struct raw_config, crypto),
	CYAML_FIELD_SEQUENCE("pools", CYAML_FLAG_POINTER, struct raw_config, pools, &pool_schema, 1,
		EDGE_POOLS_MAX),
	MAP(struct raw_config, port, port_fields),
	MAP_OPT(struct raw_config, eal, eal_fields),
	MAP_OPT(struct raw_config, worker, worker_fields),
	MAP(struct raw_config, control, control_fields),
	MAP(struct raw_config, master, master_fields),
	MAP_OPT(struct raw_config, tls, tls_fields),
	BOOL_OPT(struct raw_config, insecure_loopback),
	TEXT_OPT(struct raw_config, cap),
	TEXT_OPT(struct raw_config, total_cap),
	TEXT_OPT(struct raw_config, lan_cap),
	CYAML_FIELD_SEQUENCE("peers", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct raw_config,
		peers, &peer_schema, 0, EDGE_CAPS_MAX),
	MAP_OPT(struct raw_config, credit, credit_fields),
	MAP_OPT(struct raw_config, session, session_fields),
	MAP_OPT(struct raw_config, debug, debug_fields),
	CYAML_FIELD_END,
};

const struct cyaml_schema_value config_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct raw_config, fields),
};
