/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/turnover.h"

#define DAY_S 86400.0

#define SLOT_NS (TURNOVER_SPAN_NS / TURNOVER_SLOTS)

void turnover_look(struct turnover *t, uint64_t now_ns)
{
	uint64_t slot = (now_ns - 1) / SLOT_NS, ns = now_ns - t->looked_ns, span_ns;
	double sum = 0, removed = (double)t->removed;

	if (t->looked_ns == 0) {
		t->began_ns = t->looked_ns = now_ns;
		t->slot = slot;
		t->removed = 0;
		return;
	}
	if (ns == 0)
		return;
	if (ns > TURNOVER_SPAN_NS) /* only the end of it counts */
		removed *= (double)TURNOVER_SPAN_NS / (double)ns;
	for (int i = 0; i < TURNOVER_SLOTS && t->slot < slot; i++)
		t->went[++t->slot % TURNOVER_SLOTS] = 0;
	t->slot = slot;
	t->went[slot % TURNOVER_SLOTS] += removed;
	for (int i = 0; i < TURNOVER_SLOTS; i++)
		sum += t->went[i];
	/* the newest slot has only begun */
	span_ns = TURNOVER_SPAN_NS - SLOT_NS + (now_ns - 1) % SLOT_NS + 1;
	if (span_ns > now_ns - t->began_ns)
		span_ns = now_ns - t->began_ns;
	t->rate = sum * 1e9 / (double)span_ns;
	t->removed = 0;
	t->looked_ns = now_ns;
}

uint64_t turnover_age_ns(const struct turnover *t, uint64_t objects)
{
	double s;

	if (t->looked_ns - t->began_ns < TURNOVER_KNOWN_NS || t->rate <= 0 || objects == 0)
		return 0;
	s = (double)objects / t->rate;
	return s < DAY_S ? (uint64_t)(s * 1e9) + 1 : 0;
}
