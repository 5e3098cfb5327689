/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/progress_rate.h"

#include <string.h>

enum { APART_MS = 500 };

/* What is too old, but for the newest of that: from there the window begins. */
static void forget(struct progress_rate *r, uint64_t now_ms)
{
	uint32_t n = 0;

	while (n + 2 < r->count && now_ms - r->at[n + 1].ms >= PROGRESS_RATE_MS)
		n++;
	if (n == 0 && r->count == PROGRESS_RATE_SAMPLES)
		n = 1;
	r->count -= n;
	memmove(r->at, r->at + n, r->count * sizeof(r->at[0]));
}

void progress_rate_add(struct progress_rate *r, uint64_t now_ms, uint64_t bytes)
{
	uint64_t span_ms, still_ms;
	uint32_t last = r->count - 1;

	if (r->count == 0 || now_ms < r->at[last].ms || bytes < r->at[last].bytes) {
		r->at[0].ms = now_ms;
		r->at[0].bytes = bytes;
		r->count = 1;
		r->bps = 0;
		return;
	}
	still_ms = now_ms - r->at[last].ms;
	if (bytes > r->at[last].bytes && still_ms >= APART_MS) {
		forget(r, now_ms);
		last = r->count++;
		r->at[last].ms = now_ms;
		r->at[last].bytes = bytes;
		still_ms = 0;
	}
	if (last == 0)
		return;
	span_ms = r->at[last].ms - r->at[0].ms;
	if (still_ms > PROGRESS_RATE_MS && still_ms > span_ms)
		span_ms += still_ms;
	r->bps = (uint64_t)((double)(r->at[last].bytes - r->at[0].bytes) * 8000 / (double)span_ms);
}
