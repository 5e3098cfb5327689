/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/prfaas_options.h"

#include "control/base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GENERATED = 12000 };

static const uint64_t bps_min = 1000000, pool_max = UINT64_C(1) << 60;
static const uint64_t time_max_ns = UINT64_C(1000000) * 1000000000;

static int whole(const char *name, const char *arg, uint64_t min, uint64_t max, uint64_t *out,
	char *err, size_t err_len)
{
	char *end;

	errno = 0;
	*out = strtoull(arg, &end, 10);
	if (arg[0] >= '0' && arg[0] <= '9' && *end == '\0' && errno == 0 && *out >= min &&
		*out <= max)
		return 0;
	snprintf(err, err_len, "--%s: \"%s\" is not a whole number from %" PRIu64 " to %" PRIu64,
		name, arg, min, max);
	return -EINVAL;
}

static int fraction(const char *name, const char *arg, double max, double *out, char *err,
	size_t err_len)
{
	char *end;

	*out = strtod(arg, &end);
	if (end != arg && *end == '\0' && *out >= 1e-3 && *out <= max)
		return 0;
	snprintf(err, err_len, "--%s: \"%s\" is not a number from 0.001 to %g", name, arg, max);
	return -EINVAL;
}

static int duration(const char *name, const char *arg, uint64_t *out, char *err, size_t err_len)
{
	char why[200];

	if (units_parse_duration(arg, out, why, sizeof(why)) < 0)
		snprintf(err, err_len, "--%s: %s", name, why);
	else if (*out > time_max_ns)
		snprintf(err, err_len, "--%s: at most a million seconds", name);
	else
		return 0;
	return -EINVAL;
}

static int pool(const char *name, const char *arg, uint64_t *out, char *err, size_t err_len)
{
	char why[200];

	if (units_parse_bytes(arg, out, why, sizeof(why)) < 0)
		snprintf(err, err_len, "--%s: %s", name, why);
	else if (*out > pool_max)
		snprintf(err, err_len, "--%s: at most 1 EiB", name);
	else
		return 0;
	return -EINVAL;
}

static int mode(const char *arg, int *out, char *err, size_t err_len)
{
	*out = -1;
	if (strcmp(arg, "all") == 0)
		return 0;
	for (int i = 0; i < PRFAAS_MODES; i++) {
		if (strcmp(arg, prfaas_mode_name((enum prfaas_mode)i)) == 0) {
			*out = i;
			return 0;
		}
	}
	snprintf(err, err_len, "--mode: \"%s\" is not strait, none, serial, local or all", arg);
	return -EINVAL;
}

static int cap(const char *arg, uint64_t *out, char *err, size_t err_len)
{
	char why[200];

	if (units_parse_rate(arg, out, why, sizeof(why)) < 0)
		snprintf(err, err_len, "--cap: %s", why);
	else if (*out < bps_min)
		snprintf(err, err_len, "--cap: at least 1M");
	else
		return 0;
	return -EINVAL;
}

static int site_parse(struct prfaas_site_config *s, int what, const char *name, const char *arg,
	char *err, size_t err_len)
{
	uint64_t v = 0;
	int ret;

	switch (what) {
	case PRFAAS_OPT_PREFILL_INSTANCES:
		ret = whole(name, arg, 1, 1000000, &v, err, err_len);
		s->instances = (uint32_t)v;
		return ret;
	case PRFAAS_OPT_PREFILL_RATE:
		ret = whole(name, arg, 1, 1000000000, &v, err, err_len);
		s->tokens_per_s = (double)v;
		return ret;
	default:
		return pool(name, arg, &s->pool_bytes, err, err_len);
	}
}

int prfaas_option_parse(struct replay_options *o, int opt, const char *name, const char *arg,
	char *err, size_t err_len)
{
	struct prfaas_config *c = &o->prfaas;
	uint64_t v = 0;
	int ret;

	switch (opt) {
	case PRFAAS_OPT_MODE:
		return mode(arg, &o->mode, err, err_len);
	case PRFAAS_OPT_THRESHOLD:
		return whole(name, arg, 0, UINT32_MAX, &c->threshold_tokens, err, err_len);
	case PRFAAS_OPT_CAP:
		return cap(arg, &c->cap_bps, err, err_len);
	case PRFAAS_OPT_EFFICIENCY:
		return fraction(name, arg, 1.0, &c->efficiency, err, err_len);
	case PRFAAS_OPT_RTT:
		return duration(name, arg, &c->rtt_ns, err, err_len);
	case PRFAAS_OPT_DEADLINE:
		return duration(name, arg, &c->deadline_ns, err, err_len);
	case PRFAAS_OPT_SERIAL_RTTS:
		ret = whole(name, arg, 1, 100, &v, err, err_len);
		c->serial_rtts = (uint32_t)v;
		return ret;
	case PRFAAS_OPT_KEEP:
		return duration(name, arg, &c->keep_ns, err, err_len);
	case PRFAAS_OPT_SPEED:
		return fraction(name, arg, 1e6, &o->speed, err, err_len);
	case PRFAAS_OPT_TO_POOL:
		o->decode_pool = arg;
		return 0;
	case PRFAAS_OPT_PREFILL_INSTANCES:
	case PRFAAS_OPT_PREFILL_RATE:
	case PRFAAS_OPT_PREFILL_POOL:
		return site_parse(&c->prefill, opt, name, arg, err, err_len);
	default:
		return site_parse(&c->decode,
			opt - PRFAAS_OPT_DECODE_INSTANCES + PRFAAS_OPT_PREFILL_INSTANCES, name, arg,
			err, err_len);
	}
}

void prfaas_options_settle(struct replay_options *o)
{
	if (!o->block_tokens_told)
		o->block_tokens = o->prfaas.block_tokens;
	if (!o->bytes_told)
		o->bytes_per_block =
			o->prfaas.block_bytes / o->prfaas.block_tokens * o->block_tokens;
	if (!o->requests_told)
		o->requests = o->trace != NULL ? UINT64_MAX : GENERATED;
}

void prfaas_options_take(struct replay_options *o)
{
	o->prfaas.block_tokens = o->block_tokens;
	o->prfaas.block_bytes = o->bytes_per_block;
	o->prfaas.ranks = o->tp;
}
