/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/turnover.h"

#define DAY_S 86400.0

void turnover_look(struct turnover *t, uint64_t now_ns)
{
	uint64_t span_ns = now_ns - t->began_ns, ns = now_ns - t->looked_ns;
	double rate;

	if (t->looked_ns == 0) {
		t->began_ns = t->looked_ns = now_ns;
		t->removed = 0;
		return;
	}
	if (ns == 0)
		return;
	if (span_ns > TURNOVER_SPAN_NS)
		span_ns = TURNOVER_SPAN_NS;
	if (ns > span_ns)
		ns = span_ns;
	rate = (double)t->removed * 1e9 / (double)(now_ns - t->looked_ns);
	t->rate += (rate - t->rate) * (double)ns / (double)span_ns;
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
