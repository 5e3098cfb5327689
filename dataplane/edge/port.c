/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_priv.h"

#include "dataplane/edge/compat.h"
#include "dataplane/edge/port_fanout.h"
#include "dataplane/transport/pacer.h"

#include <strait/wire.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	DESCRIPTORS = 1024,
	/*
	 * 2 ms at 1 Gbit/s, which is as long as a burst may be. The kernel, and a host below it,
	 * wake a worker late now and then, and what a burst does not make up for is rate lost: with
	 * 16 packets 2 to 4 % beside other work, with 64 up to 1 % on an idle machine.
	 */
	KERNEL_BURST = 160,
	/* A sleep costs 3 us of CPU: at 1 Gbit/s half of what is sealed and opened meanwhile. */
	KERNEL_SLEEP_US = 400,
	SLEEP_US = 100,
	POOL_CACHE = 256,
	/* Both rings, the cache and the worker's hands full: fewer buffers could stall the port. */
	BUFFERS_BESIDE_RINGS = 1024,
	BUFFERS_MAX = 1 << 20,
};

__attribute__((format(printf, 4, 5))) static int fail(char *err, size_t err_len, int error,
	const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, err_len, fmt, ap);
	va_end(ap);
	return error;
}

static void fill_defaults(struct port_config *cfg)
{
	if (cfg->mtu == 0)
		cfg->mtu = PORT_MTU_DEFAULT;
	if (cfg->buffers == 0)
		cfg->buffers = PORT_BUFFERS_DEFAULT;
	if (cfg->workers == 0)
		cfg->workers = 1;
}

static bool is_unicast_mac(const uint8_t *mac)
{
	static const uint8_t zero[PORT_MAC_BYTES];

	return (mac[0] & 1) == 0 && memcmp(mac, zero, PORT_MAC_BYTES) != 0;
}

static int check_ipv4(const struct port_config *cfg, char *err, size_t err_len)
{
	uint32_t host_mask = cfg->prefix_len < 32 ? UINT32_MAX >> cfg->prefix_len : 0;
	uint32_t ip = net_ip_get4(cfg->ip);

	if (cfg->prefix_len > 32)
		return fail(err, err_len, -EINVAL, "prefix length %u: must be 0 to 32",
			cfg->prefix_len);
	if (ip >> 24 == 0 || ip >> 24 == 127 || ip >> 24 >= 224)
		return fail(err, err_len, -EINVAL, "address is not a host's");
	/* RFC 3021: a /31 has neither network nor broadcast address. */
	if (cfg->prefix_len < 31 && ((ip & host_mask) == 0 || (ip & host_mask) == host_mask))
		return fail(err, err_len, -EINVAL,
			"address is the network or broadcast address of its prefix");
	return 0;
}

static int check_ipv6(const struct port_config *cfg, char *err, size_t err_len)
{
	static const struct net_ip loopback = { .b = { [15] = 1 } };

	if (cfg->prefix_len > 128)
		return fail(err, err_len, -EINVAL, "prefix length %u: must be 0 to 128",
			cfg->prefix_len);
	if (cfg->ip.b[0] == 0xff || net_ip_equal(cfg->ip, loopback))
		return fail(err, err_len, -EINVAL, "address is not a host's");
	if (net_ip_is_link_local(cfg->ip))
		return fail(err, err_len, -EINVAL,
			"address is link-local, which peers elsewhere cannot reach");
	if (cfg->mtu < PORT_MTU_MIN_IPV6)
		return fail(err, err_len, -EINVAL, "mtu %u: over IPv6 it is %d to %d", cfg->mtu,
			PORT_MTU_MIN_IPV6, PORT_MTU_MAX);
	return 0;
}

static int check_addresses(const struct port_config *cfg, char *err, size_t err_len)
{
	int rc;

	if (!net_ip_is_set(cfg->ip))
		return fail(err, err_len, -EINVAL, "address is not a host's");
	rc = net_ip_is4(cfg->ip) ? check_ipv4(cfg, err, err_len) : check_ipv6(cfg, err, err_len);
	if (rc != 0 || !net_ip_is_set(cfg->gateway))
		return rc;
	if (net_ip_is4(cfg->gateway) != net_ip_is4(cfg->ip))
		return fail(err, err_len, -EINVAL,
			"gateway and address must both be IPv4 or both IPv6");
	if (net_ip_equal(cfg->gateway, cfg->ip))
		return fail(err, err_len, -EINVAL, "gateway is the port's own address");
	if (!net_ip_is4(cfg->gateway) && cfg->gateway.b[0] == 0xff)
		return fail(err, err_len, -EINVAL, "gateway is a group address");
	return 0;
}

static int check(const struct port_config *cfg, struct port_device *device, char *err,
	size_t err_len)
{
	int rc;

	if (cfg->mtu < PORT_MTU_MIN || cfg->mtu > PORT_MTU_MAX)
		return fail(err, err_len, -EINVAL, "mtu %u: must be %d to %d", cfg->mtu,
			PORT_MTU_MIN, PORT_MTU_MAX);
	rc = check_addresses(cfg, err, err_len);
	if (rc != 0)
		return rc;
	if (cfg->udp_port == 0)
		return fail(err, err_len, -EINVAL, "udp port is missing");
	if (cfg->workers > PORT_WORKERS_MAX)
		return fail(err, err_len, -EINVAL, "workers %u: at most %d", cfg->workers,
			PORT_WORKERS_MAX);
	if (cfg->udp_port + cfg->workers - 1 > UINT16_MAX)
		return fail(err, err_len, -EINVAL,
			"udp port %u: each of the %u workers takes one, the last would be %u",
			cfg->udp_port, cfg->workers, cfg->udp_port + cfg->workers - 1);
	if (cfg->queues > 1 && cfg->queues != cfg->workers)
		return fail(err, err_len, -EINVAL,
			"queues %u: must be 1, or as many as there are workers, %u", cfg->queues,
			cfg->workers);
	if (cfg->dscp > 63)
		return fail(err, err_len, -EINVAL, "dscp %u: must be 0 to 63", cfg->dscp);
	if (cfg->buffers < PORT_BUFFERS_MIN || cfg->buffers > BUFFERS_MAX)
		return fail(err, err_len, -EINVAL, "buffers %u: must be %d to %d", cfg->buffers,
			PORT_BUFFERS_MIN, BUFFERS_MAX);
	if (cfg->has_mac && !is_unicast_mac(cfg->mac))
		return fail(err, err_len, -EINVAL, "mac is not a unicast address");
	if (cfg->has_next_hop_mac && !is_unicast_mac(cfg->next_hop_mac))
		return fail(err, err_len, -EINVAL, "next hop mac is not a unicast address");
	return port_device_parse(cfg, device, err, err_len);
}

int port_config_check(const struct port_config *cfg, char *err, size_t err_len)
{
	struct port_config full = *cfg;
	struct port_device device;

	fill_defaults(&full);
	return check(&full, &device, err, err_len);
}

/* What most likely keeps a virtual device from being there. */
static const char *probe_hint(enum port_kind kind, int error)
{
	switch (kind) {
	case PORT_KIND_AF_XDP:
		return ": needs CAP_NET_ADMIN, CAP_BPF and a kernel with AF_XDP, and the interface "
		       "as many combined channels as queues (ethtool -l)";
	case PORT_KIND_TAP:
		return ": needs CAP_NET_ADMIN and /dev/net/tun";
	default:
		return error == EPERM || error == EACCES ? ": needs CAP_NET_RAW" : "";
	}
}

/* PCI devices were probed when the EAL started; virtual ones are plugged in now. */
static int probe(struct port *p, char *err, size_t err_len)
{
	const char *name = p->device.name;
	int rc;

	if (rte_eth_dev_get_port_by_name(name, &p->id) == 0) {
		if (p->device.kind != PORT_KIND_PCI)
			return fail(err, err_len, -EEXIST, "device %s is used twice", name);
		return 0;
	}
	if (p->device.kind == PORT_KIND_PCI)
		return fail(err, err_len, -ENODEV,
			"device %s: DPDK does not drive it; is it bound to vfio-pci?", name);
	port_fanout_alone(p->device.queues == 1);
	errno = 0;
	rc = rte_dev_probe(p->device.devargs);
	if (rc != 0)
		return fail(err, err_len, rc < -1 ? rc : -ENODEV,
			"device %s: DPDK cannot create it from \"%s\"%s", name, p->device.devargs,
			probe_hint(p->device.kind, errno));
	rc = rte_eth_dev_get_port_by_name(name, &p->id);
	return rc != 0 ? fail(err, err_len, rc, "device %s is no Ethernet device", name) : 0;
}

static int create_pools(struct port *p, char *err, size_t err_len)
{
	uint32_t room = RTE_PKTMBUF_HEADROOM + p->device.buffer_bytes;
	char name[RTE_MEMPOOL_NAMESIZE];

	for (uint16_t i = 0; i < p->cfg.workers; i++) {
		int socket =
			p->cfg.numa[i] != 0 ? p->cfg.numa[i] - 1 : rte_eth_dev_socket_id(p->id);

		snprintf(name, sizeof(name), "port%u.%u", p->id, i);
		p->pools[i] = rte_pktmbuf_pool_create(name, p->cfg.buffers, POOL_CACHE, 0,
			(uint16_t)room, socket >= 0 ? socket : (int)SOCKET_ID_ANY);
		/* Without hugepages the EAL has memory of one node only. */
		if (p->pools[i] == NULL && p->cfg.numa[i] > 1)
			p->pools[i] = rte_pktmbuf_pool_create(name, p->cfg.buffers, POOL_CACHE, 0,
				(uint16_t)room, (int)SOCKET_ID_ANY);
		if (p->pools[i] == NULL)
			return fail(err, err_len, -rte_errno,
				"device %s: no memory for %u buffers of %u bytes, worker %u: %s",
				p->device.name, p->cfg.buffers, room, i, rte_strerror(rte_errno));
	}
	return 0;
}

static int setup_queues(struct port *p, uint16_t rx_desc, uint16_t tx_desc)
{
	int socket = rte_eth_dev_socket_id(p->id);
	int rc = 0;

	for (uint16_t i = 0; i < p->queues && rc == 0; i++) {
		rc = rte_eth_rx_queue_setup(p->id, i, rx_desc, (unsigned int)socket, NULL,
			p->pools[i]);
		if (rc == 0)
			rc = rte_eth_tx_queue_setup(p->id, i, tx_desc, (unsigned int)socket, NULL);
	}
	return rc;
}

/* What the device can have; without a wish of the user's, one pair if not one for each worker. */
static int choose_queues(struct port *p, const struct rte_eth_dev_info *info, char *err,
	size_t err_len)
{
	uint16_t most = info->max_rx_queues < info->max_tx_queues ? info->max_rx_queues
								  : info->max_tx_queues;

	p->queues = p->device.queues;
	if (p->queues <= most)
		return 0;
	if (p->cfg.queues != 0)
		return fail(err, err_len, -EINVAL, "device %s: queues %u: it has %u",
			p->device.name, p->queues, most);
	p->queues = 1;
	return 0;
}

static int configure(struct port *p, char *err, size_t err_len)
{
	const char *name = p->device.name;
	struct rte_eth_conf conf = { 0 };
	struct rte_eth_dev_info info;
	uint16_t rx_desc = DESCRIPTORS, tx_desc = DESCRIPTORS;
	int rc;

	rc = rte_eth_dev_info_get(p->id, &info);
	if (rc != 0)
		return fail(err, err_len, rc, "device %s: %s", name, rte_strerror(-rc));
	snprintf(p->driver, sizeof(p->driver), "%s",
		info.driver_name != NULL ? info.driver_name : "unknown");
	rc = choose_queues(p, &info, err, err_len);
	if (rc != 0)
		return rc;

	/*
	 * Virtual devices claim or accept checksum flags and transmit wrong sums, and report
	 * limits that are not theirs (1518 for memif and af_packet): their buffer arguments
	 * decide.
	 */
	if (p->device.kind == PORT_KIND_PCI) {
		if (p->cfg.mtu < info.min_mtu || p->cfg.mtu > info.max_mtu)
			return fail(err, err_len, -EINVAL, "device %s: mtu %u: it takes %u to %u",
				name, p->cfg.mtu, info.min_mtu, info.max_mtu);
		conf.rxmode.mtu = p->cfg.mtu;
		p->hw_tx_checksum = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
		p->hw_rx_checksum = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0 &&
			(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM) != 0;
		if (p->hw_tx_checksum)
			conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
		if (p->hw_rx_checksum)
			conf.rxmode.offloads |=
				RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	}
	if (p->queues > 1 && p->device.kind == PORT_KIND_PCI) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP) & info.flow_type_rss_offloads;
	}
	rc = rte_eth_dev_configure(p->id, p->queues, p->queues, &conf);
	if (rc == 0)
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->id, &rx_desc, &tx_desc);
	if (rc != 0)
		return fail(err, err_len, rc, "device %s: cannot configure: %s", name,
			rte_strerror(-rc));
	if (p->device.kind == PORT_KIND_PCI &&
		p->cfg.buffers < (uint32_t)rx_desc + tx_desc + BUFFERS_BESIDE_RINGS)
		return fail(err, err_len, -EINVAL, "device %s: buffers %u: needs %u at least", name,
			p->cfg.buffers, rx_desc + tx_desc + BUFFERS_BESIDE_RINGS);
	rc = create_pools(p, err, err_len);
	if (rc != 0)
		return rc;
	rc = setup_queues(p, rx_desc, tx_desc);
	if (rc == 0 && p->device.kind == PORT_KIND_TAP)
		rc = rte_eth_dev_set_mtu(p->id, p->cfg.mtu);
	if (rc != 0)
		return fail(err, err_len, rc, "device %s: cannot set up its queues: %s", name,
			rte_strerror(-rc));
	return 0;
}

/* A device that cannot take the configured MAC must let frames for it through. */
static int set_mac(struct port *p, char *err, size_t err_len)
{
	struct rte_ether_addr mac;
	int rc;

	if (p->cfg.has_mac) {
		memcpy(mac.addr_bytes, p->cfg.mac, PORT_MAC_BYTES);
		if (rte_eth_dev_default_mac_addr_set(p->id, &mac) != 0)
			rte_eth_promiscuous_enable(p->id);
	} else {
		rc = rte_eth_macaddr_get(p->id, &mac);
		if (rc != 0)
			return fail(err, err_len, rc, "device %s has no MAC address",
				p->device.name);
		memcpy(p->cfg.mac, mac.addr_bytes, PORT_MAC_BYTES);
	}
	memcpy(p->self.mac, p->cfg.mac, PORT_MAC_BYTES);
	if (net_ip_is4(p->cfg.ip)) {
		p->self.ip = net_ip_get4(p->cfg.ip);
	} else {
		p->self.ip6 = p->cfg.ip;
		/* Neighbors ask for it by a group address. */
		if (rte_eth_allmulticast_enable(p->id) != 0)
			rte_eth_promiscuous_enable(p->id);
	}
	p->self.udp_port = p->cfg.udp_port;
	p->self.more_ports = p->cfg.workers - 1;
	return 0;
}

static int start(struct port *p, char *err, size_t err_len)
{
	int rc;

	for (uint16_t i = 0; p->guarded && i < p->queues; i++) {
		rc = port_guard_add(&p->guards[i]);
		if (rc != 0)
			return fail(err, err_len, rc, "too many memif ports");
	}
	rc = p->device.memif_client ? port_memif_client_start(p) : rte_eth_dev_start(p->id);
	if (rc != 0)
		return fail(err, err_len, rc < -1 ? rc : -EIO, "device %s: cannot start%s",
			p->device.name,
			p->device.kind == PORT_KIND_MEMIF ? "; is its socket in use?" : "");
	if (p->queues > 1)
		p->steered = port_flow_steer(p);
	return 0;
}

struct port *port_create(const struct port_config *cfg, char *err, size_t err_len)
{
	struct port *p = calloc(1, sizeof(*p));
	int rc;

	if (p == NULL) {
		rc = fail(err, err_len, -ENOMEM, "no memory");
		goto err_out;
	}
	p->cfg = *cfg;
	fill_defaults(&p->cfg);
	rc = check(&p->cfg, &p->device, err, err_len);
	if (rc != 0)
		goto err_free;
	p->cfg.device = p->device.devargs;
	p->guarded = p->device.kind == PORT_KIND_MEMIF;
	if (p->device.memif_socket[0] != '\0')
		port_memif_remove_stale_socket(p->device.memif_socket);
	rc = probe(p, err, err_len);
	if (rc != 0)
		goto err_free;
	rc = configure(p, err, err_len);
	if (rc == 0)
		rc = set_mac(p, err, err_len);
	if (rc == 0)
		rc = start(p, err, err_len);
	if (rc != 0)
		goto err_close;
	return p;

err_close:
	port_destroy(p);
	goto err_out;
err_free:
	free(p);
err_out:
	errno = -rc;
	return NULL;
}

void port_destroy(struct port *p)
{
	if (p == NULL)
		return;
	if (p->device.kind == PORT_KIND_MEMIF) {
		port_memif_close(p);
	} else {
		rte_eth_dev_stop(p->id);
		rte_eth_dev_close(p->id);
	}
	/* So that a device of this name can be created again. */
	if (p->device.kind != PORT_KIND_PCI)
		rte_eal_hotplug_remove("vdev", p->device.name);
	for (uint16_t i = 0; i < PORT_WORKERS_MAX; i++) {
		if (p->guarded)
			port_guard_del(&p->guards[i]);
		rte_mempool_free(p->pools[i]);
	}
	free(p);
}

const struct port_config *port_settings(const struct port *p)
{
	return &p->cfg;
}

uint8_t port_ip_bytes(const struct port *p)
{
	return (net_ip_is4(p->cfg.ip) ? NET_IPV4_BYTES : NET_IPV6_BYTES) + NET_UDP_BYTES;
}

/* Does each packet cost the kernel's path, and each wait its scheduler? */
static bool is_kernels(const struct port *p)
{
	switch (p->device.kind) {
	case PORT_KIND_AF_PACKET:
	case PORT_KIND_AF_XDP:
	case PORT_KIND_TAP:
		return true;
	default:
		return false;
	}
}

uint32_t port_burst(const struct port *p)
{
	return is_kernels(p) ? KERNEL_BURST : PACER_BURST;
}

uint32_t port_sleep_us(const struct port *p)
{
	return is_kernels(p) ? KERNEL_SLEEP_US : SLEEP_US;
}

uint16_t port_symbol_bytes(const struct port *p)
{
	uint32_t n = (uint32_t)p->cfg.mtu - port_ip_bytes(p) - STRAIT_OVERHEAD_BYTES;

	if (n > STRAIT_SYMBOL_BYTES_MAX)
		return STRAIT_SYMBOL_BYTES_MAX;
	return n < STRAIT_SYMBOL_BYTES_MIN ? STRAIT_SYMBOL_BYTES_MIN : (uint16_t)n;
}

struct net_ip port_next_hop(const struct port *p, struct net_ip ip)
{
	static const struct net_ip none;

	if (net_ip_is4(ip) != net_ip_is4(p->cfg.ip))
		return none;
	if (net_ip_same_prefix(ip, p->cfg.ip, p->cfg.prefix_len))
		return ip;
	if (net_ip_is_set(p->cfg.gateway))
		return p->cfg.gateway;
	/* A static MAC leads everywhere, whatever its address. */
	return p->cfg.has_next_hop_mac ? ip : none;
}

void port_info(const struct port *p, struct port_info *out)
{
	struct rte_eth_stats stats;
	struct rte_eth_link link;

	memset(out, 0, sizeof(*out));
	snprintf(out->device, sizeof(out->device), "%s", p->device.name);
	snprintf(out->driver, sizeof(out->driver), "%s", p->driver);
	memcpy(out->mac, p->cfg.mac, PORT_MAC_BYTES);
	if (rte_eth_link_get_nowait(p->id, &link) == 0) {
		out->link_up = link.link_status == RTE_ETH_LINK_UP;
		if (link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
			out->link_mbps = link.link_speed;
	}
	out->hw_tx_checksum = p->hw_tx_checksum;
	out->hw_rx_checksum = p->hw_rx_checksum;
	out->queues = p->queues;
	out->steered = p->steered;
	out->buffers = p->cfg.buffers * p->cfg.workers;
	for (uint16_t i = 0; i < p->cfg.workers; i++)
		out->buffers_free += rte_mempool_avail_count(p->pools[i]);
	if (rte_eth_stats_get(p->id, &stats) == 0) {
		out->rx_packets = stats.ipackets;
		out->rx_bytes = stats.ibytes;
		out->tx_packets = stats.opackets;
		out->tx_bytes = stats.obytes;
		out->rx_missed = stats.imissed;
		out->rx_errors = stats.ierrors;
		out->tx_errors = stats.oerrors;
		out->rx_no_buffer = stats.rx_nombuf;
	}
}
