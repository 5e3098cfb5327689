/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

#include "dataplane/edge/net_arp.h"
#include "dataplane/edge/net_icmp.h"
#include "dataplane/edge/net_nd.h"

#include <rte_ethdev.h>
#include <rte_prefetch.h>

enum { HEADERS_AHEAD = 5 }; /* packets */

/* What is answered costs the attacked more than the attacker, so there is a limit. */
static bool may_answer(struct worker *w)
{
	if (w->answers > 0) {
		w->answers--;
		return true;
	}
	w->stats.drop_limited++;
	return false;
}

static void rx_arp(struct worker *w, const uint8_t *frame, size_t len, bool from_team)
{
	struct net_arp arp;
	struct rte_mbuf *m;

	if (w->port->self.ip == 0) {
		w->stats.drop_protocol++;
		return;
	}
	switch (net_arp_decode(frame, len, &arp)) {
	case 0:
		break;
	case -EPROTO:
		w->stats.drop_malformed++;
		return;
	default:
		w->stats.drop_protocol++;
		return;
	}
	/* Somebody else with our address: whatever we said would not help. */
	if (arp.sender_ip == w->port->self.ip) {
		w->stats.drop_not_for_us++;
		return;
	}
	if (arp.sender_ip != 0)
		arp_cache_learn(&w->arp, net_ip4(arp.sender_ip), arp.sender_mac, w->now_ns);
	if (from_team)
		return;
	if (w->team_count > 1 && arp.sender_ip != 0)
		worker_tell(w, frame, len);
	if (arp.target_ip != w->port->self.ip || arp.op != NET_ARP_REQUEST)
		return;
	if (!may_answer(w))
		return;
	m = worker_buffer(w);
	if (m == NULL)
		return;
	net_arp_encode_reply(rte_pktmbuf_mtod(m, uint8_t *), &w->port->self, &arp);
	m->data_len = NET_ARP_FRAME_BYTES;
	m->pkt_len = NET_ARP_FRAME_BYTES;
	if (worker_queue(w, m))
		w->stats.arp_replies++;
	else
		rte_pktmbuf_free(m);
}

static void rx_nd(struct worker *w, const uint8_t *frame, size_t len, bool from_team)
{
	const struct net_identity *me = &w->port->self;
	struct net_nd nd;
	struct rte_mbuf *m;

	if (net_nd_decode(frame, len, &nd) != 0) {
		w->stats.drop_nd++;
		return;
	}
	if (w->team_count > 1 && nd.has_mac && !from_team)
		worker_tell(w, frame, len);
	if (nd.type == NET_ND_ADVERT) {
		/* Somebody else with our address: whatever we said would not help. */
		if (net_ip_equal(nd.target, me->ip6))
			w->stats.drop_not_for_us++;
		else if (nd.has_mac)
			arp_cache_learn(&w->arp, nd.target, nd.mac, w->now_ns);
		return;
	}
	if (!net_ip_equal(nd.target, me->ip6)) {
		w->stats.drop_not_for_us++;
		return;
	}
	if (nd.has_mac)
		arp_cache_learn(&w->arp, nd.src, nd.mac, w->now_ns);
	if (from_team)
		return;
	if (!may_answer(w))
		return;
	m = worker_buffer(w);
	if (m == NULL)
		return;
	net_nd_encode_reply(rte_pktmbuf_mtod(m, uint8_t *), me, &nd, frame + NET_MAC_BYTES);
	m->data_len = NET_ND_FRAME_BYTES;
	m->pkt_len = NET_ND_FRAME_BYTES;
	if (worker_queue(w, m))
		w->stats.nd_replies++;
	else
		rte_pktmbuf_free(m);
}

/* The request's buffer carries the reply. true: it is queued. */
static bool rx_icmp(struct worker *w, struct rte_mbuf *m, const struct net_packet *p)
{
	size_t len;

	if (p->payload_len + port_ip_bytes(w->port) - NET_UDP_BYTES > w->port->cfg.mtu) {
		w->stats.drop_malformed++;
		return false;
	}
	if (!may_answer(w))
		return false;
	len = net_icmp_reply(rte_pktmbuf_mtod(m, uint8_t *), p, &w->port->self);
	m->data_len = (uint16_t)len;
	m->pkt_len = (uint32_t)len;
	m->ol_flags = 0;
	if (!worker_queue(w, m))
		return false;
	w->stats.icmp_echo++;
	return true;
}

static void rx_udp(struct worker *w, const struct net_packet *p)
{
	struct worker_slot *s;

	if (p->payload_len < STRAIT_OVERHEAD_BYTES) {
		w->stats.drop_no_session++;
		return;
	}
	s = worker_find(w, net_get32(p->payload + STRAIT_OFF_SESSION));
	/* Addresses come from the authenticated HELLO: from elsewhere it cannot be the peer. */
	if (s == NULL || !net_ip_equal(p->src, s->endpoint.remote_ip)) {
		w->stats.drop_no_session++;
		return;
	}
	w->recent = atomic_load_explicit(&s->session, memory_order_relaxed);
	session_recv(w->recent, w->now_ns, p->payload, p->payload_len);
	s->active = true;
}

static unsigned int trust(const struct worker *w, const struct rte_mbuf *m)
{
	unsigned int t = 0;

	/*
	 * Only what a physical device says is good saves work. What it says is bad is looked at
	 * again; flags of virtual devices mean nothing (net_ring hands through the sender's).
	 */
	if (!w->port->hw_rx_checksum)
		return 0;
	if ((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD)
		t |= NET_TRUST_IP;
	if ((m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		t |= NET_TRUST_UDP;
	return t;
}

void worker_mirror_frames(struct worker *w, struct capture_ring *ring, enum capture_way way,
	struct rte_mbuf *const *m, unsigned int n)
{
	uint64_t before = atomic_load_explicit(&ring->missed, memory_order_relaxed);

	for (unsigned int i = 0; i < n; i++)
		capture_ring_put(ring, w->now_ns, way, rte_pktmbuf_mtod(m[i], const uint8_t *),
			m[i]->data_len);
	w->stats.capture_missed +=
		atomic_load_explicit(&ring->missed, memory_order_relaxed) - before;
}

/* true: the buffer was kept. */
static bool rx_frame(struct worker *w, struct rte_mbuf *m, bool from_team)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct net_packet p;

	/* Buffers hold a whole frame, so a chain is none of ours. */
	if (m->nb_segs != 1) {
		w->stats.drop_malformed++;
		return false;
	}
	switch (net_frame_classify(frame, m->data_len, &w->port->self, trust(w, m), &p)) {
	case NET_UDP:
		rx_udp(w, &p);
		w->recent_offset = (uint32_t)(p.payload - frame);
		return false;
	case NET_ARP:
		rx_arp(w, frame, m->data_len, from_team);
		return false;
	case NET_ND:
		rx_nd(w, frame, m->data_len, from_team);
		return false;
	case NET_ICMP_ECHO:
		return rx_icmp(w, m, &p);
	case NET_DROP_NOT_FOR_US:
		w->stats.drop_not_for_us++;
		return false;
	case NET_DROP_MALFORMED:
		w->stats.drop_malformed++;
		return false;
	case NET_DROP_FRAGMENT:
		w->stats.drop_fragment++;
		return false;
	case NET_DROP_CHECKSUM:
		w->stats.drop_checksum++;
		return false;
	case NET_DROP_ND:
		w->stats.drop_nd++;
		return false;
	case NET_DROP_PROTOCOL:
		w->stats.drop_protocol++;
		return false;
	}
	return false;
}

/* Those of the network and of the packet: more than a line. */
static void fetch_headers(struct rte_mbuf *m)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	rte_prefetch0(frame);
	rte_prefetch0(frame + RTE_CACHE_LINE_SIZE);
}

void worker_rx_frames(struct worker *w, struct rte_mbuf **in, unsigned int n, bool from_team)
{
	struct rte_mbuf *done[WORKER_RX_BURST];
	unsigned int done_count = 0;

	/*
	 * What was told before these came counts for them: a session's first packet may be here
	 * sooner than its session, as the peer heard of it from the control thread.
	 */
	if (n > 0)
		worker_commands(w);
	w->recent = NULL; /* sessions go between bursts */
	for (unsigned int i = 0; i < n && i < HEADERS_AHEAD; i++)
		fetch_headers(in[i]);
	for (unsigned int i = 0; i < n; i++) {
		if (i + HEADERS_AHEAD < n)
			fetch_headers(in[i + HEADERS_AHEAD]);
		/* Likely of the session, and with the headers, of the frame before. */
		if (i + SESSION_AHEAD < n && w->recent != NULL &&
			in[i + SESSION_AHEAD]->data_len > w->recent_offset)
			session_recv_ahead(w->recent,
				rte_pktmbuf_mtod_offset(in[i + SESSION_AHEAD], const uint8_t *,
					w->recent_offset),
				in[i + SESSION_AHEAD]->data_len - w->recent_offset);
		if (!from_team)
			w->stats.rx_bytes += in[i]->pkt_len;
		if (!rx_frame(w, in[i], from_team))
			done[done_count++] = in[i];
	}
	rte_pktmbuf_free_bulk(done, done_count);
}

/* The frames of others out of a burst. How many are left. */
static unsigned int hand_out(struct worker *w, struct rte_mbuf **in, unsigned int n)
{
	unsigned int own = 0;

	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(in[i], void *));
	for (unsigned int i = 0; i < n; i++) {
		if (!worker_hand(w, in[i]))
			in[own++] = in[i];
	}
	worker_hand_flush(w);
	return own;
}

unsigned int worker_rx(struct worker *w)
{
	struct rte_mbuf *in[WORKER_RX_BURST];
	struct port *p = w->port;
	unsigned int n;

	if (p->guarded) {
		if (!port_guard_enter(&p->guards[w->cfg.queue]))
			return 0;
		n = rte_eth_rx_burst(p->id, w->cfg.queue, in, WORKER_RX_BURST);
		port_guard_leave(&p->guards[w->cfg.queue]);
	} else {
		n = rte_eth_rx_burst(p->id, w->cfg.queue, in, WORKER_RX_BURST);
	}
	if (n == 0)
		return 0;

	worker_mirror(w, CAPTURE_RX, in, n);
	w->stats.rx_packets += n;
	worker_rx_frames(w, in, w->team_count > 1 ? hand_out(w, in, n) : n, false);
	return n;
}
