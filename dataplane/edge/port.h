/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A port: one DPDK device, its packet buffers, and its IP identity: one address, IPv4 or IPv6, and
 * one UDP port a worker.
 *
 * It has a pair of rx and tx queues for each of its workers, or one pair, which is worker 0's: that
 * one then hands the others their packets and sends theirs. Each worker has packet buffers of its
 * own, on its NUMA node.
 *
 * The control thread creates and destroys it and reads its figures; between worker_start() and
 * worker_stop() packets belong to the workers. Nothing waits for the link: a memif whose peer is
 * not there yet, or comes back after a restart, is a port that is down for a while.
 *
 * A packet is one segment, on both directions and on every device: buffers are sized for the MTU,
 * memif's bsize and af_packet's framesz are set to hold a whole frame. Devices that chain or
 * truncate do it wrong (af_xdp, memif, af_packet), and vector rx/tx paths need single segments
 * anyway.
 *
 * Checksums: hardware only where a physical device claims it. Virtual devices let the flags pass
 * and send wrong sums, so there software computes and verifies them. A UDP checksum of 0 is
 * accepted over IPv4 (RFC 768).
 *
 * Ports are in host byte order.
 */

enum {
	PORT_DEVICE_MAX = 256, /* device string, with the NUL */
	PORT_NAME_MAX = 64,
	PORT_MAC_BYTES = 6,
	PORT_MTU_MIN = 580,       /* the smallest symbol */
	PORT_MTU_MIN_IPV6 = 1280, /* RFC 8200 section 5 */
	PORT_MTU_MAX = 9000,
	PORT_MTU_DEFAULT = 1500,
	PORT_BUFFERS_MIN = 1024,
	PORT_BUFFERS_DEFAULT = 8191,
	PORT_WORKERS_MAX = 16,
};

struct port_config {
	/*
	 * PCI address ("0000:3b:00.0") or vdev with arguments
	 * ("net_memif0,role=client,socket=/run/wan.sock", "net_af_packet0,iface=veth0",
	 * "net_ring0"). Sizes the MTU asks for are added where not given.
	 */
	const char *device;
	bool has_mac; /* else the device's own */
	uint8_t mac[PORT_MAC_BYTES];
	struct net_ip ip;
	uint8_t prefix_len;    /* 0..32, over IPv6 0..128 */
	struct net_ip gateway; /* next hop of what is not on the prefix; all zeros: none */
	bool has_next_hop_mac; /* static: nothing is asked for it; for every destination */
	uint8_t next_hop_mac[PORT_MAC_BYTES];
	uint16_t udp_port; /* where worker 0's sessions listen; worker n's listen n further */
	uint16_t mtu;      /* IP packet bytes; 0: 1500 */
	uint8_t dscp;      /* default of its sessions, 0..63 */
	uint32_t buffers;  /* packets in each worker's pool; 0: 8191 */
	uint16_t workers;  /* at most PORT_WORKERS_MAX; 0: 1 */
	uint16_t queues;   /* queue pairs: 1, or as many as workers; 0: what suits the device */
	/* NUMA node of each worker's buffers, plus 1; 0: the device's. */
	uint8_t numa[PORT_WORKERS_MAX];
};

struct port;

/** True for a PCI address, which the EAL must be told at start (eal_config.devices). */
bool port_device_is_pci(const char *device);

/**
 * Check a configuration without touching any device. 0, or -EINVAL with one sentence in err. For
 * configuration files, so that mistakes are found before the EAL starts.
 */
int port_config_check(const struct port_config *cfg, char *err, size_t err_len);

/** Plug in, configure and start. NULL + errno, with one sentence in err. After eal_start(). */
struct port *port_create(const struct port_config *cfg, char *err, size_t err_len);
/** After its worker stopped. */
void port_destroy(struct port *p);

/**
 * The configuration as it is used: defaults filled in, mac the one on the wire. device stays
 * valid.
 */
const struct port_config *port_settings(const struct port *p);

/**
 * Next hop towards an address: itself on the prefix (or with a static next hop and no gateway),
 * else the gateway; all zeros: there is none.
 */
struct net_ip port_next_hop(const struct port *p, struct net_ip ip);

/** IP and UDP headers of its datagrams: 28, or 48 over IPv6. */
uint8_t port_ip_bytes(const struct port *p);
/** Packets a worker of this port may send at once to make up for having come late (pacer.h). */
uint32_t port_burst(const struct port *p);
/** How long its workers may sleep when there is nothing to do, microseconds. */
uint32_t port_sleep_us(const struct port *p);
/** Symbol bytes that fill this port's MTU: mtu - IP and UDP - 40, within wire.h's bounds. */
uint16_t port_symbol_bytes(const struct port *p);

struct port_info {
	char device[PORT_NAME_MAX]; /* DPDK's name */
	char driver[PORT_NAME_MAX];
	uint8_t mac[PORT_MAC_BYTES];
	bool link_up;
	uint32_t link_mbps; /* 0: unknown; virtual devices make theirs up */
	bool hw_tx_checksum, hw_rx_checksum;
	uint16_t queues;
	uint16_t steered; /* workers whose UDP port a flow rule leads to their queue */
	uint32_t buffers, buffers_free;
	/* Device counters; what virtual devices do not count is 0. */
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t rx_missed; /* no free buffer or descriptor when it arrived */
	uint64_t rx_errors, tx_errors, rx_no_buffer;
};
/** Any time, control thread. Never waits for the device. */
void port_info(const struct port *p, struct port_info *out);
