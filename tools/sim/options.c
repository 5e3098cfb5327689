/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/options.h"

#include "control/base/args.h"
#include "dataplane/transport/scratch.h"
#include "tools/link/link_options.h"
#include "tools/sim/flows.h"
#include "tools/sim/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GBPS 1e9
#define MS   1e6

static const char usage[] =
	"usage: strait-sim [options]\n"
	"Runs the protocol core over a model of a WAN in virtual time: one order of objects from\n"
	"a source edge to a destination edge. Every byte is compared. A seed gives the same run\n"
	"each time.\n"
	"\n"
	"Link, both directions (with --fb- instead of --: the feedback direction alone):\n";

static const char usage_rest[] =
	"\n"
	"Other traffic in the bottleneck of the data (--fb-: feedback) direction; repeatable:\n"
	"  --cross cubic:START_MS,LEN_MS[,RTT_MS]  a TCP flow with CUBIC; RTT without queues\n"
	"  --cross cbr:START_MS,LEN_MS,GBPS        a flow of constant line rate\n"
	"\n"
	"Times count from the order. A corrupted packet has flips anywhere in the UDP payload.\n"
	"\n"
	"Order:\n"
	"  --mib N              N MiB of objects (64)\n"
	"  --objects N          or N objects\n"
	"  --object-kib K       of K KiB each (2048)\n"
	"  --transfers N        dealt to N transfers that start together (1)\n"
	"  --class C            urgent, normal or bulk (normal)\n"
	"  --wait-ms N          it is given N ms after the sessions came up (0)\n"
	"  --every-ms N         each transfer starts N ms after the one before (0)\n"
	"  --flows N            N pairs of edges share the line, each with such an order (1)\n"
	"  --flow-start-ms N    each starts N ms after the one before (0)\n"
	"  --flow-class C       class of all but the first flow (that of the first)\n"
	"\n"
	"Edges:\n"
	"  --cap-gbps R         cap on the line rate (the link's rate); 0 = unknown\n"
	"  --mtu N              IP packet the edges are configured for (1500)\n"
	"  --ipv6               packets with IPv6's header\n"
	"  --credit-mib N       credit of a class, at least two objects (4 BDP, at least 64)\n"
	"  --credit-objects N   objects a class may have open (1048576)\n"
	"  --scratch N          symbols that may wait for their manifest or place (2 BDP)\n"
	"  --control-us N       time a control thread takes to answer an event (20)\n"
	"  --lan                LAN profile: no rows ahead of losses, what is lost is sent again\n"
	"  --cold               order before the challenge is answered; seconds then count it too\n"
	"  --restart-source MS, --restart-sink MS  the edge loses its session at MS; repeatable\n"
	"  --light              no cipher, object bytes from one block; the same packets and\n"
	"                       figures in less than half the time\n"
	"  --lie P              share of objects whose bytes are not those of their digest\n"
	"  --attack P           replay, forge and tamper with a share of the packets: nothing of\n"
	"                       it may change anything\n"
	"  --limit-s N          give up after N s of virtual time (far beyond the ideal)\n"
	"\n"
	"Runs:\n"
	"  --seed S             first seed, of 64 bits (1)\n"
	"  --seeds K            seeds S .. S+K-1 (1)\n"
	"  --profile random     draw link, traffic, edges and orders from each seed instead; goes\n"
	"                       without their options (also called mixed)\n"
	"  --oracle             run a sender that knows every loss in advance, over this link;\n"
	"                       goes without --csv and --plot\n"
	"  --with-oracle        run it too, for the fields oracle_*\n"
	"  --csv FILE           what happened over time in the first seed, bins of 1 or 10 ms\n"
	"  --plot FILE          the same as a picture (SVG)\n"
	"  --jobs N             seeds at a time (0: one a CPU); the output is the same\n"
	"  --json               a JSON object a seed, then {\"summary\": ..}; else a table\n"
	"  --counters           also all counters of both edges (JSON) or those not 0 (table)\n"
	"  --describe           only print what each seed would run\n"
	"  --help\n"
	"\n"
	"Fields:\n"
	"  seed\n"
	"  ok                   all objects as they must be, bytes compared, nothing left over\n";

static const char usage_end[] =
	"  bytes                ordered\n"
	"  error                only with ok = false: what was wrong first\n"
	"  summary              seeds, ok (how many), and min, mean, p50, p99, p999, max of each\n"
	"                       field over the seeds that have it, nearest rank\n"
	"\n"
	"Exit: 0 all ok, 1 some seed was not, 2 usage. The command that repeats a failed seed is\n"
	"printed to standard error.\n";

static const char *const figure_help[][2] = {
#define FIGURE_HELP(name, decimals, help) { #name, help },
	SIM_FIGURES(FIGURE_HELP)
#undef FIGURE_HELP
};

/* Text of some words, wrapped behind a column of names. */
static void help_wrap(const char *name, const char *text)
{
	size_t column = (size_t)printf("  %-20s", name);

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column + 1 + n > 98)
			column = (size_t)printf("\n%22s", "") - 1;
		column += (size_t)printf(" %.*s", (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
	printf("\n");
}

void sim_options_help(void)
{
	printf("%s%s%s", usage, link_options_help, usage_rest);
	for (size_t i = 0; i < sizeof(figure_help) / sizeof(figure_help[0]); i++)
		help_wrap(figure_help[i][0], figure_help[i][1]);
	printf("%s", usage_end);
}

enum option {
	OPT_MIB,
	OPT_OBJECTS,
	OPT_OBJECT_KIB,
	OPT_TRANSFERS,
	OPT_CAP,
	OPT_MTU,
	OPT_CREDIT_MIB,
	OPT_CREDIT_OBJECTS,
	OPT_SCRATCH,
	OPT_CONTROL,
	OPT_RESTART_SOURCE,
	OPT_RESTART_SINK,
	OPT_LIMIT,
	OPT_ATTACK,
	OPT_LIE,
	OPT_SEEDS,
	OPT_JOBS,
	OPT_WAIT,
	OPT_EVERY,
	OPT_FLOWS,
	OPT_FLOW_START,
	OPT_COUNT
};

static const struct {
	const char *name;
	double min, max;
	bool whole;
} numbers[OPT_COUNT] = {
	[OPT_MIB] = { "mib", 1.0 / (1 << 20), 1 << 20, false },
	[OPT_OBJECTS] = { "objects", 1, 1 << 22, true },
	[OPT_OBJECT_KIB] = { "object-kib", 1.0 / 1024, 65536, false },
	[OPT_TRANSFERS] = { "transfers", 1, WORLD_TRANSFERS_MAX, true },
	[OPT_CAP] = { "cap-gbps", 0, 1000, false },
	[OPT_MTU] = { "mtu", STRAIT_SYMBOL_BYTES_MIN + 68, STRAIT_SYMBOL_BYTES_MAX + 68, true },
	[OPT_CREDIT_MIB] = { "credit-mib", 0, 1 << 20, false },
	[OPT_CREDIT_OBJECTS] = { "credit-objects", 1, 1e9, true },
	[OPT_SCRATCH] = { "scratch", 1, SCRATCH_SLOTS_MAX, true },
	[OPT_CONTROL] = { "control-us", 0, 1e6, false },
	[OPT_RESTART_SOURCE] = { "restart-source", 0, 1e8, false },
	[OPT_RESTART_SINK] = { "restart-sink", 0, 1e8, false },
	[OPT_LIMIT] = { "limit-s", 0.001, 1e7, false },
	[OPT_ATTACK] = { "attack", 0, 1, false },
	[OPT_LIE] = { "lie", 0, 1, false },
	[OPT_SEEDS] = { "seeds", 1, 1e7, true },
	[OPT_JOBS] = { "jobs", 0, 256, true },
	[OPT_WAIT] = { "wait-ms", 0, 1e8, false },
	[OPT_EVERY] = { "every-ms", 0, 1e8, false },
	[OPT_FLOWS] = { "flows", 1, FLOWS_MAX, true },
	[OPT_FLOW_START] = { "flow-start-ms", 0, 1e8, false },
};

/* What was given, so that defaults can depend on it. */
struct seen {
	const char *drawn; /* an option of what --profile random draws; NULL: none */
	bool cap, mib, objects;
	bool fb_cut, fb_step, fb_mtu;
	uint32_t mtu;
};

static int restart_add(struct plan *p, double ms, enum world_side side)
{
	uint32_t i = p->nrestarts;

	if (i == PLAN_RESTARTS_MAX)
		return -ENOSPC;
	for (; i > 0 && (double)p->restarts[i - 1].at_ns > ms * MS; i--)
		p->restarts[i] = p->restarts[i - 1];
	p->restarts[i] = (struct plan_restart){ .at_ns = (uint64_t)(ms * MS), .side = side };
	p->nrestarts++;
	return 0;
}

static int number_apply(struct sim_options *o, struct seen *seen, enum option opt, double v)
{
	struct plan *p = &o->plan;

	switch (opt) {
	case OPT_MIB:
		seen->mib = true;
		p->total_bytes = (uint64_t)(v * (1 << 20) + 0.5);
		break;
	case OPT_OBJECTS:
		seen->objects = true;
		p->objects = (uint32_t)v;
		break;
	case OPT_OBJECT_KIB:
		p->object_bytes = (uint64_t)(v * 1024 + 0.5);
		break;
	case OPT_TRANSFERS:
		p->transfers = (uint32_t)v;
		break;
	case OPT_CAP:
		seen->cap = true;
		p->world.cap_bps = (uint64_t)(v * GBPS + 0.5);
		break;
	case OPT_MTU:
		seen->mtu = (uint32_t)v;
		break;
	case OPT_CREDIT_MIB:
		p->world.credit_bytes = (uint64_t)(v * (1 << 20)) + 1;
		break;
	case OPT_CREDIT_OBJECTS:
		p->world.credit_objects = (uint64_t)v;
		break;
	case OPT_SCRATCH:
		p->world.scratch_slots = (uint32_t)v;
		break;
	case OPT_CONTROL:
		p->world.control_delay_ns = (uint64_t)(v * 1000);
		break;
	case OPT_RESTART_SOURCE:
		return restart_add(p, v, WORLD_SOURCE);
	case OPT_RESTART_SINK:
		return restart_add(p, v, WORLD_SINK);
	case OPT_LIMIT:
		p->limit_ns = (uint64_t)(v * 1e9);
		break;
	case OPT_ATTACK:
		p->world.attack = v;
		break;
	case OPT_LIE:
		p->lie = v;
		break;
	case OPT_SEEDS:
		o->seeds = (uint64_t)v;
		break;
	case OPT_JOBS:
		o->jobs = (uint32_t)v;
		break;
	case OPT_WAIT:
		p->wait_ns = (uint64_t)(v * MS);
		break;
	case OPT_EVERY:
		p->every_ns = (uint64_t)(v * MS);
		break;
	case OPT_FLOWS:
		p->flows = (uint32_t)v;
		break;
	case OPT_FLOW_START:
		p->flow_start_ns = (uint64_t)(v * MS);
		break;
	case OPT_COUNT:
		break;
	}
	return 0;
}

static int number_parse(struct sim_options *o, struct seen *seen, const char *name,
	const char *value, char *errbuf, size_t errlen)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		char *end;
		double v;

		if (strcmp(numbers[i].name, name) != 0)
			continue;
		v = strtod(value, &end);
		if (end == value || *end || !(v >= numbers[i].min && v <= numbers[i].max) ||
			(numbers[i].whole && v != floor(v))) {
			snprintf(errbuf, errlen, "--%s '%s': expected a %snumber in %g..%g", name,
				value, numbers[i].whole ? "whole " : "", numbers[i].min,
				numbers[i].max);
			return -EINVAL;
		}
		if (number_apply(o, seen, (enum option)i, v) < 0) {
			snprintf(errbuf, errlen, "--%s given too often", name);
			return -EINVAL;
		}
		return 0;
	}
	snprintf(errbuf, errlen, "unknown option --%s; see --help", name);
	return -EINVAL;
}

static int class_parse(uint8_t *class_, const char *name, const char *value, char *errbuf,
	size_t errlen)
{
	static const char *const names[STRAIT_CLASS_COUNT] = { "urgent", "normal", "bulk" };

	for (uint8_t i = 0; i < STRAIT_CLASS_COUNT; i++)
		if (strcmp(names[i], value) == 0) {
			*class_ = i;
			return 0;
		}
	snprintf(errbuf, errlen, "--%s '%s': expected urgent, normal or bulk", name, value);
	return -EINVAL;
}

static int flag_parse(struct sim_options *o, const char *name)
{
	if (strcmp(name, "json") == 0)
		o->json = true;
	else if (strcmp(name, "help") == 0)
		o->help = true;
	else if (strcmp(name, "counters") == 0)
		o->counters = true;
	else if (strcmp(name, "describe") == 0)
		o->describe = true;
	else if (strcmp(name, "oracle") == 0)
		o->plan.oracle = true;
	else if (strcmp(name, "with-oracle") == 0)
		o->plan.with_oracle = true;
	else if (strcmp(name, "ipv6") == 0)
		o->plan.world.ipv6 = true;
	else if (strcmp(name, "cold") == 0)
		o->plan.world.cold = true;
	else if (strcmp(name, "lan") == 0)
		o->plan.world.lan = true;
	else if (strcmp(name, "light") == 0)
		o->light = true;
	else
		return -ENOENT;
	return 0;
}

static bool is_valued(const char *name)
{
	static const char *const texts[] = { "cross", "class", "flow-class", "profile", "csv",
		"plot", "seed" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(texts[i], name) == 0)
			return true;
	for (int i = 0; i < OPT_COUNT; i++)
		if (strcmp(numbers[i].name, name) == 0)
			return true;
	return link_config_is_option(name);
}

/* Options that say how, not what, is run: all others are drawn by --profile random. */
static bool is_of_runs(const char *name)
{
	static const char *const names[] = { "csv", "plot", "seed", "seeds", "jobs", "profile",
		"json", "help", "counters", "oracle", "with-oracle", "describe", "light" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* All 64 bits: a double would round it. */
static int seed_parse(uint64_t *out, const char *value, char *errbuf, size_t errlen)
{
	char *end = NULL;

	errno = 0;
	if (*value >= '0' && *value <= '9')
		*out = strtoull(value, &end, 10);
	if (end == NULL || *end || errno) {
		snprintf(errbuf, errlen, "--seed '%s': expected a whole number in 0..%llu", value,
			(unsigned long long)UINT64_MAX);
		return -EINVAL;
	}
	return 0;
}

/* A list given for the feedback direction replaces the one it would share. */
static void feedback_list(struct link_config *fb, const char *name, struct seen *seen)
{
	if (strcmp(name, "cut") == 0 && !seen->fb_cut) {
		fb->ncuts = 0;
		seen->fb_cut = true;
	} else if (strcmp(name, "rtt-step") == 0 && !seen->fb_step) {
		fb->nsteps = 0;
		seen->fb_step = true;
	} else if (strcmp(name, "path-mtu") == 0 && !seen->fb_mtu) {
		fb->nmtus = 0;
		seen->fb_mtu = true;
	}
}

static int cross_add(struct world_config *w, const char *value, bool feedback, char *errbuf,
	size_t errlen)
{
	if (w->ncross == CROSS_FLOWS_MAX) {
		snprintf(errbuf, errlen, "--cross given too often");
		return -EINVAL;
	}
	if (cross_parse(&w->cross[w->ncross], value, errbuf, errlen) < 0)
		return -EINVAL;
	w->cross[w->ncross++].direction = feedback ? WORLD_SINK : WORLD_SOURCE;
	return 0;
}

/* One pass over argv: the options of the feedback direction, or all others. */
static int parse_pass(struct sim_options *o, struct seen *seen, bool feedback, int argc,
	char **argv, char *errbuf, size_t errlen)
{
	struct link_config *l = o->plan.world.link;

	for (int i = 1; i < argc; i++) {
		const char *name = argv[i];
		const char *value;
		bool fb;
		int rc;

		if (strncmp(name, "--", 2) != 0) {
			snprintf(errbuf, errlen, "'%s' is no option; see --help", name);
			return -EINVAL;
		}
		name += 2;
		if (!is_of_runs(name))
			seen->drawn = name;
		if (flag_parse(o, name) == 0)
			continue;
		fb = strncmp(name, "fb-", 3) == 0;
		if (!is_valued(fb ? name + 3 : name)) {
			snprintf(errbuf, errlen, "unknown option --%s; see --help", name);
			return -EINVAL;
		}
		value = argv[++i];
		if (!value || args_is_option(value)) {
			snprintf(errbuf, errlen, "--%s needs a value", name);
			return -EINVAL;
		}
		if (fb != feedback)
			continue;
		if (fb)
			name += 3;
		if (strcmp(name, "cross") == 0) {
			rc = cross_add(&o->plan.world, value, fb, errbuf, errlen);
		} else if (link_config_is_option(name)) {
			if (fb)
				feedback_list(&l[WORLD_SINK], name, seen);
			rc = link_config_parse_option(name, value,
				&l[fb ? WORLD_SINK : WORLD_SOURCE], errbuf, errlen);
		} else if (fb) {
			snprintf(errbuf, errlen, "--fb-%s: %s is no link option", name, name);
			rc = -EINVAL;
		} else if (strcmp(name, "class") == 0) {
			rc = class_parse(&o->plan.class_, name, value, errbuf, errlen);
		} else if (strcmp(name, "flow-class") == 0) {
			rc = class_parse(&o->plan.flow_class, name, value, errbuf, errlen);
		} else if (strcmp(name, "profile") == 0) {
			o->random = strcmp(value, "random") == 0 || strcmp(value, "mixed") == 0;
			rc = o->random ? 0 : -EINVAL;
			if (rc)
				snprintf(errbuf, errlen, "--profile '%s': expected random", value);
		} else if (strcmp(name, "csv") == 0) {
			o->csv = value;
			rc = 0;
		} else if (strcmp(name, "plot") == 0) {
			o->plot = value;
			rc = 0;
		} else if (strcmp(name, "seed") == 0) {
			rc = seed_parse(&o->seed, value, errbuf, errlen);
		} else {
			rc = number_parse(o, seen, name, value, errbuf, errlen);
		}
		if (rc < 0)
			return -EINVAL;
	}
	return 0;
}

int sim_options_parse(struct sim_options *o, int argc, char **argv, char *errbuf, size_t errlen)
{
	struct plan *p = &o->plan;
	struct seen seen = { 0 };
	int rc;

	memset(o, 0, sizeof(*o));
	o->seed = 1;
	o->seeds = 1;
	world_config_defaults(&p->world);
	link_config_defaults(&p->world.link[WORLD_SOURCE]);
	p->object_bytes = 2048 << 10;
	p->transfers = 1;
	p->class_ = STRAIT_CLASS_NORMAL;
	p->flow_class = STRAIT_CLASS_COUNT;
	p->key_len = 40;
	rc = parse_pass(o, &seen, false, argc, argv, errbuf, errlen);
	if (rc < 0 || o->help)
		return rc;
	p->world.link[WORLD_SINK] = p->world.link[WORLD_SOURCE];
	rc = parse_pass(o, &seen, true, argc, argv, errbuf, errlen);
	if (rc < 0)
		return rc;
	if (o->random && seen.drawn) {
		snprintf(errbuf, errlen, "--profile random draws that from the seed: --%s",
			seen.drawn);
		return -EINVAL;
	}
	if (p->oracle && (o->csv || o->plot)) {
		snprintf(errbuf, errlen,
			"--oracle has no course to show: --csv and --plot go "
			"without it");
		return -EINVAL;
	}
	if (o->seed + (o->seeds - 1) < o->seed) {
		snprintf(errbuf, errlen, "--seed and --seeds go beyond 64 bits");
		return -EINVAL;
	}
	if (p->flow_class == STRAIT_CLASS_COUNT)
		p->flow_class = p->class_;
	if (p->flows > 1 && (p->nrestarts || p->world.cold || p->world.attack > 0)) {
		snprintf(errbuf, errlen, "--flows goes without --restart-*, --cold and --attack");
		return -EINVAL;
	}
	if (p->nrestarts && (p->wait_ns || p->every_ns)) {
		snprintf(errbuf, errlen, "--restart-* goes without --wait-ms and --every-ms");
		return -EINVAL;
	}
	if (seen.mib && seen.objects) {
		snprintf(errbuf, errlen, "--mib and --objects exclude each other");
		return -EINVAL;
	}
	seen.mtu = seen.mtu ? seen.mtu : 1500;
	seen.mtu -= (p->world.ipv6 ? 48 : 28) + STRAIT_OVERHEAD_BYTES;
	if (seen.mtu < STRAIT_SYMBOL_BYTES_MIN) {
		snprintf(errbuf, errlen, "--mtu: over IPv6 at least %d",
			STRAIT_SYMBOL_BYTES_MIN + STRAIT_OVERHEAD_BYTES + 48);
		return -EINVAL;
	}
	p->world.symbol_bytes = (uint16_t)seen.mtu;
	if (!seen.mib && !seen.objects)
		p->total_bytes = 64 << 20;
	if (!seen.cap)
		p->world.cap_bps = p->world.link[WORLD_SOURCE].rate_bps;
	if (p->total_bytes)
		p->objects = (uint32_t)((p->total_bytes + p->object_bytes - 1) / p->object_bytes);
	if (p->transfers > p->objects || p->objects / p->transfers >= STRAIT_TRANSFER_OBJECTS_MAX) {
		snprintf(errbuf, errlen, "%u objects do not fit %u transfers", p->objects,
			p->transfers);
		return -EINVAL;
	}
	return 0;
}

void sim_options_plan(const struct sim_options *o, uint64_t seed, struct plan *p)
{
	if (o->random) {
		plan_random(p, seed);
		p->oracle = o->plan.oracle;
		p->with_oracle = o->plan.with_oracle;
	} else {
		*p = o->plan;
		p->world.seed = seed;
	}
	p->world.light = o->light;
}
