/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

#include "dataplane/edge/net_arp.h"
#include "dataplane/edge/net_nd.h"

#include <rte_ethdev.h>
#include <rte_pause.h>

enum {
	TX_TRIES = 4, /* calls a turn; net_tap returns 0 for ever on what it cannot send */
	ANNOUNCE_COUNT_NS = 1000000000,
};

static uint16_t burst(struct worker *w, struct rte_mbuf **m, uint16_t n)
{
	struct port *p = w->port;
	uint16_t sent;

	if (!w->has_queue)
		return (uint16_t)rte_ring_sp_enqueue_burst(w->tx_to, (void **)m, n, NULL);
	if (!p->guarded)
		return rte_eth_tx_burst(p->id, w->cfg.queue, m, n);
	if (!port_guard_enter(&p->guards[w->cfg.queue]))
		return 0;
	sent = rte_eth_tx_burst(p->id, w->cfg.queue, m, n);
	port_guard_leave(&p->guards[w->cfg.queue]);
	return sent;
}

/*
 * What the port does not take waits for the next turn: a neighbor that was not scheduled for a
 * moment costs no packet. A port that takes nothing for WORKER_STUCK_NS (a link that is down, a
 * packet it cannot send) loses the batch, so nothing can wedge the worker.
 */
void worker_flush(struct worker *w)
{
	uint32_t bytes[WORKER_OUT_MAX];
	unsigned int done = 0, total = w->out_count;

	if (total == 0)
		return;
	for (unsigned int i = 0; i < total; i++)
		bytes[i] = w->out[i]->pkt_len;
	if (w->port->hw_tx_checksum && w->has_queue) {
		done = rte_eth_tx_prepare(w->port->id, w->cfg.queue, w->out, (uint16_t)total);
		if (done == 0) {
			/* The driver refuses the first one: it would stay so. */
			rte_pktmbuf_free(w->out[0]);
			w->stats.drop_tx_full++;
			memmove(w->out, w->out + 1, --w->out_count * sizeof(w->out[0]));
			return;
		}
		total = done;
		done = 0;
	}
	for (int i = 0; i < TX_TRIES && done < total; i++) {
		if (i > 0)
			rte_pause();
		done += burst(w, w->out + done, (uint16_t)(total - done));
	}
	/* Who has the queue counts what the port took. */
	for (unsigned int i = 0; i < done && w->has_queue; i++)
		w->stats.tx_bytes += bytes[i];
	w->stats.tx_packets += w->has_queue ? done : 0;
	if (done > 0)
		w->stuck_ns = 0;
	else if (w->stuck_ns == 0)
		w->stuck_ns = w->now_ns;
	w->out_count -= done;
	memmove(w->out, w->out + done, w->out_count * sizeof(w->out[0]));

	if (w->out_count > 0 && w->stuck_ns != 0 && w->now_ns - w->stuck_ns >= WORKER_STUCK_NS) {
		w->stats.drop_tx_full += w->out_count;
		rte_pktmbuf_free_bulk(w->out, w->out_count);
		w->out_count = 0;
		w->stuck_ns = 0;
	}
}

bool worker_queue(struct worker *w, struct rte_mbuf *m)
{
	if (w->out_count >= WORKER_OUT_MAX) {
		w->stats.drop_tx_full++;
		return false;
	}
	worker_mirror(w, CAPTURE_TX, &m, 1);
	w->out[w->out_count++] = m;
	return true;
}

struct rte_mbuf *worker_buffer(struct worker *w)
{
	struct rte_mbuf *m;

	if (w->spare_count > 0)
		return w->spare[--w->spare_count];
	if (rte_pktmbuf_alloc_bulk(w->pool, w->spare, WORKER_SPARE_MAX) == 0) {
		w->spare_count = WORKER_SPARE_MAX;
		return w->spare[--w->spare_count];
	}
	m = rte_pktmbuf_alloc(w->pool);
	if (m == NULL)
		w->stats.drop_no_buffer++;
	return m;
}

/* Next hop's MAC into the header. false: unknown, and the session waits (or drips, see below). */
static bool resolve(struct worker *w, struct worker_slot *s)
{
	if (s->hop == NULL || !s->hop->known) {
		if (s->unresolved_ns == 0) {
			s->unresolved_ns = w->now_ns;
			s->drip_ns = w->now_ns + WORKER_HOLD_NS;
		}
		return false;
	}
	s->unresolved_ns = 0;
	if (s->hop_changes != s->hop->changes) {
		net_header_set_mac(&s->header, s->hop->mac);
		s->hop_changes = s->hop->changes;
	}
	return true;
}

/* A session must go on to see time pass, or it would never notice that its peer is dead. */
static void drip(struct worker *w, struct worker_slot *s)
{
	struct rte_mbuf *m;

	if (w->now_ns < s->drip_ns)
		return;
	s->drip_ns = w->now_ns + WORKER_DRIP_NS;
	m = worker_buffer(w);
	if (m == NULL)
		return;
	if (session_send(atomic_load_explicit(&s->session, memory_order_relaxed), w->now_ns,
		    rte_pktmbuf_mtod(m, uint8_t *), w->port->cfg.mtu) > 0)
		w->stats.drop_unresolved++;
	s->active = true;
	rte_pktmbuf_free(m);
}

static void unused(struct worker *w, struct rte_mbuf *m)
{
	if (w->spare_count < WORKER_SPARE_MAX)
		w->spare[w->spare_count++] = m;
	else
		rte_pktmbuf_free(m);
}

static unsigned int send_session(struct worker *w, struct worker_slot *s)
{
	struct session *session = atomic_load_explicit(&s->session, memory_order_relaxed);
	size_t room = (size_t)w->port->cfg.mtu - port_ip_bytes(w->port);
	bool hw = w->port->hw_tx_checksum;
	/*
	 * What memif carries is copied within the machine, and every packet has a tag: over IPv4 a
	 * sum would be one more pass over each at either end.
	 */
	enum net_udp_checksum sum = hw                    ? NET_UDP_SUM_PSEUDO
		: w->port->device.kind == PORT_KIND_MEMIF ? NET_UDP_SUM_NONE
							  : NET_UDP_SUM_FULL;
	struct session_packet packets[WORKER_TX_BATCH];
	struct rte_mbuf *bufs[WORKER_TX_BATCH];
	unsigned int sent = 0, n = WORKER_OUT_MAX - w->out_count;

	if (n > WORKER_TX_BATCH)
		n = WORKER_TX_BATCH;
	for (unsigned int i = 0; i < n; i++) {
		bufs[i] = worker_buffer(w);
		if (bufs[i] == NULL) {
			n = i;
			break;
		}
		packets[i].buf = rte_pktmbuf_mtod(bufs[i], uint8_t *) + s->header.len;
	}
	sent = session_send_burst(session, w->now_ns, packets, n, room);
	for (unsigned int i = sent; i < n; i++)
		unused(w, bufs[i]);
	for (unsigned int i = 0; i < sent; i++) {
		struct rte_mbuf *m = bufs[i];
		uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
		size_t len = packets[i].len;

		len = net_header_write(&s->header, frame, len, sum);
		m->data_len = (uint16_t)len;
		m->pkt_len = (uint32_t)len;
		if (hw) {
			bool v4 = s->header.len == NET_HEADERS_BYTES;

			m->ol_flags = RTE_MBUF_F_TX_UDP_CKSUM |
				(v4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
			m->l2_len = NET_ETH_BYTES;
			m->l3_len = v4 ? NET_IPV4_BYTES : NET_IPV6_BYTES;
		}
		w->out[w->out_count++] = m;
	}
	if (sent > 0)
		s->active = true;
	worker_mirror(w, CAPTURE_TX, w->out + w->out_count - sent, sent);
	return sent;
}

unsigned int worker_tx(struct worker *w)
{
	unsigned int sent = 0;

	worker_flush(w);
	for (unsigned int i = 0; i < w->slots_used; i++) {
		struct worker_slot *s = &w->slots[(w->first + i) % w->slots_used];

		if (s->state != WORKER_SLOT_LIVE)
			continue;
		/*
		 * Sessions keep their packets while the port is full; who is next comes first
		 * then.
		 */
		if (w->out_count > 0) {
			w->first = (w->first + i) % w->slots_used;
			return sent;
		}
		if (!resolve(w, s)) {
			drip(w, s);
			continue;
		}
		sent += send_session(w, s);
		worker_flush(w);
	}
	w->first = (w->first + 1) % w->slots_used;
	return sent;
}

static uint64_t next_of(struct session *s, uint64_t now_ns, uint64_t *slack_ns)
{
	uint64_t slack = session_slack_ns(s);

	if (slack < *slack_ns)
		*slack_ns = slack;
	return session_next(s, now_ns);
}

uint64_t worker_tx_next(struct worker *w, uint64_t *slack_ns)
{
	uint64_t next = w->arp.next_ns, t;

	*slack_ns = (uint64_t)w->cfg.max_sleep_us * 1000;
	if (w->announcements > 0 && w->link_up && w->announce_ns < next)
		next = w->announce_ns;
	/* A full port is asked again soon; nothing tells when it has room. */
	if (w->out_count > 0 && w->now_ns + 10000 < next)
		next = w->now_ns + 10000;
	for (unsigned int i = 0; i < w->slots_used; i++) {
		struct worker_slot *s = &w->slots[i];

		if (s->state != WORKER_SLOT_LIVE)
			continue;
		if (s->unresolved_ns != 0)
			t = s->drip_ns;
		else if (w->out_count > 0)
			continue;
		else
			t = next_of(atomic_load_explicit(&s->session, memory_order_relaxed),
				w->now_ns, slack_ns);
		if (t < next)
			next = t;
	}
	return next;
}

/* Write the question who has an address, or (r NULL) the news that we have ours. */
static size_t ask(const struct worker *w, uint8_t *frame, const struct arp_request *r)
{
	const struct net_identity *me = &w->port->self;
	const uint8_t *to = r != NULL && r->unicast ? r->mac : NULL;

	if (me->ip == 0) {
		if (r == NULL)
			net_nd_encode_announce(frame, me);
		else
			net_nd_encode_solicit(frame, me, r->ip, to);
		return NET_ND_FRAME_BYTES;
	}
	if (r == NULL)
		net_arp_encode_announce(frame, me);
	else
		net_arp_encode_request(frame, me, net_ip_get4(r->ip), to);
	return NET_ARP_FRAME_BYTES;
}

void worker_arp_timers(struct worker *w)
{
	struct arp_request r;
	struct rte_mbuf *m;
	uint8_t *frame;

	if (!w->link_up)
		return;
	for (;;) {
		bool announce = w->announcements > 0 && w->now_ns >= w->announce_ns;

		if (!announce && !arp_cache_poll(&w->arp, w->now_ns, &r))
			return;
		m = worker_buffer(w);
		if (m == NULL)
			return;
		frame = rte_pktmbuf_mtod(m, uint8_t *);
		if (announce) {
			w->announcements--;
			w->announce_ns = w->now_ns + ANNOUNCE_COUNT_NS;
		}
		m->data_len = (uint16_t)ask(w, frame, announce ? NULL : &r);
		m->pkt_len = m->data_len;
		if (!worker_queue(w, m)) {
			rte_pktmbuf_free(m);
			return;
		}
		if (w->port->self.ip != 0)
			w->stats.arp_requests++;
		else
			w->stats.nd_requests++;
	}
}

void worker_drop_buffers(struct worker *w)
{
	rte_pktmbuf_free_bulk(w->out, w->out_count);
	rte_pktmbuf_free_bulk(w->spare, w->spare_count);
	w->out_count = 0;
	w->spare_count = 0;
}
