/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/eal.h"
#include "dataplane/edge/worker_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A wire for the tests of workers: two ports joined by memif in one process, without hugepages,
 * and sessions of both ends. Once a test program.
 */

enum {
	NEAR_IP = 0x0a0a0001,
	FAR_IP = 0x0a0a0002,
	UDP_PORT = 4700,
	PATIENCE_MS = 5000,
};

static const uint8_t near_mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t far_mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 2 };
static const struct net_identity far = { .mac = { 2, 0, 0, 0, 0, 2 },
	.ip = FAR_IP,
	.udp_port = UDP_PORT };
/* Each test has a socket of its own: of this process and round. */
#define WIRE_SOCKET "strait-wire-test-%d.%u"
static unsigned int rounds;

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* End n of the wire: 0 near, 1 far. NULL: said why. */
static inline struct port *wire_open(const char *role, int n, uint16_t workers, uint16_t queues)
{
	char device[128], err[256] = "";
	struct port_config cfg = { .device = device,
		.has_mac = true,
		.ip = net_ip4(n == 0 ? NEAR_IP : FAR_IP),
		.prefix_len = 24,
		.udp_port = UDP_PORT,
		.workers = workers,
		.queues = queues,
		.buffers = 4095 };
	struct port *p;

	memcpy(cfg.mac, n == 0 ? near_mac : far_mac, NET_MAC_BYTES);
	snprintf(device, sizeof(device), "net_memif%d,role=%s,socket=" WIRE_SOCKET, n, role,
		(int)getpid(), rounds);
	p = port_create(&cfg, err, sizeof(err));
	if (p == NULL)
		print_error("%s\n", err);
	return p;
}

static inline void await_link(const struct port *p)
{
	uint64_t end = now_ms() + PATIENCE_MS;
	struct port_info info;

	for (port_info(p, &info); !info.link_up; port_info(p, &info))
		assert_true(now_ms() < end);
}

static inline struct session *open_session(bool initiator, uint8_t queue, uint64_t cap_bps)
{
	struct session_config cfg = { .peer_session = initiator ? 0x2222 : 0x1111,
		.own_session = initiator ? 0x1111 : 0x2222,
		.direction = initiator ? STRAIT_DIR_INITIATOR : STRAIT_DIR_RESPONDER,
		.queue = queue,
		.aead = aead_default(),
		.cap_bps = cap_bps,
		.rtt_hint_ns = 1000000,
		.loss_prior = -1,
		.symbol_bytes = STRAIT_SYMBOL_BYTES_IPV4,
		.seed = initiator ? 1 : 2 };
	struct session *s;

	memset(cfg.secret, 7, sizeof(cfg.secret));
	for (int i = 0; i < STRAIT_CLASS_COUNT; i++) {
		cfg.peer_credit[i] = (struct session_credit){ 64 << 20, 1024 };
		cfg.own_credit[i] = (struct session_credit){ 64 << 20, 1024 };
	}
	s = session_create(&cfg);
	assert_non_null(s);
	return s;
}

/* As the control thread does. */
static inline void tell(struct worker *w, struct worker_command c)
{
	assert_int_equal(worker_command(w, &c), 0);
}

static inline int start_eal(void **state)
{
	const struct eal_config cfg = { .memory_mb = 160 };
	char err[256];

	(void)state;
	if (eal_start(&cfg, err, sizeof(err)) == 0)
		return 0;
	print_error("%s\n", err);
	return -1;
}

static inline int stop_eal(void **state)
{
	(void)state;
	eal_stop();
	return 0;
}
