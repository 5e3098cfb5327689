/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One seed of strait-sim: play a plan in a world and measure. Deterministic; prints nothing.
 */

#include "tools/sim/plan.h"

/*
 * Figures in the order they are reported. Undefined ones are NAN.
 *   X(name, decimals, help)
 */
#define SIM_FIGURES(X)                                                                             \
	X(seconds, 6, "from the order (session up) to the last object verified")                   \
	X(ideal_seconds, 6,                                                                        \
		"one-way delay + bytes / (C * eta * (1 - loss until then)); "                      \
		"eta = symbol / (symbol + 106), C = the smaller of link rate and cap")             \
	X(efficiency, 5, "ideal_seconds / seconds")                                                \
	X(overhead, 6,                                                                             \
		"(symbols that arrived - source symbols) / source symbols; "                       \
		"copies made by the link do not count; with --path-mtu of their bytes")            \
	X(extra_rtt, 4, "(seconds - ideal_seconds) / RTT")                                         \
	X(repair_rounds, 0, "source blocks that needed repair after their planned symbols")        \
	X(spurious_repair, 6,                                                                      \
		"packets declared lost that arrived after all, whether the source learned it "     \
		"or not, share of symbols sent")                                                   \
	X(feedback_ratio, 6, "line bytes of the feedback direction / of the data direction")       \
	X(recovery_rtt, 3,                                                                         \
		"after --cut: RTTs from its end until goodput over one RTT is >= 95 % of that "    \
		"over the RTT before it; the largest of several cuts; null without one that "      \
		"met a transfer")                                                                  \
	X(nonce_repeats, 0,                                                                        \
		"(direction, queue, key generation, packet number) seen twice on the wire")        \
	X(attacks, 0, "with --attack: how often something was tried that must change nothing")     \
	X(loss, 6, "share of symbols lost or corrupted after the queue, as it happened")           \
	X(queue_loss, 6, "share of symbols the bottleneck queue dropped")                          \
	X(queue_delay_ms_p50, 3,                                                                   \
		"time the source's packets spent in the bottleneck queue, median")                 \
	X(queue_delay_ms_p95, 3, "the same, 95 of 100 packets")                                    \
	X(queue_delay_ms_max, 3, "the same, the longest")                                          \
	X(cross_gbps, 4, "line rate of the first --cross flow while it was on and the order ran")  \
	X(cross_share, 4, "its share of what it and the source sent in that time")                 \
	X(given_up, 4,                                                                             \
		"share of its rate before the flow that the source gave up, from 1 s after the "   \
		"flow's start until its end")                                                      \
	X(given_up_ms, 0,                                                                          \
		"from the flow's start until the source's rate over 100 ms (or an RTT) was "       \
		"<= 10 % of that before")                                                          \
	X(taken_back_ms, 0, "from the flow's end until it was >= 90 % of that before")             \
	X(slowest_seconds, 4, "longest time of a transfer from its order to its end")              \
	X(jain, 4,                                                                                 \
		"with --flows: fairness of the goodputs, 1 = all the same, from 2 s or 20 RTT "    \
		"after the last one's start until the first one is done")                          \
	X(least_share, 4, "the smallest goodput / its fair share, in that time")                   \
	X(flow1_gbps, 5, "goodput of the first flow in that time")                                 \
	X(flow2_gbps, 5, "of the second")                                                          \
	X(flow3_gbps, 5, "of the third")                                                           \
	X(flow4_gbps, 5, "of the fourth")                                                          \
	X(flows_used, 4, "share of the line that all together used")                               \
	X(flows_queue_ms_p95, 3, "95 of 100 of their packets waited less in the queue")            \
	X(flows_queue_loss, 6, "share of their symbols the queue dropped")                         \
	X(start_queue_loss, 6, "the same, until then from the last one's start")                   \
	X(oracle_seconds, 6,                                                                       \
		"with --with-oracle: what a sender takes that knows every loss in advance")        \
	X(oracle_efficiency, 5, "its efficiency")                                                  \
	X(oracle_extra_rtt, 4, "its extra_rtt")                                                    \
	X(oracle_ratio, 4, "seconds / oracle_seconds")

enum sim_figure {
#define SIM_FIGURE_ENUM(name, decimals, help) SIM_##name,
	SIM_FIGURES(SIM_FIGURE_ENUM)
#undef SIM_FIGURE_ENUM
		SIM_FIGURE_COUNT
};

struct sim_result {
	uint64_t seed;
	bool ok; /* all objects ended as planned, every byte compared, nothing left over */
	double figures[SIM_FIGURE_COUNT];
	uint64_t bytes; /* ordered */
	char error[200];
	uint64_t counters[WORLD_SIDES][STRAIT_COUNTER_COUNT];
};

/* The plan's objects, put into w. 0 or -ENOMEM. */
int sim_objects(struct world *w, const struct plan *p, uint64_t *bytes);

void sim_run(const struct plan *p, struct sim_result *out);
