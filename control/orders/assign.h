/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which edge of one site ships to which edge of another. Of all pairs the first by, in this order:
 *
 *   1. the source edge was not asked for these objects in vain (its pool may be its own)
 *   2. the pair does not have to be avoided (it could not reach each other lately)
 *   3. the destination the order has had so far, so that what belongs together comes together and
 *      what came in part is resumed; then the source it has had
 *   4. the source with the fewest bytes to send, the destination with the fewest to get
 *   5. fewer shipments; then the order of the list, which is that of names
 *
 * Draining edges and those that are away are not in the lists. Pure; any thread.
 */

struct assign_edge {
	const char *name;
	uint64_t backlog_bytes; /* of all shipments it has */
	uint32_t shipments;
	bool tried;
};

struct assign_rule {
	const char *from, *to; /* those the order has had; NULL: none */
	/** Whether the pair is to be avoided if there is another one. NULL: none is. */
	bool (*avoid)(void *ctx, const char *from, const char *to);
	void *ctx;
};

/** Indices in the lists. false: one of them is empty. */
bool assign_pick(const struct assign_edge *from, size_t from_n, const struct assign_edge *to,
	size_t to_n, const struct assign_rule *rule, size_t *from_i, size_t *to_i);
