/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "tools/replay/run.h"
#include "tools/replay/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int replay_prfaas_run(const struct replay_options *o, enum prfaas_mode mode,
	struct prfaas_result *r, char *err, size_t err_len)
{
	struct prfaas_config cfg = o->prfaas;
	struct replay_request req;
	struct replay_trace *t;
	struct prfaas *p;
	int ret = 1;

	cfg.mode = mode;
	snprintf(err, err_len, "out of memory");
	if (o->trace != NULL)
		t = replay_trace_open(o->trace, err, err_len);
	else
		t = replay_trace_generate(o->seed, o->requests);
	if (t == NULL)
		return -errno;
	p = prfaas_create(&cfg);
	if (p == NULL)
		ret = -ENOMEM;
	for (uint64_t n = 0; n < o->requests && ret == 1; n++) {
		ret = replay_trace_next(t, &req, err, err_len);
		if (ret <= 0)
			break;
		req.timestamp_ms = (uint64_t)((double)req.timestamp_ms / o->speed);
		ret = prfaas_request(p, &req);
		if (ret == -EINVAL)
			snprintf(err, err_len,
				"%s: request %" PRIu64 " is earlier than the one before, or "
				"later than a clock tells",
				o->trace, n + 1);
		ret = ret == 0 ? 1 : ret;
	}
	if (ret >= 0)
		ret = prfaas_finish(p, r);
	if (ret == -ENOMEM)
		snprintf(err, err_len, "out of memory");
	prfaas_destroy(p);
	replay_trace_close(t);
	return ret;
}

static void site_json(const char *name, const struct prfaas_site_result *s, const char *end)
{
	printf("\"%s\": {\"hit_rate\": %.4f, \"new_bytes_per_s\": %.0f, \"evictions\": %" PRIu64
	       ", \"eviction_age_s\": %.2f, \"reuse_span_s\": %.2f, \"mean_bytes\": %.0f}%s",
		name, s->hit_rate, s->new_bytes_per_s, s->evictions, s->eviction_age_s,
		s->reuse_span_s, s->mean_bytes, end);
}

static void result_json(enum prfaas_mode mode, const struct prfaas_result *r)
{
	printf("{\"mode\": \"%s\", \"requests\": %" PRIu64 ", \"remote\": %" PRIu64
	       ", \"misses\": %" PRIu64 ", \"seconds\": %.1f, \"tokens_per_s\": %.1f"
	       ", \"hit_rate\": %.4f, \"reuse\": %.4f, \"remote_share\": %.4f"
	       ", \"there_before_needed\": %.4f"
	       ", \"wan_gbps\": %.3f, \"wan_peak_gbps\": %.3f, \"wan_back_gbps\": %.3f"
	       ", \"wait_p50_s\": %.3f, \"wait_p90_s\": %.3f, \"wait_p99_s\": %.3f"
	       ", \"ttft_mean_s\": %.3f, \"ttft_p50_s\": %.3f, \"ttft_p90_s\": %.3f"
	       ", \"ttft_p99_s\": %.3f, ",
		prfaas_mode_name(mode), r->requests, r->remote, r->misses, r->seconds,
		r->tokens_per_s, r->hit_rate, r->reuse, r->remote_share, r->there_rate,
		r->wan_gbps[0], r->wan_peak_gbps, r->wan_gbps[1], r->wait_s[0], r->wait_s[1],
		r->wait_s[2], r->ttft_s[0], r->ttft_s[1], r->ttft_s[2], r->ttft_s[3]);
	site_json("decode", &r->decode, ", ");
	site_json("prefill", &r->prefill, "}\n");
}

static void result_table(enum prfaas_mode mode, const struct prfaas_result *r, bool first)
{
	if (first)
		printf("%-7s %7s %7s %7s %7s %9s %14s %7s %9s %9s %9s\n", "MODE", "HITS", "REMOTE",
			"THERE", "MISSED", "WAN", "PEAK", "BACK", "WAIT p99", "TTFT p50",
			"TTFT p90");
	printf("%-7s %6.1f%% %7" PRIu64 " %6.1f%% %7" PRIu64 " %6.2f Gbit/s %7.2f %7.2f %8.2fs "
	       "%8.2fs %8.2fs\n",
		prfaas_mode_name(mode), 100 * r->hit_rate, r->remote, 100 * r->there_rate,
		r->misses, r->wan_gbps[0], r->wan_peak_gbps, r->wan_gbps[1], r->wait_s[2],
		r->ttft_s[1], r->ttft_s[2]);
}

static double part(uint64_t some, uint64_t all)
{
	return all > 0 ? (double)some / (double)all : 0;
}

static int run_live(const struct replay_options *o, char *err, size_t err_len)
{
	struct prfaas_live_result r;
	int ret = replay_prfaas_live(o, &r, err, err_len);
	const char *mode = prfaas_mode_name(o->mode >= 0 ? (enum prfaas_mode)o->mode : 0);
	double gbps;

	if (ret < 0)
		return ret;
	gbps = (double)r.put_bytes[0] * 8e-9 / r.seconds;
	if (o->json)
		printf("{\"mode\": \"live\", \"sharing\": \"%s\", \"requests\": %" PRIu64
		       ", \"remote\": %" PRIu64 ", \"misses\": %" PRIu64
		       ", \"seconds\": %.1f, \"hit_rate\": %.4f"
		       ", \"there_before_needed\": %.4f, \"made_gbps\": %.3f"
		       ", \"behind_s\": %.3f}\n",
			mode, r.requests, r.remote, r.misses, r.seconds, part(r.hits, r.blocks),
			part(r.there, r.shipped), gbps, (double)r.behind_ns * 1e-9);
	else
		printf("live, %s: %" PRIu64 " requests, %" PRIu64
		       " prefilled at the other site, %.1f%% "
		       "hits, %.1f%% there before needed, %" PRIu64 " missed, %.3f Gbit/s made "
		       "there, at most %.3f s behind the clock\n",
			mode, r.requests, r.remote, 100 * part(r.hits, r.blocks),
			100 * part(r.there, r.shipped), r.misses, gbps, (double)r.behind_ns * 1e-9);
	return 0;
}

int replay_prfaas(const struct replay_options *o, char *err, size_t err_len)
{
	int first = o->mode >= 0 ? o->mode : 0, last = o->mode >= 0 ? o->mode : PRFAAS_MODES - 1;

	if (o->pool != NULL)
		return run_live(o, err, err_len);
	/* Standard input can be read once. */
	if (first != last && o->trace != NULL && strcmp(o->trace, "-") == 0) {
		snprintf(err, err_len, "--trace -: give one --mode, or a file");
		return -EINVAL;
	}
	for (int i = first; i <= last; i++) {
		struct prfaas_result r;
		int ret = replay_prfaas_run(o, (enum prfaas_mode)i, &r, err, err_len);

		if (ret < 0)
			return ret;
		if (o->json)
			result_json((enum prfaas_mode)i, &r);
		else
			result_table((enum prfaas_mode)i, &r, i == first);
	}
	return 0;
}
