/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/prfaas_private.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const struct samples *s, double q)
{
	size_t i = (size_t)(q * (double)s->count);

	return s->count == 0 ? 0 : s->v[i < s->count ? i : s->count - 1];
}

static double mean(const struct samples *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->count; i++)
		sum += s->v[i];
	return s->count == 0 ? 0 : sum / (double)s->count;
}

static double share(double part, double all)
{
	return all > 0 ? part / all : 0;
}

static void site_result(const struct prfaas *p, struct site *s, double seconds,
	struct prfaas_site_result *out)
{
	double unit = (double)prfaas_unit_bytes(&p->cfg), evicted;

	lru_tick(&s->pool, p->done_ns);
	evicted = (double)s->pool.evicted;
	out->hit_rate = share((double)s->hits, (double)s->asked);
	out->new_bytes_per_s = share((double)s->pool.inserted * unit, seconds);
	out->evictions = s->pool.evicted;
	out->eviction_age_s = share(s->pool.age_sum_s, evicted);
	out->reuse_span_s = share(s->pool.span_sum_s, evicted);
	out->mean_bytes = share(s->pool.held_sum * unit, seconds);
}

void prfaas_result_get(struct prfaas *p, struct prfaas_result *out)
{
	double seconds = (double)(p->done_ns - p->first_ns) * 1e-9;

	memset(out, 0, sizeof(*out));
	out->requests = p->requests;
	out->remote = p->remote;
	out->misses = p->misses;
	out->seconds = seconds;
	out->tokens_per_s = share((double)p->units * PRFAAS_UNIT_TOKENS, seconds);
	out->hit_rate = share((double)p->hits, (double)p->units);
	out->reuse = 1 - share((double)p->decode.pool.inserted, (double)p->units);
	out->remote_share = share(p->remote_tokens, p->new_tokens);
	for (const struct run *r = p->runs; r != NULL; r = r->next)
		p->shipped += r->shipped;
	out->there_rate = share((double)p->there, (double)p->shipped);
	for (int i = 0; i < DIRECTIONS; i++)
		out->wan_gbps[i] = share(p->wan[i].wire_bits * 1e-9, seconds);
	out->wan_peak_gbps = p->wan[TO_DECODE].peak_bits * 1e-9 / PEAK_SECONDS;
	out->ttft_s[0] = mean(&p->ttft);
	if (p->wait.count > 0)
		qsort(p->wait.v, p->wait.count, sizeof(double), by_value);
	if (p->ttft.count > 0)
		qsort(p->ttft.v, p->ttft.count, sizeof(double), by_value);
	for (int i = 0; i < 3; i++) {
		static const double q[] = { 0.5, 0.9, 0.99 };

		out->wait_s[i] = quantile(&p->wait, q[i]);
		out->ttft_s[i + 1] = quantile(&p->ttft, q[i]);
	}
	site_result(p, &p->prefill, seconds, &out->prefill);
	site_result(p, &p->decode, seconds, &out->decode);
}
