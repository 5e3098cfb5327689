/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/links.h"

#include "control/base/units.h"
#include "control/ctl/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void row(struct table *t, const Strait__EdgeInfo *e, const Strait__LinkReport *l)
{
	char text[UNITS_TEXT_MAX];

	table_cell(t, "%s/%s", e->site, e->name);
	table_cell(t, "%s/%s", l->peer_site, l->peer_edge);
	table_cell(t, "%s", l->up ? "up" : "down");
	table_cell(t, "%s", units_format_rate(l->goodput_bps, text));
	table_cell(t, "%s", l->cap_bps != 0 ? units_format_rate(l->cap_bps, text) : "-");
	table_cell(t, "%s", l->srtt_us != 0 ? units_format_duration(l->srtt_us * 1000, text) : "-");
	table_cell(t, "%.3f %%", l->loss * 100);
	table_cell(t, "%s", units_format_bytes(l->backlog_bytes, text));
	if (l->backlog_bytes > 0 && l->goodput_bps > 0)
		table_cell(t, "%.1f s", (double)l->backlog_bytes * 8 / (double)l->goodput_bps);
	else
		table_cell(t, "-");
	table_cell(t, "%s", units_format_bytes(l->delivered_bytes, text));
}

void queues_print(const Strait__EdgeInfo *e)
{
	static const char *const columns[] = { "TO", ">QUEUE", "STATE", ">CAP", ">RTT", ">LOSS",
		">BACKLOG", ">DELIVERED", ">SENT", ">RECEIVED", NULL };
	char text[UNITS_TEXT_MAX];
	struct table *t = NULL;

	for (size_t i = 0; i < e->report->n_links; i++) {
		const Strait__LinkReport *l = e->report->links[i];

		for (size_t k = 0; k < l->n_queues; k++) {
			const Strait__QueueReport *q = l->queues[k];

			if (t == NULL)
				t = table_create(columns);
			table_cell(t, "%s/%s", l->peer_site, l->peer_edge);
			table_cell(t, "%u", q->queue);
			table_cell(t, "%s", q->up ? "up" : "down");
			table_cell(t, "%s",
				q->cap_bps != 0 ? units_format_rate(q->cap_bps, text) : "-");
			table_cell(t, "%s",
				q->srtt_us != 0 ? units_format_duration(q->srtt_us * 1000, text)
						: "-");
			table_cell(t, "%.3f %%", q->loss * 100);
			table_cell(t, "%s", units_format_bytes(q->backlog_bytes, text));
			table_cell(t, "%s", units_format_bytes(q->delivered_bytes, text));
			table_cell(t, "%" PRIu64, q->tx_packets);
			table_cell(t, "%" PRIu64, q->rx_packets);
		}
	}
	if (t == NULL)
		return;
	putchar('\n');
	table_print(t);
}

static uint64_t counter(const Strait__WorkerReport *w, const char *name)
{
	for (size_t i = 0; i < w->n_counters; i++)
		if (strcmp(w->counters[i]->name, name) == 0)
			return w->counters[i]->value;
	return 0;
}

void workers_print(const Strait__EdgeInfo *e)
{
	static const char *const columns[] = { ">WORKER", ">RECEIVED", ">SENT", ">HANDED ON",
		">NO BUFFER", ">PORT FULL", ">TURNS", ">BUSY", NULL };
	struct table *t;

	if (e->report->n_workers == 0)
		return;
	t = table_create(columns);
	for (size_t i = 0; i < e->report->n_workers; i++) {
		const Strait__WorkerReport *w = e->report->workers[i];

		table_cell(t, "%u", w->worker);
		table_cell(t, "%" PRIu64, counter(w, "port_rx_packets"));
		table_cell(t, "%" PRIu64, counter(w, "port_tx_packets"));
		table_cell(t, "%" PRIu64, counter(w, "port_rx_misdirected"));
		table_cell(t, "%" PRIu64, counter(w, "port_drop_no_buffer"));
		table_cell(t, "%" PRIu64, counter(w, "port_drop_tx_full"));
		table_cell(t, "%" PRIu64, counter(w, "port_loops"));
		table_cell(t, "%" PRIu64, counter(w, "port_busy_loops"));
	}
	putchar('\n');
	table_print(t);
}

void links_print(const Strait__EdgeInfo *const *edges, size_t n)
{
	static const char *const columns[] = { "FROM", "TO", "STATE", ">RATE", ">CAP", ">RTT",
		">LOSS", ">BACKLOG", ">ETA", ">DELIVERED", NULL };
	struct table *t = NULL;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; edges[i]->report != NULL && k < edges[i]->report->n_links; k++) {
			if (t == NULL)
				t = table_create(columns);
			row(t, edges[i], edges[i]->report->links[k]);
		}
	}
	if (t != NULL)
		table_print(t);
}
