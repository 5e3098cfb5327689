/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/edge_floor.h"

#include "tools/bench/host.h"
#include "tools/bench/limit.h"

#include "dataplane/edge/port.h"
#include "dataplane/edge/port_priv.h"

#include <strait/wire.h>

#include <rte_ethdev.h>
#include <rte_pause.h>
#include <rte_prefetch.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
	TX_BURST = 16, /* as the worker's */
	RX_BURST = 32,
	HEADERS_AHEAD = 5,
	SPIN_TURNS = 4,
	SLEEP_NS = 100000,
	CLOCK_TURNS = 32, /* between looks at the clock */
	CONNECT_MS = 10000,
	LINE_NS = 2000000,
	LINE_ROUNDS = 50,
	LINE_TRIES = 20, /* at least: the other side may not run at first */
	/* Of the appliance's range, never spoken on: frames of this device have no addresses. */
	IP = 0x0a0b0001,
	UDP_PORT = 4790,
};

struct floor {
	int side;
	struct port *port;
	struct limit *limit;
	uint32_t symbol_bytes, frame_bytes;
	uint32_t idle;
};

/* What a failure leaves behind is the process's, which ends of it. */
struct floor *floor_create(const struct bench_options *o, int side, const char *device,
	uint8_t *pool)
{
	const size_t pool_bytes = (size_t)o->pool_mib << 20;
	struct port_config port = { .device = device,
		.ip = net_ip4(IP + (uint32_t)side),
		.prefix_len = 24,
		.udp_port = UDP_PORT,
		.mtu = (uint16_t)o->mtu };
	struct floor *f = calloc(1, sizeof(*f));
	char err[256] = "";

	if (f == NULL)
		return NULL;
	/* What the edge has received there must stay as it is. */
	if (side == 1)
		pool = host_region_get(pool_bytes);
	if (pool == NULL)
		return NULL;
	f->side = side;
	f->symbol_bytes = o->symbol_bytes;
	f->frame_bytes = NET_HEADERS_BYTES + STRAIT_OVERHEAD_BYTES + o->symbol_bytes;
	f->limit = limit_create(pool, pool_bytes, o->symbol_bytes, 0, HOST_RING_SLOTS);
	if (f->limit == NULL)
		return NULL;
	f->port = port_create(&port, err, sizeof(err));
	if (f->port == NULL)
		fprintf(stderr, "strait-bench: %s\n", err);
	return f->port != NULL ? f : NULL;
}

int floor_connect(const struct floor *f)
{
	struct rte_eth_link link;

	for (int ms = 0; ms < CONNECT_MS; ms++) {
		if (!atomic_load(&f->port->guards[0].closed) &&
			rte_eth_link_get_nowait(f->port->id, &link) == 0 && link.link_status)
			return 0;
		usleep(1000);
	}
	return -ETIME;
}

/* As the worker when there is nothing to do. */
static void rest(struct floor *f)
{
	const struct timespec ts = { .tv_nsec = SLEEP_NS };

	if (f->idle++ < SPIN_TURNS)
		rte_pause();
	else
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* A burst that the ring did not take whole waits for room. The number sent. */
static uint32_t send_burst(struct floor *f, enum floor_phase phase, uint64_t end)
{
	struct rte_mbuf *m[TX_BURST];
	uint32_t done = 0;

	if (rte_pktmbuf_alloc_bulk(f->port->pools[0], m, TX_BURST) != 0)
		return 0;
	for (int i = 0; i < TX_BURST; i++) {
		m[i]->data_len = (uint16_t)f->frame_bytes;
		m[i]->pkt_len = f->frame_bytes;
		if (phase == FLOOR_BARE)
			limit_tx_next(f->limit,
				rte_pktmbuf_mtod(m[i], uint8_t *) + NET_HEADERS_BYTES);
	}
	for (;;) {
		uint16_t n =
			rte_eth_tx_burst(f->port->id, 0, m + done, (uint16_t)(TX_BURST - done));

		done += n;
		if (done == TX_BURST)
			break;
		if (n > 0)
			f->idle = 0;
		if (host_now_ns() >= end) {
			rte_pktmbuf_free_bulk(m + done, TX_BURST - done);
			break;
		}
		rest(f);
	}
	return done;
}

static uint32_t receive_burst(struct floor *f, enum floor_phase phase)
{
	struct rte_mbuf *m[RX_BURST];
	uint16_t n = rte_eth_rx_burst(f->port->id, 0, m, RX_BURST);

	for (uint16_t i = 0; i < n && phase == FLOOR_BARE; i++) {
		if (i + HEADERS_AHEAD < n)
			rte_prefetch0(rte_pktmbuf_mtod(m[i + HEADERS_AHEAD], void *));
		limit_rx_next(f->limit, rte_pktmbuf_mtod(m[i], uint8_t *) + NET_HEADERS_BYTES);
	}
	rte_pktmbuf_free_bulk(m, n);
	return n;
}

double floor_line_ns(struct floor_line *l, int side)
{
	uint64_t end = host_now_ns() + LINE_NS, least = UINT64_MAX;

	if (side == 1) {
		while (!atomic_load_explicit(&l->over, memory_order_relaxed)) {
			uint32_t turn = atomic_load_explicit(&l->turn, memory_order_acquire);

			if (turn % 2 == 1)
				atomic_store_explicit(&l->turn, turn + 1, memory_order_release);
		}
		return 0;
	}
	for (int n = 0; n < LINE_TRIES || host_now_ns() < end; n++) {
		uint64_t start = host_now_ns(), took;

		for (int i = 0; i < LINE_ROUNDS; i++) {
			uint32_t turn = atomic_load_explicit(&l->turn, memory_order_relaxed) + 1;

			atomic_store_explicit(&l->turn, turn, memory_order_release);
			while (atomic_load_explicit(&l->turn, memory_order_acquire) == turn)
				;
		}
		took = host_now_ns() - start;
		least = took < least ? took : least;
	}
	atomic_store_explicit(&l->over, true, memory_order_relaxed);
	return (double)least / (2 * LINE_ROUNDS);
}

double floor_run(struct floor *f, enum floor_phase phase, double seconds)
{
	uint64_t cpu = host_cpu_ns(), end = host_now_ns() + (uint64_t)(seconds * 1e9), packets = 0;
	double gbps;

	if (phase == FLOOR_SEAL) {
		gbps = f->side == 0 ? limit_tx(f->limit, 0, seconds) : limit_rx(f->limit, seconds);
		return gbps > 0 ? f->symbol_bytes * 8.0 / gbps : 0;
	}
	do {
		for (int i = 0; i < CLOCK_TURNS; i++) {
			uint32_t n =
				f->side == 0 ? send_burst(f, phase, end) : receive_burst(f, phase);

			packets += n;
			if (n > 0)
				f->idle = 0;
			else
				rest(f);
		}
	} while (host_now_ns() < end);
	return packets > 0 ? (double)(host_cpu_ns() - cpu) / (double)packets : 0;
}
