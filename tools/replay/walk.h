/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/blockkey.h"
#include "tools/replay/options.h"

#include <stdint.h>

/*
 * Walks a trace and tells each object once, in the order in which an engine would store them:
 * request by request, prefix first, all ranks of a block together. Stops before the block that
 * would pass a limit. One thread.
 */

struct replay_object {
	const char *key; /* valid during the call */
	size_t key_len;
	uint64_t len;
};

struct replay_walk_totals {
	uint64_t requests, blocks, reused_blocks; /* reused: had been told before */
	uint64_t objects, bytes;
};

/** A non-zero return ends the walk and is returned. */
typedef int (*replay_object_cb)(void *ctx, const struct replay_object *object);

/** 0, what cb returned, or -errno with the reason in err. cb sets its own reason. */
int replay_walk(const struct replay_options *o, replay_object_cb cb, void *ctx,
	struct replay_walk_totals *totals, char *err, size_t err_len);
