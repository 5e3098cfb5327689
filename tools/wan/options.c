/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/options.h"

#include "control/base/args.h"
#include "tools/link/link_options.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: strait-wan --port-a VDEV --port-b VDEV [options]\n"
	"Emulates a WAN between two DPDK virtual ports. Prints \"ready\" when both are started,\n"
	"counters per direction at the end (SIGTERM or SIGINT).\n"
	"\n"
	"  --port-a VDEV        for example net_memif0,role=server,id=0,socket=/tmp/a.sock,\n"
	"  --port-b VDEV        socket-abstract=no,bsize=2048 or net_af_packet0,iface=veth0,\n"
	"                       qdisc_bypass=1 (a shaped interface blocks without it)\n"
	"  --seed S             of all random draws (1)\n"
	"  --seconds N          stop after N seconds (0: run until a signal)\n"
	"  --stats-ms N         print counters every N ms (1000); 0 = only at the end\n"
	"  --json               counters as JSON, one object a line\n"
	"  --inject-forged PPS  add PPS forged Strait data packets a second to each direction\n"
	"  --late-us N          a packet sent N us after its time is an overrun (2000)\n"
	"  --nap-us N           sleep N us at most: packets are up to 3/5 of that late (50)\n"
	"  --mtu N              largest IP packet of the line, 68..9000 (1500)\n"
	"  --mem MIB            most memory for packets in flight (2048)\n"
	"  --poll-mode          never sleep, and do not ask for real-time priority\n"
	"  --cpu N              run on CPU N only\n"
	"  --hugepages          take packet memory from hugepages\n"
	"  --verbose            show the messages of DPDK\n"
	"\n"
	"Link, both directions (with --ab- or --ba- instead of --: one direction):\n";

enum { FLAG = 0, NUMBER = 1, STRING = 2 };

struct option_def {
	const char *name;
	int kind;
	size_t offset;
	uint64_t min;
	uint64_t max;
};

#define FIELD(f) offsetof(struct wan_options, f)

static const struct option_def defs[] = {
	{ "port-a", STRING, FIELD(vdev[WAN_A]), 0, 0 },
	{ "port-b", STRING, FIELD(vdev[WAN_B]), 0, 0 },
	{ "seed", NUMBER, FIELD(seed), 0, UINT64_MAX },
	{ "seconds", NUMBER, FIELD(seconds), 0, 86400000 },
	{ "stats-ms", NUMBER, FIELD(stats_ms), 0, 86400000 },
	{ "late-us", NUMBER, FIELD(late_us), 1, 10000000 },
	{ "nap-us", NUMBER, FIELD(nap_us), 1, 10000 },
	{ "inject-forged", NUMBER, FIELD(forged_pps), 0, 1000000 },
	{ "mem", NUMBER, FIELD(mem_mib), 64, 1048576 },
	{ "mtu", NUMBER, FIELD(mtu), 68, 9000 },
	{ "json", FLAG, FIELD(json), 0, 0 },
	{ "poll-mode", FLAG, FIELD(poll_mode), 0, 0 },
	{ "hugepages", FLAG, FIELD(hugepages), 0, 0 },
	{ "verbose", FLAG, FIELD(verbose), 0, 0 },
	{ "help", FLAG, FIELD(help), 0, 0 },
};

void wan_options_help(void)
{
	printf("%s%s", usage, link_options_help);
}

size_t wan_vdev_name_len(const char *vdev)
{
	return strcspn(vdev, ",");
}

static int number_parse(const char *s, uint64_t *out)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(s, &end, 10);
	return errno || *end ? -EINVAL : 0;
}

static bool is_cpu_allowed(uint64_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	return cpu < CPU_SETSIZE && sched_getaffinity(0, sizeof(set), &set) == 0 &&
		CPU_ISSET((int)cpu, &set);
}

static const struct option_def *def_find(const char *name)
{
	for (size_t i = 0; i < sizeof(defs) / sizeof(defs[0]); i++)
		if (strcmp(defs[i].name, name) == 0)
			return &defs[i];
	return NULL;
}

static int def_apply(struct wan_options *o, const struct option_def *d, const char *value,
	char *errbuf, size_t errlen)
{
	char *field = (char *)o + d->offset;
	uint64_t n;

	switch (d->kind) {
	case FLAG:
		*(bool *)field = true;
		return 0;
	case STRING:
		*(const char **)field = value;
		return 0;
	default:
		if (number_parse(value, &n) < 0 || n < d->min || n > d->max) {
			snprintf(errbuf, errlen,
				"--%s '%s': expected a whole number in %" PRIu64 "..%" PRIu64,
				d->name, value, d->min, d->max);
			return -EINVAL;
		}
		*(uint64_t *)field = n;
		return 0;
	}
}

/*
 * A link option is applied in the pass it belongs to: plain ones in the first, prefixed ones in the
 * second. Returns 1 when name is a link option, 0 when not, or -EINVAL.
 */
static int link_apply(struct wan_options *o, int pass, const char *name, const char *value,
	char *errbuf, size_t errlen)
{
	bool prefixed = strncmp(name, "ab-", 3) == 0 || strncmp(name, "ba-", 3) == 0;
	const char *plain = prefixed ? name + 3 : name;
	char err[200];

	if (!link_config_is_option(plain))
		return 0;
	if (prefixed != (pass == 1))
		return 1;
	for (int side = 0; side < WAN_SIDES; side++) {
		if (prefixed && (name[0] == 'a') != (side == WAN_A))
			continue;
		if (link_config_parse_option(plain, value, &o->link[side], err, sizeof(err)) < 0) {
			/* The message starts with "--": put the direction behind it. */
			snprintf(errbuf, errlen, "--%.*s%s", prefixed ? 3 : 0, name, err + 2);
			return -EINVAL;
		}
	}
	return 1;
}

static int pass_run(struct wan_options *o, int pass, int argc, char **argv, char *errbuf,
	size_t errlen)
{
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		const struct option_def *d;
		const char *value;
		char name[32];
		size_t len;
		int link;

		if (strcmp(arg, "-h") == 0)
			arg = "--help";
		if (strncmp(arg, "--", 2) != 0) {
			snprintf(errbuf, errlen, "unexpected argument '%s'", arg);
			return -EINVAL;
		}
		len = strcspn(arg + 2, "=");
		snprintf(name, sizeof(name), "%.*s", (int)len, arg + 2);
		d = def_find(name);
		link = !d &&
			(link_config_is_option(name) ||
				((strncmp(name, "ab-", 3) == 0 || strncmp(name, "ba-", 3) == 0) &&
					link_config_is_option(name + 3)));
		if ((!d && !link && strcmp(name, "cpu") != 0) || len >= sizeof(name)) {
			snprintf(errbuf, errlen, "unknown option '%.*s'", (int)len + 2, arg);
			return -EINVAL;
		}
		value = arg[2 + len] == '=' ? arg + 3 + len : NULL;
		if (d && d->kind == FLAG) {
			if (value) {
				snprintf(errbuf, errlen, "--%s takes no value", name);
				return -EINVAL;
			}
		} else if (!value && ++i < argc && !args_is_option(argv[i])) {
			value = argv[i];
		} else if (!value) {
			snprintf(errbuf, errlen, "--%s needs a value", name);
			return -EINVAL;
		}
		if (link) {
			if (link_apply(o, pass, name, value, errbuf, errlen) < 0)
				return -EINVAL;
		} else if (d) {
			if (def_apply(o, d, value, errbuf, errlen) < 0)
				return -EINVAL;
		} else {
			uint64_t n;

			if (number_parse(value, &n) < 0 || !is_cpu_allowed(n)) {
				snprintf(errbuf, errlen,
					"--cpu '%s': not a CPU this process may use", value);
				return -EINVAL;
			}
			o->cpu = (int)n;
		}
	}
	return 0;
}

int wan_options_parse(struct wan_options *o, int argc, char **argv, char *errbuf, size_t errlen)
{
	size_t len[WAN_SIDES];

	memset(o, 0, sizeof(*o));
	for (int side = 0; side < WAN_SIDES; side++)
		link_config_defaults(&o->link[side]);
	o->seed = 1;
	o->stats_ms = 1000;
	o->late_us = 2000;
	o->nap_us = 50;
	o->mem_mib = 2048;
	o->mtu = 1500;
	o->cpu = -1;
	for (int pass = 0; pass < 2; pass++)
		if (pass_run(o, pass, argc, argv, errbuf, errlen) < 0)
			return -EINVAL;
	if (o->help)
		return 0;
	for (int side = 0; side < WAN_SIDES; side++) {
		const char *vdev = o->vdev[side];

		len[side] = vdev ? wan_vdev_name_len(vdev) : 0;
		if (len[side] == 0) {
			snprintf(errbuf, errlen, "--port-%c is missing", 'a' + side);
			return -EINVAL;
		}
		if (strncmp(vdev, "net_", 4) != 0 || len[side] >= 64) {
			snprintf(errbuf, errlen,
				"--port-%c '%s': expected a DPDK vdev such as net_memif0,.. or "
				"net_af_packet0,..",
				'a' + side, vdev);
			return -EINVAL;
		}
	}
	if (len[WAN_A] == len[WAN_B] && strncmp(o->vdev[WAN_A], o->vdev[WAN_B], len[WAN_A]) == 0) {
		snprintf(errbuf, errlen, "--port-a and --port-b are both called %.*s",
			(int)len[WAN_A], o->vdev[WAN_A]);
		return -EINVAL;
	}
	return 0;
}
