/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/stats.h"

#include "tools/wan/guard.h"

#include <inttypes.h>
#include <stdio.h>

struct column {
	const char *name;
	uint64_t value;
};

enum { COLUMNS = 26 };

static void columns_fill(const struct wan_direction *d, struct column *col)
{
	const struct link_counters *l = &d->link.c;
	const struct wan_counters *c = &d->c;
	const struct column all[COLUMNS] = {
		{ "offered", l->offered },
		{ "delivered", l->delivered },
		{ "lost_random", l->lost_random },
		{ "lost_burst", l->lost_burst },
		{ "lost_queue", l->lost_queue },
		{ "lost_cut", l->lost_cut },
		{ "lost_mtu", l->lost_mtu },
		{ "reordered", l->reordered },
		{ "duplicated", l->duplicated },
		{ "corrupted", l->corrupted },
		{ "offered_bytes", l->offered_bytes },
		{ "carried_bytes", l->carried_bytes },
		{ "delivered_bytes", l->delivered_bytes },
		{ "queue_high_bytes", l->queue_high_bytes },
		{ "rx", c->rx },
		{ "tx", c->tx },
		{ "forged", c->forged },
		{ "in_flight", d->line.len + d->npending },
		{ "no_link", c->no_link },
		{ "peer_late", c->peer_late },
		{ "peer_drop", c->peer_drop },
		{ "links_up", c->links_up },
		{ "late", c->late },
		{ "stalled", c->stalled },
		{ "no_room", c->no_room },
		{ "late_max_us", c->late_max_ns / 1000 },
	};

	for (int i = 0; i < COLUMNS; i++)
		col[i] = all[i];
}

static void print_json(const struct wan *w, double seconds, uint64_t overruns, bool final)
{
	printf("{\"seconds\": %.3f, \"final\": %s, \"seed\": %" PRIu64 ", \"overruns\": %" PRIu64
	       ", \"faults\": %" PRIu64,
		seconds, final ? "true" : "false", w->opt->seed, overruns, wan_guard_faults());
	for (int side = 0; side < WAN_SIDES; side++) {
		struct column col[COLUMNS];

		columns_fill(&w->dir[side], col);
		printf(", \"%s\": {", side == WAN_A ? "ab" : "ba");
		for (int i = 0; i < COLUMNS; i++)
			printf("%s\"%s\": %" PRIu64, i ? ", " : "", col[i].name, col[i].value);
		printf("}");
	}
	printf("}\n");
}

static void print_table(const struct wan *w, double seconds, uint64_t overruns)
{
	struct column col[WAN_SIDES][COLUMNS];

	for (int side = 0; side < WAN_SIDES; side++)
		columns_fill(&w->dir[side], col[side]);
	printf("%-18s %16s %16s\n", "counter", "A to B", "B to A");
	for (int i = 0; i < COLUMNS; i++)
		printf("%-18s %16" PRIu64 " %16" PRIu64 "\n", col[0][i].name, col[0][i].value,
			col[1][i].value);
	if (overruns)
		printf("%.1f s, %" PRIu64 " overruns: this run is void\n", seconds, overruns);
	else
		printf("%.1f s, no overruns\n", seconds);
}

static void print_line(const struct wan *w, double seconds, uint64_t overruns)
{
	printf("%8.1f s", seconds);
	for (int side = 0; side < WAN_SIDES; side++) {
		const struct link_counters *l = &w->dir[side].link.c;

		printf("  %s in %" PRIu64 " out %" PRIu64 " lost %" PRIu64 " queue drops %" PRIu64,
			side == WAN_A ? "A>B" : "B>A", l->offered, l->delivered,
			l->lost_random + l->lost_burst + l->lost_cut + l->lost_mtu, l->lost_queue);
	}
	printf("  overruns %" PRIu64 "\n", overruns);
}

void wan_stats_print(const struct wan *w, uint64_t now_ns, bool final)
{
	double seconds = (double)(now_ns - w->start_ns) * 1e-9;
	uint64_t overruns = wan_overruns(&w->dir[WAN_A].c) + wan_overruns(&w->dir[WAN_B].c);

	if (w->opt->json)
		print_json(w, seconds, overruns, final);
	else if (final)
		print_table(w, seconds, overruns);
	else
		print_line(w, seconds, overruns);
	fflush(stdout);
}
