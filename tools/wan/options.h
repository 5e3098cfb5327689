/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command line of strait-wan. Options of the link model (tools/link/link_options.h) apply to both
 * directions; with the prefix --ab- or --ba- to one, and win over the plain ones wherever they
 * stand. Called once, before any thread exists.
 */

#include "tools/link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wan_side { WAN_A, WAN_B, WAN_SIDES };

/* A direction is named by the side it comes from: [WAN_A] is A to B. */
struct wan_options {
	const char *vdev[WAN_SIDES];
	struct link_config link[WAN_SIDES];
	uint64_t seed;
	uint64_t seconds;  /* 0: until a signal */
	uint64_t stats_ms; /* 0: only at the end */
	uint64_t late_us;
	uint64_t nap_us; /* longest */
	uint64_t forged_pps;
	uint64_t mem_mib;
	uint64_t mtu;
	int cpu; /* -1: any this process may use */
	bool json;
	bool poll_mode;
	bool hugepages;
	bool verbose;
	bool help;
};

/*
 * Returns 0 or -EINVAL with one line for the user in errbuf. Strings of argv are kept, not copied.
 */
int wan_options_parse(struct wan_options *o, int argc, char **argv, char *errbuf, size_t errlen);

void wan_options_help(void);

/* Length of the device name at the start of a vdev string such as "net_memif0,role=server". */
size_t wan_vdev_name_len(const char *vdev);
