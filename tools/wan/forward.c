/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/forward.h"

#include "tools/wan/forge.h"
#include "tools/wan/guard.h"
#include "tools/wan/stats.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#define NS_PER_SECOND 1000000000ULL

/*
 * The shortest nap, of the longest, timer slack not counted: that makes packets up to 30 us late,
 * and saves the system call per packet that waking up for each would cost: 20 % of a core at
 * 1 Gbit/s.
 */
#define NAP_SHORTEST(longest) ((longest)*3 / 5)

#define LINK_POLL_NS     1000000ULL
#define PEER_PATIENCE_NS 100000000ULL
#define FORGE_BURST_MAX  32ULL

uint64_t wan_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

int wan_init(struct wan *w, const struct wan_options *o, const struct wan_plan *p,
	const struct wan_ports *ports)
{
	memset(w, 0, sizeof(*w));
	w->opt = o;
	w->pool = ports->pool;
	w->start_ns = wan_now_ns();
	w->last_ns = w->start_ns;
	for (int side = 0; side < WAN_SIDES; side++) {
		struct wan_direction *d = &w->dir[side];
		int rc = link_init(&d->link, &o->link[side], o->seed, (uint64_t)side, w->start_ns);

		if (rc == 0)
			rc = delayq_init(&d->line, p->packets[side], p->packets[side]);
		if (rc < 0) {
			wan_fini(w);
			return rc;
		}
		d->rx_port = ports->id[side];
		d->tx_port = ports->id[!side];
		d->forge_next_ns = w->start_ns;
		prng_init(&d->forge_rnd, o->seed, 1000 + (uint64_t)side);
	}
	return 0;
}

void wan_fini(struct wan *w)
{
	for (int side = 0; side < WAN_SIDES; side++) {
		struct wan_direction *d = &w->dir[side];
		uint64_t due_ns, payload;

		while (d->line.e && delayq_pop_due(&d->line, UINT64_MAX, &due_ns, &payload))
			rte_pktmbuf_free((struct rte_mbuf *)(uintptr_t)payload);
		rte_pktmbuf_free_bulk(d->pending, d->npending);
		d->npending = 0;
		delayq_fini(&d->line);
	}
}

static void line_push(struct wan_direction *d, uint64_t due_ns, struct rte_mbuf *m)
{
	if (m && delayq_push(&d->line, due_ns, (uintptr_t)m) == 0)
		return;
	/* A receiver that takes nothing backs up into the line: that is no fault of ours. */
	if (d->full_since_ns)
		d->c.peer_drop++;
	else
		d->c.no_room++;
	rte_pktmbuf_free(m);
}

/* Forged copies cost no link capacity: they are an attacker's, close to the receiver. */
static void forge(struct wan *w, struct wan_direction *d, const struct rte_mbuf *m, uint64_t due_ns,
	uint64_t now_ns)
{
	uint64_t step_ns = NS_PER_SECOND / w->opt->forged_pps;
	struct rte_mbuf *copy;

	if (now_ns < d->forge_next_ns ||
		!wan_frame_is_data(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len))
		return;
	if (now_ns - d->forge_next_ns > step_ns * FORGE_BURST_MAX)
		d->forge_next_ns = now_ns - step_ns * FORGE_BURST_MAX;
	d->forge_next_ns += step_ns;
	copy = rte_pktmbuf_copy(m, w->pool, 0, UINT32_MAX);
	if (copy) {
		wan_frame_forge(rte_pktmbuf_mtod(copy, uint8_t *), copy->data_len, &d->forge_rnd);
		d->c.forged++;
	}
	line_push(d, due_ns, copy);
}

static void corrupt(const struct wan_direction *d, const struct link_arrival *a, struct rte_mbuf *m)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	link_corrupt(a->corrupt_seed, d->link.cfg.corrupt_bits, frame, m->data_len,
		wan_frame_payload(frame, m->data_len));
}

static void packet_take(struct wan *w, struct wan_direction *d, struct rte_mbuf *m, uint64_t now_ns)
{
	struct link_verdict v;
	int n = link_send(&d->link, now_ns, m->pkt_len, &v);
	struct rte_mbuf *copy = NULL;

	if (w->opt->forged_pps && n > 0)
		forge(w, d, m, v.a[0].at_ns, now_ns);
	if (n == 0) {
		rte_pktmbuf_free(m);
		return;
	}
	if (n == 2)
		copy = rte_pktmbuf_copy(m, w->pool, 0, UINT32_MAX);
	if (v.a[0].corrupt_seed)
		corrupt(d, &v.a[0], m);
	line_push(d, v.a[0].at_ns, m);
	if (n == 2) {
		if (copy && v.a[1].corrupt_seed)
			corrupt(d, &v.a[1], copy);
		line_push(d, v.a[1].at_ns, copy);
	}
}

/*
 * Reads one burst. Frames are stamped after the read: before it, a pause in between would send them
 * ahead of their time. before_ns is when the port was last seen empty or read from. Returns the
 * number of packets read.
 */
static unsigned int direction_receive(struct wan *w, struct wan_direction *d, uint64_t before_ns)
{
	struct rte_mbuf *pkts[WAN_BURST];
	uint16_t n = wan_guard_rx(d->rx_port, pkts, WAN_BURST);
	uint64_t now_ns;

	if (n == 0)
		return 0;
	now_ns = wan_now_ns();
	d->c.rx += n;
	if (now_ns - before_ns > w->opt->late_us * 1000)
		d->c.stalled += n;
	for (uint16_t i = 0; i < n; i++)
		packet_take(w, d, pkts[i], now_ns);
	return n;
}

static void pending_drop(struct wan_direction *d, uint64_t *counter)
{
	rte_pktmbuf_free_bulk(d->pending, d->npending);
	*counter += d->npending;
	d->npending = 0;
}

static void lateness_count(struct wan *w, struct wan_direction *d, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t late_ns = now_ns - due_ns;

	bool late = late_ns > w->opt->late_us * 1000;

	if (d->full_since_ns || due_ns <= d->excused_ns) {
		d->c.peer_late += late;
		return;
	}
	d->c.late += late;
	if (late_ns > d->c.late_max_ns)
		d->c.late_max_ns = late_ns;
}

/* Sends what is due, at most one burst. Returns the number of packets that left. */
static unsigned int direction_send(struct wan *w, struct wan_direction *d, uint64_t now_ns)
{
	uint64_t due_ns, payload;
	uint16_t sent;

	while (d->npending < WAN_BURST && delayq_pop_due(&d->line, now_ns, &due_ns, &payload)) {
		d->pending[d->npending++] = (struct rte_mbuf *)(uintptr_t)payload;
		if (d->tx_up)
			lateness_count(w, d, due_ns, now_ns);
	}
	if (d->npending == 0)
		return 0;
	if (!d->tx_up) {
		sent = d->npending;
		pending_drop(d, &d->c.no_link);
		return sent;
	}
	sent = wan_guard_tx(d->tx_port, d->pending, d->npending);
	d->c.tx += sent;
	d->npending -= sent;
	memmove(d->pending, d->pending + sent, d->npending * sizeof(d->pending[0]));
	if (d->npending == 0) {
		if (d->full_since_ns)
			d->excused_ns = now_ns;
		d->full_since_ns = 0;
		return sent;
	}
	if (sent || d->full_since_ns == 0)
		d->full_since_ns = now_ns;
	else if (now_ns - d->full_since_ns > PEER_PATIENCE_NS)
		pending_drop(d, &d->c.peer_drop);
	return sent;
}

static void links_poll(struct wan *w)
{
	for (int side = 0; side < WAN_SIDES; side++) {
		struct wan_direction *d = &w->dir[side];
		struct rte_eth_link link;
		bool up = rte_eth_link_get_nowait(d->tx_port, &link) == 0 &&
			link.link_status == RTE_ETH_LINK_UP;

		if (up && !d->tx_up)
			d->c.links_up++;
		if (!up)
			d->full_since_ns = 0;
		d->tx_up = up;
	}
}

/* When no burst was full, nothing waits: nap until the next packet is due, within bounds. */
static void nap_until_next(const struct wan *w, uint64_t now_ns)
{
	uint64_t a_ns = delayq_next_ns(&w->dir[WAN_A].line);
	uint64_t b_ns = delayq_next_ns(&w->dir[WAN_B].line);
	uint64_t next_ns = a_ns < b_ns ? a_ns : b_ns;
	uint64_t longest_ns = w->opt->nap_us * 1000, shortest_ns = NAP_SHORTEST(longest_ns);
	struct timespec t = { .tv_nsec = (long)longest_ns };

	if (next_ns < now_ns + shortest_ns)
		t.tv_nsec = (long)shortest_ns;
	else if (next_ns < now_ns + longest_ns)
		t.tv_nsec = (long)(next_ns - now_ns);
	nanosleep(&t, NULL);
}

void wan_run(struct wan *w, volatile sig_atomic_t *stop)
{
	const struct wan_options *o = w->opt;
	uint64_t end_ns = o->seconds ? w->start_ns + o->seconds * NS_PER_SECOND : UINT64_MAX;
	uint64_t stats_ns = o->stats_ms ? w->start_ns + o->stats_ms * 1000000 : UINT64_MAX;
	uint64_t link_ns = 0;

	while (!*stop) {
		uint64_t now_ns = wan_now_ns();
		uint64_t before_ns = w->last_ns;
		bool busy = false;

		w->last_ns = now_ns;
		if (now_ns >= link_ns) {
			if (now_ns >= end_ns)
				break;
			links_poll(w);
			link_ns = now_ns + LINK_POLL_NS;
		}
		if (now_ns >= stats_ns) {
			wan_stats_print(w, now_ns, false);
			stats_ns += o->stats_ms * 1000000;
		}
		for (int side = 0; side < WAN_SIDES; side++)
			busy |= direction_receive(w, &w->dir[side], before_ns) == WAN_BURST;
		for (int side = 0; side < WAN_SIDES; side++)
			busy |= direction_send(w, &w->dir[side], now_ns) == WAN_BURST;
		if (o->poll_mode || busy)
			continue;
		nap_until_next(w, now_ns);
	}
}
