/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/node.h"

/*
 * The keys behind digests, for an order: of objects that can be had from here. What a Mooncake
 * master alone has is asked for first, as objects go from there without a word: one that is gone
 * is not named, and the size comes with the answer. An admin port that does not answer changes
 * nothing. The thread of the event base.
 */

struct expanded {
	const void *key; /* len 0: not here */
	size_t len;
	uint64_t size; /* 0: not known */
	uint16_t tenant;
};

/**
 * done gets n of them in the order of the digests (0: out of memory), perhaps from here already;
 * keys live during the call. It is not called after site_node_destroy(). 0 or -ENOMEM.
 */
int expand_start(struct site_node *n, const struct digest128 *d, size_t count,
	void (*done)(const struct expanded *list, size_t n, void *ctx), void *ctx);
