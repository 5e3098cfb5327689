/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/link/link_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Upper bounds keep all products of the model within 64 bits. */
#define RATE_MAX_GBPS 1000.0
#define TIME_MAX_MS   86400000.0
#define QUEUE_MAX_BDP 1000.0

const char link_options_help[] =
	"  --rate-gbps R        line rate, frame + 24 bytes a packet; 0 = unlimited (10)\n"
	"  --rtt-ms MS          round trip; each direction delays by half (100)\n"
	"  --queue-bdp X        bottleneck queue as a multiple of rate x rtt (1.0)\n"
	"  --queue-bytes N      bottleneck queue in bytes, instead of --queue-bdp\n"
	"  --loss P             independent loss probability, 0..1\n"
	"  --ge P,BURST         burst loss: mean loss P in bursts as long as BURST packets of a\n"
	"                       full line on average; in time, however few are sent\n"
	"  --reorder P,MS       with probability P an extra delay of up to MS\n"
	"  --dup P              probability of a second copy\n"
	"  --corrupt P[,BITS]   probability of 1..BITS flipped bits, headers spared (BITS 8)\n"
	"  --cut AT_MS,LEN_MS   nothing passes for LEN_MS, repeatable\n"
	"  --rtt-step AT_MS,NEW_MS  the round trip becomes NEW_MS at AT_MS, repeatable\n"
	"  --path-mtu AT_MS,BYTES  from AT_MS on larger IP packets vanish, repeatable\n";

enum option {
	OPT_RATE,
	OPT_RTT,
	OPT_QUEUE_BDP,
	OPT_QUEUE_BYTES,
	OPT_LOSS,
	OPT_GE,
	OPT_REORDER,
	OPT_DUP,
	OPT_CORRUPT,
	OPT_CUT,
	OPT_STEP,
	OPT_PATH_MTU,
	OPT_COUNT,
};

static const struct {
	const char *name;
	const char *form;
	unsigned int nmin;
	unsigned int nmax;
	double min[2];
	double max[2];
} options[OPT_COUNT] = {
	[OPT_RATE] = { "rate-gbps", "R in 0..1000", 1, 1, { 0 }, { RATE_MAX_GBPS } },
	[OPT_RTT] = { "rtt-ms", "MS in 0..86400000", 1, 1, { 0 }, { TIME_MAX_MS } },
	[OPT_QUEUE_BDP] = { "queue-bdp", "X in 0..1000", 1, 1, { 0 }, { QUEUE_MAX_BDP } },
	[OPT_QUEUE_BYTES] = { "queue-bytes", "N in 1..1e12", 1, 1, { 1 }, { 1e12 } },
	[OPT_LOSS] = { "loss", "P in 0..1", 1, 1, { 0 }, { 1 } },
	[OPT_GE] = { "ge", "P,BURST with P in 0..0.99 and BURST in 1..1e6", 2, 2, { 0, 1 },
		{ 0.99, 1e6 } },
	[OPT_REORDER] = { "reorder", "P,MS with P in 0..1 and MS in 0..60000", 2, 2, { 0, 0 },
		{ 1, 60000 } },
	[OPT_DUP] = { "dup", "P in 0..1", 1, 1, { 0 }, { 1 } },
	[OPT_CORRUPT] = { "corrupt", "P or P,BITS with P in 0..1 and BITS in 1..16", 1, 2, { 0, 1 },
		{ 1, LINK_FLIPS_MAX } },
	[OPT_CUT] = { "cut", "AT_MS,LEN_MS", 2, 2, { 0, 0 }, { TIME_MAX_MS, TIME_MAX_MS } },
	[OPT_STEP] = { "rtt-step", "AT_MS,NEW_MS", 2, 2, { 0, 0 }, { TIME_MAX_MS, TIME_MAX_MS } },
	[OPT_PATH_MTU] = { "path-mtu", "AT_MS,BYTES with BYTES in 68..65535", 2, 2, { 0, 68 },
		{ TIME_MAX_MS, 65535 } },
};

static int option_find(const char *name)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (strcmp(name, options[i].name) == 0)
			return i;
	return -ENOENT;
}

bool link_config_is_option(const char *name)
{
	return option_find(name) >= 0;
}

/* Comma separated decimal numbers; no hex, inf, nan or blanks. Returns how many, or -EINVAL. */
static int numbers_parse(const char *value, double *num, unsigned int max)
{
	unsigned int n = 0;

	for (const char *p = value;; p++) {
		char *end;

		if (n == max || strspn(p, "0123456789.") == 0)
			return -EINVAL;
		num[n] = strtod(p, &end);
		if (end == p || (size_t)(end - p) != strspn(p, "0123456789.eE+-") ||
			!isfinite(num[n]))
			return -EINVAL;
		n++;
		p = end;
		if (*p == '\0')
			return (int)n;
		if (*p != ',')
			return -EINVAL;
	}
}

static uint64_t ms_to_ns(double ms)
{
	return (uint64_t)(ms * 1e6 + 0.5);
}

int link_config_parse_option(const char *name, const char *value, struct link_config *cfg,
	char *errbuf, size_t errlen)
{
	double num[2] = { 0, 0 };
	int opt = option_find(name);
	int n;

	if (opt < 0) {
		snprintf(errbuf, errlen, "unknown link option --%s", name);
		return -ENOENT;
	}
	n = value ? numbers_parse(value, num, options[opt].nmax) : -EINVAL;
	if (n < (int)options[opt].nmin)
		goto bad;
	for (int i = 0; i < n; i++)
		if (num[i] < options[opt].min[i] || num[i] > options[opt].max[i])
			goto bad;
	switch (opt) {
	case OPT_RATE:
		cfg->rate_bps = (uint64_t)(num[0] * 1e9 + 0.5);
		break;
	case OPT_RTT:
		cfg->rtt_ns = ms_to_ns(num[0]);
		break;
	case OPT_QUEUE_BDP:
		cfg->queue_bdp = num[0];
		cfg->queue_bytes = 0;
		break;
	case OPT_QUEUE_BYTES:
		cfg->queue_bytes = (uint64_t)(num[0] + 0.5);
		break;
	case OPT_LOSS:
		cfg->loss = num[0];
		break;
	case OPT_GE:
		/* The chain cannot be entered more often than at every packet. */
		if (num[0] > num[1] / (num[1] + 1.0))
			goto bad;
		cfg->ge_loss = num[0];
		cfg->ge_burst = num[1];
		break;
	case OPT_REORDER:
		cfg->reorder = num[0];
		cfg->reorder_ns = ms_to_ns(num[1]);
		break;
	case OPT_DUP:
		cfg->dup = num[0];
		break;
	case OPT_CORRUPT:
		cfg->corrupt = num[0];
		if (n > 1)
			cfg->corrupt_bits = (uint32_t)num[1];
		break;
	case OPT_CUT:
		if (cfg->ncuts == LINK_CUTS_MAX)
			goto many;
		cfg->cuts[cfg->ncuts].at_ns = ms_to_ns(num[0]);
		cfg->cuts[cfg->ncuts++].len_ns = ms_to_ns(num[1]);
		break;
	case OPT_STEP:
		if (cfg->nsteps == LINK_STEPS_MAX)
			goto many;
		cfg->steps[cfg->nsteps].at_ns = ms_to_ns(num[0]);
		cfg->steps[cfg->nsteps++].rtt_ns = ms_to_ns(num[1]);
		break;
	case OPT_PATH_MTU:
		if (cfg->nmtus == LINK_MTUS_MAX)
			goto many;
		cfg->mtus[cfg->nmtus].at_ns = ms_to_ns(num[0]);
		cfg->mtus[cfg->nmtus++].bytes = (uint32_t)num[1];
		break;
	}
	return 0;
many:
	snprintf(errbuf, errlen, "--%s given too often", name);
	return -ENOSPC;
bad:
	snprintf(errbuf, errlen, "--%s '%s': expected %s%s", name, value ? value : "",
		options[opt].form, opt == OPT_GE ? ", P at most BURST/(BURST+1)" : "");
	return -EINVAL;
}
