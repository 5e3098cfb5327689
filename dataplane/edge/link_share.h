/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * One cap for all links of an edge, shared max-min: nobody gets more than it can use as long as
 * somebody else could use it, and those who could use more get the same.
 *
 * A link with transfers counts as hungry until it is seen to leave part of its share unused (a
 * slow or dead path); then it gets what it uses and a quarter more, so that it grows when the path
 * does. A link without transfers keeps a little for control packets. Pure; any thread. Line bits/s.
 */

enum { LINK_SHARE_IDLE = 64 }; /* an idle link has 1/64 of the cap */

struct link_share {
	uint64_t limit_bps; /* its own cap; 0: none */
	uint64_t used_bps;  /* measured under share_bps for a whole interval; UINT64_MAX: not yet */
	bool active;
	uint64_t share_bps; /* result; before: the share it had, 0 if it is new */
};

/** total_bps > 0. */
void link_share_split(struct link_share *links, uint32_t n, uint64_t total_bps);
