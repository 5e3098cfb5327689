/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/control_report.h"

#include "dataplane/edge/link_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_ONE(...) +1
enum {
	PORT_COUNTERS = 0 WORKER_COUNTERS(COUNT_ONE),
	PORT_EXTRA = 4,
	INGEST_COUNTERS = 0 INGEST_TOTALS(COUNT_ONE),
	COPY_COUNTERS = 2,
	EDGE_COUNTERS =
		PORT_COUNTERS + PORT_EXTRA + INGEST_COUNTERS + COPY_COUNTERS + STRAIT_COUNTER_COUNT,
	ORDERS_REPORTED = 1024,
};

struct link_figures {
	Strait__LinkReport report;
	Strait__Counter counters[STRAIT_COUNTER_COUNT];
	Strait__Counter *pointers[STRAIT_COUNTER_COUNT];
	Strait__QueueReport queues[WORKERS_MAX];
	Strait__QueueReport *queue_pointers[WORKERS_MAX];
};

struct worker_figures {
	Strait__WorkerReport report;
	Strait__Counter counters[PORT_COUNTERS];
	Strait__Counter *pointers[PORT_COUNTERS];
};

struct control_report {
	const struct edge_config *cfg;
	struct control_parts parts;
	struct peers *peers;
	struct orders *orders;
	struct ingest *ingest;
	uint64_t now_ns;

	struct link_figures links[PEER_SESSIONS_MAX];
	Strait__LinkReport *link_pointers[PEER_SESSIONS_MAX];
	size_t link_count;
	Strait__OrderProgress progress[ORDERS_REPORTED];
	Strait__OrderProgress *progress_pointers[ORDERS_REPORTED];
	size_t progress_count;
	Strait__Counter counters[EDGE_COUNTERS];
	Strait__Counter *counter_pointers[EDGE_COUNTERS];
	size_t counter_count;
	struct worker_figures workers[WORKERS_MAX];
	Strait__WorkerReport *worker_pointers[WORKERS_MAX];
	uint64_t sum[STRAIT_COUNTER_COUNT];
	Strait__PoolReport pool;
	char trouble[512];
};

struct control_report *control_report_create(const struct edge_config *cfg,
	const struct control_parts *parts, struct peers *peers, struct orders *orders,
	struct ingest *ingest)
{
	struct control_report *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->cfg = cfg;
	r->parts = *parts;
	r->peers = peers;
	r->orders = orders;
	r->ingest = ingest;
	return r;
}

void control_report_destroy(struct control_report *r)
{
	free(r);
}

static void add_queue(struct link_figures *f, const struct peer_link_queue *q, uint32_t n,
	const struct session_stats *stats)
{
	Strait__QueueReport *m = &f->queues[n];

	strait__queue_report__init(m);
	m->queue = n;
	m->has_up = m->has_cap_bps = m->has_srtt_us = m->has_loss = true;
	m->has_backlog_bytes = m->has_delivered_bytes = true;
	m->has_tx_packets = m->has_rx_packets = true;
	m->up = q->up;
	m->cap_bps = q->cap_bps;
	m->srtt_us = stats->srtt_ns / 1000;
	m->loss = stats->loss;
	m->backlog_bytes = stats->backlog_bytes;
	m->delivered_bytes = stats->delivered_bytes;
	m->tx_packets = stats->counters[STRAIT_C_tx_packets];
	m->rx_packets = stats->counters[STRAIT_C_rx_packets];
	f->queue_pointers[n] = m;
}

/* Sums of all queues, and each of several. false: a worker does not know its. */
static bool link_stats(const struct control_report *r, struct link_figures *f,
	const struct peer_link *l, struct session_stats *out)
{
	struct session_stats one;

	for (uint32_t i = 0; i < l->queue_count; i++) {
		if (l->queues[i].session == NULL ||
			!worker_session_stats(r->parts.workers[i], l->queues[i].session, &one))
			return false;
		add_queue(f, &l->queues[i], i, &one);
		if (i == 0)
			*out = one;
		else
			link_stats_add(out, &one);
	}
	return l->queue_count > 0;
}

static void add_link(void *ctx, const struct peer_link *l)
{
	struct control_report *r = ctx;
	struct link_figures *f = &r->links[r->link_count];
	Strait__LinkReport *m = &f->report;
	struct session_stats stats;
	uint64_t interval_ns;

	if (r->link_count == PEER_SESSIONS_MAX || !link_stats(r, f, l, &stats))
		return;
	strait__link_report__init(m);
	m->n_queues = l->queue_count > 1 ? l->queue_count : 0;
	m->queues = f->queue_pointers;
	m->peer_site = (char *)l->site;
	m->peer_edge = (char *)l->edge;
	m->has_up = m->has_cap_bps = m->has_srtt_us = m->has_min_rtt_us = true;
	m->has_loss = m->has_backlog_bytes = m->has_delivered_bytes = true;
	m->up = l->up;
	m->cap_bps = l->cap_bps;
	m->srtt_us = stats.srtt_ns / 1000;
	m->min_rtt_us = stats.min_rtt_ns / 1000;
	m->loss = stats.loss;
	m->backlog_bytes = stats.backlog_bytes;
	m->delivered_bytes = stats.delivered_bytes;
	m->has_used_bps = l->initiator;
	m->used_bps = l->used_bps;
	m->has_expected_bps = m->has_latency_us = l->expected_bps != 0;
	m->expected_bps = l->expected_bps;
	m->latency_us = l->latency_ns / 1000;
	interval_ns = r->now_ns - *l->reported_ns;
	if (*l->reported_ns != 0 && interval_ns > 0) {
		m->has_goodput_bps = true;
		m->goodput_bps = (uint64_t)((double)(stats.delivered_bytes - *l->delivered_before) *
			8e9 / (double)interval_ns);
	}
	*l->reported_ns = r->now_ns;
	*l->delivered_before = stats.delivered_bytes;
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++) {
		strait__counter__init(&f->counters[i]);
		f->counters[i].name = (char *)strait_counter_descs[i].name;
		f->counters[i].value = stats.counters[i];
		f->pointers[i] = &f->counters[i];
		r->sum[i] += stats.counters[i];
	}
	m->n_counters = STRAIT_COUNTER_COUNT;
	m->counters = f->pointers;
	r->link_pointers[r->link_count++] = m;
}

static void add_progress(void *ctx, uint64_t order, uint64_t total, uint64_t done)
{
	struct control_report *r = ctx;
	Strait__OrderProgress *p = &r->progress[r->progress_count];

	if (r->progress_count == ORDERS_REPORTED)
		return;
	strait__order_progress__init(p);
	p->order = order;
	p->bytes_total = total;
	p->bytes_done = done;
	r->progress_pointers[r->progress_count++] = p;
}

static void add_counter(struct control_report *r, const char *name, uint64_t value)
{
	Strait__Counter *c = &r->counters[r->counter_count];

	strait__counter__init(c);
	c->name = (char *)name;
	c->value = value;
	r->counter_pointers[r->counter_count++] = c;
}

static void add_worker(struct control_report *r, unsigned int n, const struct worker_stats *ws)
{
	struct worker_figures *f = &r->workers[n];
	size_t i = 0;

	strait__worker_report__init(&f->report);
#define ADD(counter, kind, help)                                                                   \
	strait__counter__init(&f->counters[i]);                                                    \
	f->counters[i].name = (char *)"port_" #counter;                                            \
	f->counters[i].value = ws->counter;                                                        \
	f->pointers[i] = &f->counters[i];                                                          \
	i++;
	WORKER_COUNTERS(ADD)
#undef ADD
	f->report.worker = n;
	f->report.n_counters = i;
	f->report.counters = f->pointers;
	r->worker_pointers[n] = &f->report;
}

static void add_counters(struct control_report *r)
{
	const struct ingest_totals *in = ingest_totals(r->ingest);
	struct worker_stats ws = { 0 };
	uint64_t copied, copied_bytes;
	struct port_info port;

	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
		add_counter(r, strait_counter_descs[i].name, r->sum[i]);
	for (unsigned int i = 0; i < r->cfg->workers; i++) {
		struct worker_stats one;

		worker_stats(r->parts.workers[i], &one);
		add_worker(r, i, &one);
#define ADD(name, kind, help) ws.name += one.name;
		WORKER_COUNTERS(ADD)
#undef ADD
	}
#define ADD(name, kind, help) add_counter(r, "port_" #name, ws.name);
	WORKER_COUNTERS(ADD)
#undef ADD
	port_info(r->parts.port, &port);
	add_counter(r, "device_rx_missed", port.rx_missed);
	add_counter(r, "device_rx_errors", port.rx_errors);
	add_counter(r, "device_tx_errors", port.tx_errors);
	add_counter(r, "device_rx_no_buffer", port.rx_no_buffer);
#define ADD(name, help) add_counter(r, "ingest_" #name, in->name);
	INGEST_TOTALS(ADD)
#undef ADD
	orders_copied(r->orders, &copied, &copied_bytes);
	add_counter(r, "copied_objects", copied);
	add_counter(r, "copied_bytes", copied_bytes);
}

/* Of the first pool that is lost, which is so until the edge is started again. */
void control_report_trouble(char *buf, size_t len, const struct edge_config *cfg,
	struct pool *const *pools)
{
	buf[0] = '\0';
	for (uint32_t i = 0; i < cfg->pool_count && buf[0] == '\0'; i++)
		if (pools[i]->lost)
			snprintf(buf, len,
				"pool %s was deleted, replaced or cut while in use: restart the "
				"edge",
				cfg->pools[i].path);
}

/* All pools together; the path is the first one's. */
static void add_pools(struct control_report *r, Strait__EdgeReport *m)
{
	Strait__PoolReport *p = &r->pool;
	struct strait_pool_stats stats;

	strait__pool_report__init(p);
	p->path = (char *)r->cfg->pools[0].path;
	for (uint32_t i = 0; i < r->cfg->pool_count; i++) {
		if (pool_stats(r->parts.pools[i], &stats) < 0)
			continue;
		p->has_capacity_bytes = p->has_used_bytes = p->has_objects = true;
		p->has_evictions = true;
		p->capacity_bytes += stats.arena_bytes;
		p->used_bytes += stats.used_bytes;
		p->objects += stats.objects;
		p->evictions += stats.evictions;
	}
	m->pool = p;
}

void control_report_write(struct control_report *r, uint64_t now_ns, Strait__EdgeReport *m)
{
	r->now_ns = now_ns;
	r->link_count = r->progress_count = r->counter_count = 0;
	memcpy(r->sum, peers_ended_counters(r->peers), sizeof(r->sum));
	peers_links(r->peers, add_link, r);
	orders_progress(r->orders, add_progress, r);
	add_counters(r);
	add_pools(r, m);
	control_report_trouble(r->trouble, sizeof(r->trouble), r->cfg, r->parts.pools);
	m->trouble = r->trouble[0] != '\0' ? r->trouble : NULL;
	m->n_workers = r->cfg->workers > 1 ? r->cfg->workers : 0;
	m->workers = r->worker_pointers;
	m->n_links = r->link_count;
	m->links = r->link_pointers;
	m->n_orders = r->progress_count;
	m->orders = r->progress_pointers;
	m->n_counters = r->counter_count;
	m->counters = r->counter_pointers;
}
