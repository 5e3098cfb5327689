/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/ports.h"

#include "dataplane/edge/port_fanout.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_version.h>

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	/* Short frames need more packets for the same bytes; bursts wait in the port's ring. */
	SLACK_PACKETS = 4096,
	POOL_CACHE = 256,
	/* EAL, port structures and the pool's ring. */
	BASE_MIB = 40,
	RING_SLOTS = 1024,
};

/* What an unlimited link is planned for. */
#define UNLIMITED_BPS 40000000000ULL

int wan_plan_make(struct wan_plan *p, const struct wan_options *o, char *errbuf, size_t errlen)
{
	double packet_bytes = (double)o->mtu + 14 + LINK_OVERHEAD_BYTES;
	uint64_t each;

	memset(p, 0, sizeof(*p));
	p->pool_packets = SLACK_PACKETS;
	for (int side = 0; side < WAN_SIDES; side++) {
		const struct link_config *c = &o->link[side];
		double rate = (double)(c->rate_bps ? c->rate_bps : UNLIMITED_BPS);
		double seconds = (double)link_config_max_delay_ns(c) * 1e-9;
		double packets = rate / 8 * seconds / packet_bytes * 1.5 * (1 + c->dup);

		if (packets > 1e9)
			packets = 1e9;
		p->packets[side] = (size_t)packets + SLACK_PACKETS;
		p->pool_packets += p->packets[side];
	}
	/* A VLAN tag may come on top; the PMDs want room for their default frame of 2048. */
	p->room_bytes = (uint32_t)o->mtu + 18 + 64;
	if (p->room_bytes < 2048)
		p->room_bytes = 2048;
	for (int side = 0; side < WAN_SIDES; side++) {
		const struct port_config c = { .device = o->vdev[side], .mtu = (uint16_t)o->mtu };

		if (port_device_parse(&c, &p->device[side], errbuf, errlen) < 0)
			return -EINVAL;
		if (p->room_bytes < p->device[side].buffer_bytes)
			p->room_bytes = p->device[side].buffer_bytes;
	}
	p->room_bytes = RTE_ALIGN_CEIL(p->room_bytes, 64) + RTE_PKTMBUF_HEADROOM;
	/* mbuf, data, mempool header and padding; then pointers in the pool's ring and the heap. */
	each = sizeof(struct rte_mbuf) + p->room_bytes + 128 + 2 * sizeof(void *);
	p->mem_mib = BASE_MIB + ((p->pool_packets * each) >> 20);
	if (p->mem_mib > o->mem_mib) {
		snprintf(errbuf, errlen,
			"rate and delay need %" PRIu64 " MiB for %zu packets in flight, more than "
			"--mem %" PRIu64
			"; lower --rate-gbps, --rtt-ms or --queue-bdp, or raise --mem",
			p->mem_mib, p->pool_packets, o->mem_mib);
		return -ENOMEM;
	}
	return 0;
}

/* "0@(1,3)": the one lcore may float over all CPUs of this process, or "0@2" for --cpu 2. */
static void lcores_format(char *buf, size_t len, int cpu)
{
	cpu_set_t set;
	size_t at;

	if (cpu >= 0) {
		snprintf(buf, len, "0@%d", cpu);
		return;
	}
	at = (size_t)snprintf(buf, len, "0@(");
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		CPU_SET(0, &set);
	for (int i = 0; i < CPU_SETSIZE && at + 8 < len; i++)
		if (CPU_ISSET(i, &set))
			at += (size_t)snprintf(buf + at, len - at, "%s%d",
				buf[at - 1] == '(' ? "" : ",", i);
	snprintf(buf + at, len - at, ")");
}

/*
 * A memif server killed earlier leaves its socket file, and bind() then fails. Remove the file of a
 * server port if it is a socket nobody listens on.
 */
static void stale_socket_remove(const char *vdev)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = strstr(vdev, "socket=/");
	struct stat st;
	size_t len;
	int fd;

	if (strncmp(vdev, "net_memif", 9) != 0 || !strstr(vdev, "role=server") || !path)
		return;
	path += strlen("socket=");
	len = strcspn(path, ",");
	if (len >= sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	if (lstat(addr.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno == ECONNREFUSED)
		unlink(addr.sun_path);
	close(fd);
}

static int eal_start(const struct wan_options *o, const struct wan_plan *p, char *errbuf,
	size_t errlen)
{
	char mem[24];
	char lcores[256];
	char *argv[24];
	int argc = 0;

	snprintf(mem, sizeof(mem), "%" PRIu64, p->mem_mib);
	lcores_format(lcores, sizeof(lcores), o->cpu);
	argv[argc++] = (char *)"strait-wan";
	argv[argc++] = (char *)"--lcores";
	argv[argc++] = lcores;
	argv[argc++] = (char *)"-m";
	argv[argc++] = mem;
	argv[argc++] = (char *)"--no-pci";
	argv[argc++] = (char *)"--no-telemetry";
	argv[argc++] = (char *)"--file-prefix=strait-wan";
	if (o->hugepages) {
		/* Shares nothing with other processes, as --no-shconf does without hugepages. */
		argv[argc++] = (char *)"--in-memory";
	} else {
		argv[argc++] = (char *)"--no-huge";
		argv[argc++] = (char *)"--no-shconf";
	}
	if (!o->verbose)
		argv[argc++] = (char *)"--log-level=*:error";
	for (int side = 0; side < WAN_SIDES; side++) {
		argv[argc++] = (char *)"--vdev";
		argv[argc++] = (char *)(uintptr_t)p->device[side].devargs;
	}
	argv[argc] = NULL;
	if (rte_eal_init(argc, argv) < 0) {
		int rc = rte_errno ? -rte_errno : -EIO;

		snprintf(errbuf, errlen,
			"DPDK refused to start with these ports (%s); --verbose shows why",
			strerror(-rc));
		return rc;
	}
	return 0;
}

/*
 * Like rte_pktmbuf_pool_create(), with NO_IOVA_CONTIG: on 4 KiB pages the default puts one mbuf on
 * a page and wastes 40 % of the memory. Virtual ports do no DMA.
 */
static struct rte_mempool *pool_create(const struct wan_plan *p)
{
	struct rte_pktmbuf_pool_private priv = { .mbuf_data_room_size = (uint16_t)p->room_bytes };
	struct rte_mempool *mp = rte_mempool_create_empty("wan", (unsigned int)p->pool_packets,
		(unsigned int)(sizeof(struct rte_mbuf) + p->room_bytes), POOL_CACHE, sizeof(priv),
		SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);

	if (!mp)
		return NULL;
	/* Only the forward loop takes and gives packets. */
	if (rte_mempool_set_ops_byname(mp, "ring_sp_sc", NULL) < 0)
		goto fail;
	rte_pktmbuf_pool_init(mp, &priv);
	if (rte_mempool_populate_default(mp) < 0)
		goto fail;
	rte_mempool_obj_iter(mp, rte_pktmbuf_init, NULL);
	return mp;
fail:
	rte_mempool_free(mp);
	return NULL;
}

static int port_start(uint16_t id, struct rte_mempool *pool, const char **step)
{
	struct rte_eth_conf conf = { .rxmode = { .mq_mode = RTE_ETH_MQ_RX_NONE } };
	uint16_t nrx = RING_SLOTS;
	uint16_t ntx = RING_SLOTS;
	int rc;

	*step = "configure";
	rc = rte_eth_dev_configure(id, 1, 1, &conf);
	if (rc < 0)
		return rc;
	rc = rte_eth_dev_adjust_nb_rx_tx_desc(id, &nrx, &ntx);
	if (rc < 0)
		return rc;
	*step = "set up the receive queue of";
	rc = rte_eth_rx_queue_setup(id, 0, nrx, SOCKET_ID_ANY, NULL, pool);
	if (rc < 0)
		return rc;
	*step = "set up the transmit queue of";
	rc = rte_eth_tx_queue_setup(id, 0, ntx, SOCKET_ID_ANY, NULL);
	if (rc < 0)
		return rc;
	*step = "start";
	rc = rte_eth_dev_start(id);
	if (rc < 0)
		return rc;
	*step = "make promiscuous";
	rc = rte_eth_promiscuous_enable(id);
	return rc == -ENOTSUP ? 0 : rc;
}

int wan_ports_start(struct wan_ports *ports, const struct wan_options *o, const struct wan_plan *p,
	char *errbuf, size_t errlen)
{
	int rc;

	for (int side = 0; side < WAN_SIDES; side++)
		stale_socket_remove(o->vdev[side]);
	/* Brings in its setsockopt(), too: a line passes fragments as they are. */
	port_fanout_alone(true);
	rc = eal_start(o, p, errbuf, errlen);
	if (rc < 0)
		return rc;
	ports->pool = pool_create(p);
	if (!ports->pool) {
		rc = rte_errno ? -rte_errno : -ENOMEM;
		snprintf(errbuf, errlen, "no memory for %zu packets (%s)", p->pool_packets,
			strerror(-rc));
		return rc;
	}
	for (int side = 0; side < WAN_SIDES; side++) {
		const char *step = "open";
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)wan_vdev_name_len(o->vdev[side]),
			o->vdev[side]);
		rc = rte_eth_dev_get_port_by_name(name, &ports->id[side]);
		if (rc == 0)
			rc = port_start(ports->id[side], ports->pool, &step);
		if (rc < 0) {
			snprintf(errbuf, errlen, "cannot %s port %s: %s", step, name,
				strerror(-rc));
			return rc;
		}
	}
	return 0;
}

void wan_ports_stop(struct wan_ports *ports)
{
	for (int side = 0; side < WAN_SIDES; side++) {
		rte_eth_dev_stop(ports->id[side]);
		rte_eth_dev_close(ports->id[side]);
	}
	rte_eal_cleanup();
}
