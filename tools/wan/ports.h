/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DPDK side of strait-wan: memory plan, EAL, packet pool, the two ports. One thread; all of this
 * runs before the forward loop starts or after it ended.
 */

#include "dataplane/edge/port_device.h"
#include "tools/wan/options.h"

#include <rte_mempool.h>

#include <stddef.h>
#include <stdint.h>

/* How many packets each direction may hold, and the memory this needs. */
struct wan_plan {
	size_t packets[WAN_SIDES];
	size_t pool_packets;
	uint32_t room_bytes;
	uint64_t mem_mib;
	struct port_device device[WAN_SIDES]; /* with the sizes the MTU asks for */
};

struct wan_ports {
	uint16_t id[WAN_SIDES];
	struct rte_mempool *pool;
};

/*
 * rate x longest delay x 1.5 in packets of a full MTU, plus slack. Returns 0; -ENOMEM when that
 * exceeds --mem; -EINVAL when a port cannot carry the MTU; both with an explanation.
 */
int wan_plan_make(struct wan_plan *p, const struct wan_options *o, char *errbuf, size_t errlen);

/*
 * Start the EAL, make the pool, configure and start both ports. Links may come up later. Returns 0
 * or -errno with an explanation. May be called once in a process.
 */
int wan_ports_start(struct wan_ports *ports, const struct wan_options *o, const struct wan_plan *p,
	char *errbuf, size_t errlen);

/* Stop and close both ports, clean up the EAL. */
void wan_ports_stop(struct wan_ports *ports);
