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
		"one-way delay + bytes / (C * eta * (1 - loss)); eta = symbol / (symbol + 106), "  \
		"C = the smaller of link rate and cap")                                            \
	X(efficiency, 5, "ideal_seconds / seconds")                                                \
	X(overhead, 6,                                                                             \
		"(symbols that arrived - source symbols) / source symbols; "                       \
		"copies made by the link do not count")                                            \
	X(extra_rtt, 4, "(seconds - ideal_seconds) / RTT")                                         \
	X(repair_rounds, 0, "source blocks that needed repair after their planned symbols")        \
	X(spurious_repair, 6,                                                                      \
		"packets declared lost that arrived after all, share of symbols "                  \
		"sent")                                                                            \
	X(feedback_ratio, 6, "line bytes of the feedback direction / of the data direction")       \
	X(recovery_rtt, 3,                                                                         \
		"after --cut: RTTs from its end until goodput over one RTT is >= 95 % of that "    \
		"over the RTT before it; the largest of several cuts; null without one that "      \
		"met a transfer")                                                                  \
	X(nonce_repeats, 0,                                                                        \
		"(direction, queue, key generation, packet number) seen twice on the wire")        \
	X(loss, 6, "share of symbols lost or corrupted after the queue, as it happened")           \
	X(queue_loss, 6, "share of symbols the bottleneck queue dropped")

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

void sim_run(const struct plan *p, struct sim_result *out);
