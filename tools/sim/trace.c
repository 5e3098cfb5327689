/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void trace_init(struct trace *t, uint64_t t0_ns, uint64_t bin_ns)
{
	*t = (struct trace){ .t0_ns = t0_ns, .bin_ns = bin_ns, .next_ns = t0_ns };
}

void trace_fini(struct trace *t)
{
	free(t->bins);
	memset(t, 0, sizeof(*t));
}

static int grow(struct trace *t)
{
	size_t cap = t->cap ? 2 * t->cap : 1024;
	struct trace_bin *bins = realloc(t->bins, cap * sizeof(*bins));

	if (!bins)
		return -1;
	t->bins = bins;
	t->cap = cap;
	return 0;
}

struct trace_bin *trace_at(struct trace *t, uint64_t now_ns)
{
	if (t->bin_ns == 0 || now_ns < t->t0_ns)
		return NULL;
	while (now_ns >= t->next_ns) {
		if (t->n == t->cap && grow(t) < 0)
			return NULL;
		memset(&t->bins[t->n], 0, sizeof(t->bins[0]));
		if (t->n) {
			/* Until somebody looks again. */
			t->bins[t->n].outstanding_bytes = t->bins[t->n - 1].outstanding_bytes;
			t->bins[t->n].rtt_ns = t->bins[t->n - 1].rtt_ns;
		}
		t->n++;
		t->next_ns += t->bin_ns;
	}
	return &t->bins[t->n - 1];
}

static void add(struct trace_bin *to, const struct trace_bin *from)
{
	to->offered_bytes += from->offered_bytes;
	to->good_bytes += from->good_bytes;
	to->cross_bytes += from->cross_bytes;
	to->packets += from->packets;
	to->lost += from->lost;
	if (from->queue_bytes > to->queue_bytes)
		to->queue_bytes = from->queue_bytes;
	to->outstanding_bytes = from->outstanding_bytes;
	to->rtt_ns = from->rtt_ns;
}

void trace_merge(struct trace *t, uint64_t bin_ns)
{
	size_t factor, n = 0;

	if (t->bin_ns == 0 || bin_ns <= t->bin_ns)
		return;
	factor = (size_t)((bin_ns + t->bin_ns - 1) / t->bin_ns);
	for (size_t i = 0; i < t->n; i++) {
		if (i % factor == 0)
			t->bins[n++] = t->bins[i];
		else
			add(&t->bins[n - 1], &t->bins[i]);
	}
	t->n = n;
	t->bin_ns *= factor;
	t->next_ns = t->t0_ns + n * t->bin_ns;
}

void trace_csv(const struct trace *t, FILE *out)
{
	double gbps = 8 / (double)t->bin_ns;

	fprintf(out,
		"time_ms,offered_gbps,goodput_gbps,cross_gbps,queue_bytes,outstanding_bytes,"
		"packets,lost,rtt_ms\n");
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_bin *b = &t->bins[i];

		fprintf(out,
			"%.3f,%.6f,%.6f,%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
			",%.4f\n",
			(double)(i * t->bin_ns) / 1e6, (double)b->offered_bytes * gbps,
			(double)b->good_bytes * gbps, (double)b->cross_bytes * gbps, b->queue_bytes,
			b->outstanding_bytes, b->packets, b->lost, (double)b->rtt_ns / 1e6);
	}
}
