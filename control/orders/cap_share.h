/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Caps that several flows share, divided max-min.
 *
 * A flow goes from an edge of one site to an edge of another. What it sends counts for up to three
 * groups: the link between the sites, the line out of its site, the line into the other; a group
 * has a cap. Nobody gets more than it wants as long as another flow of the same group wants more,
 * and those who want more get the same, as far as their other groups allow. What nobody wants goes
 * to those with something to send (they may want it the next moment), and where none has, to all.
 * A flow with nothing to send keeps a little, so that it can begin.
 *
 * The shares of a group never add up to more than its cap. Pure; any thread. Line bits/s. The time
 * is n^2 at worst: 256 flows take less than a millisecond.
 */

#define CAP_NONE UINT64_MAX /* no cap; as much as it gets */

enum {
	CAP_GROUPS = 3,
	CAP_NO_GROUP = 0xffff,
	CAP_IDLE = 1024,       /* a flow with nothing to send has 1/1024 of the cap .. */
	CAP_LEAST_BPS = 64000, /* .. or this, but idle ones half of the cap at most */
};

struct cap_group {
	uint64_t cap_bps;
	bool frozen; /* for cap_grant.h: somebody may send in it whose share is not known */
	/* while it is computed */
	uint64_t left_bps;
	uint32_t open, members;
	bool over; /* more was told than there is */
};

struct cap_flow {
	uint16_t group[CAP_GROUPS]; /* CAP_NO_GROUP: none */
	bool active;                /* has something to send */
	uint64_t want_bps;          /* of an active one */
	uint64_t share_bps;         /* result; CAP_NONE: it is in no group */
	/* while it is computed */
	uint64_t level_bps;
	bool open;
};

/** Caps must not be 0, group numbers below groups_n. */
void cap_share(struct cap_flow *flows, size_t n, struct cap_group *groups, size_t groups_n);
