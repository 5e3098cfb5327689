/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"
#include "dataplane/edge/port.h"
#include "dataplane/edge/port_device.h"
#include "dataplane/edge/port_guard.h"

#include <rte_mbuf.h>

/*
 * What the worker sees of its port, besides port.h. Everything but the guard is written before
 * the worker starts and only read afterwards.
 */

struct port {
	struct port_config cfg;
	struct port_device device;
	uint16_t id;
	uint16_t queues; /* pairs the device has: one, or one a worker */
	uint16_t steered;
	struct rte_mempool *pools[PORT_WORKERS_MAX];
	struct net_identity self;
	bool hw_tx_checksum; /* UDP; the IPv4 header is summed in software, which costs nothing */
	bool hw_rx_checksum;
	bool guarded;                               /* memif: rx and tx only inside the guard */
	struct port_guard guards[PORT_WORKERS_MAX]; /* one a queue pair */
	char driver[PORT_NAME_MAX];

	/* memif client: the interrupt thread's, see port_memif.c. */
	uint64_t memif_started_ms; /* when the last attempt to connect succeeded */
	bool memif_stopped;
};

/* port_flow.c */

/**
 * Ask the device to lead each worker's UDP port to its queue. How many it does; all other packets
 * go where RSS has them. After the start.
 */
uint16_t port_flow_steer(const struct port *p);

/* port_memif.c */

/** Start a memif client and keep it connected, from the interrupt thread. 0 or -errno. */
int port_memif_client_start(struct port *p);
/** Stop and close any memif port, on the interrupt thread. */
void port_memif_close(struct port *p);
/**
 * Remove the socket file a server that was killed left behind, which would make the next one's
 * bind() fail. Only a socket that nobody listens on.
 */
void port_memif_remove_stale_socket(const char *path);
