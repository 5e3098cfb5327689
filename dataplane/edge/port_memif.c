/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_priv.h"

#include <rte_alarm.h>
#include <rte_ethdev.h>

#include <time.h>

/*
 * A memif client connects once, when it is started, and that start fails while the server is not there; after
 * a lost connection it stays down. So a client port is started again until its link is up. The alarm
 * runs on the EAL's interrupt thread, as the driver's own connection handling does: one after the
 * other, never at once.
 */

enum {
	RETRY_US = 100 * 1000,
	CONNECT_MS = 1000, /* a connected server that does not get us up by then is tried afresh */
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void reconnect(struct port *p)
{
	struct rte_eth_link link;

	if (!p->memif_stopped) {
		if (rte_eth_link_get_nowait(p->id, &link) == 0 && link.link_status)
			return;
		if (now_ms() - p->memif_started_ms < CONNECT_MS)
			return;
		/*
		 * A stopped port has burst functions that complain and dump the stack, so the worker stays
		 * outside from before the stop until a start succeeded.
		 */
		if (!port_guard_close(&p->guard))
			return;
		p->memif_stopped = true;
		rte_eth_dev_stop(p->id);
	}
	if (rte_eth_dev_start(p->id) != 0)
		return;
	p->memif_started_ms = now_ms();
	p->memif_stopped = false;
	port_guard_open(&p->guard);
}

static void reconnect_cb(void *arg)
{
	struct port *p = arg;

	reconnect(p);
	rte_eal_alarm_set(RETRY_US, reconnect_cb, p);
}

int port_memif_client_start(struct port *p)
{
	p->memif_stopped = true;
	atomic_store(&p->guard.closed, true);
	return rte_eal_alarm_set(1, reconnect_cb, p);
}

void port_memif_client_stop(struct port *p)
{
	rte_eal_alarm_cancel(reconnect_cb, p);
}
