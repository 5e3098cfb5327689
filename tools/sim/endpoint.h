/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control threads of the two edges of a world, as world.c calls them. They answer session
 * events as a real edge does, with memory from malloc: what the core touches outside its leases is
 * found by the address sanitizer.
 */

#include "tools/sim/world.h"

void source_event(struct world *w, const struct session_event *ev);
void sink_event(struct world *w, const struct session_event *ev);

/* Create the transfer of t and hand it to the session; objects with a final status are skipped. */
int source_start(struct world *w, struct world_transfer *t);

/* Free what the side holds. The transfers must be out of the session's hands. */
void source_drop(struct world *w);
void sink_drop(struct world *w);

enum { KEY_BYTES_MIN = 9 };

/*
 * The object's key: its index in hex, a colon, filler from its content seed. buf of
 * STRAIT_KEY_BYTES_MAX.
 */
void object_key(const struct world *w, uint32_t object, uint8_t *buf);
/* The object of a key, UINT32_MAX when it is nobody's. */
uint32_t object_of_key(const struct world *w, const uint8_t *key, size_t len);
