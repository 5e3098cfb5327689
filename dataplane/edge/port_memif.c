/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_priv.h"

#include <rte_alarm.h>
#include <rte_ethdev.h>
#include <rte_log.h>

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/*
 * A memif client connects once, when it is started, and that start fails while the server is not
 * there; after a lost connection it stays down. So a client port is started again until its link
 * is up.
 *
 * The driver handles connections on the EAL's interrupt thread and takes no lock against the
 * functions of ethdev: a port closed while its peer goes away is freed twice. So starts, stops
 * and the close are done in alarms, which run on that same thread: one after the other, never at
 * once.
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

static void open_guards(struct port *p, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		port_guard_open(&p->guards[i]);
}

static bool close_guards(struct port *p)
{
	for (uint16_t i = 0; i < p->queues; i++) {
		if (!port_guard_close(&p->guards[i])) {
			open_guards(p, i);
			return false;
		}
	}
	return true;
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
		 * A stopped port has burst functions that complain and dump the stack, so the
		 * worker stays outside from before the stop until a start succeeded.
		 */
		if (!close_guards(p))
			return;
		p->memif_stopped = true;
		rte_eth_dev_stop(p->id);
	}
	if (rte_eth_dev_start(p->id) != 0)
		return;
	p->memif_started_ms = now_ms();
	p->memif_stopped = false;
	open_guards(p, p->queues);
}

static void reconnect_cb(void *arg)
{
	struct port *p = arg;

	reconnect(p);
	rte_eal_alarm_set(RETRY_US, reconnect_cb, p);
}

int port_memif_client_start(struct port *p)
{
	int log = rte_log_register("pmd.net.memif");

	/* Each attempt without a server is an error to the driver, which says nothing new. */
	if (log >= 0 && rte_log_get_level((uint32_t)log) == RTE_LOG_ERR)
		rte_log_set_level((uint32_t)log, RTE_LOG_CRIT);
	p->memif_stopped = true;
	for (uint16_t i = 0; i < p->queues; i++)
		atomic_store(&p->guards[i].closed, true);
	return rte_eal_alarm_set(1, reconnect_cb, p);
}

struct closing {
	struct port *p;
	sem_t done;
};

static void close_cb(void *arg)
{
	struct closing *c = arg;

	rte_eth_dev_stop(c->p->id);
	rte_eth_dev_close(c->p->id);
	sem_post(&c->done);
}

void port_memif_close(struct port *p)
{
	struct closing c = { .p = p };

	/* Waits for one that runs. */
	rte_eal_alarm_cancel(reconnect_cb, p);
	sem_init(&c.done, 0, 0);
	if (rte_eal_alarm_set(1, close_cb, &c) != 0) {
		close_cb(&c);
		return;
	}
	while (sem_wait(&c.done) != 0)
		;
	sem_destroy(&c.done);
}

void port_memif_remove_stale_socket(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* A bound socket refuses only before its listen() and after its process is gone. */
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno == ECONNREFUSED)
		unlink(path);
	close(fd);
}
