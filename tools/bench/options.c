/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/options.h"

#include "control/base/args.h"

#include <strait/wire.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_SECONDS = 256,
	OPT_ROWS,
	OPT_MTU,
	OPT_LOSS,
	OPT_RUNS,
	OPT_CPU,
	OPT_POOL,
	OPT_RING,
	OPT_KEYS,
	OPT_RATE,
	OPT_JSON,
	IP_UDP_BYTES = 28,
};

#define LOSS_MAX 0.3

static const char usage[] =
	"usage: strait-bench limit|tx|rx|edge|exist|index|diff|control [options]\n"
	"\n"
	"What one core does on the data path, beside what it could do at most: the ceiling is\n"
	"measured in the same run, alternating with the path.\n"
	"\n"
	"  limit    the ceilings alone: sender with 0 and --rows rows, receiver with digest,\n"
	"           AES-256-GCM alone (ipsec-mb, source in cache)\n"
	"  tx       sender: a session seals objects of a large pool into packet buffers, paced,\n"
	"           re-keyed and acknowledged\n"
	"  rx       receiver: a session opens packets into a large pool, digests and reports\n"
	"  edge     two edges' workers in two processes over memif, a CPU each, at saturation,\n"
	"           beside memif, seal and open alone\n"
	"\n"
	"  exist    existence of digests, in batches of 64, half of them there\n"
	"  index    events into the index\n"
	"  diff     events through the planner, beside the index alone\n"
	"  control  a strait-master with 16 site masters, 100 sub-clusters and 10,000 clients:\n"
	"           start with --keys objects, then --rate events a second, staleness and CPU\n"
	"\n"
	"  --seconds S     of each timed stretch (1)\n"
	"  --runs N        repetitions; figures are their medians (5)\n"
	"  --rows M        tx: repair rows a block the sender is brought to plan, 0 to 16 (0)\n"
	"  --mtu N         580 to 9000 (1500)\n"
	"  --loss P        rx: share of packets that never arrive, repaired by rows (0)\n"
	"  --cpu N         run on this CPU (the last one allowed)\n"
	"  --pool-mib N    bytes of each pool (1024)\n"
	"  --ring-mib N    rx: packets come from a ring of 4 to 96 MiB, of the path and of its\n"
	"                  ceiling: out of memory, as where no cache is between it and the\n"
	"                  network card (2,048 packets, as the ceilings of the sender: cached)\n"
	"  --keys N        exist, index, diff: digests (50000000)\n"
	"  --json          one JSON object\n"
	"  --rate N        control: events a second (100000); --keys counts there, too\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 usage.\n";

static const char *const verbs[] = {
	[BENCH_LIMIT] = "limit",
	[BENCH_TX] = "tx",
	[BENCH_RX] = "rx",
	[BENCH_EDGE] = "edge",
	[BENCH_EXIST] = "exist",
	[BENCH_INDEX] = "index",
	[BENCH_DIFF] = "diff",
	[BENCH_CONTROL] = "control",
};

static const struct option longs[] = {
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "rows", required_argument, NULL, OPT_ROWS },
	{ "mtu", required_argument, NULL, OPT_MTU },
	{ "loss", required_argument, NULL, OPT_LOSS },
	{ "runs", required_argument, NULL, OPT_RUNS },
	{ "cpu", required_argument, NULL, OPT_CPU },
	{ "pool-mib", required_argument, NULL, OPT_POOL },
	{ "ring-mib", required_argument, NULL, OPT_RING },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

void bench_options_help(void)
{
	fputs(usage, stdout);
}

const char *bench_verb_name(enum bench_verb verb)
{
	return verbs[verb];
}

static int number_parse(const char *name, const char *s, double low, double high, bool whole,
	double *out, char *err, size_t err_len)
{
	char *end;

	*out = strtod(s, &end);
	if (end == s || *end != '\0' || !(*out >= low && *out <= high) ||
		(whole && *out != (double)(long)*out)) {
		snprintf(err, err_len, "--%s: \"%s\" is not a %snumber from %g to %g", name, s,
			whole ? "whole " : "", low, high);
		return -EINVAL;
	}
	return 0;
}

static int one_parse(struct bench_options *o, int opt, const char *name, const char *arg, char *err,
	size_t err_len)
{
	static const struct {
		double low, high;
		bool whole;
	} bounds[] = {
		[OPT_SECONDS - OPT_SECONDS] = { 0.01, 3600, false },
		[OPT_ROWS - OPT_SECONDS] = { 0, BENCH_ROWS_MAX, true },
		[OPT_MTU - OPT_SECONDS] = { 580, 9000, true },
		[OPT_LOSS - OPT_SECONDS] = { 0, LOSS_MAX, false },
		[OPT_RUNS - OPT_SECONDS] = { 1, BENCH_RUNS_MAX, true },
		[OPT_CPU - OPT_SECONDS] = { 0, 1023, true },
		[OPT_POOL - OPT_SECONDS] = { 64, 65536, true },
		[OPT_RING - OPT_SECONDS] = { 4, 96, true },
		[OPT_KEYS - OPT_SECONDS] = { 1000, 1000000000, true },
		[OPT_RATE - OPT_SECONDS] = { 1, 10000000, true },
	};
	double v;

	if (opt == OPT_JSON) {
		o->json = true;
		return 0;
	}
	if (opt == 'h') {
		o->help = true;
		return 0;
	}
	if (number_parse(name, arg, bounds[opt - OPT_SECONDS].low, bounds[opt - OPT_SECONDS].high,
		    bounds[opt - OPT_SECONDS].whole, &v, err, err_len) < 0)
		return -EINVAL;
	switch (opt) {
	case OPT_SECONDS:
		o->seconds = v;
		break;
	case OPT_ROWS:
		o->rows = (uint32_t)v;
		break;
	case OPT_MTU:
		o->mtu = (uint32_t)v;
		break;
	case OPT_LOSS:
		o->loss = v;
		break;
	case OPT_RUNS:
		o->runs = (uint32_t)v;
		break;
	case OPT_CPU:
		o->cpu = (int)v;
		break;
	case OPT_POOL:
		o->pool_mib = (uint32_t)v;
		break;
	case OPT_KEYS:
		o->keys = (uint64_t)v;
		break;
	case OPT_RATE:
		o->rate = v;
		break;
	default:
		o->ring_mib = (uint32_t)v;
	}
	return 0;
}

static int verb_parse(struct bench_options *o, const char *s, char *err, size_t err_len)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(s, verbs[i]) != 0)
			continue;
		o->verb = (enum bench_verb)i;
		return 0;
	}
	snprintf(err, err_len,
		"\"%s\" is not a benchmark: there are limit, tx, rx, edge, exist, index, "
		"diff and control",
		s);
	return -EINVAL;
}

int bench_options_parse(struct bench_options *o, int argc, char **argv, char *err, size_t err_len)
{
	bool named = false;
	int opt, index = 0;

	*o = (struct bench_options){ .seconds = 1,
		.mtu = 1500,
		.runs = 5,
		.pool_mib = 1024,
		.keys = 50000000,
		.cpu = -1,
		.rate = 100000 };
	if (argc > 1 && argv[1][0] != '-') {
		if (verb_parse(o, argv[1], err, err_len) < 0)
			return -EINVAL;
		named = true;
		argv++;
		argc--;
	}
	optind = 0; /* from the start again, also in a test that parses many lines */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", longs, &index)) != -1) {
		if (opt == '?' || opt == ':') {
			snprintf(err, err_len,
				opt == ':' ? "%s needs a value" : "unknown option %s",
				argv[optind - 1]);
			return -EINVAL;
		}
		if (args_has_option_as_value(argv)) {
			snprintf(err, err_len, "%s needs a value", argv[optind - 2]);
			return -EINVAL;
		}
		if (one_parse(o, opt, opt == 'h' ? "help" : longs[index].name, optarg, err,
			    err_len) < 0)
			return -EINVAL;
	}
	o->symbol_bytes = o->mtu - IP_UDP_BYTES - STRAIT_OVERHEAD_BYTES;
	if (o->help)
		return 0;
	if (optind < argc) {
		snprintf(err, err_len, "unexpected argument \"%s\"", argv[optind]);
		return -EINVAL;
	}
	if (!named) {
		snprintf(err, err_len,
			"which benchmark? There are limit, tx, rx, edge, exist, index, diff "
			"and control");
		return -EINVAL;
	}
	if (o->verb != BENCH_RX && o->loss > 0) {
		snprintf(err, err_len, "--loss is for rx; tx plans rows with --rows");
		return -EINVAL;
	}
	if ((o->verb == BENCH_RX || o->verb == BENCH_EDGE) && o->rows > 0) {
		snprintf(err, err_len, "--rows is for limit and tx; rx gets rows with --loss");
		return -EINVAL;
	}
	return 0;
}
