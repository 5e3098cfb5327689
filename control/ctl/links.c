/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/links.h"

#include "control/base/units.h"
#include "control/ctl/print.h"

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
