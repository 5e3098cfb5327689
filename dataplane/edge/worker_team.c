/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

#include <rte_ring.h>

#include <errno.h>
#include <stdio.h>

/*
 * Several workers of one port: who gets which frame, and the rings between them. Every ring has one
 * producer and one consumer. Buffers go back to the pool they came from, whoever frees them, by the
 * freeing thread's cache; that and the rings are all that two workers ever share.
 */

/* The worker whose frame it is, seen without trust: its owner looks at everything again. */
static unsigned int owner_of(const struct worker *w, const struct rte_mbuf *m)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	bool v4 = w->port->self.ip != 0;
	size_t udp = NET_ETH_BYTES + (v4 ? NET_IPV4_BYTES : NET_IPV6_BYTES);
	size_t payload = udp + NET_UDP_BYTES;
	uint16_t port;
	uint8_t queue;

	if (m->data_len < payload + STRAIT_OVERHEAD_BYTES)
		return w->cfg.queue;
	if (v4 ? net_get16(frame + 12) != NET_TYPE_IPV4 || frame[NET_ETH_BYTES] != 0x45 ||
				frame[NET_ETH_BYTES + 9] != NET_PROTO_UDP
	       : net_get16(frame + 12) != NET_TYPE_IPV6 ||
				frame[NET_ETH_BYTES + 6] != NET_PROTO_UDP)
		return w->cfg.queue;
	port = (uint16_t)(net_get16(frame + udp + 2) - w->port->self.udp_port);
	queue = frame[payload + STRAIT_OFF_QUEUE];
	return port < w->team_count && queue < w->team_count ? queue : w->cfg.queue;
}

bool worker_hand(struct worker *w, struct rte_mbuf *m)
{
	unsigned int to = owner_of(w, m);

	if (to == w->cfg.queue)
		return false;
	w->stats.rx_bytes += m->pkt_len;
	w->hand[to][w->hand_count[to]++] = m;
	return true;
}

void worker_hand_flush(struct worker *w)
{
	for (unsigned int i = 0; i < w->team_count; i++) {
		unsigned int n = w->hand_count[i], taken;

		if (n == 0)
			continue;
		taken = rte_ring_sp_enqueue_burst(w->team[i]->rx_from[w->cfg.queue],
			(void **)w->hand[i], n, NULL);
		w->stats.rx_misdirected += n;
		w->stats.drop_misdirected += n - taken;
		rte_pktmbuf_free_bulk(w->hand[i] + taken, n - taken);
		w->hand_count[i] = 0;
	}
}

void worker_tell(struct worker *w, const uint8_t *frame, size_t len)
{
	for (unsigned int i = 0; i < w->team_count && w->tells > 0; i++) {
		struct rte_mbuf *m;

		if (i == w->cfg.queue)
			continue;
		m = worker_buffer(w);
		if (m == NULL || len > rte_pktmbuf_tailroom(m)) {
			rte_pktmbuf_free(m);
			return;
		}
		memcpy(rte_pktmbuf_mtod(m, uint8_t *), frame, len);
		m->data_len = (uint16_t)len;
		m->pkt_len = (uint32_t)len;
		if (rte_ring_sp_enqueue(w->team[i]->rx_from[w->cfg.queue], m) != 0)
			rte_pktmbuf_free(m);
	}
	if (w->tells > 0)
		w->tells--;
}

unsigned int worker_rx_team(struct worker *w)
{
	struct rte_mbuf *in[WORKER_RX_BURST];
	unsigned int sum = 0;

	for (unsigned int i = 0; i < w->team_count; i++) {
		unsigned int n;

		if (i == w->cfg.queue)
			continue;
		n = rte_ring_sc_dequeue_burst(w->rx_from[i], (void **)in, WORKER_RX_BURST, NULL);
		worker_rx_frames(w, in, n, true);
		sum += n;
	}
	return sum;
}

unsigned int worker_relay(struct worker *w)
{
	unsigned int sum = 0;

	if (w->cfg.queue != 0 || w->port->queues != 1)
		return 0;
	/* Half of the room each, so that nobody waits behind a busy one; our own sessions next. */
	for (unsigned int i = 1; i < w->team_count; i++) {
		unsigned int n, room;

		worker_flush(w);
		room = (WORKER_OUT_MAX - w->out_count) / 2;
		if (room == 0)
			break;
		w->relayed = w->relayed % (w->team_count - 1) + 1;
		n = rte_ring_sc_dequeue_burst(w->team[w->relayed]->tx_to,
			(void **)(w->out + w->out_count), room, NULL);
		w->out_count += n;
		sum += n;
	}
	return sum;
}

static struct rte_ring *ring_create(const struct worker *w, const char *what, unsigned int from)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "%s%u.%u.%u", what, w->port->id, from, w->cfg.queue);
	return rte_ring_create(name, WORKER_TEAM_RING, worker_socket(&w->cfg),
		RING_F_SP_ENQ | RING_F_SC_DEQ);
}

int worker_team(struct worker *const *workers, unsigned int n)
{
	if (n == 0 || n > WORKERS_MAX || n != workers[0]->port->cfg.workers)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++) {
		struct worker *w = workers[i];

		if (w->cfg.queue != i || w->port != workers[0]->port)
			return -EINVAL;
		for (unsigned int from = 0; from < n; from++) {
			w->team[from] = workers[from];
			if (from == i)
				continue;
			w->rx_from[from] = ring_create(w, "team", from);
			if (w->rx_from[from] == NULL)
				return -ENOMEM;
		}
		if (!w->has_queue) {
			w->tx_to = ring_create(w, "relay", 0);
			if (w->tx_to == NULL)
				return -ENOMEM;
		}
		w->team_count = n;
	}
	return 0;
}

static void ring_free(struct rte_ring *r)
{
	void *m;

	while (r != NULL && rte_ring_sc_dequeue(r, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(r);
}

void worker_team_free(struct worker *w)
{
	for (unsigned int i = 0; i < WORKERS_MAX; i++)
		ring_free(w->rx_from[i]);
	ring_free(w->tx_to);
}
